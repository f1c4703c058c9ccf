"""Encoders turn records into ids, and name unknown labels."""

from pathlib import Path

import pytest

from sightline.data.corpora.files import Location
from sightline.data.corpora.records import Labels, Record
from sightline.data.datasets.encoding import (
    CONTINUATION,
    Encoder,
    LabeledEncoder,
    PairEncoder,
    TaggedEncoder,
    TextEncoder,
)
from sightline.data.tokenizers import MASKING_TOKENS, train_bpe
from sightline.errors import InputError, SettingsError

TOKENIZER = train_bpe(["good bad words"] * 3, vocab_size=280)
OTHER = train_bpe(["other words"] * 3, vocab_size=262)
LABELS = Labels(("bad", "good"))


def record(*fields, line=1):
    return Record(fields, Location(Path("a.tsv"), line))


def test_labels_are_sorted_whatever_their_order():
    rows = [record("x", label) for label in ("good", "bad", "good", "10", "9")]
    assert Labels.collect(rows).names == ("10", "9", "bad", "good")
    assert Labels.collect(rows[::-1]) == Labels.collect(rows)


def test_unknown_label_is_named_with_its_location():
    with pytest.raises(
        InputError, match=r"a\.tsv:7: unknown label 'god' \(did you mean 'good'\?\): the model knows bad, good"
    ):
        LabeledEncoder(TOKENIZER, LABELS).encode([record("x", "god", line=7)])


@pytest.mark.parametrize("labels", [[], ["same", "same"]])
def test_fewer_than_two_labels_are_refused(labels):
    with pytest.raises(InputError, match="training needs two or more"):
        Labels.collect([record("x", label) for label in labels])


def test_column_of_texts_is_not_accepted_as_labels():
    with pytest.raises(InputError, match=r"a\.tsv:10001: more than 10,000 distinct labels: is this the label column"):
        Labels.collect(record("x", str(line), line=line) for line in range(1, 20_000))


def test_labeled_text_and_pair():
    (row,) = LabeledEncoder(TOKENIZER, LABELS).encode([record("words", "good")])
    assert (row.sequences, row.label) == ((TOKENIZER.encode("words"),), 1)
    (row,) = LabeledEncoder(TOKENIZER, LABELS, pairs=True).encode([record("good", "bad", "bad")])
    assert (row.sequences, row.label) == ((TOKENIZER.encode("good"), TOKENIZER.encode("bad")), 0)


def test_tagged_words_are_running_text_with_a_tag_at_each_word():
    (row,) = TaggedEncoder(TOKENIZER, LABELS).encode([record(("good", "strange"), ("good", "bad"))])
    ids, tags = row.sequences
    assert TOKENIZER.decode(ids) == "good strange"
    assert [tag for tag in tags if tag != CONTINUATION] == [2, 1]
    assert len(tags) == len(ids)
    assert tags[0] == 2


def test_words_without_labels_are_refused():
    with pytest.raises(InputError, match=r"a\.tsv:1: 2 words but 1 labels: each word needs one"):
        TaggedEncoder(TOKENIZER, LABELS).encode([record(("a", "b"), ("good",))])


def test_running_text_needs_an_end_token():
    with pytest.raises(SettingsError, match="this tokenizer has no end token"):
        TextEncoder(train_bpe(["a"], special_tokens=MASKING_TOKENS), append_end=True)


def test_identity_differs_between_encoders():
    encoders: list[Encoder] = [
        PairEncoder(TOKENIZER),
        PairEncoder(OTHER),
        PairEncoder(TOKENIZER, OTHER),
        TextEncoder(TOKENIZER, append_end=True),
        TextEncoder(TOKENIZER, append_end=False),
        LabeledEncoder(TOKENIZER, LABELS),
        LabeledEncoder(TOKENIZER, LABELS, pairs=True),
        LabeledEncoder(TOKENIZER, Labels(("a", "b"))),
        TaggedEncoder(TOKENIZER, LABELS),
    ]
    assert len({encoder.identity() for encoder in encoders}) == len(encoders)
    assert PairEncoder(TOKENIZER).identity() == PairEncoder(TOKENIZER, TOKENIZER).identity()
