"""Sightline: build, train, run and see through Transformers.

    model = sightline.load("runs/en-de")     # the pipeline for the model's task
    model.translate(["How are you?"])
    trace = model.trace("How are you?")      # what the model did; draws itself in a notebook

`train` trains a model by a recipe, `evaluate` scores one. Everything is imported on first use, so that importing the
package takes no time.
"""

from typing import TYPE_CHECKING

from sightline.runtime import lazy_exports

if TYPE_CHECKING:
    from sightline.data.tokenizers import Tokenizer, train_tokenizer
    from sightline.decoding import DecodingSettings
    from sightline.errors import (
        InputError,
        JSONError,
        ModelFileError,
        RefusedError,
        SettingsError,
        SightlineError,
    )
    from sightline.evaluation import Report
    from sightline.model import (
        ActivationCache,
        BertConfig,
        GPTConfig,
        Hooks,
        ModelConfig,
        TransformerConfig,
        ablate_heads,
        build,
        preset,
    )
    from sightline.pipelines import (
        Chat,
        Classification,
        Classifier,
        Conversation,
        Filler,
        Generation,
        Generator,
        Pipeline,
        Translation,
        Translator,
    )
    from sightline.runs import Result, train
    from sightline.tasks import evaluate, load
    from sightline.tracing import Trace
    from sightline.training.settings import TrainingSettings

__version__ = "0.2.0"

LAZY = {
    "tasks": ("evaluate", "load"),
    "runs": ("Result", "train"),
    "pipelines": (
        "Chat", "Classification", "Classifier", "Conversation", "Filler", "Generation", "Generator", "Pipeline",
        "Translation", "Translator",
    ),
    "tracing": ("Trace",),
    "evaluation": ("Report",),
    "model": (
        "ActivationCache", "BertConfig", "GPTConfig", "Hooks", "ModelConfig", "TransformerConfig", "ablate_heads",
        "build", "preset",
    ),
    "data.tokenizers": ("Tokenizer", "train_tokenizer"),
    "decoding": ("DecodingSettings",),
    "training.settings": ("TrainingSettings",),
    "errors": ("InputError", "JSONError", "ModelFileError", "RefusedError", "SettingsError", "SightlineError"),
}  # fmt: skip
"""The module each name is imported from."""

__all__ = [
    "ActivationCache",
    "BertConfig",
    "Chat",
    "Classification",
    "Classifier",
    "Conversation",
    "DecodingSettings",
    "Filler",
    "GPTConfig",
    "Generation",
    "Generator",
    "Hooks",
    "InputError",
    "JSONError",
    "ModelConfig",
    "ModelFileError",
    "Pipeline",
    "RefusedError",
    "Report",
    "Result",
    "SettingsError",
    "SightlineError",
    "Tokenizer",
    "Trace",
    "TrainingSettings",
    "TransformerConfig",
    "Translation",
    "Translator",
    "__version__",
    "ablate_heads",
    "build",
    "evaluate",
    "load",
    "preset",
    "train",
    "train_tokenizer",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(__name__, LAZY)
