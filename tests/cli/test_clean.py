"""`sightline clean` counts on stdout, writes what is kept as it stood, and drops nothing in silence."""

import gzip
import json

import pytest

from sightline.cli.main import main

PAIRS = "A dog runs.\tEin Hund läuft.\n<b>No</b>\tNein\nA dog runs.\tEin Hund läuft.\nYes\tfÃ¼r\n"


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


def test_counts_and_examples_go_to_stdout(pairs, capsys):
    assert main(["clean", str(pairs)]) == 0
    out = capsys.readouterr().out
    assert "markup                  1   25.00 %  remains of HTML: tags or entities\n" in out
    assert "pairs.tsv:2: <b>No</b> | Nein\n" in out
    assert out.splitlines()[-1].endswith("of 4 would be dropped, 1 kept")


def test_json_has_the_same_counts(pairs, capsys):
    assert main(["clean", str(pairs), "--json", "--examples", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["records"], found["dropped"], found["kept"], found["kind"]) == (4, 3, 1, "pairs")
    assert found["rules"]["encoding"]["count"] == 1
    assert found["rules"]["encoding"]["examples"][0]["line"] == 4


def test_the_clean_file_is_what_is_kept(pairs, tmp_path, capsys):
    out = tmp_path / "clean.tsv"
    assert main(["clean", str(pairs), "--out", str(out), "--skip-rule", "markup"]) == 0
    assert out.read_text(encoding="utf-8") == "A dog runs.\tEin Hund läuft.\n<b>No</b>\tNein\n"
    assert f"2 kept, in {out}" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.tsv", "pairs.tsv"]


def test_rows_and_header_of_a_csv_stay_as_they_are(tmp_path):
    rows = 'id,en,de\n1,"A dog, running",Ein Hund\n2,<b>x</b>,y\n3,"two\nlines","zwei ""Zeilen"""\n'
    (tmp_path / "a.csv").write_text(rows, encoding="utf-8")
    out = tmp_path / "b.csv.gz"
    assert main(["clean", str(tmp_path / "a.csv"), "--columns", "en,de", "--out", str(out)]) == 0
    assert gzip.decompress(out.read_bytes()).decode() == rows.replace("2,<b>x</b>,y\n", "")


def test_parallel_files_are_cleaned_together(tmp_path):
    (tmp_path / "a.en").write_text("One dog\n<b>Two</b>\nThree\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("Ein Hund\nZwei\nDrei\n", encoding="utf-8")
    names = [str(tmp_path / name) for name in ("a.en", "a.de", "b.en", "b.de")]
    assert main(["clean", names[0], "--target", names[1], "--out", names[2], "--out-target", names[3]]) == 0
    assert (tmp_path / "b.en").read_text() == "One dog\nThree\n"
    assert (tmp_path / "b.de").read_text() == "Ein Hund\nDrei\n"


def test_blank_lines_of_a_text_stay(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n<p>two\nthree\n", encoding="utf-8")
    assert main(["clean", str(tmp_path / "a.txt"), "--out", str(tmp_path / "b.txt")]) == 0
    assert (tmp_path / "b.txt").read_text() == "one\n\nthree\n"


def test_labeled_texts_are_recognized(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("".join(f"text {n}\t{n % 2}\n" for n in range(20)), encoding="utf-8")
    assert main(["clean", str(tmp_path / "a.tsv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["dropped"]) == ("labeled", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rules", "number"], "--rules: unknown rule 'number' (did you mean 'numbers'?)"),
        (["--skip-rule", "all"], "--skip-rule: unknown rule 'all'"),
        (["--out", "pairs.tsv"], "--out: write to another file than the one that is read"),
        (["--out-target", "x"], "--out-target: needed together with --target and --out"),
        (["--max-ratio", "0"], "max_ratio must be between"),
        (["--out", "missing/clean.tsv"], "cannot write"),
    ],
)
def test_what_cannot_be_done_is_refused(pairs, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(pairs.parent)
    assert main(["clean", "pairs.tsv", *arguments]) in (1, 2)
    assert message in capsys.readouterr().err


def test_a_refused_file_leaves_no_output(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("a\tb\nc\n", encoding="utf-8")
    assert main(["clean", str(tmp_path / "a.tsv"), "--out", str(tmp_path / "b.tsv")]) == 2
    assert "a.tsv:2: this line has 1 column" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]
