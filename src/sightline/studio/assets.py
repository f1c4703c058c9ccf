"""The files of the page: the studio's own, and the drawing modules of `sightline.tracing`."""

import functools
import gzip
from dataclasses import dataclass
from importlib import resources

from sightline.tracing.page import modules, stylesheet

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
    found = {"/drawing/theme.css": Asset(stylesheet().encode("utf-8"), TYPES["css"])}
    for name, text in modules().items():
        found[f"/drawing/{name}.js"] = Asset(text.encode("utf-8"), TYPES["js"])
    for file in resources.files(__package__).joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" if file.name == "index.html" else f"/studio/{file.name}"] = Asset(file.read_bytes(), kind)
    return found
