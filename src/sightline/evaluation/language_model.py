"""Evaluate a language model: perplexity of texts, of replies, and of masked tokens.

Perplexity is comparable between models with the same vocabulary only; bits per character and perplexity per word (split
at white space) between all.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sightline.data.datasets.batch import BertInputs
from sightline.data.datasets.masking import Masker, MaskingSettings
from sightline.errors import InputError
from sightline.evaluation.report import Report, Value
from sightline.pipelines import Chat, Filler, Generator
from sightline.pipelines.pipeline import BATCH_TOKENS, batch_by_tokens


def evaluate_text(generator: Generator, texts: Sequence[str], *, context: int = 0) -> Report:
    """Score documents, concatenated, in blocks of the model's maximum length.

    Without a `context` the blocks are independent; with one, each block starts with that many tokens of the block
    before it (a sliding window: slower, but comparable with models of longer context).

    Each document follows an end token and ends with one. Every token is scored once.
    """
    end_id = generator.tokenizer.end_id
    ends = [] if end_id is None else [end_id]
    stream = [*ends, *(id_ for text in texts for id_ in (*generator.encode_texts([text])[0], *ends))]
    if len(stream) < 2 or not any(texts):
        raise InputError("nothing to evaluate: the text has less than two tokens")
    [log_probs] = generator.token_log_probs([stream], context=context)
    return Report({"documents": len(texts), **perplexity_values(texts, log_probs)})


def evaluate_chat(chat: Chat, exchanges: Sequence[tuple[str, str]]) -> Report:
    """Score reference replies, each with its end token, given the turns before it (one per line)."""
    if not exchanges:
        raise InputError("nothing to evaluate: the dialogues have no reply")
    sources = [chat.encode_source(turns.split("\n")) for turns, _ in exchanges]
    replies = [reply for _, reply in exchanges]
    log_probs = torch.cat(chat.token_log_probs(sources, replies))
    return Report({"replies": len(replies), **perplexity_values(replies, log_probs)})


def evaluate_filler(filler: Filler, texts: Sequence[str], *, seed: int = 1) -> Report:
    """Mask 15 % of the tokens of each text as in training (Devlin et al. 2019) and predict them.

    The masked positions depend on the seed only. Texts that are too long for the model are truncated.
    """
    [cls_id], [sep_id] = filler.frame()
    rows = [np.array(ids, dtype=np.int64) for ids in filler.encode_texts(texts)]
    masker = Masker(filler.tokenizer, MaskingSettings(), seed=seed)
    log_probs, correct = [torch.empty(0)], [torch.empty(0, dtype=torch.bool)]
    for numbers in batch_by_tokens([len(row) + 2 for row in rows], batch_tokens=BATCH_TOKENS):
        framed = BertInputs.of(
            [rows[number] for number in numbers], cls_id=cls_id, sep_id=sep_id, max_length=filler.max_length
        )
        found = filler.score_masked_tokens(masker.batch(framed, np.array(numbers), epoch=0))
        log_probs.append(found[0])
        correct.append(found[1])
    all_log_probs = torch.cat(log_probs).double()
    if not len(all_log_probs):
        raise InputError("nothing to evaluate: there are no tokens to mask")
    loss = -float(all_log_probs.mean())
    return Report(
        {
            "texts": len(texts),
            "masked_tokens": len(all_log_probs),
            "accuracy": 100 * float(torch.cat(correct).double().mean()),
            "loss": loss,
            "perplexity": exponential(loss),
        }
    )


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
