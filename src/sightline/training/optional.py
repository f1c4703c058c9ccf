"""Packages that not everyone needs: asked for when they are used, and missed in a sentence."""

import importlib
from types import ModuleType

from sightline.errors import RefusedError


def optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of an optional package, or say which extra of Sightline brings it.

    A package that is there but broken is another matter: its own error is raised as it is.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:
            raise
        raise RefusedError(
            f'{purpose} needs the package {package}, which is not installed: pip install "sightline[{extra}]"'
        ) from None
