"""Records as ids, and labels that are named when nobody knows them."""

from pathlib import Path

import pytest

from sightline.errors import InputError, SettingsError
from sightline.text import MASKING_TOKENS, train_bpe
from sightline.text.encoding import CONTINUED, Encoder, LabelledEncoder, PairEncoder, TaggedEncoder, TextEncoder
from sightline.text.files import Place
from sightline.text.labels import Labels
from sightline.text.record import Record

TOKENIZER = train_bpe(["good bad words"] * 3, vocab_size=280)
OTHER = train_bpe(["other words"] * 3, vocab_size=262)
LABELS = Labels(("bad", "good"))


def record(*fields, line=1):
    return Record(fields, Place(Path("a.tsv"), line))


def test_labels_are_sorted_whatever_their_order():
    rows = [record("x", label) for label in ("good", "bad", "good", "10", "9")]
    assert Labels.found_in(rows).names == ("10", "9", "bad", "good")
    assert Labels.found_in(rows[::-1]) == Labels.found_in(rows)


def test_unknown_label_is_named_with_its_place():
    with pytest.raises(
        InputError, match=r"a\.tsv:7: unknown label 'god' \(did you mean 'good'\?\): the model knows bad, good"
    ):
        LabelledEncoder(TOKENIZER, LABELS).encode([record("x", "god", line=7)])


@pytest.mark.parametrize("labels", [[], ["same", "same"]])
def test_fewer_than_two_labels_are_refused(labels):
    with pytest.raises(InputError, match="two or more are needed"):
        Labels.found_in([record("x", label) for label in labels])


def test_column_of_texts_is_not_taken_for_labels():
    with pytest.raises(InputError, match=r"a\.tsv:10001: more than 10,000 labels: is that the column of the labels"):
        Labels.found_in(record("x", str(line), line=line) for line in range(1, 20_000))


def test_labelled_text_and_pair():
    (row,) = LabelledEncoder(TOKENIZER, LABELS).encode([record("words", "good")])
    assert (row.sequences, row.label) == ((TOKENIZER.encode("words"),), 1)
    (row,) = LabelledEncoder(TOKENIZER, LABELS, pairs=True).encode([record("good", "bad", "bad")])
    assert (row.sequences, row.label) == ((TOKENIZER.encode("good"), TOKENIZER.encode("bad")), 0)


def test_tagged_words_are_the_running_text_with_a_tag_at_each_word():
    (row,) = TaggedEncoder(TOKENIZER, LABELS).encode([record(("good", "strange"), ("good", "bad"))])
    ids, tags = row.sequences
    assert TOKENIZER.decode(ids) == "good strange"
    assert [tag for tag in tags if tag != CONTINUED] == [2, 1]
    assert len(tags) == len(ids)
    assert tags[0] == 2


def test_words_without_labels_are_refused():
    with pytest.raises(InputError, match=r"a\.tsv:1: 2 words have 1 labels: each needs one"):
        TaggedEncoder(TOKENIZER, LABELS).encode([record(("a", "b"), ("good",))])


def test_running_text_needs_an_end_token():
    with pytest.raises(SettingsError, match="this tokenizer has no end token"):
        TextEncoder(train_bpe(["a"], special_tokens=MASKING_TOKENS), with_ends=True)


def test_encoders_are_told_apart_by_what_they_do():
    encoders: list[Encoder] = [
        PairEncoder(TOKENIZER),
        PairEncoder(OTHER),
        PairEncoder(TOKENIZER, OTHER),
        TextEncoder(TOKENIZER, with_ends=True),
        TextEncoder(TOKENIZER, with_ends=False),
        LabelledEncoder(TOKENIZER, LABELS),
        LabelledEncoder(TOKENIZER, LABELS, pairs=True),
        LabelledEncoder(TOKENIZER, Labels(("a", "b"))),
        TaggedEncoder(TOKENIZER, LABELS),
    ]
    assert len({encoder.identity() for encoder in encoders}) == len(encoders)
    assert PairEncoder(TOKENIZER).identity() == PairEncoder(TOKENIZER, TOKENIZER).identity()
