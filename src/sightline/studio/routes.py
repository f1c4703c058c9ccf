"""The routers of the studio: the files of the page, and the API of its views."""

import functools
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from sightline.serving.api import Submitter
from sightline.serving.http import Problem, Router
from sightline.studio import activations, positions, word_map
from sightline.tracing.page import modules, stylesheet


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

    @router.get("/studio/{name:path}")
    async def own(name: str, request: Request) -> Response:  # noqa: ARG001 - the path is looked up as a whole
        return send_file(request)

    @router.get("/page/{name}")
    async def trace_page(name: str, request: Request) -> Response:  # noqa: ARG001
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


TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """A file as sent to a browser."""

    content: bytes
    type: str

    @functools.cached_property
    def packed(self) -> bytes:
        """The file compressed with gzip."""
        return gzip.compress(self.content, mtime=0)


@functools.cache
def assets() -> dict[str, Asset]:
    """Return all files by path. They hold no user data, so they are served without an API key."""
    found = {"/page/theme.css": Asset(stylesheet().encode("utf-8"), TYPES["css"])}
    for name, text in modules().items():
        found[f"/page/{name}.js"] = Asset(text.encode("utf-8"), TYPES["js"])
    for path, file in walk_files(resources.files(__package__).joinpath("static"), "/studio"):
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" if path == "/studio/index.html" else path] = Asset(file.read_bytes(), kind)
    return found


def walk_files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the files in a folder and its subfolders with their paths below `path`."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from walk_files(entry, f"{path}/{entry.name}")
        else:
            yield f"{path}/{entry.name}", entry


def public_paths() -> list[str]:
    """Return the paths served without an API key."""
    return list(assets())
