"""Small models of every kind, and both engines for each."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from sightline.engine.native.library import open_library
from sightline.engine.native.model import NativeModel
from sightline.model import build
from sightline.model.registry import read_config

VOCAB_SIZE = 77
SIZES = {"vocab_size": VOCAB_SIZE, "d_model": 24, "n_heads": 3, "d_ff": 40, "max_length": 48}
LAYERS = {
    "transformer": {"n_encoder_layers": 2, "n_decoder_layers": 2},
    "gpt": {"n_layers": 2},
    "bert": {"n_layers": 2},
}
ROPE = {"positions": "rope", "rope_original_max_length": 8, "rope_factor": 4.0}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"pre_norm": True},
    {"pre_norm": False, "activation": "gelu"},
    {"activation": "swiglu", "norm": "rms", "positions": "rope", "d_ff": 42},
    {"n_kv_heads": 1, "qk_norm": True, "norm": "rms"},
    {"qk_norm": True, "norm_bias": False, "activation": "relu"},
    {"d_head": 10, "activation": "silu", "positions": "none"},
    {"d_head": 16, "n_kv_heads": 1, "bias": False, "qkv_bias": True},
    {"d_head": 70, "attention_output_bias": False, "feed_forward_bias": False},
    {"positions": "sinusoidal", "scale_embeddings": True},
    {"positions": "sinusoidal_halves", "max_length": None, "scale_embeddings": False},
    {"positions": "learned"},
    {"tie_embeddings": False, "output_bias": True, "activation": "gelu_tanh"},
    {**ROPE, "rope_scaling": "linear", "d_head": 12},
    {**ROPE, "rope_scaling": "llama3", "d_head": 12},
    {**ROPE, "rope_scaling": "yarn", "d_head": 12},
]
"""What differs from the family's defaults."""


def make_model(family: str, *, seed: int = 0, **settings: Any) -> Any:
    """Build a model whose random weights are large enough for clear preferences."""
    torch.manual_seed(seed)
    model = build(read_config(family, {**SIZES, **LAYERS[family], **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def make_native(model: Any, **options: Any) -> NativeModel:
    """Return the model in C; on one thread unless told otherwise."""
    arrays = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    return NativeModel(model.config, arrays, **{"threads": 1, **options})


def instruction_sets() -> Iterator[Any]:
    """Yield a parameter for each instruction set that the package knows."""
    names = ("plain", "avx2", "avxvnni", "avx512", "vnni")
    return iter(names)


def require(instruction_set: str) -> None:
    """Skip where the processor, or the compiler, has no such instructions."""
    import pytest

    if instruction_set not in open_library().supported:
        pytest.skip(f"no {instruction_set} here: {', '.join(open_library().supported)}")


def draw_texts(count: int, *, seed: int = 0, shortest: int = 1, longest: int = 20) -> list[list[int]]:
    """Draw texts of different lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(shortest, longest + 1, count)
    return [generator.integers(2, VOCAB_SIZE, length).tolist() for length in lengths]
