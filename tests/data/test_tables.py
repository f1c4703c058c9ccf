"""Tables are read as they were written: the dialect is detected where it is beyond doubt, and plain text stays text."""

import csv
import gzip
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.data.corpora import tables
from sightline.data.corpora.corpus import Corpus
from sightline.data.corpora.files import Counts
from sightline.data.corpora.records import PAIR_AND_LABEL, SOURCE_AND_TARGET, TEXT, TEXT_AND_LABEL
from sightline.data.corpora.settings import DataSettings
from sightline.errors import InputError, SettingsError

CELL = st.text(st.sampled_from("abcXYZäж ,;|\t\"'\n.?"), min_size=1, max_size=12).filter(str.strip)


def read(path, fields=SOURCE_AND_TARGET, **options):
    return [record.fields for record in Corpus(DataSettings(train=str(path), **options), fields).records()]


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def write_csv(path, rows, **options):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, **options).writerows(rows)
    return write(path, buffer.getvalue())


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.sampled_from(",;\t|"), st.sampled_from([0, 1]))
@settings(max_examples=150, deadline=None)
def test_what_a_csv_writer_writes_is_read_back(tmp_path_factory, rows, delimiter, quoting):
    path = write_csv(tmp_path_factory.getbasetemp() / "a.csv", rows, delimiter=delimiter, quoting=quoting)
    assert read(path, delimiter=delimiter, header=False, quoting=True) == rows


SENTENCES = [("Hello, you.", "Hallo, du."), ("One; two", "Eins; zwei"), ('She said "no"', 'Sie sagte "nein"')] * 5


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_and_quoting_of_a_csv_are_detected(tmp_path, delimiter, quoting):
    path = write_csv(tmp_path / "a.csv", SENTENCES, delimiter=delimiter, quoting=quoting)
    assert read(path) == SENTENCES


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_quoted_tsv_is_detected(tmp_path, quoting):
    rows = [("two\nlines", "zwei\nZeilen"), ('a "b"', "c"), ("plain", "einfach")]
    assert read(write_csv(tmp_path / "a.tsv", rows, delimiter="\t", quoting=quoting)) == rows


@pytest.mark.parametrize(
    "text",
    [
        'He said "no".\tEr sagte "nein".\n',
        '"Hello."\tHallo.\nBye.\t"Tschüs."\n',
        '"Hello," he said.\tx\n',
        '5" pipe\tRohr\n',
        '"Hi" "you"\ty\n',
        '"\ta\n',
        '""\tb\n',
        '"one row"\t"eine Zeile"\n',
        '"a ""b"""\tc\nHe said "no".\td\n',
    ],
)
def test_quotes_in_a_plain_tsv_are_text(tmp_path, text):
    rows = [tuple(line.split("\t")) for line in text.splitlines()]
    assert read(write(tmp_path / "a.tsv", text)) == rows


def test_settings_overrule_what_is_detected(tmp_path):
    path = write(tmp_path / "a.csv", 'a,"b;c"\nd,"e;f"\n')
    assert read(path) == [("a", "b;c"), ("d", "e;f")]
    assert read(path, quoting=False) == [("a", '"b;c"'), ("d", '"e;f"')]
    assert read(path, delimiter="semicolon", quoting=False) == [('a,"b', 'c"'), ('d,"e', 'f"')]
    assert read(path, header=True) == [("d", "e;f")]
    assert read(write(tmp_path / "b.tsv", "a,b\n"), delimiter=",") == [("a", "b")]


def test_a_delimiter_of_several_characters_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="delimiter must be one of comma, semicolon, tab, pipe or one character"):
        DataSettings(train="a.csv", delimiter="colon")


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("source,target\na,b\n", SOURCE_AND_TARGET, [("a", "b")]),
        ("target,source\na,b\n", SOURCE_AND_TARGET, [("b", "a")]),
        ("id,Text,Label\n1,good,yes\n2,bad,no\n", TEXT_AND_LABEL, [("good", "yes"), ("bad", "no")]),
        ("English,German\nHello,Hallo\n", SOURCE_AND_TARGET, [("Hello", "Hallo")]),
        ("Hello,Hallo\nBye,Ciao\n", SOURCE_AND_TARGET, [("Hello", "Hallo"), ("Bye", "Ciao")]),
        ("review,stars\ngood,5\nbad,1\n", TEXT_AND_LABEL, [("good", "5"), ("bad", "1")]),
        ("good,5\nbad,1\n", TEXT_AND_LABEL, [("good", "5"), ("bad", "1")]),
        ("review,mood\n" + "x,happy\ny,sad\n" * 10, TEXT_AND_LABEL, [("x", "happy"), ("y", "sad")] * 10),
        ("\ufefftext\none\n", TEXT, [("one",)]),
    ],
)
def test_a_header_line_is_detected(tmp_path, text, fields, expected):
    assert read(write(tmp_path / "a.csv", text), fields) == expected


def test_columns_of_a_csv_are_chosen_by_name_or_number(tmp_path):
    path = write(tmp_path / "a.csv", "id;en;de\n1;Hi, you;Hallo\n2;Bye;Ciao\n")
    expected = [("Hallo", "Hi, you"), ("Ciao", "Bye")]
    assert read(path, columns=("de", "en")) == expected
    assert read(path, columns=("3", "2")) == expected
    with pytest.raises(InputError, match=r"a\.csv:2: this line has 3 columns, 2 are needed .*the header has 'id', "):
        read(path)


def test_a_record_knows_the_line_its_row_starts_in(tmp_path):
    path = write(tmp_path / "a.csv", '"a\nb",c\nd,e\n')
    found = list(Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET).records())
    assert [(record.location.line, record.raw) for record in found] == [(1, '"a\nb",c'), (3, "d,e")]


def test_an_open_quote_is_refused_before_it_swallows_the_file(tmp_path):
    rest = "x,y\n" * 400_000
    path = write(tmp_path / "a.csv", f'a,b\n"c,d\n{rest}')
    with pytest.raises(InputError, match=r"a\.csv:2: .* not closed: fix it .*or set data\.quoting to false"):
        read(path, quoting=True)


def test_a_gzipped_csv_is_read(tmp_path):
    assert read(write(tmp_path / "a.csv.gz", gzip.compress(b'a,"b, c"\n'))) == [("a", "b, c")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "en;de\na;b\n", ["a.csv: semicolon-separated, quoted, header line: en, de"]),
        ("a.tsv", 'a\t"b\nc"\n', ["a.tsv: tab-separated, quoted, no header line"]),
        ("a.tsv", "a\tb\n", []),
    ],
)
def test_the_dialect_is_said_unless_it_is_plain(tmp_path, name, text, said):
    corpus = Corpus(DataSettings(train=str(write(tmp_path / name, text))), SOURCE_AND_TARGET)
    assert corpus.describe_tables() == said


def test_blank_and_odd_rows_of_a_csv_have_their_outcome(tmp_path):
    path = write(tmp_path / "a.csv", 'a,b\r\n\r\n"",c\r\n"d\x00",e\r\n')
    counts = Counts()
    found = [record.fields for record in Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET).records(counts)]
    assert found == [("a", "b"), ("d\x00", "e")]
    assert counts.to_mapping() == {"kept": 2, "blank": 1, "half_blank": 1, "controls": 1}


def test_pairs_with_labels_may_be_a_csv(tmp_path):
    path = write(tmp_path / "a.csv", 'sentence1,sentence2,label\n"a, b",c,yes\nd,e,no\n')
    assert read(path, PAIR_AND_LABEL) == [("a, b", "c", "yes"), ("d", "e", "no")]


def numbered_rows(n):
    return [(f"Sentence number {at}.", f"Satz Nummer {at}.") for at in range(n)]


def test_a_quotation_over_several_rows_of_a_plain_tsv_is_text(tmp_path):
    rows = numbered_rows(60)
    rows[20] = ('"I will go now.', "„Ich gehe jetzt.")
    rows[23] = ('And then I come back."', "Und dann komme ich zurück.“")
    assert read(write(tmp_path / "a.tsv", "".join(f"{a}\t{b}\n" for a, b in rows))) == rows


@pytest.mark.parametrize("at", [0, 1, 30])
def test_a_quote_out_of_place_in_a_quoted_csv_is_refused_and_not_taken_for_text(tmp_path, at):
    lines = [f'"{a}","{b}"' for a, b in numbered_rows(60)]
    lines[at] = r'"He said \"hello\" to me.","Er sagte hallo."'
    path = write(tmp_path / "a.csv", "\n".join(['"source","target"', *lines]))
    with pytest.raises(InputError, match=rf"a\.csv:{at + 2}: a quoted cell is followed by 'hello.*quoting to false"):
        read(path)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"a","b"\n"c","d"\n"e","f"\n', '"x \\"y\\" z","g"\n'),
        ("".join(f'{n},"b"\n' for n in range(20)), '21,"x \\"y\\" z"\n'),
        ('"source","target"\n', '"x \\"y\\" z","g"\n' * 9),
    ],
)
def test_a_small_or_numbered_csv_of_quoted_cells_stays_quoted(tmp_path, good, bad):
    with pytest.raises(InputError, match="a quoted cell is followed by 'y"):
        read(write(tmp_path / "a.csv", good + bad))


def test_quotes_of_a_csv_that_are_mostly_text_stay_text(tmp_path):
    rows = [('"Hello" she said', '"Hallo" sagte sie'), ("Bye", "Tschüs"), ("One", "Eins")] * 5
    assert read(write(tmp_path / "a.csv", "".join(f"{a},{b}\n" for a, b in rows))) == rows


SOUND = [("Hello, you.", "Hallo, du."), ("Bye", "Tschüs"), ("One, two", "Eins, zwei")]
OUT_OF_PLACE = [('"Hi" he said', "Er sagte hallo"), ("a", '"Hi" he said'), ('"Hi he said', "Er sagte"), ('"', "x")]


@pytest.mark.parametrize("rows", [SOUND, []])
@pytest.mark.parametrize("first", [('He said "hi"', "Er sagte hallo"), ('5" screen', "5-Zoll"), *OUT_OF_PLACE])
@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_quote_out_of_place_in_the_first_line_does_not_hide_the_delimiter(tmp_path, delimiter, first, rows):
    path = write(tmp_path / "a.csv", "".join(f"{a}{delimiter}{b}\n" for a, b in [first, *rows]))
    assert read(path) == [first, *rows]


def test_the_line_that_makes_quotes_text_is_said(tmp_path):
    path = write(tmp_path / "a.csv", 'Bye;Tschüs\n\n"Hi" he said;Er sagte hallo\nOne;Eins\n')
    corpus = Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET)
    assert corpus.describe_tables() == [
        "a.csv: semicolon-separated, not quoted (line 3 has a quote out of place), no header line"
    ]
    told = Corpus(DataSettings(train=str(path), quoting=False), SOURCE_AND_TARGET)
    assert told.describe_tables() == ["a.csv: semicolon-separated, not quoted, no header line"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_quote_out_of_place_in_the_first_line_is_refused_where_other_cells_need_theirs(tmp_path, delimiter):
    rows = ['"Hi" he said{0}hallo', '"Yes{0} you"{0}"Ja{0} du"', '"two\nlines"{0}"zwei\nZeilen"', "Bye{0}Ciao"]
    path = write(tmp_path / "a.csv", "".join(f"{row}\n" for row in rows).format(delimiter))
    with pytest.raises(
        InputError, match=r"a\.csv:1: a quoted cell is followed by ' he said.*set data\.quoting to false"
    ):
        read(path)
    path.write_text(path.read_text().replace('"Hi" he said', "Hi"))
    yes = (f"Yes{delimiter} you", f"Ja{delimiter} du")
    assert read(path) == [("Hi", "hallo"), yes, ("two\nlines", "zwei\nZeilen"), ("Bye", "Ciao")]


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_csv_whose_quotes_are_all_out_of_place_is_refused_for_them_and_not_for_its_columns(tmp_path, delimiter):
    path = write(tmp_path / "a.csv", f'"x \\"y\\" z"{delimiter}"g"\n' * 9)
    with pytest.raises(InputError, match="a quoted cell is followed by 'y"):
        read(path)


@pytest.mark.parametrize("line", ['a";"b', '"', '"a', '"a"b;"', '""";"'])
def test_twice_the_lines_with_quotes_out_of_place_are_read_in_twice_the_steps(tmp_path, monkeypatch, line):
    """A row that goes on over all lines must not be looked for from each of them."""
    n_read = 0
    original = tables.read_quoted_row

    def read_counted(number, text, following, *rest):
        def count():
            nonlocal n_read
            for one in following:
                n_read += 1
                yield one

        return original(number, text, count(), *rest)

    monkeypatch.setattr(tables, "read_quoted_row", read_counted)
    found = []
    for n_lines in (200, 400):
        n_read = 0
        path = write(tmp_path / f"{n_lines}.csv", f"{line}\n" * n_lines + '"x" y;z\n')
        tables.detect_dialect(path, tables.TableSettings(("source", "target")), csv=True)
        found.append(n_read)
    assert found[1] <= 2.1 * found[0]


@pytest.mark.parametrize("options", [{}, {"columns": ("source", "target")}, {"header": True}])
def test_blank_lines_before_the_header_are_no_header(tmp_path, options):
    path = write(tmp_path / "a.csv", "\n  \nsource,target\na,b\n")
    corpus = Corpus(DataSettings(train=str(path), **options), SOURCE_AND_TARGET)
    counts = Counts()
    assert [record.fields for record in corpus.records(counts)] == [("a", "b")]
    assert counts.to_mapping() == {"kept": 1, "blank": 2}
    assert corpus.describe_tables() == ["a.csv: comma-separated, quoted, header line: source, target"]
    assert corpus.read_header() == "source,target"


def test_an_unknown_column_is_refused_at_the_line_of_the_header(tmp_path):
    path = write(tmp_path / "a.csv", "\nen,de\na,b\n")
    with pytest.raises(InputError, match=r"a\.csv:2: unknown column 'fr'"):
        read(path, columns=("en", "fr"))


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=; ", "\ufeffsep=;"])
@pytest.mark.parametrize("header", ["source;target\n", ""])
def test_the_separator_line_of_excel_is_no_row_and_names_the_delimiter(tmp_path, first, header):
    path = write(tmp_path / "a.csv", f"{first}\r\n{header}a, b;c, d\ne, f;g, h\n")
    assert read(path) == [("a, b", "c, d"), ("e, f", "g, h")]


def test_any_delimiter_may_be_named_by_the_separator_line(tmp_path):
    path = write(tmp_path / "a.csv", "sep=^\nsource^target\na,b^c,d\n")
    assert read(path) == [("a,b", "c,d")]
    assert read(write(tmp_path / "b.csv", "sep=\t\na,b\tc,d\n")) == [("a,b", "c,d")]
    assert Corpus(DataSettings(train=str(path)), SOURCE_AND_TARGET).read_header() == "sep=^\nsource^target"
