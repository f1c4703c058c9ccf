"""Evaluate a masked language model: accuracy and perplexity on masked tokens."""

from collections.abc import Sequence

import numpy as np
import torch

from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.evaluation.text import exponential
from sightline.pipelines import Filler
from sightline.pipelines.batches import BATCH_TOKENS, batch_by_tokens
from sightline.text.batch import BertInputs
from sightline.text.masking import Masker, MaskingSettings


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
