"""The Transformer family: tensors in, tensors out. Knows no text, files, losses or search."""

from sightline.model.bert import Bert, BertConfig
from sightline.model.config import BlockConfig
from sightline.model.gpt import GPT, GPTConfig
from sightline.model.probe import Probe, Recorder, knock_out, replace_with
from sightline.model.registry import Model, build, preset
from sightline.model.transformer import Transformer, TransformerConfig

__all__ = [
    "GPT", "Bert", "BertConfig", "BlockConfig", "GPTConfig", "Model", "Probe", "Recorder", "Transformer",
    "TransformerConfig", "build", "knock_out", "preset", "replace_with",
]  # fmt: skip
