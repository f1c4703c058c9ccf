"""The body of a request: read whole, within its limit, as JSON (or, where a route says so, as a form)."""

import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from sightline.serving import strict_json
from sightline.serving.problem import Problem, plain

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 64
WHOLE = re.compile(r"-?[0-9]{1,18}")

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


class Body(BaseModel):
    """What every body derives from: a field nobody knows is refused, "3" is not 3, and NaN is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


def accepts_form(endpoint: Endpoint) -> Endpoint:
    """Let an endpoint be asked by a form too, all of whose values are texts: whole numbers are read as such."""
    endpoint.accepts_form = True  # type: ignore[attr-defined]
    return endpoint


async def with_parsed_body(request: Request, *, form: bool, numbers: Collection[str] = ()) -> Request:
    """Return the request with its JSON parsed strictly, so that FastAPI does not parse it its own way.

    `numbers` are the fields that hold whole numbers, which a form cannot tell from texts.
    """
    kind = content_type(request)
    if kind not in ((JSON, FORM) if form else (JSON,)):
        raise unsupported(f"send the body as {JSON}" + (f" or {FORM}" if form else "") + ", with this Content-Type")
    data = await request.body()
    if not data:
        raise Problem(400, "the request has no body: send a JSON object", code="invalid_json")
    if kind == FORM:
        # FastAPI takes a parsed body from what calls itself JSON only.
        headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        scope = {**request.scope, "headers": [*headers, (b"content-type", JSON.encode())]}
        request = Request(scope, request.receive)
        request._body = data
        request._json = with_numbers(parse_form(data), numbers)
    else:
        request._json = strict_json.parse(data)
    return request


def content_type(request: Request) -> str:
    """Return the one content type of the request, in small letters, refusing an encoding that is not understood."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise unsupported("send the body as it is: compressed bodies are not taken")
    given = request.headers.getlist("content-type")
    kind, _, parameters = (given[0] if len(given) == 1 else "").partition(";")
    charset = parameters.strip().lower().replace('"', "").replace(" ", "")
    if charset not in ("", "charset=utf-8"):
        raise unsupported("send the body in UTF-8")
    return kind.strip().lower()


def parse_form(data: bytes) -> dict[str, object]:
    """Return the fields of a form; one that comes several times is a list."""
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise Problem(400, f"the body is not a form of at most {MOST_FIELDS} fields", code="invalid_form") from None
    fields: dict[str, object] = {}
    for name, value in pairs:
        if plain(name) is None:
            raise Problem(400, "a field of the form has a name that is not supported", code="unsupported_field")
        before = fields.get(name)
        fields[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return fields


def with_numbers(fields: dict[str, object], names: Collection[str]) -> dict[str, object]:
    """Return a form whose fields of these names are numbers, where they are written like one."""
    return {
        name: int(value) if name in names and isinstance(value, str) and WHOLE.fullmatch(value) else value
        for name, value in fields.items()
    }


def whole_numbers(body: object) -> frozenset[str]:
    """Return the fields of a body that hold whole numbers."""
    if not (isinstance(body, type) and issubclass(body, BaseModel)):
        return frozenset()
    properties = body.model_json_schema().get("properties", {})
    return frozenset(
        name
        for name, schema in properties.items()
        if "integer" in (schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ())))
    )


def unsupported(message: str) -> Problem:
    """Return the refusal of a kind of body."""
    return Problem(415, message, code="unsupported_media_type")
