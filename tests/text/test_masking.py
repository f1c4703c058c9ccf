"""Masking (spec 6.2): 15 % chosen; of those 80 % masked, 10 % random, 10 % as they were; loss on the chosen only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import SettingsError
from sightline.text import MASKING_TOKENS, train_bpe
from sightline.text.batch import Framed
from sightline.text.masking import Masker, MaskingSettings

TOKENIZER = train_bpe(["some words to hide"] * 3, vocab_size=270, special_tokens=MASKING_TOKENS)
MASKER = Masker(TOKENIZER, MaskingSettings(), seed=3)
ROWS = st.lists(
    st.lists(st.integers(4, 265), min_size=1, max_size=30).map(lambda row: np.array(row, dtype=np.int64)),
    min_size=1,
    max_size=5,
)


def framed(rows):
    return Framed.of(rows, cls_id=TOKENIZER.cls_id, sep_id=TOKENIZER.sep_id)


@given(ROWS, st.integers(0, 10))
def test_only_chosen_tokens_change_and_special_ones_never_do(rows, epoch):
    frames = framed(rows)
    batch = MASKER.batch(frames, np.arange(len(rows)), epoch=epoch)
    original = np.zeros_like(batch.inputs.numpy())
    for number, row in enumerate(frames.ids):
        original[number, : len(row)] = row
    chosen, inputs = batch.chosen.numpy(), batch.inputs.numpy()
    assert (inputs[~chosen] == original[~chosen]).all()
    assert (batch.targets.numpy() == original[chosen]).all()
    assert not np.isin(original[chosen], sorted(TOKENIZER.special_ids)).any()
    put_in = inputs[chosen & (inputs != original)]
    assert not np.isin(put_in, sorted(TOKENIZER.special_ids - {TOKENIZER.mask_id})).any()
    assert chosen.sum(axis=1).tolist() == [max(1, int(np.rint(0.15 * len(row)))) for row in rows]


def test_shares_are_those_of_the_paper():
    rows = [np.full(100, 7, dtype=np.int64)] * 2_000
    batch = MASKER.batch(framed(rows), np.arange(len(rows)), epoch=0)
    inputs, chosen = batch.inputs.numpy(), batch.chosen.numpy()
    assert chosen.sum() == 15 * len(rows)
    assert (inputs[chosen] == TOKENIZER.mask_id).mean() == pytest.approx(0.8, abs=0.01)
    assert (inputs[chosen] == 7).mean() == pytest.approx(0.1, abs=0.01)
    assert len(np.unique(inputs[chosen])) > 200


@given(ROWS, st.integers(0, 5))
def test_mask_of_an_example_does_not_depend_on_its_batch(rows, epoch):
    whole = MASKER.batch(framed(rows), np.arange(len(rows)), epoch=epoch)
    for number, row in enumerate(rows):
        alone = MASKER.batch(framed([row]), np.array([number]), epoch=epoch)
        assert alone.inputs[0].tolist() == whole.inputs[number, : len(row) + 2].tolist()


def test_mask_is_another_one_in_every_epoch_and_for_every_seed():
    rows = [np.arange(4, 104)]
    drawn = {
        tuple(
            Masker(TOKENIZER, MaskingSettings(), seed=seed)
            .batch(framed(rows), np.array([0]), epoch=epoch)
            .targets.tolist()
        )
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(drawn) == 9


def test_true_and_false_neighbours_are_passed_on():
    rows = [np.array([5]), np.array([6])]
    batch = MASKER.batch(framed(rows), np.arange(2), epoch=0, not_next=np.array([True, False]))
    assert batch.not_next is not None
    assert batch.not_next.tolist() == [1, 0]


def test_share_of_a_batch_may_be_empty():
    """A rank whose share of a small batch is empty still takes part."""
    batch = MASKER.batch(framed([]), np.arange(0), epoch=0)
    assert batch.inputs.shape == (0, 0)
    assert batch.targets.shape == (0,)


def test_tokenizer_without_a_mask_is_refused():
    with pytest.raises(SettingsError, match="no mask or no padding token"):
        Masker(train_bpe(["a"]), MaskingSettings(), seed=0)


@pytest.mark.parametrize(
    ("options", "message"), [({"chosen": 2.0}, "chosen must be"), ({"masked": 0.8, "randomised": 0.3}, "more than 1")]
)
def test_impossible_shares_are_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        MaskingSettings(**options)
