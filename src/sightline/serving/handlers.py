"""From what was raised while a request was handled to the answer: problems, refusals, wrong bodies, wrong addresses."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from sightline.errors import ModelFileError, RefusedError
from sightline.serving.problem import Problem, plain, refusal

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
MOST_SENTENCES = 5

ANSWERS = {
    404: "there is nothing at this address",
    405: "this address does not take this method: the Allow header lists those it takes",
}


async def handle_problem(request: Request, problem: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Answer a problem with itself."""
    if not isinstance(problem, Problem):
        raise problem
    return answer_to(problem)


async def handle_refused(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Answer 400 with the sentence the package has for people; a broken model file is the server's own trouble."""
    if isinstance(error, ModelFileError) or not isinstance(error, RefusedError):
        raise error
    return answer_to(refusal(error))


async def handle_invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001 - Starlette passes both
    """Answer 400 with what is wrong with which field, never with what was in it."""
    if not isinstance(error, RequestValidationError):
        raise error
    problems = error.errors()
    sentences = list(dict.fromkeys(sentence(problem) for problem in problems))
    more = len(sentences) - MOST_SENTENCES
    text = "; ".join(sentences[:MOST_SENTENCES]) + (f"; and {more:,} more" if more > 0 else "")
    first = problems[0]
    code = "unsupported_field" if first["type"] == "extra_forbidden" else "invalid_value"
    return answer_to(Problem(400, text, param=place(first["loc"]) or None, code=code))


def answer_to(problem: Problem) -> Response:
    """Return the answer that tells a problem."""
    return Response(problem.body(), problem.status, headers=problem.all_headers(), media_type="application/json")


def sentence(problem: dict[str, Any]) -> str:
    """Return what is wrong with one field."""
    where = place(problem["loc"]) or "the body"
    if problem["type"] == "extra_forbidden":
        return f"{where} is not supported"
    if problem["type"] == "missing":
        return f"{where} is required"
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{where} must be a JSON object"
    said = str(problem["msg"]).removeprefix("Value error, ").replace("Input should be", "must be", 1)
    return f"{where}: {said}"


def place(location: Sequence[str | int]) -> str:
    """Return the way to a field, such as `messages.0.role`; a name that is no ordinary word is not repeated."""
    return ".".join(plain(part) or "(a field)" for part in location[1:])


async def handle_http(request: Request, error: Exception) -> Response:
    """Answer what routing refuses: an unknown address, or a method it does not take."""
    if not isinstance(error, HTTPException):
        raise error
    status = error.status_code
    headers = {"allow": ", ".join(allowed_methods(request))} if status == 405 else {}
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "refused")
    return answer_to(Problem(status, ANSWERS.get(status, "this cannot be done"), code=code, headers=headers))


def allowed_methods(request: Request) -> list[str]:
    """Return every method the address takes, on whichever routes."""
    routes = request.app.routes

    def taken(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)

    return [method for method in METHODS if taken(method)]


HANDLERS: dict[int | type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, Response]]] = {
    Problem: handle_problem,
    RefusedError: handle_refused,
    RequestValidationError: handle_invalid,
    HTTPException: handle_http,
}
