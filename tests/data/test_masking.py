"""Masking (spec 6.2): 15 % selected; of those 80 % masked, 10 % random, 10 % unchanged; loss on the selected only."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.data.datasets.batch import BertInputs
from sightline.data.datasets.masking import Masker, MaskingSettings
from sightline.data.tokenizers import MASKING_TOKENS, train_bpe
from sightline.errors import SettingsError

TOKENIZER = train_bpe(["some words to hide"] * 3, vocab_size=270, special_tokens=MASKING_TOKENS)
MASKER = Masker(TOKENIZER, MaskingSettings(), seed=3)
ROWS = st.lists(
    st.lists(st.integers(4, 265), min_size=1, max_size=30).map(lambda row: np.array(row, dtype=np.int64)),
    min_size=1,
    max_size=5,
)


def bert_inputs(rows):
    return BertInputs.of(rows, cls_id=TOKENIZER.cls_id, sep_id=TOKENIZER.sep_id)


@given(ROWS, st.integers(0, 10))
def test_only_selected_tokens_change_and_special_ones_never_do(rows, epoch):
    inputs_ = bert_inputs(rows)
    batch = MASKER.batch(inputs_, np.arange(len(rows)), epoch=epoch)
    original = np.zeros_like(batch.inputs.numpy())
    for number, row in enumerate(inputs_.ids):
        original[number, : len(row)] = row
    selected, inputs = batch.selected.numpy(), batch.inputs.numpy()
    assert (inputs[~selected] == original[~selected]).all()
    assert (batch.targets.numpy() == original[selected]).all()
    assert not np.isin(original[selected], sorted(TOKENIZER.special_ids)).any()
    replacements = inputs[selected & (inputs != original)]
    assert not np.isin(replacements, sorted(TOKENIZER.special_ids - {TOKENIZER.mask_id})).any()
    assert selected.sum(axis=1).tolist() == [max(1, int(np.rint(0.15 * len(row)))) for row in rows]


def test_rates_are_those_of_the_paper():
    rows = [np.full(100, 7, dtype=np.int64)] * 2_000
    batch = MASKER.batch(bert_inputs(rows), np.arange(len(rows)), epoch=0)
    inputs, selected = batch.inputs.numpy(), batch.selected.numpy()
    assert selected.sum() == 15 * len(rows)
    assert (inputs[selected] == TOKENIZER.mask_id).mean() == pytest.approx(0.8, abs=0.01)
    assert (inputs[selected] == 7).mean() == pytest.approx(0.1, abs=0.01)
    assert len(np.unique(inputs[selected])) > 200


@given(ROWS, st.integers(0, 5))
def test_mask_of_an_example_does_not_depend_on_its_batch(rows, epoch):
    whole = MASKER.batch(bert_inputs(rows), np.arange(len(rows)), epoch=epoch)
    for number, row in enumerate(rows):
        alone = MASKER.batch(bert_inputs([row]), np.array([number]), epoch=epoch)
        assert alone.inputs[0].tolist() == whole.inputs[number, : len(row) + 2].tolist()


def test_mask_differs_between_epochs_and_seeds():
    rows = [np.arange(4, 104)]
    drawn = {
        tuple(
            Masker(TOKENIZER, MaskingSettings(), seed=seed)
            .batch(bert_inputs(rows), np.array([0]), epoch=epoch)
            .targets.tolist()
        )
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(drawn) == 9


def test_true_and_false_neighbors_are_passed_on():
    rows = [np.array([5]), np.array([6])]
    batch = MASKER.batch(bert_inputs(rows), np.arange(2), epoch=0, not_next=np.array([True, False]))
    assert batch.not_next is not None
    assert batch.not_next.tolist() == [1, 0]


def test_slice_of_a_batch_may_be_empty():
    """A rank whose slice of a small batch is empty still takes part."""
    batch = MASKER.batch(bert_inputs([]), np.arange(0), epoch=0)
    assert batch.inputs.shape == (0, 0)
    assert batch.targets.shape == (0,)


def test_tokenizer_without_a_mask_is_refused():
    with pytest.raises(SettingsError, match="no mask or no padding token"):
        Masker(train_bpe(["a"]), MaskingSettings(), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mask_rate": 2.0}, "mask_rate must be"), ({"mask_prob": 0.8, "random_prob": 0.3}, "more than 1")],
)
def test_impossible_rates_are_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        MaskingSettings(**options)
