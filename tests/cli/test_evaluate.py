"""`sightline evaluate`: the metrics of each task, from files of any format."""

import gzip
import json

import pytest

from sightline.evaluation import (
    evaluate_chat,
    evaluate_classifier,
    evaluate_filler,
    evaluate_replies,
    evaluate_text,
    evaluate_translator,
)
from sightline.evaluation.report import Report
from sightline.tasks import load

SOURCES, TARGETS = ["tiny models", "tell no tales", "models tell"], ["kleine Modelle", "sagen nichts", "Modelle sagen"]


@pytest.fixture
def file(tmp_path):
    """Write a file and return its path."""

    def write(name: str, *lines: str) -> str:
        text = "".join(f"{line}\n" for line in lines)
        path = tmp_path / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return str(path)

    return write


def values(ran) -> dict[str, object]:
    [line] = ran.lines
    found = json.loads(line)
    found.pop("model")
    return found


def test_parallel_files_are_scored(sightline, folder, file):
    model = folder("translator")
    files = ["--source", file("en", *SOURCES), "--target", file("de", *TARGETS)]
    expected = evaluate_translator(
        load(model), SOURCES, TARGETS, settings=load(model).settings(beam_size=2, length_penalty=2.0)
    ).values
    assert values(sightline("evaluate", model, *files, "--beam", 2, "--length-penalty", 2, "--json")) == pytest.approx(
        expected
    )
    assert "version:" in str(expected["bleu_signature"])


def test_default_output_is_lines(sightline, folder, file):
    model = folder("translator")
    files = ["--source", file("en", *SOURCES), "--target", file("de", *TARGETS)]
    ran = sightline("evaluate", model, *files)
    assert ran.lines == evaluate_translator(load(model), SOURCES, TARGETS).lines()
    assert ran.err == ""


def test_columns_of_a_gzipped_table_are_scored(sightline, folder, file):
    model = folder("translator")
    rows = [f"{n}\t{target}\t{source}" for n, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True))]
    path = file("test.tsv.gz", "id\tde\ten", *rows)
    expected = evaluate_translator(load(model), SOURCES[:2], TARGETS[:2]).values
    ran = sightline("evaluate", model, "--tsv", path, "--columns", "en,de", "--limit", 2, "--json")
    assert values(ran) == pytest.approx(expected)


def test_language_is_one_for_all_or_a_column(sightline, folder, file):
    model = folder("polyglot")
    languages = ["de", "fr", "de"]
    rows = ["\t".join(row) for row in zip(SOURCES, TARGETS, languages, strict=True)]
    expected = evaluate_translator(load(model), SOURCES, TARGETS, to=languages).values
    assert values(sightline("evaluate", model, "--tsv", file("a.tsv", *rows), "--json")) == pytest.approx(expected)
    pairs = ["\t".join(row) for row in zip(SOURCES, TARGETS, strict=True)]
    one = evaluate_translator(load(model), SOURCES, TARGETS, to="fr").values
    ran = sightline("evaluate", model, "--tsv", file("b.tsv", *pairs), "--to", "fr", "--json")
    assert values(ran) == pytest.approx(one)


def test_missing_language_is_refused(sightline, folder, file):
    files = ["--source", file("en", *SOURCES), "--target", file("de", *TARGETS)]
    reason = "--to: give the target language, one of de, fr"
    assert sightline("evaluate", folder("polyglot"), *files) == (2, "", f"sightline: {reason}\n")


def test_replies_are_scored_as_translations_are(sightline, folder, file):
    model = folder("chat")
    rows = ["\t".join(row) for row in zip(SOURCES, TARGETS, strict=True)]
    expected = evaluate_replies(load(model), SOURCES, TARGETS).values
    assert values(sightline("evaluate", model, "--tsv", file("a.tsv", *rows), "--json")) == pytest.approx(expected)


def test_replies_of_dialogues_are_scored(sightline, folder, file):
    """JSONL with any key: every turn but the first is a reply, scored given the model's number of context turns."""
    talk = file("talk.jsonl", '{"dialog": ["tiny models", "tell no", "tales"]}', '{"dialog": ["models", "no tales"]}')
    found = values(sightline("evaluate", folder("chat"), "--dialogues", talk, "--columns", "dialog", "--json"))
    chat = load(folder("chat"))
    said = [("tiny models", "tell no"), ("tiny models\ntell no", "tales"), ("models", "no tales")]
    assert found == evaluate_chat(chat, said).values


def test_text_that_is_tokenized_already_is_scored_as_it_stands(sightline, folder, file):
    files = ["--source", file("a", *SOURCES), "--target", file("b", *TARGETS)]
    found = values(sightline("evaluate", folder("translator"), *files, "--tokenize", "none", "--json"))
    assert "tok:none|" in str(found["bleu_signature"])


def test_blank_lines_of_a_whole_file_are_text(sightline, folder, file):
    text = file("text.txt", "tiny models", "", "tell no tales")
    found = values(sightline("evaluate", folder("generator"), "--text", text, "--documents", "file", "--json"))
    assert found == evaluate_text(load(folder("generator")), ["tiny models\n\ntell no tales"]).values


def test_running_text_is_scored_document_by_document(sightline, folder, file):
    model = folder("generator")
    long = ["tiny models tell no tales"] * 800  # read in several pieces, and still one document
    path = file("text.txt", *long, "", "another", "one")
    expected = evaluate_text(load(model), ["\n".join(long), "another\none"]).values
    assert values(sightline("evaluate", model, "--text", path, "--json")) == pytest.approx(expected)
    first = evaluate_text(load(model), ["\n".join(long)]).values
    assert values(sightline("evaluate", model, "--text", path, "--limit", 1, "--json")) == pytest.approx(first)


def test_context_is_reread(sightline, folder, file):
    model, text = folder("generator"), "tiny models tell no tales " * 40
    found = values(sightline("evaluate", model, "--text", file("text.txt", text), "--context", 20, "--json"))
    assert found == pytest.approx(evaluate_text(load(model), [text], context=20).values)
    assert found["loss"] != evaluate_text(load(model), [text]).values["loss"]
    refused = sightline("evaluate", model, "--text", file("text.txt", text), "--context", 4000)
    assert refused.code == 2
    assert "this model reads" in refused.err


def test_masked_words_of_lines_are_scored(sightline, folder, file):
    model = folder("filler")
    expected = evaluate_filler(load(model), SOURCES).values
    refused = sightline("evaluate", model, "--text", file("text.txt", *SOURCES), "--documents", "line")
    assert "--documents: only for models that generate text" in refused.err
    refused = sightline("evaluate", model, "--text", file("text.txt", *SOURCES), "--context", 4)
    assert "--context: only for models that generate text" in refused.err
    path = file("text.txt", *SOURCES)
    assert values(sightline("evaluate", model, "--text", path, "--json")) == pytest.approx(expected)


def test_labels_are_compared(sightline, folder, file):
    model = folder("classifier")
    examples = list(zip(SOURCES, ["good", "bad", "bad"], strict=True))
    expected = evaluate_classifier(load(model), examples).values
    path = file("labeled.txt", *["\t".join(example) for example in examples])  # a table, whatever it is called
    assert values(sightline("evaluate", model, "--labeled", path, "--json")) == pytest.approx(expected)
    path = file("labeled.jsonl", *[json.dumps({"text": text, "label": label}) for text, label in examples])
    assert values(sightline("evaluate", model, "--labeled", path, "--json")) == pytest.approx(expected)


def test_labels_of_pairs_are_compared(sightline, folder, file):
    model = folder("classifier")
    examples = [((source, target), "good") for source, target in zip(SOURCES, TARGETS, strict=True)]
    expected = evaluate_classifier(load(model), examples).values
    path = file("pairs.tsv", *[f"{first}\t{second}\t{label}" for (first, second), label in examples])
    assert values(sightline("evaluate", model, "--labeled", path, "--pair", "--json")) == pytest.approx(expected)


def test_labels_of_words_are_compared(sightline, folder, file):
    model = folder("tagger")
    examples = [(["tiny", "models"], ["NOUN", "NOUN"]), (["tell"], ["VERB"])]
    expected = evaluate_classifier(load(model), examples).values
    path = file("tags.jsonl", *[json.dumps({"tokens": words, "labels": labels}) for words, labels in examples])
    assert values(sightline("evaluate", model, "--labeled", path, "--json")) == pytest.approx(expected)


def test_dropped_lines_are_reported(sightline, folder, file):
    files = ["--source", file("en", "tiny", "", "tell"), "--target", file("de", "klein", "", "")]
    ran = sightline("evaluate", folder("translator"), *files, "--json")
    assert values(ran)["sentences"] == 1
    assert ran.err == f"{files[1]}: 1 kept; 1 blank, dropped; 1 with one blank side, dropped\n"


@pytest.mark.parametrize(
    ("name", "option", "line", "reason"),
    [
        (
            "classifier",
            "--labeled",
            "tiny\tgod",
            "unknown label 'god' (did you mean 'good'?): the model knows bad, good",
        ),
        ("classifier", "--labeled", "tiny", "this line has 1 column, 2 are needed (text, label)"),
        ("translator", "--tsv", "a\tb\tc", "or select columns with --columns"),
        (
            "polyglot",
            "--tsv",
            "a\tb",
            "3 are needed (source, target, language): fix it, or select columns with --columns, or name the language",
        ),
        (
            "tagger",
            "--labeled",
            '{"tokens": ["a", "b"], "labels": ["NOUN"]}',
            "2 words but 1 labels: each word needs one",
        ),
    ],
)
def test_line_that_cannot_be_scored_is_named(sightline, folder, file, name, option, line, reason):
    path = file("test.jsonl" if name == "tagger" else "test.tsv", line)
    ran = sightline("evaluate", folder(name), option, path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"sightline: {path}:1: ")
    assert reason in ran.err


def test_bad_bytes_are_refused_without_advice_for_training(sightline, folder, tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"tiny\nm\xf6dels\n")
    ran = sightline("evaluate", folder("generator"), "--text", path)
    assert ran == (2, "", f"sightline: {path}:2:2: byte 2 of this line is not UTF-8: fix it\n")


def test_settings_of_the_readers_are_named_as_options(sightline, folder, file):
    path = file("test.tsv", "a\tb\tc")
    ran = sightline("evaluate", folder("translator"), "--tsv", path, "--columns", "1,2,3")
    assert ran == (2, "", "sightline: --columns: 2 are needed (source, target), not 3\n")


def test_empty_and_missing_files_are_refused(sightline, folder, file, tmp_path):
    ran = sightline("evaluate", folder("generator"), "--text", file("empty.txt"))
    assert ran == (2, "", f"sightline: {tmp_path}/empty.txt: no usable record: it is empty\n")
    ran = sightline("evaluate", folder("generator"), "--text", tmp_path / "none")
    assert ran == (2, "", f"sightline: {tmp_path}/none: no such file\n")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "give one test set: source and target, tsv, text, dialogues or labeled"),
        (
            ["--text", "a", "--tsv", "b"],
            "give one test set: source and target, tsv, text, dialogues or labeled",
        ),
        (
            ["--source", "a"],
            "source and target go together: line n of one is the translation of line n of the other",
        ),
        (
            ["--text", "a", "--target", "b"],
            "source and target go together: line n of one is the translation of line n of the other",
        ),
        (["--text", "a", "--pair"], "--pair: only for labeled, not for text"),
        (["--text", "a", "--beam", "4"], "--beam: only for source and tsv, not for text"),
        (["--labeled", "a", "--to", "de"], "--to: only for source and tsv, not for labeled"),
        (["--dialogues", "a", "--tokenize", "none"], "--tokenize: only for source and tsv, not for dialogues"),
        (["--tsv", "a", "--context", "4"], "--context: only for text, not for tsv"),
        (["--tsv", "a", "--documents", "line"], "--documents: only for text, not for tsv"),
        (["--text", "a", "--columns", "1"], "--columns: only for tsv, dialogues and labeled, not for text"),
    ],
)
def test_options_that_do_not_fit_are_refused(sightline, folder, options, reason):
    assert sightline("evaluate", folder("generator"), *options) == (2, "", f"sightline: {reason}\n")


@pytest.mark.parametrize(
    ("name", "option", "advice"),
    [
        ("translator", "--text", "give source or tsv"),
        ("generator", "--labeled", "give text"),
        ("tagger", "--tsv", "give labeled"),
    ],
)
def test_test_set_for_another_kind_is_refused(sightline, folder, name, option, advice):
    reason = f"{option}: not for this model: {advice}"
    assert sightline("evaluate", folder(name), option, "none") == (2, "", f"sightline: {reason}\n")


def test_output_holds_the_hypotheses_in_order(sightline, folder, file, tmp_path):
    model, out = folder("translator"), tmp_path / "hypotheses.txt"
    out.write_text("of an earlier run\n")
    files = ["--source", file("en", *SOURCES), "--target", file("de", *TARGETS)]
    assert sightline("evaluate", model, *files, "--beam", 2, "--output", out).code == 0
    assert out.read_text(encoding="utf-8").splitlines() == load(model).translate(SOURCES, beam_size=2)
    assert [path.name for path in tmp_path.iterdir() if "tmp" in path.name] == []


def test_output_of_a_classifier_holds_its_classes(sightline, folder, file, tmp_path):
    table = file("test.tsv", *(f"{text}\tgood" for text in SOURCES))
    assert sightline("evaluate", folder("classifier"), "--labeled", table, "--output", tmp_path / "classes").code == 0
    expected = [one.label for one in load(folder("classifier")).classify(SOURCES)]
    assert (tmp_path / "classes").read_text().splitlines() == expected


def test_output_of_a_token_classifier_has_the_classes_of_a_sentence_in_a_line(sightline, folder, file, tmp_path):
    table = file("test.jsonl", json.dumps({"tokens": ["tiny", "models"], "labels": ["NOUN", "VERB"]}))
    assert sightline("evaluate", folder("tagger"), "--labeled", table, "--output", tmp_path / "tags").code == 0
    [line] = (tmp_path / "tags").read_text().splitlines()
    assert set(line.split(" ")) <= {"NOUN", "VERB"}
    assert len(line.split(" ")) == 2


def test_output_escapes_line_breaks(tmp_path):
    Report({}, ("one\ntwo", "three")).write_outputs(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "one\\ntwo\nthree\n"


def test_output_is_refused_where_nothing_is_generated(sightline, folder, file, tmp_path):
    ran = sightline("evaluate", folder("generator"), "--text", file("a.txt", *SOURCES), "--output", tmp_path / "x")
    assert ran.code == 2
    assert "--output: only for source, tsv and labeled, not for text" in ran.err


def test_output_that_cannot_be_written_is_refused_before_anything_is_scored(sightline, folder, file, tmp_path):
    files = ["--source", file("en", *SOURCES), "--target", file("de", *TARGETS)]
    ran = sightline("evaluate", folder("translator"), *files, "--output", tmp_path / "none" / "x")
    assert ran.code == 2
    assert "name a file in a folder that exists" in ran.err
