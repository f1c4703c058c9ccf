"""The routers of the studio."""

from collections.abc import Sequence
from pathlib import Path

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
    async def index() -> Response:
        return answer("/")

    @router.get("/studio/{name}")
    async def own(name: str) -> Response:
        return answer(f"/studio/{name}")

    @router.get("/drawing/{name}")
    async def drawing(name: str) -> Response:
        return answer(f"/drawing/{name}")

    return router


def answer(path: str) -> Response:
    """Return a file."""
    found = assets().get(path)
    if found is None:
        raise Problem(404, "there is nothing at this address", code="not_found")
    return Response(found.content, media_type=found.type, headers={"cache-control": "no-cache"})
