"""The description of the interface, made true: the answers that really come, and the bodies that are really taken."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sightline.serving.body import FORM, JSON

ALWAYS = {
    400: "The request is wrong; the message says how.",
    403: "A page of another origin, or a key that may only read, may not ask this.",
    421: "The server does not answer to this host name.",
    429: "Too much was asked in this minute: see Retry-After.",
    431: "The head of the request is too large.",
    500: "Something went wrong in the server; its log tells more under the request's id.",
    503: "There is no room for this request now: see Retry-After.",
    504: "It took too long.",
}
WITH_KEYS = {401: "A key is needed."}
WITH_BODY = {408: "The body came too slowly.", 413: "The body is too large.", 415: "The body is not JSON."}
WITH_PLACE = {404: "There is nothing of this name."}
METHODS = ("get", "put", "post", "delete", "patch")


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


def completed(schema: dict[str, Any], *, keys: bool, public: frozenset[str], forms: set[str]) -> dict[str, Any]:
    """Return FastAPI's description with every refusal in it, and without the 422 that never comes."""
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    template = "#/components/schemas/{model}"
    _, errors = models_json_schema([(ErrorAnswer, "serialization")], ref_template=template)
    components.update(errors["$defs"])
    if keys:
        schemes = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
        }
        schema["components"]["securitySchemes"] = schemes
    for path, operations in schema.get("paths", {}).items():
        for method in METHODS:
            if method in operations:
                complete(operations[method], path=path, keys=keys and path not in public, form=path in forms)
    return schema


def complete(operation: dict[str, Any], *, path: str, keys: bool, form: bool) -> None:
    """Add the refusals to one operation."""
    body = operation.get("requestBody")
    possible = {
        **ALWAYS,
        **(WITH_KEYS if keys else {}),
        **(WITH_BODY if body else {}),
        **(WITH_PLACE if "{" in path else {}),
    }
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{ErrorAnswer.__name__}"}}}
    answers = operation["responses"]
    answers.pop("422", None)
    for status, text in possible.items():
        answers.setdefault(str(status), {"description": text})
    for status, answer in answers.items():
        if status.startswith(("4", "5")):
            answer.setdefault("content", content)
    if keys:
        operation["security"] = [{"bearer": []}, {"key": []}]
    if form and body:
        body["content"][FORM] = body["content"][JSON]
