"""Error responses: one exception and one JSON body for everything that can go wrong.

The body is OpenAI's: `{"error": {"message", "type", "param", "code"}}`. It never repeats what the client sent: that
could be anything, and the response must always be valid JSON.
"""

import json
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from sightline.errors import ModelFileError, RefusedError

UNKNOWN_NAME = re.compile(r"""\b(unknown [a-z ]+?) (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""An unknown name, as `unknown_name` quotes it."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,39}")

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Problem(Exception):  # noqa: N818 - not an error of ours
    """A refused request, with the status and the message for the client.

    May be raised anywhere below the server; `retry_after` is in seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 - the word of the format
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or TYPES.get(status, "invalid_request_error")
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.headers = headers or {}

    def body(self) -> bytes:
        """Return the JSON for the client, in ASCII, which can always be encoded."""
        entries = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": entries}).encode("ascii")

    def all_headers(self) -> dict[str, str]:
        """Return the headers, without those every response has."""
        retry = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**self.headers, **retry}


def refusal(error: RefusedError) -> Problem:
    """Return the package's own error message as a problem, without unknown names that the client sent."""
    return Problem(400, UNKNOWN_NAME.sub(r"\1", str(error)), code="refused")


def plain(name: object) -> str | None:
    """Return a name from a client if it is a plain word that is safe to repeat, else None."""
    text = str(name)
    return text if PLAIN_NAME.fullmatch(text) else None


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MAX_SENTENCES = 5

MESSAGES = {
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
    sentences = list(dict.fromkeys(describe(problem) for problem in problems))
    more = len(sentences) - MAX_SENTENCES
    text = "; ".join(sentences[:MAX_SENTENCES]) + (f"; and {more:,} more" if more > 0 else "")
    first = problems[0]
    code = "unsupported_field" if first["type"] == "extra_forbidden" else "invalid_value"
    return to_response(Problem(400, text, param=field_path(first["loc"]) or None, code=code))


def to_response(problem: Problem) -> Response:
    """Return the response for a problem."""
    return Response(problem.body(), problem.status, headers=problem.all_headers(), media_type="application/json")


def describe(problem: dict[str, Any]) -> str:
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
    return ".".join(plain(part) or "(a field)" for part in location[1:])


async def handle_http(request: Request, error: Exception) -> Response:
    """Respond to an unknown path, or a method it does not allow."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    headers = {"allow": ", ".join(allowed_methods(request))} if status == 405 else {}
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "refused")
    return to_response(Problem(status, MESSAGES.get(status, "the request was refused"), code=code, headers=headers))


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
