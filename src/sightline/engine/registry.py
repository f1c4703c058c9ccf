"""The engines by name, a row each. Rows are plain data: an engine's modules are imported when it is opened."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the class takes besides."""


ENGINES: dict[str, EngineRow] = {}


def register(row: EngineRow) -> None:
    """Add an engine."""
    if row.name in ENGINES:
        raise ValueError(f"the engine {row.name} is registered already")
    ENGINES[row.name] = row


register(EngineRow("torch", "sightline.engine.torch_engine:TorchEngine"))
NATIVE = "sightline.engine.native.native_engine:NativeEngine"
register(EngineRow("native", NATIVE, {"precision": "fp32"}))
register(EngineRow("native-int8", NATIVE, {"precision": "int8"}))


def open_engine(model: Any, name: str = "torch") -> "Engine":
    """Open an engine for a model; raise `SettingsError` if there is none of this name or it cannot run the model."""
    if name not in ENGINES:
        raise SettingsError(f"{unknown_name(name, ENGINES, what='engine')}, not {one_of(ENGINES)}")
    row = ENGINES[name]
    engine: Engine = resolve(row.engine)(model, **row.options)
    return engine
