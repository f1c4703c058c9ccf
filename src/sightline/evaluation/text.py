"""Evaluate a language model: perplexity and bits per character."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from sightline.errors import InputError
from sightline.evaluation.report import Report, Value
from sightline.pipelines import Generator


def evaluate_text(generator: Generator, texts: Sequence[str], *, context: int = 0) -> Report:
    """Score documents, concatenated, in blocks of the model's maximum length.

    Without a `context` the blocks are independent; with one, each block starts with that many tokens of the block
    before it (a sliding window: slower, but comparable with models of longer context).

    Each document follows an end token and ends with one. Every token is scored once. Perplexity is comparable between
    models with the same vocabulary only; bits per character and perplexity per word (split at white space) between all.
    """
    end_id = generator.tokenizer.end_id
    ends = [] if end_id is None else [end_id]
    stream = [*ends, *(id_ for text in texts for id_ in (*generator.encode_texts([text])[0], *ends))]
    if len(stream) < 2 or not any(texts):
        raise InputError("nothing to evaluate: the text has less than two tokens")
    [log_probs] = generator.token_log_probs([stream], context=context)
    return Report({"documents": len(texts), **perplexity_values(texts, log_probs)})


def perplexity_values(texts: Sequence[str], log_probs: Float[Tensor, "..."]) -> dict[str, Value]:
    """Return loss and perplexities of texts, from the log-probabilities of all their tokens."""
    n_characters, n_words = sum(map(len, texts)), sum(len(text.split()) for text in texts)
    nats = -float(log_probs.double().sum())
    return {
        "characters": n_characters,
        "words": n_words,
        "tokens": len(log_probs),
        "loss": nats / max(1, len(log_probs)),
        "perplexity": exponential(nats / max(1, len(log_probs))),
        "perplexity_per_word": exponential(nats / max(1, n_words)),
        "bits_per_character": nats / math.log(2) / max(1, n_characters),
    }


def exponential(nats: float) -> float:
    """Return e to the power of so many nats, without overflow."""
    return math.exp(min(nats, 709.0))
