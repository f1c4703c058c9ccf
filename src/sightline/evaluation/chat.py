"""Evaluate a chat model: perplexity of the reference replies."""

from collections.abc import Sequence

import torch

from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.evaluation.text import perplexity_values
from sightline.pipelines import Chat


def evaluate_chat(chat: Chat, exchanges: Sequence[tuple[str, str]]) -> Report:
    """Score reference replies, each with its end token, given the turns before it (one per line).

    Perplexity is comparable between models with the same vocabulary only; perplexity per word (split at white space)
    between all.
    """
    if not exchanges:
        raise InputError("nothing to evaluate: the dialogues have no reply")
    sources = [chat.encode_source(turns.split("\n")) for turns, _ in exchanges]
    replies = [reply for _, reply in exchanges]
    log_probs = torch.cat(chat.token_log_probs(sources, replies))
    return Report({"replies": len(replies), **perplexity_values(replies, log_probs)})
