"""Engines are rows: plain data, opened by name."""

import subprocess
import sys

import pytest

from pipelines.tiny import BPE, tiny_model
from sightline.engine import ENGINES, EngineRow, open_engine, register
from sightline.engine.interfaces import Engine
from sightline.engine.torch_engine import TorchEngine
from sightline.errors import SettingsError


def test_torch_is_the_engine_by_default():
    engine = open_engine(tiny_model("gpt", BPE))
    assert isinstance(engine, TorchEngine)
    assert isinstance(engine, Engine)


def test_engine_from_outside_is_opened_by_its_name(monkeypatch):
    class Other(TorchEngine):
        """Another engine."""

    monkeypatch.setattr("sightline.engine.registry.ENGINES", dict(ENGINES))
    register(EngineRow("other", Other))
    assert isinstance(open_engine(tiny_model("gpt", BPE), "other"), Other)
    with pytest.raises(ValueError, match="the engine other is registered already"):
        register(EngineRow("other", Other))


def test_unknown_engine_is_refused():
    with pytest.raises(SettingsError, match=r"unknown engine 'troch' \(did you mean 'torch'\?\), not one of torch"):
        open_engine(tiny_model("gpt", BPE), "troch")


def test_rows_are_read_without_torch():
    code = "import sightline.engine, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
