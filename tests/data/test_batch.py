"""Rows of ids as tensors: padded on the right, and shifted in one place only."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.data.datasets.batch import IGNORE_INDEX, BertInputs, LabeledBatch, PairBatch, TaggedBatch, TextBatch, pad

PAD, START, END, CLS, SEP = 0, 1, 2, 3, 4
ROW = st.lists(st.integers(5, 99), min_size=1, max_size=9).map(lambda row: np.array(row, dtype=np.int64))
ROWS = st.lists(ROW, min_size=1, max_size=5)


def unpadded(ids, lengths):
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


@given(ROWS)
def test_padding_is_on_the_right_and_nothing_else_changes(rows):
    ids, lengths = pad(rows, pad_id=PAD)
    assert unpadded(ids, lengths) == [row.tolist() for row in rows]
    assert int((ids != PAD).sum()) == int(lengths.sum())
    assert ids.shape == (len(rows), max(len(row) for row in rows))


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=5))
def test_lists_are_padded_as_arrays_are(rows):
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    for ours, theirs in zip(pad(rows), pad(arrays), strict=True):
        assert ours.dtype == theirs.dtype == torch.int64
        assert ours.tolist() == theirs.tolist()


def test_batch_without_rows_has_its_shape():
    ids, lengths = pad([], pad_id=PAD)
    assert ids.shape == (0, 0)
    assert lengths.shape == (0,)


@given(ROWS)
def test_decoder_reads_start_and_target_and_predicts_target_and_end(rows):
    batch = PairBatch.of(rows, rows, source_pad_id=PAD, pad_id=PAD, start_id=START, end_id=END)
    assert unpadded(batch.source, batch.source_lengths) == [row.tolist() for row in rows]
    assert unpadded(batch.inputs, batch.lengths) == [[START, *row.tolist()] for row in rows]
    assert unpadded(batch.targets, batch.lengths) == [[*row.tolist(), END] for row in rows]


@given(ROWS)
def test_batched_pairs_equal_single_ones(rows):
    options = {"source_pad_id": PAD, "pad_id": PAD, "start_id": START, "end_id": END}
    batch = PairBatch.of(rows, rows[::-1], **options)
    for number, (source, target) in enumerate(zip(rows, rows[::-1], strict=True)):
        alone = PairBatch.of([source], [target], **options)
        assert alone.targets[0].tolist() == batch.targets[number, : batch.lengths[number]].tolist()
        assert alone.source[0].tolist() == batch.source[number, : batch.source_lengths[number]].tolist()


@given(ROWS)
def test_targets_of_a_block_are_one_token_ahead(rows):
    batch = TextBatch.of(rows, pad_id=PAD)
    assert unpadded(batch.inputs, batch.lengths) == [row[:-1].tolist() for row in rows]
    assert unpadded(batch.targets, batch.lengths) == [row[1:].tolist() for row in rows]


def test_texts_and_pairs_become_bert_inputs():
    one, two = np.array([10, 11]), np.array([20])
    single = LabeledBatch.of(BertInputs.of([one], cls_id=CLS, sep_id=SEP), np.array([1]), pad_id=PAD)
    assert single.inputs.tolist() == [[CLS, 10, 11, SEP]]
    assert single.segments.tolist() == [[0, 0, 0, 0]]
    pair = LabeledBatch.of(BertInputs.of([one], [two], cls_id=CLS, sep_id=SEP), np.array([0]), pad_id=PAD)
    assert pair.inputs.tolist() == [[CLS, 10, 11, SEP, 20, SEP]]
    assert pair.segments.tolist() == [[0, 0, 0, 0, 1, 1]]
    assert pair.labels.tolist() == [0]


@given(ROW, ROW, st.integers(3, 25))
def test_truncated_pair_fits_and_the_shorter_text_is_truncated_last(first, second, max_length):
    inputs = BertInputs.of([first], [second], cls_id=CLS, sep_id=SEP, max_length=max_length)
    room = max_length - 3
    kept_first = int((inputs.segments[0] == 0).sum()) - 2
    kept_second = int((inputs.segments[0] == 1).sum()) - 1
    assert kept_first + kept_second == min(room, len(first) + len(second))
    for kept, row, other in ((kept_first, first, kept_second), (kept_second, second, kept_first)):
        assert kept == len(row) or kept >= other - 1


@given(ROW, st.integers(2, 15))
def test_truncated_text_fits(row, max_length):
    inputs = BertInputs.of([row], cls_id=CLS, sep_id=SEP, max_length=max_length)
    assert inputs.ids[0].tolist() == [CLS, *row.tolist()[: max_length - 2], SEP]


def test_words_have_their_label_at_their_first_token_only():
    batch = TaggedBatch.of(
        [np.array([7, 8, 9]), np.array([7])], [np.array([2, 0, 1]), np.array([1])], pad_id=PAD, cls_id=CLS, sep_id=SEP
    )
    assert batch.inputs.tolist() == [[CLS, 7, 8, 9, SEP], [CLS, 7, SEP, PAD, PAD]]
    assert batch.labels.tolist() == [
        [IGNORE_INDEX, 1, IGNORE_INDEX, 0, IGNORE_INDEX],
        [IGNORE_INDEX, 0, IGNORE_INDEX, IGNORE_INDEX, IGNORE_INDEX],
    ]


def test_batch_moves_to_a_device_whole():
    batch = TextBatch.of([np.array([5, 6])], pad_id=PAD).to("meta")
    assert {tensor.device for tensor in (batch.inputs, batch.targets, batch.lengths)} == {torch.device("meta")}


@pytest.mark.parametrize("field", ["inputs", "targets", "lengths"])
def test_ids_are_whole_numbers_of_64_bits(field):
    assert getattr(TextBatch.of([np.array([5, 6], dtype=np.int32)], pad_id=PAD), field).dtype == torch.int64
