"""The files of the page: the studio's own, and the modules that draw a trace."""

import functools
import gzip
from dataclasses import dataclass
from importlib import resources

from sightline.tracing.drawing import modules, stylesheet

TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True)
class Asset:
    """A file as a browser gets it."""

    content: bytes
    type: str

    @functools.cached_property
    def packed(self) -> bytes:
        """The file compressed: comments and names are for readers, and cost the browser nothing."""
        return gzip.compress(self.content, mtime=0)


@functools.cache
def assets() -> dict[str, Asset]:
    """Return all files by their paths. They hold nothing of anybody's, so that they may be had without a key."""
    found = {"/drawing/theme.css": Asset(stylesheet().encode("utf-8"), TYPES["css"])}
    for name, text in modules().items():
        found[f"/drawing/{name}.js"] = Asset(text.encode("utf-8"), TYPES["js"])
    for file in resources.files(__package__).joinpath("static").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found["/" if file.name == "index.html" else f"/studio/{file.name}"] = Asset(file.read_bytes(), kind)
    return found
