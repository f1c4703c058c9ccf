"""A model on disk: a folder with the weights, the tokenizer, the decoding settings and a model card.

    config.json             format, architecture, model settings, roles of special tokens, task
    model.safetensors       the weights: 32-bit floats; 16-bit ones are read too, and converted
    tokenizer.json          the tokenizer, in the format of the `tokenizers` library (optional)
    target_tokenizer.json   the target tokenizer of models with two vocabularies (absent in all others)
    generation.json         format, and default decoding settings of this model (optional)
    words.txt               whole words of the training text, most frequent first (optional)
    training.json           format, and what is known about the training: data, scores (optional)
    README.md               the model card

In this package: `folder` saves and loads, `contents` is the bundle in memory, `manifest` reads and writes the files
config.json, generation.json and training.json (`training_facts`), `weights` reads and writes safetensors, `migration`
reads what older versions wrote.

A run folder can be given in place of its `model` folder. `save` is atomic. `load` is safe with untrusted files: it
executes nothing, refuses anything but a model with a one-line message, and validates headers before reading weights.
"""

from typing import TYPE_CHECKING

from sightline.runtime import lazy_exports

if TYPE_CHECKING:
    from sightline.bundle.contents import Bundle, TaskConfig
    from sightline.bundle.folder import build_model_card, find_model_folder, load, load_tokenizer, save

__all__ = [
    "Bundle",
    "TaskConfig",
    "build_model_card",
    "find_model_folder",
    "load",
    "load_tokenizer",
    "save",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "contents": ("Bundle", "TaskConfig"),
            "folder": ("build_model_card", "find_model_folder", "load", "load_tokenizer", "save"),
        },
    )
