"""The models that come with the package: their names work wherever a model folder does.

They are trained by `make builtin-models` and lie in `builtin_models`, one folder each, with half-precision weights.
"""

from functools import lru_cache
from importlib.resources import files
from pathlib import Path

FOLDER = Path(str(files("sightline"))) / "builtin_models"


@lru_cache(maxsize=1)
def list_builtin_models() -> tuple[str, ...]:
    """Return the names of the built-in models."""
    return tuple(sorted(path.parent.name for path in FOLDER.glob("*/config.json")))


def find_builtin_model(name: Path | str) -> Path | None:
    """Return the folder of a built-in model; None if there is none of this name."""
    return FOLDER / name if str(name) in list_builtin_models() else None
