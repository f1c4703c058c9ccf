"""An encoded dataset equals the encoded corpus: reused, never incomplete, never large in memory."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instants import MAY_FORK, NthCall, Watch, left_by_kills, told_by_child
from sightline import storage
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.records import SOURCE_AND_TARGET, TEXT
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets import encoded_dataset, examples
from sightline.data.datasets.encoded_dataset import EncodedDataset, open_dataset
from sightline.data.datasets.encoding import PairEncoder, TextEncoder
from sightline.data.datasets.examples import Split
from sightline.data.datasets.splits import split_key
from sightline.data.tokenizers import train_bpe
from sightline.errors import InputError, SightlineError

TOKENIZER = train_bpe(["some words to learn pieces from, some words"] * 3, vocab_size=300)
OTHER = train_bpe(["other words"] * 3, vocab_size=262)
MAX_CALLS = 120
"""An upper bound on the calls of one writing: the tests end when it was not overtaken."""
SIDE = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), max_size=20).map(
    lambda text: f"a{text}"
)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"source {i}\ttarget number {i}\n" for i in range(50)))
    return Corpus(DataSettings(train=str(tmp_path / "a.tsv")), SOURCE_AND_TARGET)


@pytest.fixture
def built(monkeypatch):
    """Every folder that was written."""
    folders = []
    write = encoded_dataset.write_dataset

    def noted(folder, corpus, encoder):
        folders.append(folder)
        write(folder, corpus, encoder)

    monkeypatch.setattr(encoded_dataset, "write_dataset", noted)
    return folders


@given(st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=6))
@settings(max_examples=50)
def test_dataset_equals_direct_encoding(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("dataset")
    (folder / "a.tsv").write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    corpus = Corpus(DataSettings(train=str(folder / "a.tsv")), SOURCE_AND_TARGET)
    found = open_dataset(folder, corpus, PairEncoder(TOKENIZER, OTHER))
    assert len(found) == len(pairs)
    assert [found.sequence(i, 0).tolist() for i in range(len(found))] == [TOKENIZER.encode(pair[0]) for pair in pairs]
    assert [row.tolist() for row in found.sequences(np.arange(len(found)), 1)] == [
        OTHER.encode(pair[1]) for pair in pairs
    ]
    assert found.lengths.tolist() == [[len(TOKENIZER.encode(a)), len(OTHER.encode(b))] for a, b in pairs]
    assert found.keys.tolist() == [split_key(source) for source, _ in pairs]


def test_chunks_make_no_difference(tmp_path, corpus, monkeypatch):
    whole = open_dataset(tmp_path / "whole", corpus, PairEncoder(TOKENIZER))
    monkeypatch.setattr(encoded_dataset, "MAX_CHUNK_RECORDS", 7)
    chunked = open_dataset(tmp_path / "chunked", corpus, PairEncoder(TOKENIZER))
    assert np.array_equal(whole.ids, chunked.ids)
    assert np.array_equal(whole.bounds, chunked.bounds)


def test_second_run_reuses_the_dataset_of_the_first(tmp_path, corpus, built):
    first = open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    second = open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    assert len(built) == 1
    assert np.array_equal(first.ids, second.ids)
    assert second.counts.to_mapping() == {"kept": 50}


def test_dataset_is_found_by_content_not_by_name(tmp_path, corpus, built):
    open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    moved = corpus.files[0].rename(tmp_path / "moved.tsv")
    open_dataset(
        tmp_path / "datasets", Corpus(DataSettings(train=str(moved)), SOURCE_AND_TARGET), PairEncoder(TOKENIZER)
    )
    assert len(built) == 1


def test_other_contents_tokenizer_or_settings_make_another_dataset(tmp_path, corpus, built):
    root, path = tmp_path / "datasets", corpus.files[0]
    open_dataset(root, corpus, PairEncoder(TOKENIZER))
    open_dataset(root, corpus, PairEncoder(OTHER))
    open_dataset(root, Corpus(DataSettings(train=str(path), max_length=99), SOURCE_AND_TARGET), PairEncoder(TOKENIZER))
    path.write_text(path.read_text().replace("source 1\t", "source 2\t"))
    open_dataset(root, corpus, PairEncoder(TOKENIZER))
    assert len(set(built)) == 4


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def age(path):
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 0}))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, damage) for name in ("ids", "bounds", "keys", "labels") for damage in (cut_short, flip)),
        ("index.json", cut_short),
        ("index.json", age),
        ("index.json", lambda path: path.write_text("{}")),
        ("index.json", lambda path: path.unlink()),
        ("ids", lambda path: path.unlink()),
    ],
)
def test_damaged_dataset_is_built_again(tmp_path, corpus, built, name, damage):
    first = np.array(open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER)).ids)
    damage(built[0] / name)
    again = open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    assert len(built) == 2
    assert np.array_equal(first, again.ids)


@pytest.mark.parametrize(("policy", "kept", "count"), [("drop", 1, "long_skipped"), ("truncate", 2, "long_cut")])
def test_long_examples_are_dropped_or_truncated_and_counted(tmp_path, policy, kept, count):
    (tmp_path / "a.tsv").write_text("a b c d e f g h\tb\na\tb\n")
    settings_ = DataSettings(train=str(tmp_path / "a.tsv"), max_length=3, too_long=policy)
    found = open_dataset(tmp_path, Corpus(settings_, SOURCE_AND_TARGET), PairEncoder(TOKENIZER))
    assert len(found) == kept
    assert found.lengths.max() <= 3
    assert found.counts[count] == 1


def test_corpus_of_too_long_sentences_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("a b c d e f g h\tb\n")
    corpus = Corpus(DataSettings(train=str(tmp_path / "a.tsv"), max_length=1), SOURCE_AND_TARGET)
    with pytest.raises(InputError, match=r"every example is longer than max_length = 1: raise data\.max_length"):
        open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    assert list((tmp_path / "datasets").iterdir()) == []


def test_interrupted_build_leaves_nothing(tmp_path, corpus, monkeypatch):
    def interrupt(self, facts):
        raise KeyboardInterrupt

    monkeypatch.setattr(encoded_dataset.ArrayWriter, "finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    assert list((tmp_path / "datasets").iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_processes_that_encode_the_same_corpus_at_once_do_not_disturb_each_other(tmp_path, corpus, exists):
    """Another one encodes it from beginning to end between two calls of the first, wherever that is."""
    expected = np.array(open_dataset(tmp_path / "alone", corpus, PairEncoder(TOKENIZER)).ids)
    for n in range(1, MAX_CALLS):
        folder = tmp_path / str(n) / "dataset"
        if exists:
            (folder / "damaged").mkdir(parents=True)

        def encode(folder=folder):
            encoded_dataset.write_dataset(folder, corpus, PairEncoder(TOKENIZER))
            assert np.array_equal(encoded_dataset.read_dataset(folder).ids, expected)

        with pytest.MonkeyPatch.context() as patch:
            overtaken = NthCall(n, encode)
            Watch(patch, overtaken)
            encode()
        assert [path.name for path in folder.parent.iterdir()] == ["dataset"]
        assert not (folder / "damaged").exists()
        if not overtaken.was_reached:
            break
    assert 20 < n < MAX_CALLS - 1


def test_kill_at_every_call_leaves_no_dataset_or_a_whole_one(tmp_path, corpus):
    place, encoder = tmp_path / "place", PairEncoder(TOKENIZER)
    everything_left = left_by_kills(
        lambda: encoded_dataset.write_dataset(place / "dataset", corpus, encoder), place, tmp_path
    )
    assert len(everything_left) > 20
    found = [(left / "dataset").exists() for left in everything_left]
    assert found == sorted(found)
    whole = [encoded_dataset.read_dataset(left / "dataset") is not None for left in everything_left]
    assert whole == found


def test_leftovers_of_a_killed_process_are_removed_after_a_while(tmp_path, corpus, monkeypatch):
    folder = tmp_path / "datasets" / encoded_dataset.name_cache_folder(corpus, PairEncoder(TOKENIZER))
    leftover = folder.with_name(f"{folder.name}.tmp-left")
    leftover.mkdir(parents=True)
    open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))
    assert leftover.exists()
    monkeypatch.setattr(storage, "ABANDONED_AFTER", -1)
    storage.remove_abandoned(folder)
    assert not leftover.exists()


def test_folder_that_cannot_be_written_is_refused(tmp_path, corpus):
    (tmp_path / "datasets").write_text("a file, not a folder")
    with pytest.raises(SightlineError, match="the encoded corpus cannot be written there: "):
        open_dataset(tmp_path / "datasets", corpus, PairEncoder(TOKENIZER))


def test_document_ends_with_its_token(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    corpus = Corpus(DataSettings(train=str(tmp_path / "a.txt")), TEXT)
    found = open_dataset(tmp_path, corpus, TextEncoder(TOKENIZER, append_end=True))
    end = TOKENIZER.end_id
    assert np.asarray(found.ids).tolist() == [*TOKENIZER.encode("one\ntwo"), end, *TOKENIZER.encode("three"), end]
    assert found.labels.tolist() == [0, 1]


@MAY_FORK
def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """The library's own memory is bounded by the size of a chunk, as Python's is.

    Measured in a child: the memory of other threads of this process would be counted, too.
    """
    monkeypatch.setattr(encoded_dataset, "MAX_CHUNK_RECORDS", 64)
    monkeypatch.setattr("sightline.data.corpora.corpus.MAX_FINGERPRINTS", 100)
    monkeypatch.setattr("sightline.data.corpora.files.BLOCK_BYTES", 1 << 14)

    def peak(n_lines):
        path = tmp_path / f"{n_lines}.tsv"
        path.write_text("".join(f"a source with number {i}\tand its target {i}\n" for i in range(n_lines)))
        corpus = Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET)
        tracemalloc.start()
        encoded_dataset.write_dataset(tmp_path / str(n_lines), corpus, PairEncoder(TOKENIZER))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    _, few, many = told_by_child(lambda: [peak(100), peak(300), peak(3_000)], tmp_path / "told.json")
    assert many < 2 * few


def test_counts_are_saved_with_the_dataset(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n\na\tb\n")
    corpus = Corpus(DataSettings(train=str(tmp_path / "a.tsv")), SOURCE_AND_TARGET)
    direct = Counts()
    list(corpus.records(direct))
    for _ in range(2):
        assert open_dataset(tmp_path, corpus, PairEncoder(TOKENIZER)).counts.to_mapping() == direct.to_mapping()


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize(("columns", "expected"), [(1, [1, 2, 7]), (2, [1, 2, 5, 6, 7, 9])])
def test_ids_of_a_split_are_those_of_its_examples_in_the_first_columns(monkeypatch, chunk, columns, expected):
    monkeypatch.setattr(examples, "TOKENS_PER_CHUNK", chunk)
    rows = [[1, 2], [9, 5], [3, 3, 4], [8], [], [6], [7], []]
    bounds = np.cumsum([0, *map(len, rows)])
    ids = np.array([id_ for row in rows for id_ in row], dtype="<u2")
    dataset = EncodedDataset(ids, bounds, np.arange(4, dtype=np.uint64), np.zeros(4, np.int64), 2, Counts())
    assert Split(dataset, np.array([True, False, True, True])).find_ids(columns=columns) == expected
