"""The word list: kept in order, and nothing but words."""

import pytest

from sightline.bundle import Bundle, load, save
from sightline.errors import ModelFileError

WORDS = ("the", "<", "don't", "می\u200cخواهم", "👩‍👩‍👧", "ﬁ", "-", "漢字", "e\u0301")


@pytest.fixture
def few_words(monkeypatch):
    """Let a list have at most 300 words and 20,000 bytes."""
    monkeypatch.setattr("sightline.bundle.folder.MAX_WORDS", 300)
    monkeypatch.setattr("sightline.bundle.folder.MAX_WORDS_BYTES", 20_000)


def test_words_come_back_in_order(bundle, tmp_path):
    save(Bundle(bundle.model, bundle.tokenizer, words=WORDS), tmp_path / "model")
    assert load(tmp_path / "model").words == WORDS
    assert (tmp_path / "model/words.txt").read_text().split("\n") == [*WORDS, ""]


def test_list_may_begin_like_a_web_page(bundle, tmp_path):
    save(Bundle(bundle.model, bundle.tokenizer, words=("<", "html")), tmp_path / "model")
    assert load(tmp_path / "model").words == ("<", "html")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a b",), "line 1 is not a single word"),
        (("a", ""), "line 2 is empty"),
        (("a", "a"), "contains a word twice"),
        (("\ud800",), "lone surrogate"),
        (tuple(map(str, range(301))), "has 301 words, more than 300"),
        (tuple(f"{number:0>800}" for number in range(30)), "bytes, more than 20,000"),
    ],
    ids=["blank", "empty", "twice", "surrogate", "many", "large"],
)
def test_words_that_would_not_load_are_not_saved(bundle, tmp_path, few_words, words, reason):
    with pytest.raises(ModelFileError, match=rf"words\.txt: was not written: .*{reason}"):
        save(Bundle(bundle.model, bundle.tokenizer, words=words), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_as_many_words_as_allowed_load(bundle, tmp_path, few_words):
    words = tuple(map(str, range(300)))
    save(Bundle(bundle.model, bundle.tokenizer, words=words), tmp_path / "model")
    assert load(tmp_path / "model").words == words
