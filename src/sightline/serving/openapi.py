"""Completes FastAPI's OpenAPI schema: all error responses, and forms where they are accepted."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sightline.serving.body import FORM, JSON

ALWAYS = {
    400: "Invalid request; the message says why.",
    403: "Origin not allowed, or the key is read-only.",
    421: "Host name not allowed.",
    429: "Rate limit reached: see Retry-After.",
    431: "The URL and headers are too large.",
    500: "Internal error; the server's log has the details under the request's id.",
    503: "The server is overloaded or shutting down: see Retry-After.",
    504: "The request took too long.",
}
WITH_KEYS = {401: "API key missing or wrong."}
WITH_BODY = {408: "The body was sent too slowly.", 413: "The body is too large.", 415: "The body is not JSON."}
WITH_PARAMETER = {404: "Not found."}
METHODS = ("get", "put", "post", "delete", "patch")


class ErrorDetail(BaseModel):
    """What is wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


def complete_schema(schema: dict[str, Any], *, keys: bool, public: frozenset[str], forms: set[str]) -> dict[str, Any]:
    """Return FastAPI's schema with all error responses, and without 422, which is never sent."""
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        components.pop(name, None)
    template = "#/components/schemas/{model}"
    _, errors = models_json_schema([(ErrorResponse, "serialization")], ref_template=template)
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
                complete_operation(operations[method], path=path, keys=keys and path not in public, form=path in forms)
    return schema


def complete_operation(operation: dict[str, Any], *, path: str, keys: bool, form: bool) -> None:
    """Add the error responses to one operation."""
    body = operation.get("requestBody")
    possible = {
        **ALWAYS,
        **(WITH_KEYS if keys else {}),
        **(WITH_BODY if body else {}),
        **(WITH_PARAMETER if "{" in path else {}),
    }
    content = {JSON: {"schema": {"$ref": f"#/components/schemas/{ErrorResponse.__name__}"}}}
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
