"""T27: every hostile corpus has its one documented outcome, and never a traceback."""

import gzip
import os
import random
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from instants import MAY_FORK, told_by_child
from sightline.data.corpora import files
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import OUTCOMES, Counts
from sightline.data.corpora.records import SOURCE_AND_TARGET, TEXT, TURNS
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.encoded_dataset import open_dataset
from sightline.data.datasets.encoding import PairEncoder
from sightline.data.tokenizers import train_bpe
from sightline.errors import InputError, SettingsError

NOISE = random.Random(1).randbytes(9_999)  # noqa: S311
JSON = '{"source": "a", "target": "b"}\n'


def read(path, fields=SOURCE_AND_TARGET, **options):
    """Return the fields of a corpus, and what was counted."""
    counts = Counts()
    corpus = Corpus(DataSettings(train=str(path), **options), fields)
    return [record.fields for record in corpus.records(counts)], counts.to_mapping()


def write(folder, name, data):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def outcome_of(*args, **options):
    """Return "kept" or the error message."""
    try:
        return "kept" if read(*args, **options)[1]["kept"] else "nothing"
    except InputError as error:
        return str(error)


KEPT = {
    "NUL and controls": (b"a\x00b\tc\x01\n", [("a\x00b", "c\x01")], {"controls": 1}),
    "CRLF": (b"a\tb\r\nc\td\r\n", [("a", "b"), ("c", "d")], {}),
    "CR": (b"a\tb\rc\td\r", [("a", "b"), ("c", "d")], {}),
    "mixed ends": (b"a\tb\nc\td\r\ne\tf\rg\th", [("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")], {}),
    "line separators of Unicode": (
        "a\u2028b\tc\u2029d\x85\x0b\x0ce\n".encode(), [("a\u2028b", "c\u2029d\x85\x0b\x0ce")], {"controls": 1},
    ),
    "byte order mark": (b"\xef\xbb\xbfa\tb\n", [("a", "b")], {"byte_order_marks": 1}),
    "blank lines": (b"\na\tb\n  \n", [("a", "b")], {"blank": 2}),
    "blank pair": (b" \t \na\tb\n", [("a", "b")], {"blank": 1}),
    "one side blank": (b"a\t\na\tb\n \tb\n", [("a", "b")], {"half_blank": 2}),
    "no final newline, outer blanks": (b"  a \t b  ", [("  a ", " b  ")], {}),
    "duplicates": (b"a\tb\na\tb\n", [("a", "b")] * 2, {"duplicates": 1}),
    "copies": (b"a\ta\n", [("a", "a")], {"copies": 1}),
    "special tokens": (b"<s> [MASK]\t</s>\n", [("<s> [MASK]", "</s>")], {}),
    "scripts": ("مرحبا 👩‍👩‍👧\té é \ue000 \U0010ffff\n".encode(), [("مرحبا 👩‍👩‍👧", "é é \ue000 \U0010ffff")], {}),
}  # fmt: skip


@pytest.mark.parametrize(("data", "fields", "counted"), KEPT.values(), ids=KEPT)
def test_unusual_text_is_kept_or_dropped_and_counted(tmp_path, data, fields, counted):
    found, counts = read(write(tmp_path, "a.tsv", data))
    assert found == fields
    assert counts == {"kept": len(fields), **counted}


REFUSED = {
    "empty": ("a.tsv", b"", r"a\.tsv: no usable record: it is empty"),
    "only blanks": ("a.tsv", b"\n \n\n", r"no usable record: every record was dropped \(3 blank, dropped\)"),
    "only a byte order mark": ("a.tsv", b"\xef\xbb\xbf", "no usable record"),
    "UTF-16": ("a.tsv", "a\tb\n".encode("utf-16"), r"a\.tsv: this is UTF-16 or UTF-32: save it as UTF-8"),
    "UTF-16 BE": ("a.tsv", b"\xfe\xff" + "a\tb\n".encode("utf-16-be"), "save it as UTF-8"),
    "not UTF-8": ("a.tsv", b"a\tb\nc\t\xe4\n", r"a\.tsv:2:3: byte 3 of this line is not UTF-8: fix it, or set"),
    "surrogate": ("a.tsv", b"a\t\xed\xa0\x80\n", r"a\.tsv:1:3: byte 3"),
    "overlong": ("a.tsv", b"a\t\xc0\xaf\n", r"a\.tsv:1:3: byte 3"),
    "too few columns": ("a.tsv", b"a\tb\nc\n", r"a\.tsv:2: this line has 1 column, 2 are needed \(source, target\)"),
    "too many columns": ("a.tsv", b"a\tb\tc\n", r"a\.tsv:1: this line has 3 columns, 2 are needed .* data\.columns"),
    "no gzip": ("a.tsv.gz", b"a\tb\n", r"this is not gzip, despite its name"),
    "half a gzip": ("a.tsv.gz", gzip.compress(NOISE)[:5_000], "this gzip file is truncated"),
    "damaged gzip": ("a.tsv.gz", gzip.compress(b"a\tb\n" * 99)[:-8] + b"\0" * 8, "this gzip file is damaged"),
    "columns of a CSV": ("a.csv", b"a,b\nc\n", r"a\.csv:2: this line has 1 column, 2 are needed"),
    "CSV that is not UTF-8": ("a.csv", b'a,b\n"c\n\xe4",d\n', r"a\.csv:3:1: byte 1 of this line is not UTF-8"),
    "text for pairs": (
        "a.txt",
        b"a\n",
        r"this task needs pairs: give a \.tsv, \.csv or \.jsonl file, or",
    ),
    "NaN": ("a.jsonl", JSON + '{"source": NaN, "target": "b"}', r"a\.jsonl:2: NaN is not a JSON number"),
    "no JSON": ("a.jsonl", "hello", r"a\.jsonl:1: this is not JSON"),
    "no object": (
        "a.jsonl",
        "[]",
        r"a\.jsonl:1: this JSON is not an object .*: one object per line is expected \(jq -c '\.\[\]'",
    ),
    "an array over several lines": ("a.json", f"[\n{JSON}]", r"a\.json:1: .*: one object per line is expected"),
    "wrong type": ("a.jsonl", '{"source": 1, "target": "b"}', r"a\.jsonl:1: 'source' must be text"),
    "missing key": ("a.jsonl", '{"sorce": "a", "target": "b"}', r"unknown key 'source' \(did you mean 'sorce'\?\)"),
    "duplicate key": ("a.jsonl", '{"source": "a", "source": "b"}', r"a\.jsonl:1: duplicate key 'source'"),
    "nested": ("a.jsonl", JSON + '{"source": ' + "[" * 100_000, r"a\.jsonl:2: this JSON is nested too deeply"),
    "surrogate in JSON": (
        "a.jsonl",
        r'{"source": "\ud800", "target": "b"}',
        r"a\.jsonl:1: U\+D800 is a lone surrogate",
    ),
    "huge JSON line": ("a.jsonl", JSON + '"' + "x" * (1 << 20), r"a\.jsonl:2: this line is longer than a megabyte"),
}


@pytest.mark.parametrize(("name", "data", "message"), REFUSED.values(), ids=REFUSED)
def test_unusable_file_is_refused_with_its_location(tmp_path, name, data, message):
    with pytest.raises((InputError, SettingsError), match=message) as caught:
        read(write(tmp_path, name, data))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "fields", "counted"),
    [
        ("replace", [("a", "�"), ("c", "d")], {"kept": 2, "utf8_replaced": 1}),
        ("skip", [("c", "d")], {"kept": 1, "utf8_skipped": 1}),
    ],
)
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.tsv", b"a\t\xff\nc\td\n"),
        ("a.jsonl", rb'{"source": "a", "target": "\udfff"}' + b'\n{"source": "c", "target": "d"}'),
    ],
)
def test_bad_utf8_is_replaced_or_skipped_on_request(tmp_path, name, data, policy, fields, counted):
    assert read(write(tmp_path, name, data), on_bad_utf8=policy) == (fields, counted)


def test_skipped_line_skips_its_counterpart(tmp_path):
    source, target = write(tmp_path, "a.en", b"a\n\xff\nc\n"), write(tmp_path, "a.de", b"A\nB\nC\n")
    assert read(source, train_target=str(target), on_bad_utf8="skip")[0] == [("a", "A"), ("c", "C")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\nc\n", "A\nB\n", r"has 3 lines and .* has 2: .*no line looks misaligned"),
        ("a\nb\n", "A\n\nB\nC\n", r"has 2 lines and .* has 4: .*line 2 is the first that looks misaligned"),
        ("a\nb\n", f"A\n{'long ' * 20}\nC\n", "line 2 is the first that looks misaligned"),
        ("a\n", "", "has 1 lines and .* has 0"),
    ],
)
def test_files_of_different_length_are_refused_with_both_counts(tmp_path, source, target, message):
    other = write(tmp_path, "a.de", target)
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, "a.en", source), train_target=str(other))


@pytest.mark.parametrize(
    ("option", "count"), [("drop_duplicates", "duplicates_dropped"), ("drop_identical", "copies_dropped")]
)
def test_duplicates_and_identical_pairs_are_dropped_on_request(tmp_path, option, count):
    path = write(tmp_path, "a.tsv", "a\tb\na\tb\nc\tc\n")
    found, counts = read(path, **{option: True})
    assert len(found) == 2
    assert counts[count] == 1


@MAY_FORK
def test_line_of_many_megabytes_is_skipped_in_little_memory(tmp_path):
    """Measured in a child: the memory of other threads of this process would be counted, too."""
    path = write(tmp_path, "a.tsv", b"a\tb\n" + b"x" * 30_000_000 + b"\tb\nc\td\n")

    def measured():
        tracemalloc.start()
        return *read(path), tracemalloc.get_traced_memory()[1]

    found, counts, peak = told_by_child(measured, tmp_path / "told.json")
    assert found == [["a", "b"], ["c", "d"]]
    assert counts["long_lines_skipped"] == 1
    assert peak < 10 << 20


def test_running_text_on_one_line_is_split_without_loss(tmp_path):
    text = "é" * 1_500_000
    found, counts = read(write(tmp_path, "a.txt", text), TEXT)
    assert "".join(fields[0] for fields in found).replace("\n", "") == text
    assert counts["long_lines_cut"] == 1
    found, _ = read(tmp_path / "a.txt", TEXT, document_separator="line")
    assert "".join(fields[0] for fields in found).replace("\n", "") == text


@pytest.mark.parametrize("size", [50_000, 500_000])
def test_work_grows_with_the_length_of_a_line_not_with_its_square(tmp_path, monkeypatch, size):
    """Whatever is cut off a line is never looked at again."""
    lengths, split = [], files.split_long_line
    monkeypatch.setattr(files, "BLOCK_BYTES", 1_000)
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1_000)
    monkeypatch.setattr(files, "split_long_line", lambda line, most: lengths.append(len(line)) or split(line, most))
    read(write(tmp_path, "a.tsv", b"x" * size + b"\ta\nb\tc\n"))
    assert size < sum(lengths) < 2.5 * size


@pytest.mark.slow
def test_time_grows_with_the_length_of_a_line_not_with_its_square(tmp_path):
    def seconds(size):
        path = write(tmp_path, "a.tsv", b"x" * size + b"\ta\nb\tc\n")
        began = time.process_time()
        read(path)
        return time.process_time() - began

    assert min(seconds(40_000_000) for _ in range(3)) < 4 * min(seconds(20_000_000) for _ in range(3)) + 0.02


def test_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MIN_EXPANSION_LIMIT", 1 << 20)
    path = write(tmp_path, "a.txt.gz", gzip.compress(b"\0" * (20 << 20)))
    with pytest.raises(InputError, match="expands to more than 200 times its size: if that is intended, decompress it"):
        read(path, TEXT)


def test_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "a.tsv")
    with pytest.raises(InputError, match="this is a pipe or device"):
        read(tmp_path / "a.tsv")


def test_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="no file in this folder: give files, or a pattern"):
        read(tmp_path, format="tsv")


@pytest.mark.parametrize("name", ["none.tsv", "a.tsv/none", "x" * 300, "a\0b"])
def test_missing_file_is_refused(tmp_path, name):
    write(tmp_path, "a.tsv", JSON)
    with pytest.raises(InputError, match=r"no such file|cannot read this file"):
        read(tmp_path / name, format="tsv")


def test_file_without_permission_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, "a.tsv", "a\tb\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InputError, match="cannot read this file: Permission denied"):
        read(path)


def test_file_deleted_while_read_is_read_to_its_end(tmp_path):
    path = write(tmp_path, "a.tsv", f"{'a' * 999}\tb\n" * 3_000)
    records = Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET).records()
    next(records)
    path.unlink()
    assert sum(1 for _ in records) == 2_999


def test_file_changed_while_read_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, "a.tsv", "a\tb\n")
    tokenizer = train_bpe(["ab"])
    encode = PairEncoder.encode

    def meanwhile(self, records):
        path.write_text("a\tb\nc\td\n")
        return encode(self, records)

    monkeypatch.setattr(PairEncoder, "encode", meanwhile)
    corpus = Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET)
    with pytest.raises(InputError, match="this file changed while it was being read: run again"):
        open_dataset(tmp_path / "datasets", corpus, PairEncoder(tokenizer))


@pytest.mark.parametrize(
    "name", ["with blank.tsv", "ümläut 漢字.tsv", "C:\\data\\a.tsv", "x" * 251 + ".tsv", "a'b\"c.tsv"]
)
def test_unusual_file_names_work(tmp_path, name):
    assert read(write(tmp_path, name, "a\tb\n"))[0] == [("a", "b")]


def test_name_that_is_not_text_can_be_printed(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.tsv")
    with pytest.raises(InputError, match="no such file") as caught:
        read(path)
    str(caught.value).encode("utf-8")


@given(data=st.binary(max_size=200) | st.text(st.sampled_from('ab\t\n\r\0{}":,[]é\u2028')).map(str.encode))
@example(data=b"\r" * 5)
@settings(max_examples=120)
def test_any_bytes_are_read_or_refused_with_a_message(tmp_path_factory, data):
    path = write(tmp_path_factory.getbasetemp(), "fuzz", data)
    for fields, format_ in ((SOURCE_AND_TARGET, "tsv"), (SOURCE_AND_TARGET, "jsonl"), (TURNS, "jsonl"), (TEXT, "text")):
        for policy in ("refuse", "replace", "skip"):
            outcome = outcome_of(path, fields, format=format_, on_bad_utf8=policy)
            assert "\n" not in outcome
            assert outcome.startswith((f"{path}:", "kept"))


@given(data=st.binary(max_size=100) | st.text("\r\na").map(str.encode), size=st.integers(1, 9))
@settings(max_examples=300)
def test_lines_do_not_depend_on_block_boundaries(data, size):
    whole = list(files.split_lines([data], max_bytes=1_000))
    assert list(files.split_lines([data[at : at + size] for at in range(0, len(data), size)], max_bytes=1_000)) == whole
    ends = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    assert [part.data for part in whole] == (ends if ends[-1] else ends[:-1])
    assert [part.number for part in whole] == list(range(1, len(whole) + 1))


@given(text=st.text("aé漢👩\n", max_size=60), max_bytes=st.integers(4, 9))
@settings(max_examples=200)
def test_long_lines_are_never_split_inside_a_character(text, max_bytes):
    parts = list(files.split_lines([text.encode()], max_bytes=max_bytes))
    assert all(len(part.data) <= max_bytes and part.data.decode() is not None for part in parts)
    joined = "".join(part.data.decode() + "\n" * part.ends for part in parts)
    assert joined.removesuffix("\n") == text.removesuffix("\n")


def test_every_outcome_is_reported():
    counts = Counts(dict.fromkeys(OUTCOMES, 1_000))
    assert len(counts.report()) == len(OUTCOMES)
    assert counts.report()[0] == "1,000 kept"
    with pytest.raises(KeyError):
        counts.add("unknown")
