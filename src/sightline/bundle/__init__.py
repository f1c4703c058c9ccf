"""A model on disk: a folder with the model, its tokenizer, how to decode with it, and a card that describes it.

    config.json         format, architecture, sizes and choices, the roles of special tokens
    model.safetensors   the weights: 32-bit floats; 16-bit ones are read too, and widened
    tokenizer.json      the tokenizer, in the `tokenizers` library's own format (absent if there is none)
    generation.json     format, and the decoding settings that suit this model (absent: the defaults)
    README.md           the model card

`save` is atomic, `load` is safe with files of any origin: it runs nothing, refuses in one line what is not a model,
and knows from the first bytes that everything fits before it reads the rest.
"""

from sightline.bundle.card import model_card
from sightline.bundle.contents import Bundle
from sightline.bundle.folder import load, load_tokenizer, save

__all__ = ["Bundle", "load", "load_tokenizer", "model_card", "save"]
