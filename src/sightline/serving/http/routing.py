"""The router of endpoints: strict parsing of bodies, cancellation when a client disconnects, errors as responses."""

import asyncio
import inspect
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from sightline.errors import JSONError, ModelFileError, RefusedError
from sightline.serving.http.problem import Problem, plain_name, refusal
from sightline.storage import parse_json

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 64
MAX_DEPTH = 32
INTEGER = re.compile(r"-?[0-9]{1,18}")

INVALID_JSON = {
    "byte_order_mark": "the body starts with a byte order mark: send JSON without one",
    "constant": "{detail} is not a JSON number",
    "depth": f"the JSON is nested more than {MAX_DEPTH} levels deep",
    "duplicate_key": "duplicate key: {detail}",
    "encoding": "the body is not UTF-8: byte {detail} is invalid",
    "integer": "an integer in the body is too large",
    "number": "a number in the body is too large",
    "size": "the body is too large",
    "surrogate": r"a text in the body has an unpaired surrogate (\ud800 to \udfff), which is not a character",
    "syntax": "the body is not JSON: {detail}",
}
"""Message for each kind of `JSONError`."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Body(BaseModel):
    """Base of all request bodies: unknown fields are refused, "3" is not 3, and NaN is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


def accepts_form(endpoint: Endpoint) -> Endpoint:
    """Let an endpoint accept a form as well as JSON; integers in it are converted from text."""
    endpoint.accepts_form = True  # type: ignore[attr-defined]
    return endpoint


async def parse_body(request: Request, *, form: bool, integers: Collection[str] = ()) -> Request:
    """Return the request with its body parsed strictly, so that FastAPI does not parse it again.

    `integers` are the fields that hold integers, which a form cannot tell from texts.
    """
    kind = content_type(request)
    if kind not in ((JSON, FORM) if form else (JSON,)):
        raise unsupported_media_type(f"Content-Type must be {JSON}" + (f" or {FORM}" if form else ""))
    data = await request.body()
    if not data:
        raise Problem(400, "the body is empty: send a JSON object", code="invalid_json")
    if kind == FORM:
        # FastAPI uses the parsed body only if the content type is JSON.
        headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        scope = {**request.scope, "headers": [*headers, (b"content-type", JSON.encode())]}
        request = Request(scope, request.receive)
        request._body = data
        request._json = convert_integers(parse_form(data), integers)
    else:
        request._json = parse_json_body(data)
    return request


def parse_json_body(data: bytes) -> object:
    """Return the parsed JSON; its size is bounded by the body limit.

    NaN, numbers that overflow, duplicate keys and unpaired surrogates have each made servers respond 500: all are
    refused with a message, which repeats a key only if it is a plain word.
    """
    try:
        return parse_json(data, max_bytes=len(data), max_depth=MAX_DEPTH, max_marks={}, interoperable=True)
    except JSONError as error:
        message = INVALID_JSON[error.kind].format(detail=error.detail)
        if error.kind == "duplicate_key" and plain_name(error.detail) is None:
            message = "duplicate key in one object"
        raise Problem(400, message, code="invalid_json") from None


def content_type(request: Request) -> str:
    """Return the content type in lower case; refuse compressed bodies and charsets other than UTF-8."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise unsupported_media_type("Content-Encoding is not supported: send the body uncompressed")
    given = request.headers.getlist("content-type")
    kind, _, parameters = (given[0] if len(given) == 1 else "").partition(";")
    charset = parameters.strip().lower().replace('"', "").replace(" ", "")
    if charset not in ("", "charset=utf-8"):
        raise unsupported_media_type("charset is not supported: send the body in UTF-8")
    return kind.strip().lower()


def parse_form(data: bytes) -> dict[str, object]:
    """Return the fields of a form; a repeated field is a list."""
    try:
        pairs = parse_qsl(
            data.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:  # UnicodeDecodeError is one
        raise Problem(
            400, f"the body is not a valid form of at most {MAX_FIELDS} fields", code="invalid_form"
        ) from None
    fields: dict[str, object] = {}
    for name, value in pairs:
        if plain_name(name) is None:
            raise Problem(400, "a field of the form is not supported", code="unsupported_field")
        before = fields.get(name)
        fields[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return fields


def convert_integers(fields: dict[str, object], names: Collection[str]) -> dict[str, object]:
    """Return the form with the fields of these names converted to integers, if their text is one."""
    return {
        name: int(value) if name in names and isinstance(value, str) and INTEGER.fullmatch(value) else value
        for name, value in fields.items()
    }


def integer_fields(body: object) -> frozenset[str]:
    """Return the fields of a body that hold integers."""
    if not (isinstance(body, type) and issubclass(body, BaseModel)):
        return frozenset()
    properties = body.model_json_schema().get("properties", {})
    return frozenset(
        name
        for name, schema in properties.items()
        if "integer" in (schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ())))
    )


def unsupported_media_type(message: str) -> Problem:
    """Return the refusal of a media type."""
    return Problem(415, message, code="unsupported_media_type")


class CancelOnDisconnect:
    """`async with CancelOnDisconnect(request):` cancels its body when the client disconnects.

    Servers cancel a stream when its reader disconnects, but let an ordinary endpoint compute to the end. Every route of
    a `Router` runs inside this, so an endpoint only needs to be cancellable. The body of the request must have been
    read before. Raises `ClientDisconnect`, which needs no response.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.disconnected = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only an asyncio task can be cancelled")
        self.task = task
        self.cancelling = task.cancelling()
        self.watcher = asyncio.create_task(self.watch())

    async def watch(self) -> None:
        """Wait until the client disconnects, and cancel the task."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass
        self.disconnected = True
        self.task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watcher.cancel()
        if self.disconnected and self.task.uncancel() <= self.cancelling and kind is asyncio.CancelledError:
            raise ClientDisconnect from error


class StrictRoute(APIRoute):
    """A route whose body is parsed strictly, and whose endpoint is cancelled when its client disconnects."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint) and not inspect.isasyncgenfunction(endpoint):
            raise TypeError(f"{path}: the endpoint must be `async def`, or it cannot be cancelled")
        super().__init__(path, endpoint, **options)

    @property
    def accepts_form(self) -> bool:
        """Whether the endpoint accepts a form as well."""
        return bool(getattr(self.endpoint, "accepts_form", False))

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler, run after strict parsing and cancelled on disconnect."""
        handler = super().get_route_handler()
        has_body, form = self.body_field is not None, self.accepts_form
        integers = integer_fields(self.body_field.field_info.annotation if self.body_field else None)

        async def strict(request: Request) -> Response:
            if has_body:
                request = await parse_body(request, form=form, integers=integers)
            else:
                await request.body()
            async with CancelOnDisconnect(request):
                return await handler(request)
            raise AssertionError("unreachable")

        return strict


class Router(APIRouter):
    """FastAPI's router with every route a `StrictRoute`: `@router.post("/v1/…")`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=StrictRoute, redirect_slashes=False, **options)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MAX_SENTENCES = 5
"""Invalid fields that an error message names."""

HTTP_MESSAGES = {
    404: "path not found: GET /openapi.json lists the paths",
    405: "method not allowed: the Allow header lists the allowed ones",
}


async def handle_problem(request: Request, problem: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Respond with a problem."""
    if not isinstance(problem, Problem):
        raise problem
    return to_response(problem)


async def handle_refused(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Respond 400 with the package's own error message; a broken model file is the server's fault, a 500."""
    if isinstance(error, ModelFileError) or not isinstance(error, RefusedError):
        raise error
    return to_response(refusal(error))


async def handle_invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Respond 400 with the invalid fields and what is wrong with them, never with their values."""
    if not isinstance(error, RequestValidationError):
        raise error
    problems = error.errors()
    sentences = list(dict.fromkeys(describe_invalid(problem) for problem in problems))
    more = len(sentences) - MAX_SENTENCES
    text = "; ".join(sentences[:MAX_SENTENCES]) + (f"; and {more:,} more" if more > 0 else "")
    first = problems[0]
    code = "unsupported_field" if first["type"] == "extra_forbidden" else "invalid_value"
    return to_response(Problem(400, text, param=field_path(first["loc"]) or None, code=code))


def to_response(problem: Problem) -> Response:
    """Return the response for a problem."""
    return Response(problem.body(), problem.status, headers=problem.all_headers(), media_type="application/json")


def describe_invalid(problem: dict[str, Any]) -> str:
    """Return what is wrong with a field."""
    where = field_path(problem["loc"]) or "the body"
    if problem["type"] == "extra_forbidden":
        return f"{where} is not supported"
    if problem["type"] == "missing":
        return f"{where} is required"
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{where} must be a JSON object"
    message = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return f"{where}: {message}"


def field_path(location: Sequence[str | int]) -> str:
    """Return the path of a field, such as `messages.0.role`; a name that is not a plain word is not repeated."""
    return ".".join(plain_name(part) or "(a field)" for part in location[1:])


async def handle_http(request: Request, error: Exception) -> Response:
    """Respond to an unknown path, or a method it does not allow."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    headers = {"allow": ", ".join(allowed_methods(request))} if status == 405 else {}
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "refused")
    return to_response(
        Problem(status, HTTP_MESSAGES.get(status, "the request was refused"), code=code, headers=headers)
    )


def allowed_methods(request: Request) -> list[str]:
    """Return every method that some route allows for this path."""
    routes = request.app.routes

    def is_allowed(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)

    return [method for method in METHODS if is_allowed(method)]


HANDLERS: dict[int | type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, Response]]] = {
    Problem: handle_problem,
    RefusedError: handle_refused,
    RequestValidationError: handle_invalid,
    HTTPException: handle_http,
}
