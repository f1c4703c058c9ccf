"""The tables that turn a reference's weights into ours must lose nothing, and say what does not fit."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from sightline.pretrained.weight_names import (
    GPT2,
    LLAMA,
    MARIAN,
    Table,
    fill,
    rename,
    to_theirs,
)

from .reference_pairs import PAIRS, every_pair, gpt2, llama
from .reference_taps import MAX_LENGTH

pytestmark = pytest.mark.filterwarnings(
    # nn.Transformer warns that pre-norm disables its encoder's fast path; no test here takes it.
    "ignore:enable_nested_tensor is True, but self.use_nested_tensor is False:UserWarning"
)


@every_pair
def test_table_gives_back_the_weights_it_was_given(make_pair):
    pair = make_pair()
    aliases = {second for second, _ in pair.table.aliases}
    expected = {
        name: weight
        for name, weight in pair.theirs.state_dict().items()
        if name not in aliases and not any(rename(name, computed, "") == "" for computed in pair.table.computed)
    }
    assert_close(to_theirs(pair.table, pair.ours.state_dict()), expected, atol=0, rtol=0)


def test_fill_lists_what_is_left_over_on_either_side():
    pair = gpt2()
    shorter = Table(tuple(row for row in GPT2.rows if "ln_f" not in row.theirs))
    with pytest.raises(ValueError, match=r"no row names their transformer\.ln_f\.weight.*") as caught:
        fill(pair.ours, shorter, pair.theirs.state_dict())
    assert "nothing fills our decoder.final_norm.bias" in str(caught.value)


def test_fill_refuses_to_tie_what_the_reference_keeps_apart():
    with pytest.raises(ValueError, match=r"several in the reference: embedding\.tokens\.weight, output\.weight"):
        fill(llama(tied=True).ours, LLAMA, llama(tied=False).theirs.state_dict())


def test_fill_refuses_weights_of_another_shape():
    pair = gpt2()
    state = pair.theirs.state_dict() | {"transformer.wpe.weight": torch.zeros(MAX_LENGTH + 1, 32)}
    with pytest.raises(ValueError, match=r"embedding\.positions\.weight would be of shape \(17, 32\), not \(16, 32\)"):
        fill(pair.ours, GPT2, state)


def test_fill_takes_a_tied_weight_under_either_of_its_names():
    """Files hold a weight once: Marian's keep the first name the tables call second."""
    pair = PAIRS["marian-swish"]()
    names = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    state = {name: weight for name, weight in pair.theirs.state_dict().items() if name not in names}
    ours = PAIRS["marian-swish"]().ours
    nn.init.zeros_(ours.source_embedding.tokens.weight)
    fill(ours, MARIAN, state)
    assert_close(ours.source_embedding.tokens.weight, pair.theirs.model.shared.weight, atol=0, rtol=0)
