"""The families of models, a row each, and presets of well-known sizes.

Rows are plain data: a family's modules are imported when a model is built. `register` adds a family from outside.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline.config import from_mapping, one_of, unknown_name
from sightline.errors import SettingsError
from sightline.model.config import BertConfig, GPTConfig, ModelConfig, TransformerConfig

if TYPE_CHECKING:
    from sightline.model.interfaces import Model


@dataclass(frozen=True)
class Family:
    """A family of models: how one is configured, built, and used."""

    name: str
    title: str
    """What such a model is called in a sentence."""
    config: type[ModelConfig]
    model: str | type
    """The class, or where it is: `module:name`."""
    interface: str | type
    """The Protocol of `sightline.model.interfaces` that the class implements, or where it is."""
    roles: tuple[str, ...]
    """Roles of the special tokens that its tokenizer must have."""


FAMILIES: dict[str, Family] = {}


def register(family: Family) -> None:
    """Add a family; a name and a config belong to one family only."""
    for other in FAMILIES.values():
        if family.name == other.name or family.config is other.config:
            raise ValueError(f"the family {other.name} is registered already, with the config {other.config.__name__}")
    FAMILIES[family.name] = family


register(
    Family(
        "transformer",
        "An encoder–decoder Transformer",
        TransformerConfig,
        "sightline.model.transformer:Transformer",
        "sightline.model.interfaces:Seq2Seq",
        roles=("start", "end"),
    )
)
register(
    Family(
        "bert",
        "An encoder-only Transformer (BERT)",
        BertConfig,
        "sightline.model.bert:Bert",
        "sightline.model.interfaces:TextEncoder",
        roles=("cls", "sep", "mask"),
    )
)
register(
    Family(
        "gpt",
        "A decoder-only Transformer (GPT)",
        GPTConfig,
        "sightline.model.gpt:GPT",
        "sightline.model.interfaces:CausalLM",
        roles=("start", "end"),
    )
)

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


def read_config(family: str, settings: Mapping[str, object], *, where: str = "model") -> ModelConfig:
    """Build the config of a family from plain settings."""
    if family not in FAMILIES:
        raise SettingsError(f"{where}: {unknown_name(family, FAMILIES, what='architecture')}, not {one_of(FAMILIES)}")
    return from_mapping(FAMILIES[family].config, settings, where=where)


def preset(name: str, **settings: object) -> ModelConfig:
    """Build a preset config with `settings` overriding its values; `vocab_size` must always be given."""
    if name not in PRESETS:
        raise SettingsError(f"{unknown_name(name, PRESETS, what='preset')}, not {one_of(PRESETS)}")
    family, defaults = PRESETS[name]
    return read_config(family, {**defaults, **settings}, where=name)


def family_of(config: ModelConfig) -> Family:
    """Return the family of a config."""
    return next(family for family in FAMILIES.values() if type(config) is family.config)


def interface_of(config: ModelConfig) -> type:
    """Return the Protocol that the models of a config implement."""
    interface: type = resolve(family_of(config).interface)
    return interface


def build(config: ModelConfig) -> "Model":
    """Build the model that a config describes, with freshly initialized weights."""
    model: Model = resolve(family_of(config).model)(config)
    return model


def resolve(reference: str | type) -> Any:
    """Return what `module:name` refers to, imported now, or a class as it is."""
    if isinstance(reference, type):
        return reference
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
