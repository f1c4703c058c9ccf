"""Optional packages: imported when used, with an error that names the extra to install."""

import importlib
from types import ModuleType

from sightline.errors import RefusedError


def import_optional(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a module of an optional package, or raise an error that names the extra to install.

    If the package is installed but broken, its own error is raised.
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
