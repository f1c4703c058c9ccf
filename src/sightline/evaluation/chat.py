"""How well a chat model foresees what people replied."""

from collections.abc import Sequence

import torch

from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.evaluation.text import foreseen_values
from sightline.pipelines import Chat


def evaluate_chat(chat: Chat, exchanges: Sequence[tuple[str, str]]) -> Report:
    """Let a model foresee replies, each with its end, from the turns before it (a line each).

    Perplexity is comparable between models of one vocabulary only, perplexity per word (what is between blanks; a
    reply's end is foreseen, but is no word) between all.
    """
    if not exchanges:
        raise InputError("there is nothing to foresee: the dialogues have no reply")
    sources = [chat.source(said.split("\n")) for said, _ in exchanges]
    replies = [reply for _, reply in exchanges]
    likely = torch.cat(chat.foresee(sources, replies))
    return Report({"replies": len(replies), **foreseen_values(replies, likely)})
