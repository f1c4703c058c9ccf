"""Models so small that a test may save hundreds of them."""

from sightline.data.tokenizers import train_bpe
from sightline.model import Model, build
from sightline.model.registry import read_config

SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 16, "max_length": 16}
LAYERS = {
    "transformer": {"n_encoder_layers": 1, "n_decoder_layers": 1},
    "bert": {"n_layers": 1},
    "gpt": {"n_layers": 1},
}
TOKENIZER = train_bpe(["tiny models tell no tales"] * 3, vocab_size=270)


def tiny_model(architecture: str = "gpt", **settings: object) -> Model:
    sizes = {"vocab_size": TOKENIZER.vocab_size, **SIZES, **LAYERS[architecture], **settings}
    return build(read_config(architecture, sizes))
