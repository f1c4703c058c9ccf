"""Labels that are texts are noticed before anything is trained on them."""

import pytest

from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.records import PAIR_AND_LABEL, TEXT_AND_LABEL, Labels
from sightline.data.corpora.settings import DataSettings
from sightline.errors import InputError


def collect(tmp_path, rows, fields=TEXT_AND_LABEL, **options):
    path = tmp_path / "a.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return Labels.collect(Corpus(DataSettings(train=str(path)), fields).records(), **options)


SENTENCES = [f"this is the sentence number {n}" for n in range(60)]


def test_swapped_columns_are_noticed(tmp_path):
    rows = [(f"class {n % 3}", text) for n, text in enumerate(SENTENCES)]
    message = r"60 classes: are the columns swapped\? Column 1 has only 3 different .*, or set data\.columns=2,1"
    with pytest.raises(InputError, match=message):
        collect(tmp_path, rows)
    assert len(collect(tmp_path, rows, chosen=True)) == 60


def test_the_label_of_a_pair_in_another_column_is_noticed(tmp_path):
    rows = [(text, str(n % 2), text[::-1]) for n, text in enumerate(SENTENCES)]
    with pytest.raises(InputError, match=r"or set data\.columns=1,3,2"):
        collect(tmp_path, rows, PAIR_AND_LABEL)


def test_sentences_as_labels_are_noticed(tmp_path):
    rows = [(text[::-1], text) for text in SENTENCES]
    with pytest.raises(InputError, match="60 classes in 60 examples, of 6 words on average: the last column"):
        collect(tmp_path, rows)


@pytest.mark.parametrize("n_classes", [2, 19, 40])
def test_usual_labels_are_accepted(tmp_path, n_classes):
    rows = [(text, f"class {n % n_classes}") for n, text in enumerate(SENTENCES)]
    assert len(collect(tmp_path, rows)) == n_classes


def test_few_texts_and_few_labels_are_no_reason_to_refuse(tmp_path):
    assert len(collect(tmp_path, [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")])) == 4
