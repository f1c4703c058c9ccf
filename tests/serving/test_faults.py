"""Internal errors: the client gets an id, and nothing else (T26)."""

import asyncio
import logging
from collections.abc import Iterator

import httpx
import pytest
from pydantic import BaseModel
from starlette.responses import Response

from sightline.errors import InputError, ModelFileError, RefusedError, SettingsError, SightlineError
from sightline.serving.http import Problem, Router, ServingSettings, create_app

from .standing import standing
from .wire import asking

SECRET = "/home/somebody/secret-model.bin"  # noqa: S105 - a path


class Answered(BaseModel):
    number: int


def fails(error: BaseException):
    async def endpoint() -> None:
        raise error

    return endpoint


def bad_unicode() -> UnicodeEncodeError:
    return UnicodeEncodeError("utf-8", SECRET + "\ud800", 0, 1, "surrogates not allowed")


FAULTS: dict[str, BaseException] = {
    "zero": ZeroDivisionError(SECRET),
    "key": KeyError(SECRET),
    "file": FileNotFoundError(2, "No such file", SECRET),
    "permission": PermissionError(13, "Permission denied", SECRET),
    "memory": MemoryError(SECRET),
    "recursion": RecursionError(SECRET),
    "unicode": bad_unicode(),
    "assertion": AssertionError(SECRET),
    "type": TypeError(SECRET),
    "value": ValueError(SECRET),
    "runtime": RuntimeError(SECRET),
    "timeout": TimeoutError(SECRET),
    "connection": ConnectionResetError(SECRET),
    "cancelled": asyncio.CancelledError(SECRET),
    "exit": SystemExit(SECRET),
    "group": ExceptionGroup(SECRET, [ValueError(SECRET)]),
    "stop": StopAsyncIteration(SECRET),
    "import": ImportError(SECRET),
    "model file": ModelFileError(SECRET, "is broken"),
    "failed": SightlineError(SECRET),
}


def faulty_router() -> Router:
    router = Router()
    for name, error in FAULTS.items():
        router.get(f"/fault/{name.replace(' ', '-')}")(fails(error))

    @router.get("/fault/wrong-answer", response_model=Answered)
    async def wrong_answer() -> dict[str, str]:
        return {"number": SECRET}

    @router.get("/fault/not-a-number")
    async def not_a_number() -> dict[str, float]:
        return {"number": float("nan")}

    @router.get("/fault/header")
    async def header() -> Response:
        return Response("", headers={"x-name": f"a\r\nset-cookie: {SECRET}"})

    for name, kind in {"input": InputError, "settings": SettingsError, "refused": RefusedError}.items():
        router.get(f"/refused/{name}")(fails(kind("the text is too long: shorten it")))
    router.get("/refused/problem")(fails(Problem(418, "no coffee \ud800", param="cup", code="teapot", retry_after=3)))
    return router


@pytest.fixture(scope="module")
def faulty() -> Iterator[httpx.Client]:
    app = create_app(ServingSettings(port=0), routers=[faulty_router()])
    with standing(app) as server, asking(server.url) as client:
        yield client


@pytest.mark.parametrize("name", [*FAULTS, "wrong answer", "header"])
def test_t26_client_gets_an_id_and_the_log_everything(faulty, name, caplog):
    with caplog.at_level(logging.ERROR):
        answer = faulty.get(f"/fault/{name.replace(' ', '-')}")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["type"] == "server_error"
    request_id = answer.headers["x-request-id"]
    assert request_id in error["message"]
    everything = answer.text + str(answer.headers)
    assert SECRET not in everything
    for word in ("Traceback", ".py", "Error:", "starlette", "fastapi", "uvicorn", "pydantic"):
        assert word not in everything
    logged = [record for record in caplog.records if request_id in record.getMessage()]
    assert len(logged) == 1
    assert logged[0].exc_info is not None
    assert len(caplog.records) == 1, "a fault is logged once"


def test_t26_server_continues_after_every_fault(faulty):
    assert faulty.get("/health").status_code == 200


def test_nan_is_never_sent(faulty):
    answer = faulty.get("/fault/not-a-number")
    assert "NaN" not in answer.text


@pytest.mark.parametrize("name", ["input", "settings", "refused"])
def test_error_of_the_package_is_400_with_its_message(faulty, name):
    answer = faulty.get(f"/refused/{name}")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the text is too long: shorten it"


def test_problem_is_sent_unchanged(faulty):
    answer = faulty.get("/refused/problem")
    assert answer.status_code == 418
    assert answer.headers["retry-after"] == "3"
    expected = {"message": "no coffee \ud800", "type": "invalid_request_error", "param": "cup", "code": "teapot"}
    assert answer.json() == {"error": expected}


def test_wrong_method_gets_the_allowed_ones(faulty):
    answer = faulty.delete("/health")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET"
    assert answer.json()["error"]["code"] == "method_not_allowed"


def test_route_without_protection_is_refused():
    from fastapi import APIRouter

    router = APIRouter()

    @router.get("/loose")
    async def loose() -> None:
        """Never served."""

    with pytest.raises(TypeError, match=r"/loose: add it to a sightline\.serving Router"):
        create_app(ServingSettings(), routers=[router])


def test_endpoint_that_cannot_be_cancelled_is_refused():
    with pytest.raises(TypeError, match="async def"):

        @Router().get("/blocking")
        def blocking() -> None:
            """Never served."""
