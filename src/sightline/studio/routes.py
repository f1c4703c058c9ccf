"""The routers of the studio."""

from collections.abc import Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from sightline.serving.api import Submitter
from sightline.serving.http import Problem, Router
from sightline.studio import activations, positions, word_map
from sightline.studio.assets import assets


def public_paths() -> list[str]:
    """Return the paths served without an API key."""
    return list(assets())


def routers(submitter: Submitter, *, runs: Path | None = None) -> Sequence[Router]:
    """Return the routers of the page and of the API of its views; `runs` is a folder of training runs to show."""
    optional: list[Router] = []
    if runs is not None:
        from sightline.studio.runs import router  # imported only here: it loads all of `sightline.training`

        optional.append(router(submitter, runs))
    return [
        *optional,
        page_router(),
        positions.router(submitter),
        word_map.router(submitter),
        activations.router(submitter),
    ]


def page_router() -> Router:
    """Return the routes of the files; a path is looked up in a table, never on disk."""
    router = Router(include_in_schema=False)

    @router.get("/")
    async def index(request: Request) -> Response:
        return send_file(request)

    @router.get("/studio/{name}")
    async def own(name: str, request: Request) -> Response:  # noqa: ARG001 - the path is looked up as a whole
        return send_file(request)

    @router.get("/drawing/{name}")
    async def drawing(name: str, request: Request) -> Response:  # noqa: ARG001
        return send_file(request)

    return router


def send_file(request: Request) -> Response:
    """Return a file, compressed if the browser accepts gzip."""
    found = assets().get(request.url.path)
    if found is None:
        raise Problem(404, "path not found", code="not_found")
    headers = {"cache-control": "no-cache", "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.content, media_type=found.type, headers=headers)
    return Response(found.packed, media_type=found.type, headers={**headers, "content-encoding": "gzip"})
