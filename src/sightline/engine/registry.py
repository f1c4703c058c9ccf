"""The engines by name, a row each. Rows are plain data: an engine's modules are imported when it is opened."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline.config import one_of, unknown_name
from sightline.errors import SettingsError

if TYPE_CHECKING:
    from sightline.engine.interfaces import Engine


@dataclass(frozen=True)
class EngineRow:
    """An engine: how it is called, and how it is opened."""

    name: str
    title: str
    """What it is, in a sentence."""
    engine: str | type
    """The class, which takes a model, or where it is: `module:name`."""


ENGINES: dict[str, EngineRow] = {}


def register(row: EngineRow) -> None:
    """Add an engine."""
    if row.name in ENGINES:
        raise ValueError(f"the engine {row.name} is registered already")
    ENGINES[row.name] = row


register(EngineRow("torch", "PyTorch, on any device", "sightline.engine.torch_engine:TorchEngine"))


def open_engine(model: Any, name: str = "torch") -> "Engine":
    """Open an engine for a model."""
    if name not in ENGINES:
        raise SettingsError(f"{unknown_name(name, ENGINES, what='engine')}, not {one_of(ENGINES)}")
    found = ENGINES[name].engine
    if isinstance(found, str):
        module, _, class_name = found.partition(":")
        found = getattr(import_module(module), class_name)
    engine: Engine = found(model)
    return engine
