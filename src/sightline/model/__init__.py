"""The Transformer family: tensors in, tensors out. Knows no text, files, losses or search."""

from typing import TYPE_CHECKING

from sightline.runtime import lazy_exports

if TYPE_CHECKING:
    from sightline.model.bert import Bert
    from sightline.model.config import BertConfig, BlockConfig, GPTConfig, ModelConfig, TransformerConfig
    from sightline.model.gpt import GPT
    from sightline.model.hooks import ActivationCache, Hooks, ablate_heads, replace_with
    from sightline.model.interfaces import CausalLM, Model, Seq2Seq, TextEncoder
    from sightline.model.registry import build, preset
    from sightline.model.transformer import Transformer

__all__ = [
    "GPT",
    "ActivationCache",
    "Bert",
    "BertConfig",
    "BlockConfig",
    "CausalLM",
    "GPTConfig",
    "Hooks",
    "Model",
    "ModelConfig",
    "Seq2Seq",
    "TextEncoder",
    "Transformer",
    "TransformerConfig",
    "ablate_heads",
    "build",
    "preset",
    "replace_with",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "bert": ("Bert",),
            "config": ("BertConfig", "BlockConfig", "GPTConfig", "ModelConfig", "TransformerConfig"),
            "gpt": ("GPT",),
            "hooks": ("ActivationCache", "Hooks", "ablate_heads", "replace_with"),
            "interfaces": ("CausalLM", "Model", "Seq2Seq", "TextEncoder"),
            "registry": ("build", "preset"),
            "transformer": ("Transformer",),
        },
    )
