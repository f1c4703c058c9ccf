"""How well running text is foreseen: perplexity and bits per character."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from sightline.errors import InputError
from sightline.evaluation.report import Report, Value
from sightline.pipelines import Generator


def evaluate_text(generator: Generator, texts: Sequence[str], *, context: int = 0) -> Report:
    """Let a model foresee documents, one after another, in blocks as long as it can take.

    Without a `context` a block knows nothing of the one before it; with one it reads so many tokens of that again, as
    suits a comparison with models that remember all the text (at the price of more blocks).

    Each begins where the one before it ended: after the end token, which is also to be foreseen at its end. Every
    token is foreseen once. Perplexity is comparable between models of one vocabulary only; bits per character (and
    perplexity per word, words being what is between blanks) between all.
    """
    end_id = generator.tokenizer.end_id
    ends = [] if end_id is None else [end_id]
    stream = [*ends, *(id_ for text in texts for id_ in (*generator.encoded([text])[0], *ends))]
    if len(stream) < 2 or not any(texts):
        raise InputError("there is no text to foresee: it has less than two tokens")
    [likely] = generator.foresee([stream], context=context)
    return Report({"documents": len(texts), **foreseen_values(texts, likely)})


def foreseen_values(texts: Sequence[str], likely: Float[Tensor, "..."]) -> dict[str, Value]:
    """Return how well texts were foreseen, from the log-probabilities of all their tokens."""
    n_characters, n_words = sum(map(len, texts)), sum(len(text.split()) for text in texts)
    nats = -float(likely.double().sum())
    return {
        "characters": n_characters,
        "words": n_words,
        "tokens": len(likely),
        "loss": nats / max(1, len(likely)),
        "perplexity": exponential(nats / max(1, len(likely))),
        "perplexity_per_word": exponential(nats / max(1, n_words)),
        "bits_per_character": nats / math.log(2) / max(1, n_characters),
    }


def exponential(nats: float) -> float:
    """Return e to the power of so many nats, of hopelessly many the largest number there is."""
    return math.exp(min(nats, 709.0))
