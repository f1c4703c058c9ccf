"""Text to ids and back: nothing lost, nothing mistaken for a special token."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.tokenizers import MASKING_TOKENS, Tokenizer, tag_token, train_bpe, train_characters, train_tokenizer
from sightline.errors import InputError

CORPUS = ["the quick brown fox jumps over the lazy dog", "les œufs sont frais, n'est-ce pas ?", "2026-11-15 17:30"] * 3
NASTY = [
    "", " ", "  leading and trailing  ", "\x00", "a\x00b", "line\r\nline\rline\n", "\ufeffBOM", "👩‍👩‍👧‍👦", "e\u0301 é",
    "\U0010ffff", "ﬁ ﬂ", "漢字かな", "مرحبا", "\u2028\u2029\x85", "\t\t", "<s> </s> <pad>", "[MASK]", "<0x41>", "Ġ",
    "�", "⁀a ## ###", "it's 'll", "   \n   ", "a" * 300, " " * 300, "9" * 300,
]  # fmt: skip

BPE = train_bpe(CORPUS, vocab_size=320)
DIGITS = train_bpe(CORPUS, vocab_size=320, split_digits=True)
CHARACTERS = train_characters(CORPUS)
MASKING = train_bpe(CORPUS, vocab_size=320, special_tokens=MASKING_TOKENS)
WORDPIECE = train_tokenizer("wordpiece", CORPUS, vocab_size=560)
UNIGRAM = train_tokenizer("unigram", CORPUS, vocab_size=320)
WORDS = train_tokenizer("words", CORPUS, vocab_size=320)
PREFIXED = train_tokenizer("bpe", CORPUS, vocab_size=320, add_prefix_space=True)
PREFIXED_WORDPIECE = train_tokenizer("wordpiece", CORPUS, vocab_size=560, add_prefix_space=True)
PREFIXED_CHARACTERS = train_tokenizer("characters", CORPUS, add_prefix_space=True)
OURS = pytest.mark.parametrize(
    "tokenizer",
    [BPE, DIGITS, CHARACTERS, MASKING, WORDPIECE, UNIGRAM, WORDS, PREFIXED, PREFIXED_WORDPIECE, PREFIXED_CHARACTERS],
    ids=["bpe", "digits", "chars", "mask", "wordpiece", "unigram", "words", "prefixed", "prefixed-wp", "prefixed-ch"],
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.text(st.sampled_from(" \n\r\ta1'#⁀<s>é\u0301👩\u200d"))


@OURS
@pytest.mark.parametrize("text", NASTY)
def test_round_trip_keeps_nasty_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@OURS
@given(text=TEXTS)
@settings(max_examples=300)
def test_round_trip_keeps_every_text(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(0 <= id_ < tokenizer.vocab_size for id_ in ids)


@pytest.mark.slow
@OURS
@given(text=TEXTS)
@settings(max_examples=25_000)
def test_round_trip_keeps_every_text_searched_long(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@OURS
@given(texts=st.lists(TEXTS, max_size=5))
def test_batch_equals_one_by_one(tokenizer, texts):
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    ids = tokenizer.encode_batch(texts)
    assert tokenizer.decode_batch(ids) == [tokenizer.decode(row) for row in ids]


@OURS
@given(text=TEXTS)
def test_offsets_cover_the_text_in_order(tokenizer, text):
    offsets = tokenizer.offsets(text)
    assert tokenizer.encode_with_offsets(text) == (tokenizer.encode(text), offsets)
    assert len(offsets) == len(tokenizer.encode(text))
    assert {i for start, end in offsets for i in range(start, end)} == set(range(len(text)))
    assert offsets == sorted(offsets)


@OURS
def test_typed_special_tokens_stay_text_after_every_load(tokenizer):
    loaded = Tokenizer.from_json(Tokenizer.from_json(tokenizer.to_json()).to_json())
    for name in tokenizer.roles.values():
        ids = loaded.encode(f"a {name} b")
        assert not set(ids) & loaded.special_ids
        assert loaded.decode(ids) == f"a {name} b"


@OURS
def test_saved_tokenizer_is_the_same(tokenizer):
    loaded = Tokenizer.from_json(tokenizer.to_json())
    assert loaded.to_json() == tokenizer.to_json()
    assert (loaded.roles, loaded.vocab_size) == (tokenizer.roles, tokenizer.vocab_size)


def test_roles_of_our_tokenizers_are_recognized_by_name():
    assert (BPE.pad_id, BPE.start_id, BPE.end_id, BPE.mask_id, BPE.unknown_id) == (0, 1, 2, None, None)
    assert (MASKING.pad_id, MASKING.cls_id, MASKING.sep_id, MASKING.mask_id) == (0, 1, 2, 3)


def test_special_token_is_found_by_its_name():
    assert (BPE.special_id("</s>"), BPE.special_id("the"), BPE.special_id("<2de>")) == (2, None, None)
    tagged = train_bpe(CORPUS, vocab_size=320, special_tokens=("<pad>", tag_token("de")))
    assert Tokenizer.from_json(tagged.to_json()).special_id("<2de>") == 1


def test_decode_skips_special_tokens_by_default():
    ids = [BPE.start_id, *BPE.encode("fox"), BPE.end_id]
    assert BPE.decode(ids) == "fox"
    assert BPE.decode(ids, skip_special=False) == "<s>fox</s>"


def test_every_digit_is_a_token_when_split():
    assert [DIGITS.token_text(id_) for id_ in DIGITS.encode("17:30")] == ["1", "7", ":", "3", "0"]


def test_token_text_shows_parts_of_characters():
    assert [BPE.token_text(id_) for id_ in BPE.encode("漢\n")] == ["\\xe6", "\\xbc", "\\xa2", "\\n"]
    assert [CHARACTERS.token_text(id_) for id_ in CHARACTERS.encode("x漢")] == ["x", "\\xe6", "\\xbc", "\\xa2"]


@OURS
def test_token_text_is_printable_for_every_id(tokenizer):
    assert all(tokenizer.token_text(id_).isprintable() for id_ in range(tokenizer.vocab_size + 3))


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_lone_surrogate_is_refused(text):
    with pytest.raises(InputError, match=r"character \d of the text is a lone surrogate"):
        BPE.encode(text)
    with pytest.raises(InputError, match="surrogate"):
        BPE.encode_batch(["fine", text])


def test_negative_id_is_refused():
    with pytest.raises(InputError, match="-1 is not a token id"):
        BPE.decode([3, -1])


LONG_WORDS = pytest.mark.parametrize("word", ["aaaaaaaa", "abcdefgh", "漢漢漢"], ids=["one", "cycle", "han"])


@OURS
@LONG_WORDS
def test_word_without_an_end_is_no_trap(tokenizer, word):
    """Time that grew with the square of its length would be felt."""
    text = word * 15_000
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokenizer", "seconds"),
    [(BPE, 2), (CHARACTERS, 2), (UNIGRAM, 2), (WORDS, 2), (WORDPIECE, 6)],  # the last tries every length of a piece
    ids=["bpe", "chars", "unigram", "words", "wordpiece"],
)
@LONG_WORDS
def test_word_of_a_million_bytes_is_encoded_quickly(tokenizer, seconds, word):
    text = word * 120_000
    began = time.process_time()
    ids = tokenizer.encode(text)
    assert time.process_time() - began < seconds
    assert len(ids) > 1000


def test_common_words_are_tokens_and_rare_ones_are_split_into_bytes():
    assert [WORDS.token_text(id_) for id_ in WORDS.encode("the lazy bug")] == ["the", " lazy", " ", "b", "u", "g"]


def test_first_word_of_a_text_is_the_token_it_is_elsewhere_if_a_space_is_added():
    tokenizer = train_tokenizer("bpe", ["dogs see dogs"] * 2, vocab_size=300, add_prefix_space=True)
    [first, _, third] = tokenizer.encode("dogs see dogs")
    assert first == third
    assert tokenizer.token_text(first) == " dogs"
    plain = train_tokenizer("bpe", ["dogs see dogs"] * 2, vocab_size=300).encode("dogs see dogs")
    assert plain[0] != plain[-1]


def test_word_that_occurs_once_is_a_token_if_the_minimum_frequency_is_one():
    for min_frequency, n_tokens in ((1, 1), (2, 6)):
        tokenizer = train_tokenizer("bpe", ["zephyr"], vocab_size=300, min_frequency=min_frequency)
        assert len(tokenizer.encode("zephyr")) == n_tokens


def test_wordpiece_matches_the_longest_piece():
    pieces = [WORDPIECE.token_text(id_) for id_ in WORDPIECE.encode("the then")]
    assert pieces[0] == "the"
    assert "".join(pieces) == "the then"
