"""The architectures by name, and presets of well-known sizes."""

from collections.abc import Callable, Mapping
from typing import Any

from sightline.config import from_mapping, one_of, unknown_name
from sightline.errors import SettingsError
from sightline.model.bert import Bert, BertConfig
from sightline.model.config import BlockConfig
from sightline.model.gpt import GPT, GPTConfig
from sightline.model.transformer import Transformer, TransformerConfig

Model = Transformer | Bert | GPT

ARCHITECTURES: dict[str, tuple[type[BlockConfig], Callable[[Any], Model]]] = {
    "transformer": (TransformerConfig, Transformer),
    "bert": (BertConfig, Bert),
    "gpt": (GPTConfig, GPT),
}

PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    # Vaswani et al. 2017, table 3
    "paper-base": ("transformer", {}),
    "paper-big": ("transformer", {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "dropout": 0.3}),
    # Wu et al. 2021, for small corpora
    "transformer-tiny": (
        "transformer",
        {"n_encoder_layers": 4, "n_decoder_layers": 4, "d_model": 128, "d_ff": 256, "n_heads": 4, "dropout": 0.3},
    ),
    # Devlin et al. 2019; mini by Turc et al. 2019
    "bert-base": ("bert", {}),
    "bert-mini": ("bert", {"n_layers": 4, "d_model": 256, "n_heads": 4, "d_ff": 1024}),
    # Radford et al. 2019
    "gpt2-small": ("gpt", {}),
    # Touvron et al. 2023, laptop-sized
    "llama-small": (
        "gpt",
        {
            "n_layers": 8, "d_model": 512, "n_heads": 8, "n_kv_heads": 2, "d_ff": 1408, "activation": "swiglu",
            "norm": "rms", "norm_eps": 1e-6, "positions": "rope", "max_length": 2048, "bias": False,
            "tie_embeddings": False, "dropout": 0.0,
        },
    ),
}  # fmt: skip


def read_config(architecture: str, settings: Mapping[str, object], *, where: str = "model") -> BlockConfig:
    """Build the config of a named architecture from plain settings."""
    if architecture not in ARCHITECTURES:
        raise SettingsError(
            f"{where}: {unknown_name(architecture, ARCHITECTURES, what='architecture')}, not {one_of(ARCHITECTURES)}"
        )
    return from_mapping(ARCHITECTURES[architecture][0], settings, where=where)


def preset(name: str, **settings: object) -> BlockConfig:
    """Build a preset config with `settings` overriding its values; `vocab_size` must always be given."""
    if name not in PRESETS:
        raise SettingsError(f"{unknown_name(name, PRESETS, what='preset')}, not {one_of(PRESETS)}")
    architecture, defaults = PRESETS[name]
    return read_config(architecture, {**defaults, **settings}, where=name)


def architecture_of(config: BlockConfig) -> str:
    """Return the architecture name of a config."""
    return next(name for name, (kind, _) in ARCHITECTURES.items() if type(config) is kind)


def build(config: BlockConfig) -> Model:
    """Build the model that a config describes, with freshly initialized weights."""
    return ARCHITECTURES[architecture_of(config)][1](config)
