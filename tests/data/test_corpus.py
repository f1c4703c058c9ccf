"""The same corpus in every format is the same corpus."""

import dataclasses
import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.config import from_mapping, to_mapping
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.formats import MAX_CHUNK
from sightline.data.corpora.records import (
    PAIR_AND_LABEL,
    SOURCE_AND_TARGET,
    TEXT,
    TEXT_AND_LABEL,
    TOKENS_AND_LABELS,
    TURNS,
)
from sightline.data.corpora.settings import DataSettings
from sightline.errors import InputError, SettingsError

SIDE = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=10)
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=8)
DATA = Path(os.environ.get("SIGHTLINE_DATA", Path(__file__).parents[3] / "shared" / "data"))


def records(fields, *, unit="chunk", part="train", **options):
    corpus = Corpus(DataSettings(**{name: str(v) if isinstance(v, Path) else v for name, v in options.items()}), fields)
    counts = Counts()
    return list(Corpus(corpus.settings, fields, part, unit).records(counts)), counts.to_mapping()


def fields_of(*args, **options):
    return [record.fields for record in records(*args, **options)[0]]


def outcome(*args, **options):
    """Return what a corpus holds and counts, or that it is refused."""
    try:
        found, counts = records(*args, **options)
    except InputError:
        return "refused"
    return [record.fields for record in found], counts


@given(PAIRS)
@settings(max_examples=100)
def test_parallel_files_equal_tsv_equal_jsonl_equal_gzip(tmp_path_factory, pairs):
    folder = tmp_path_factory.getbasetemp()
    (folder / "a.en").write_bytes("".join(f"{source}\n" for source, _ in pairs).encode())
    (folder / "a.de").write_bytes("".join(f"{target}\n" for _, target in pairs).encode())
    tsv = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    (folder / "a.tsv").write_bytes(tsv)
    (folder / "a.tsv.gz").write_bytes(gzip.compress(tsv))
    (folder / "a.jsonl").write_text(
        "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in pairs)
    )
    parallel = outcome(SOURCE_AND_TARGET, train=folder / "a.en", train_target=folder / "a.de")
    tsv_outcome = outcome(SOURCE_AND_TARGET, train=folder / "a.tsv")
    assert outcome(SOURCE_AND_TARGET, train=folder / "a.tsv.gz") == tsv_outcome
    found = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    for result in (parallel, tsv_outcome, outcome(SOURCE_AND_TARGET, train=folder / "a.jsonl")):
        assert (result == "refused") if not found else (result[0] == found)


def test_record_knows_its_file_and_line(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n\nc\td\n")
    found, _ = records(SOURCE_AND_TARGET, train=tmp_path / "a.tsv")
    assert [str(record.location) for record in found] == [f"{tmp_path / 'a.tsv'}:1", f"{tmp_path / 'a.tsv'}:3"]


@pytest.mark.parametrize(
    ("columns", "header", "expected"),
    [
        (("text", "label"), None, [("good", "1"), ("bad", "0")]),
        (("label", "id"), None, [("1", "7"), ("0", "8")]),
        (("3", "2"), True, [("good", "1"), ("bad", "0")]),
        (("3", "2"), None, [("text", "label"), ("good", "1"), ("bad", "0")]),
    ],
)
def test_columns_are_found_by_name_or_number(tmp_path, columns, header, expected):
    (tmp_path / "a.tsv").write_text("id\tlabel\ttext\n7\t1\tgood\n8\t0\tbad\n")
    assert fields_of(TEXT_AND_LABEL, train=tmp_path / "a.tsv", columns=columns, header=header) == expected


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ("texts", "label"),
            r"a\.tsv:1: unknown column 'texts' \(did you mean 'text'\?\): the header has 'id', ",
        ),
        (("3", "4"), r"a\.tsv:1: this line has only 3 columns, column 4 is needed"),
        (("0", "1"), "columns are counted from 1"),
        (("text", "label", "id"), r"data\.columns: 2 are needed \(text, label\), not 3"),
    ],
)
def test_missing_columns_are_refused(tmp_path, columns, message):
    (tmp_path / "a.tsv").write_text("id\tlabel\ttext\n7\t1\tgood\n")
    with pytest.raises((InputError, SettingsError), match=message):
        fields_of(TEXT_AND_LABEL, train=tmp_path / "a.tsv", columns=columns)


def test_pair_with_label_and_number_as_label(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": "x", "b": "y", "same": 1}\n')
    assert fields_of(PAIR_AND_LABEL, train=tmp_path / "a.jsonl", columns=("a", "b", "same")) == [("x", "y", "1")]


def test_tagged_words_are_lists(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a", "b"], "labels": ["X", "Y"]}\n')
    assert fields_of(TOKENS_AND_LABELS, train=tmp_path / "a.jsonl") == [(("a", "b"), ("X", "Y"))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"turns": ["hi", "hello", "bye"]}\n'),
        ("b.jsonl", '{"turns": [{"role": "user", "content": "hi"}, {"content": "hello"}, {"content": "bye"}]}\n'),
    ],
)
def test_dialogue_becomes_replies_with_their_context(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found, _ = records(TURNS, train=tmp_path / name)
    assert [record.fields for record in found] == [("hi", "hello"), ("hi\nhello", "bye")]
    assert len({record.key for record in found}) == 1
    assert fields_of(TURNS, train=tmp_path / name, context_turns=1) == [("hi", "hello"), ("hello", "bye")]


def test_dialogues_of_two_turns_may_be_a_tsv(tmp_path):
    (tmp_path / "a.tsv").write_text("hi\thello\n")
    assert fields_of(TURNS, train=tmp_path / "a.tsv") == [("hi", "hello")]
    assert fields_of(TURNS, train=tmp_path / "a.tsv", columns=("2", "1")) == [("hello", "hi")]


def test_casual_user_turns_add_lower_case_sources_without_punctuation(tmp_path):
    """Once as written and once casual; only once where both are the same."""
    (tmp_path / "talk.tsv").write_text("Hi, how's Ann?\tWell.\nbye now\tBye!\n?!\tWhat?\n", encoding="utf-8")
    corpus = Corpus(DataSettings(train=str(tmp_path / "talk.tsv"), casual_user_turns=True), TURNS)
    assert [record.fields for record in corpus.records()] == [
        ("Hi, how's Ann?", "Well."),
        ("hi how's ann", "Well."),
        ("bye now", "Bye!"),
        ("?!", "What?"),
    ]


def test_only_user_turns_of_the_training_set_become_casual(tmp_path):
    """The turns of the model and the validation set stay as they are."""
    (tmp_path / "talk.jsonl").write_text('{"turns": ["Hi!", "Oh, hello.", "...", "Yes?", "I\'m Ann.", "Nice."]}\n')
    settings = DataSettings(
        train=str(tmp_path / "talk.jsonl"), valid=str(tmp_path / "talk.jsonl"), casual_user_turns=True, context_turns=3
    )
    sources = [record.fields[0] for record in Corpus(settings, TURNS).records()]
    as_written = ["Hi!", "Hi!\nOh, hello.", "Hi!\nOh, hello.\n...", "Oh, hello.\n...\nYes?", "...\nYes?\nI'm Ann."]
    casual = ["hi", "Hi!\noh hello", "hi\nOh, hello.\n...", "oh hello\n...\nyes", "...\nYes?\ni'm ann"]
    assert sources == [one for both in zip(as_written, casual, strict=True) for one in both]
    assert [record.fields[0] for record in Corpus(settings, TURNS, part="valid").records()] == as_written


def test_dialogue_of_a_single_turn_is_dropped_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"turns": ["hi"]}\n{"turns": []}\n{"turns": ["hi", "hello"]}\n')
    assert records(TURNS, train=tmp_path / "a.jsonl")[1] == {"kept": 1, "single_turns": 2}


def test_whole_file_is_one_document_with_its_blank_lines(tmp_path):
    """Nothing is lost, wherever it is split into chunks."""
    text = "\n\n".join(f"SPEAKER {n}:\n\tline {n}\n" for n in range(400))
    (tmp_path / "a.txt").write_text(text)
    found, _ = records(TEXT, train=tmp_path / "a.txt", document_separator="file")
    assert len(found) > 10
    assert "".join(record.fields[0] for record in found) == text.removesuffix("\n")
    assert [record.ends for record in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize(
    "text",
    ["a" * 130 + "\n" * 201 + "bbb\n", *("word word word\n" * n + "\n" * 3 for n in (9, 18, 27)), "\n" * 300 + "end\n"],
)
def test_blank_lines_are_not_lost_between_chunks(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    found, _ = records(TEXT, train=tmp_path / "a.txt", document_separator="file")
    assert "".join(record.fields[0] for record in found) == text.removesuffix("\n")
    assert [record.ends for record in found] == [False] * (len(found) - 1) + [True]


def test_documents_end_at_blank_lines(tmp_path):
    (tmp_path / "a.txt").write_text("\none\ntwo\n\n \nthree\n")
    found, _ = records(TEXT, train=tmp_path / "a.txt")
    assert [(record.fields[0], record.document, record.ends) for record in found] == [
        ("one\ntwo", 0, True),
        ("three", 1, True),
    ]
    found, _ = records(TEXT, unit="line", train=tmp_path / "a.txt")
    assert [(record.fields[0], record.document, record.ends) for record in found] == [
        ("one", 0, False),
        ("two", 0, True),
        ("three", 1, True),
    ]


def test_documents_may_be_lines(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    found, _ = records(TEXT, train=tmp_path / "a.txt", document_separator="line")
    assert [(record.fields[0], record.document) for record in found] == [("one", 0), ("two", 1), ("three", 2)]


def test_chunks_of_a_long_document_add_up_to_it(tmp_path):
    text = "\n".join(f"line {number} of a long document" for number in range(10_000))
    (tmp_path / "a.txt").write_text(text)
    found, _ = records(TEXT, train=tmp_path / "a.txt")
    assert "".join(record.fields[0] for record in found) == text
    assert [record.ends for record in found] == [False] * (len(found) - 1) + [True]
    assert all(len(record.fields[0]) < MAX_CHUNK + 100 for record in found)


def test_texts_are_the_fields_a_tokenizer_is_trained_on(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    corpus = Corpus(DataSettings(train=str(tmp_path / "a.tsv")), SOURCE_AND_TARGET)
    assert list(corpus.texts()) == ["a", "b", "c", "d"]
    assert list(corpus.texts([1])) == ["b", "d"]


def test_validation_set_has_its_own_files(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    (tmp_path / "v.tsv").write_text("c\td\n")
    assert fields_of(SOURCE_AND_TARGET, part="valid", train=tmp_path / "a.tsv", valid=tmp_path / "v.tsv") == [
        ("c", "d")
    ]
    with pytest.raises(SettingsError, match=r"data\.valid: it names no file"):
        fields_of(SOURCE_AND_TARGET, part="valid", train=tmp_path / "a.tsv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": ""}, "train names no file"),
        ({"train": "a", "columns": ["x", "x"]}, "columns names one column twice"),
        ({"train": "a", "format": "parallel"}, "format parallel needs train_target"),
        ({"train": "a", "format": "tsv", "train_target": "b"}, "train_target is for parallel files, not for tsv"),
        ({"train": "a", "valid": "b", "valid_target": "c"}, "train_target and valid_target must be given together"),
        ({"train": "a", "valid_target": "c"}, "valid_target needs valid"),
        ({"train": "a", "max_length": 0}, "max_length must be between"),
        ({"train": "a", "on_bad_utf8": "ignore"}, "on_bad_utf8: 'ignore' is not one of refuse, replace, skip"),
    ],
)
def test_impossible_data_settings_are_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        from_mapping(DataSettings, options)


def test_every_data_setting_is_explained():
    assert all(field.metadata["help"] for field in dataclasses.fields(DataSettings))


def test_data_settings_survive_a_mapping():
    expected = DataSettings(train="a.tsv", columns=("1", "2"))
    assert from_mapping(DataSettings, to_mapping(expected)) == expected


def test_parallel_files_hold_pairs_only():
    with pytest.raises(SettingsError, match="parallel files hold sources and targets, not text and label"):
        Corpus(DataSettings(train="a", train_target="b"), TEXT_AND_LABEL)
    with pytest.raises(SettingsError, match="are lists: give them as JSONL"):
        Corpus(DataSettings(train="a.tsv"), TOKENS_AND_LABELS)


@pytest.mark.skipif(not DATA.is_dir(), reason="no corpora there: set SIGHTLINE_DATA to the folder that holds mrpc/")
def test_real_corpora_are_read_as_they_are():
    train = DATA / "mrpc" / "dev.tsv"
    found, counts = records(PAIR_AND_LABEL, train=train, columns=("#1 String", "#2 String", "Quality"))
    assert counts["byte_order_marks"] == 1
    assert {record.fields[2] for record in found} == {"0", "1"}
