"""`sightline clean` counts on stdout, writes what is kept as it stood, and drops nothing in silence."""

import gzip
import json
import re

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


def clean_json(path, capsys, *arguments):
    """Return what `clean --json` reports."""
    assert main(["clean", str(path), "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


ENTAILMENT = [
    (f"A man walks dog {n}.", f"Somebody {does} {n}.", label)
    for n in range(10)
    for does, label in [("walks", "yes"), ("moves", "yes"), ("sleeps", "no"), ("thinks", "maybe")]
]
"""Premises, hypotheses and labels: each premise four times, twice with the same label."""


@pytest.mark.parametrize("labels", [("yes", "no", "maybe"), ("pos", "neg", "neu"), ("0", "1", "2")])
def test_pairs_of_texts_with_a_label_are_recognized_in_a_table(tmp_path, capsys, labels):
    names = dict(zip(("yes", "no", "maybe"), labels, strict=True))
    rows = "".join(f"{a}\t{b}\t{names[label]}\n" for a, b, label in ENTAILMENT)
    (tmp_path / "a.tsv").write_text(rows, encoding="utf-8")
    found = clean_json(tmp_path / "a.tsv", capsys)
    assert (found["kind"], found["dropped"], "identical" in found["rules"]) == ("labeled", 0, False)
    assert clean_json(tmp_path / "a.tsv", capsys, "--kind", "labeled") == found


def test_pairs_of_texts_with_a_label_are_recognized_by_their_keys(tmp_path, capsys):
    lines = [json.dumps({"text": a, "pair": b, "label": label}) for a, b, label in ENTAILMENT]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = clean_json(tmp_path / "a.jsonl", capsys)
    assert (found["kind"], found["records"], found["dropped"]) == ("labeled", 40, 0)
    for arguments in (["--columns", "text,label"], ["--columns", "text,label", "--kind", "labeled"]):
        found = clean_json(tmp_path / "a.jsonl", capsys, *arguments)  # without the second text
        assert (found["kind"], found["dropped"], found["rules"]["duplicate"]["count"]) == ("labeled", 10, 10)


@pytest.mark.parametrize("codes", [("de", "fr"), ("DE", "fr-CA"), ("pt-BR", "zh_Hans")])
def test_a_third_column_of_languages_makes_pairs(tmp_path, capsys, codes):
    rows = "".join(f"House {n}\tHaus {n}\t{codes[0]}\nCat {n}\tChat {n}\t{codes[1]}\n" for n in range(10))
    (tmp_path / "a.tsv").write_text(rows, encoding="utf-8")
    assert clean_json(tmp_path / "a.tsv", capsys)["kind"] == "pairs"


def test_kind_pairs_takes_a_third_column_for_the_language(tmp_path, capsys):
    rows = "".join(f"House {n}\tHaus {n}\tgerman\nCat {n}\tChat {n}\tfrench\n" for n in range(10))
    (tmp_path / "a.tsv").write_text(rows, encoding="utf-8")
    assert clean_json(tmp_path / "a.tsv", capsys, "--kind", "pairs")["kind"] == "pairs"


def test_an_id_is_not_taken_for_a_text(tmp_path, capsys):
    rows = "".join(f"{n},text {n},{n % 2}\n" for n in range(20))
    (tmp_path / "a.csv").write_text(f"id,text,label\n{rows}", encoding="utf-8")
    assert clean_json(tmp_path / "a.csv", capsys)["kind"] == "labeled"
    (tmp_path / "b.csv").write_text(rows, encoding="utf-8")
    assert main(["clean", str(tmp_path / "b.csv")]) == 2
    assert "what its columns hold is not clear: choose one or two with --columns" in capsys.readouterr().err


def test_the_kind_is_said_first(tmp_path, pairs, capsys):
    assert main(["clean", str(pairs)]) == 0
    assert capsys.readouterr().out.startswith("kind: pairs (source, target)\n")


def test_advice_names_the_options_of_this_command(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("1\ta\tb c d\n2\te\tf g h\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text('"a","b"\n' * 9 + '"c "d" e","f"\n', encoding="utf-8")
    (tmp_path / "c.txt").write_text("a\n", encoding="utf-8")
    said = {
        "a.tsv": "3 columns, 2 are needed (source, target): fix it, or select columns with --columns\n",
        "b.csv": "fix it (a quote within a quoted cell is doubled)\n",
        "c.txt": "or the target file as --target\n",
    }
    for name, end in said.items():
        assert main(["clean", str(tmp_path / name), "--kind", "pairs"]) == 2
        assert capsys.readouterr().err.endswith(end)


def test_an_array_is_refused_with_its_place_and_what_to_do(tmp_path, capsys):
    (tmp_path / "a.json").write_text('[{"text": "a"}]', encoding="utf-8")
    assert main(["clean", str(tmp_path / "a.json")]) == 2
    assert re.search(r"a\.json:1: this JSON is not an object .*: one object per line", capsys.readouterr().err)


def test_the_separator_line_of_excel_stays_with_the_header(tmp_path):
    rows = "sep=^\nsource^target\na^b\n<b>^x\n"
    (tmp_path / "a.csv").write_text(rows, encoding="utf-8")
    assert main(["clean", str(tmp_path / "a.csv"), "--out", str(tmp_path / "b.csv")]) == 0
    assert (tmp_path / "b.csv").read_text(encoding="utf-8") == rows.replace("<b>^x\n", "")
