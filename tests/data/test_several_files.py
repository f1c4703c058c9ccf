"""Folders, patterns and lists name the files of a corpus, in order and of one format."""

import gzip

import pytest

from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.records import SOURCE_AND_TARGET, TEXT
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.encoded_dataset import content_hash, name_cache_folder
from sightline.data.datasets.encoding import PairEncoder
from sightline.data.tokenizers import train_bpe
from sightline.errors import InputError, SettingsError
from sightline.runs.recipe import apply_overrides, read_recipe


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "b.tsv").write_text("c\td\n")
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"a\tb\n"))
    (tmp_path / ".hidden.tsv").write_text("x\ty\n")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "c.tsv").write_text("e\tf\n")
    return tmp_path


def read(fields=SOURCE_AND_TARGET, **options):
    return [record.fields for record in Corpus(DataSettings(**options), fields).records()]


def test_a_folder_is_all_its_files_in_order(folder):
    assert read(train=str(folder)) == [("a", "b"), ("c", "d")]


def test_a_pattern_is_what_it_matches_in_order(folder):
    assert read(train=str(folder / "*.tsv*")) == [("a", "b"), ("c", "d")]
    assert read(train="**/*.tsv", folder=str(folder)) == [("c", "d"), ("e", "f")]


def test_a_list_is_read_in_its_order(folder):
    assert read(train=("b.tsv", "deeper", "a.tsv.gz"), folder=str(folder)) == [("c", "d"), ("e", "f"), ("a", "b")]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "a[1].tsv").write_text("a\tb\n")
    assert read(train=str(tmp_path / "a[1].tsv")) == [("a", "b")]


def test_links_to_files_are_followed(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("links")
    (other / "l.tsv").symlink_to(folder / "b.tsv")
    assert read(train=str(other)) == [("c", "d")]


def test_parallel_lists_go_together(tmp_path):
    for name, text in {"1.en": "a\n", "2.en": "b\nc\n", "1.de": "A\n", "2.de": "B\nC\n"}.items():
        (tmp_path / name).write_text(text)
    expected = [("a", "A"), ("b", "B"), ("c", "C")]
    assert read(folder=str(tmp_path), train="*.en", train_target=("1.de", "2.de")) == expected
    with pytest.raises(SettingsError, match=r"data\.train_target: 2 files of sources and 1 of targets"):
        read(folder=str(tmp_path), train="*.en", train_target="1.de")


def test_every_file_of_a_folder_of_texts_ends_its_document(tmp_path):
    for name, text in {"a.txt": "one\n\ntwo\n", "b.txt": "three\n"}.items():
        (tmp_path / name).write_text(text)
    found = list(Corpus(DataSettings(train=str(tmp_path)), TEXT).records())
    assert [(record.fields, record.document, record.ends) for record in found] == [
        (("one",), 0, True),
        (("two",), 1, True),
        (("three",), 2, True),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("*.csv", "no file matches this pattern"),
        ("empty", "no file in this folder: give files, or a pattern such as"),
        ("a.tsv,b.tsv", "no such file: several files are a list"),
        (("b.tsv", "missing.tsv"), r"missing\.tsv: no such file"),
    ],
)
def test_names_without_files_are_refused(folder, names, message):
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match=message):
        read(train=names, folder=str(folder))


def test_several_formats_are_refused(folder):
    (folder / "README.md").write_text("hello\n")
    with pytest.raises(SettingsError, match=r"data\.train: its files are of several formats \(README\.md, a\.tsv"):
        read(train=str(folder))


def test_an_error_names_the_file_and_line(folder):
    (folder / "b.tsv").write_text("c\td\nx\n")
    with pytest.raises(InputError, match=r"/b\.tsv:2: this line has 1 column"):
        read(train=str(folder))


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("data.train=a.tsv", "a.tsv"),
        ("data.train=data/*.tsv", "data/*.tsv"),
        ("data.train=[ab]*.tsv", "[ab]*.tsv"),
        ('data.train=["a.tsv", "b.tsv"]', ("a.tsv", "b.tsv")),
    ],
)
def test_an_override_names_one_file_or_a_list(override, value):
    assert apply_overrides(read_recipe("translation"), [override]).data.train == value


def test_the_cache_knows_every_file(folder):
    encoder = PairEncoder(train_bpe(["a b c d"], vocab_size=300))
    corpus = Corpus(DataSettings(train=str(folder)), SOURCE_AND_TARGET)
    before = name_cache_folder(corpus, encoder), content_hash(*corpus.files)
    (folder / "b.tsv").write_text("c\te\n")
    assert name_cache_folder(corpus, encoder) != before[0]
    assert content_hash(*corpus.files) != before[1]


def test_messages_name_files_compactly(folder):
    settings = DataSettings(train=("b.tsv", str(folder), "*.tsv"), folder=str(folder))
    assert settings.describe_files("train") == ("b.tsv", f"{folder.name} (2 files)", "*.tsv")
    many = DataSettings(train=("b.tsv",) * 9, folder=str(folder))
    assert many.describe_files("train") == (*["b.tsv"] * 5, "… (9 in all)")


def test_the_name_of_the_data_folder_is_no_pattern(tmp_path):
    (tmp_path / "x[1]").mkdir()
    (tmp_path / "x[1]" / "a.tsv").write_text("a\tb\n")
    assert read(train="*.tsv", folder=str(tmp_path / "x[1]")) == [("a", "b")]
