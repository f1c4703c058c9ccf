"""The Transformer family: tensors in, tensors out. Knows no text, files, losses or search."""

from sightline.model.bert import Bert, BertConfig
from sightline.model.config import BlockConfig
from sightline.model.gpt import GPT, GPTConfig
from sightline.model.hooks import ActivationCache, Hooks, ablate_heads, replace_with
from sightline.model.registry import Model, build, preset
from sightline.model.transformer import Transformer, TransformerConfig

__all__ = [
    "GPT",
    "ActivationCache",
    "Bert",
    "BertConfig",
    "BlockConfig",
    "GPTConfig",
    "Hooks",
    "Model",
    "Transformer",
    "TransformerConfig",
    "ablate_heads",
    "build",
    "preset",
    "replace_with",
]  # fmt: skip
