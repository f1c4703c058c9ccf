"""A model on disk: a folder with the model, its tokenizer, how to decode with it, and a card that describes it.

    config.json             format, architecture, sizes and choices, the roles of special tokens, what it was made for
    model.safetensors       the weights: 32-bit floats; 16-bit ones are read too, and widened
    tokenizer.json          the tokenizer, in the `tokenizers` library's own format (absent if there is none)
    target_tokenizer.json   that of the targets, in models with two vocabularies (absent in all others)
    generation.json         format, and the decoding settings that suit this model (absent: the defaults)
    words.txt               whole words of the training text, the most frequent first (may be absent)
    README.md               the model card

The folder of a run, whose `model` is such a folder, is opened by that.
`save` is atomic, `load` is safe with files of any origin: it runs nothing, refuses in one line what is not a model,
and knows from the first bytes that everything fits before it reads the rest.
"""

from sightline.bundle.card import model_card
from sightline.bundle.contents import Bundle
from sightline.bundle.folder import load, load_tokenizer, save
from sightline.bundle.purpose import Purpose, Task
from sightline.bundle.source import model_place

__all__ = ["Bundle", "Purpose", "Task", "load", "load_tokenizer", "model_card", "model_place", "save"]
