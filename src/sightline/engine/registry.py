"""The engines by name, a row each. Rows are plain data: an engine's modules are imported when it is opened."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.config import one_of, unknown_name
from sightline.errors import SettingsError
from sightline.model.registry import resolve

if TYPE_CHECKING:
    from sightline.engine.interfaces import Engine


@dataclass(frozen=True)
class EngineRow:
    """An engine: how it is called, and how it is opened."""

    name: str
    engine: str | type
    """The class, which takes a model, or where it is: `module:name`."""


ENGINES: dict[str, EngineRow] = {}


def register(row: EngineRow) -> None:
    """Add an engine."""
    if row.name in ENGINES:
        raise ValueError(f"the engine {row.name} is registered already")
    ENGINES[row.name] = row


register(EngineRow("torch", "sightline.engine.torch_engine:TorchEngine"))
register(EngineRow("native", "sightline.engine.native.native_engine:NativeEngine"))


def open_engine(model: Any, name: str = "torch") -> "Engine":
    """Open an engine for a model."""
    if name not in ENGINES:
        raise SettingsError(f"{unknown_name(name, ENGINES, what='engine')}, not {one_of(ENGINES)}")
    engine: Engine = resolve(ENGINES[name].engine)(model)
    return engine
