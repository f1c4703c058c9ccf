"""Sightline: build, train, run and see through Transformers.

`sightline.load(folder)` opens a trained model, `sightline.train(recipe)` trains one. Both are imported on first use, so
that importing the package takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.runs import train
    from sightline.tasks import load

__all__ = ["__version__", "load", "train"]

__version__ = "0.2.0.dev0"

LAZY = {"load": "sightline.tasks", "train": "sightline.runs"}
"""The module each name is imported from."""


def __getattr__(name: str) -> object:
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
