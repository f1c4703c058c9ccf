"""One tiny model of every family and variant."""

from collections.abc import Callable
from functools import cache

from pipelines.tiny import (
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    translator_bundle,
    two_vocabularies_bundle,
)
from sightline.bundle import Bundle
from sightline.pipelines import Pipeline
from sightline.tasks import pipeline_for

SENTENCE = "the cat sat on the mat"
LLAMA = {"positions": "rope", "n_heads": 4, "n_kv_heads": 2, "norm": "rms", "activation": "swiglu", "bias": False}

BUNDLES: dict[str, Callable[[], Bundle]] = {
    "transformer": translator_bundle,
    "pre-norm": lambda: translator_bundle(pre_norm=True, positions="learned"),
    "two vocabularies": two_vocabularies_bundle,
    "languages": many_languages_bundle,
    "chat": chat_bundle,
    "gpt": generator_bundle,
    "llama": lambda: generator_bundle(**LLAMA, tie_embeddings=False),
    "qwen": lambda: generator_bundle(**LLAMA, d_head=6, qk_norm=True, qkv_bias=True),
    "post-norm gpt": lambda: generator_bundle(pre_norm=False),
    "filler": filler_bundle,
    "classifier": classifier_bundle,
    "tagger": lambda: classifier_bundle(per_word=True),
}
GENERATORS = ["transformer", "pre-norm", "two vocabularies", "gpt", "llama"]
ENCODERS = ["filler", "classifier", "tagger"]
TRANSFORMERS = GENERATORS[:3]


@cache
def pipeline(name: str) -> Pipeline:
    """Return the pipeline of a kind of model, always the same object: copy it before changing it."""
    return pipeline_for(BUNDLES[name]())


def trace_options(name: str) -> dict[str, object]:
    """Return the options that this model needs for a trace."""
    return {"to": "de"} if name == "languages" else {}


def text_for(name: str) -> str:
    """Return a text for this model."""
    return "the [MASK] sat on the [MASK]" if name == "filler" else SENTENCE
