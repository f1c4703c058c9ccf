"""How well hidden words are found again."""

from collections.abc import Sequence

import numpy as np
import torch

from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.evaluation.text import exponential
from sightline.pipelines import Filler
from sightline.pipelines.batches import BATCH_TOKENS, batches
from sightline.text.batch import Framed
from sightline.text.masking import Masker, MaskingSettings


def evaluate_filler(filler: Filler, texts: Sequence[str], *, seed: int = 1) -> Report:
    """Hide 15 % of the tokens of each text as in training (Devlin et al. 2019) and let the model find them.

    Which ones depends on the seed alone. What is longer than the model can take is cut.
    """
    [cls_id], [sep_id] = filler.frame()
    rows = [np.array(ids, dtype=np.int64) for ids in filler.encoded(texts)]
    masker = Masker(filler.tokenizer, MaskingSettings(), seed=seed)
    likely, right = [torch.empty(0)], [torch.empty(0, dtype=torch.bool)]
    for chosen in batches([len(row) + 2 for row in rows], batch_tokens=BATCH_TOKENS):
        framed = Framed.of(
            [rows[number] for number in chosen], cls_id=cls_id, sep_id=sep_id, max_length=filler.max_length
        )
        found = filler.find_again(masker.batch(framed, np.array(chosen), epoch=0))
        likely.append(found[0])
        right.append(found[1])
    hidden = torch.cat(likely).double()
    if not len(hidden):
        raise InputError("there is no text to hide words of")
    loss = -float(hidden.mean())
    return Report(
        {
            "texts": len(texts),
            "hidden_words": len(hidden),
            "accuracy": 100 * float(torch.cat(right).double().mean()),
            "loss": loss,
            "perplexity": exponential(loss),
        }
    )
