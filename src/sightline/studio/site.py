"""The routers of the studio."""

from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from sightline.serving import Problem, Router
from sightline.serving.api import Desk
from sightline.studio import positions, walking, words
from sightline.studio.assets import assets


def public_paths() -> list[str]:
    """Return what a browser may fetch before it has a key."""
    return list(assets())


def routers(desk: Desk, *, runs: Path | None = None) -> Sequence[Router]:
    """Return the routers of the page and of what its views ask; `runs` is a folder of training runs to show."""
    offered: list[Router] = []
    if runs is not None:
        from sightline.studio.runs import router  # only here: it loads all that trains

        offered.append(router(desk, runs))
    return [*offered, page_router(), positions.router(desk), words.router(desk), walking.router(desk)]


def page_router() -> Router:
    """Return the routes of the files; a path is looked up in a table, never on a disk."""
    router = Router(include_in_schema=False)

    @router.get("/")
    async def index(request: Request) -> Response:
        return answer(request)

    @router.get("/studio/{name}")
    async def own(name: str, request: Request) -> Response:  # noqa: ARG001 - the path is looked up as a whole
        return answer(request)

    @router.get("/drawing/{name}")
    async def drawing(name: str, request: Request) -> Response:  # noqa: ARG001
        return answer(request)

    return router


def answer(request: Request) -> Response:
    """Return a file, compressed where the browser understands that."""
    found = assets().get(request.url.path)
    if found is None:
        raise Problem(404, "there is nothing at this address", code="not_found")
    headers = {"cache-control": "no-cache", "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.content, media_type=found.type, headers=headers)
    return Response(found.packed, media_type=found.type, headers={**headers, "content-encoding": "gzip"})
