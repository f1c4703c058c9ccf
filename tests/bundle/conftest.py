"""Tiny models and their folders."""

from pathlib import Path

import pytest

from sightline.bundle import Bundle, save
from sightline.data.tokenizers import Tokenizer

from .tiny import TOKENIZER, tiny_model


@pytest.fixture
def tokenizer() -> Tokenizer:
    return TOKENIZER


@pytest.fixture
def bundle() -> Bundle:
    return Bundle(tiny_model(), TOKENIZER)


@pytest.fixture
def folder(tmp_path: Path, bundle: Bundle) -> Path:
    save(bundle, tmp_path / "model")
    return tmp_path / "model"
