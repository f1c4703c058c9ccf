"""`sightline translate`: line for line, whatever is in the lines."""

import json
from dataclasses import replace

import pytest

from sightline.bundle import load as load_bundle
from sightline.bundle import save
from sightline.bundle.calibration import Bin, Calibration, Confidence
from sightline.bundle.training_facts import TrainingFacts
from sightline.pipelines import Link, Translation, Translator
from sightline.tasks import load

SENTENCES = ["tiny models", "tell no tales", "models tell"]


@pytest.fixture
def model(folder, precisely):
    return folder("translator")


@pytest.fixture
def answering(monkeypatch):
    """Give every text these translations."""

    def answer(*translations: Translation) -> None:
        monkeypatch.setattr(
            Translator, "translate_segments", lambda self, segments, _: [list(translations)] * len(segments)
        )

    return answer


def result(text: str, **others: object) -> Translation:
    return Translation(text, -1.25, -2.5, tuple(text.split()), "eos", **others)


def test_arguments_are_translated_line_for_line(sightline, model):
    assert sightline("translate", model, *SENTENCES).lines == load(model).translate(SENTENCES)


def test_lines_of_stdin_are_translated_as_arguments_are(sightline, model):
    stdin = "\n".join(SENTENCES) + "\n"
    expected = sightline("translate", model, *SENTENCES).lines
    assert sightline("translate", model, stdin=stdin).lines == expected
    assert sightline("translate", model, "-", stdin=stdin).lines == expected


def test_blank_lines_stay_blank_and_in_their_place(sightline, model):
    lines = sightline("translate", model, stdin="\ntiny models\r\n  \ntiny models").lines
    assert lines == ["", load(model).translate("tiny models"), "", load(model).translate("tiny models")]


def test_nothing_in_gives_nothing_out(sightline, model):
    assert sightline("translate", model, stdin="") == (0, "", "")


def test_decoding_options_reach_the_search(sightline, model):
    [line] = sightline("translate", model, "tell no tales", "--beam", 3, "--length-penalty", 2).lines
    assert line == load(model).translate("tell no tales", beam_size=3, length_penalty=2.0)


def test_every_translation_begins_with_the_prefix(sightline, model):
    assert all(
        line.startswith("tales") for line in sightline("translate", model, *SENTENCES, "--prefix", "tales").lines
    )


def test_n_best_gives_n_lines_for_each_text(sightline, model):
    lines = sightline("translate", model, "--n-best", 2, stdin="tiny models\n\ntell\n").lines
    assert lines == [*load(model).translate("tiny models", n_best=2), "", "", *load(model).translate("tell", n_best=2)]


def test_n_best_gives_n_lines_even_where_there_are_fewer_results(sightline, model, answering):
    answering(result("one"))
    assert sightline("translate", model, "--n-best", 3, "a", "b").lines == ["one", "", "", "one", "", ""]


def test_line_break_in_a_translation_does_not_break_its_line(sightline, model, answering):
    answering(result("one\ntwo\rthree\tfour"))
    assert sightline("translate", model, "a").lines == [r"one\ntwo\rthree" + "\tfour"]
    assert sightline("translate", model, "a", "--scores").lines == ["-1.2500\t" + r"one\ntwo\rthree\tfour"]
    [line] = sightline("translate", model, "a", "--json").lines
    assert json.loads(line)["text"] == "one\ntwo\rthree\tfour"


def test_scores_and_alignment_are_columns(sightline, model, answering):
    links = (Link(0, 1, 0, 3, 0.9), Link(4, 7, 4, 8, 0.8), Link(2, 3, 4, 8, 0.5))
    answering(result("der Hund", alignment=links))
    assert sightline("translate", model, "a b dog", "--scores", "--alignment").lines == [
        "-1.2500\tder Hund\t0-0 2-1 1-1"
    ]
    assert sightline("translate", model, "a b dog", "--alignment").lines == ["der Hund\t0-0 2-1 1-1"]


def test_columns_of_a_blank_line_are_there_and_empty(sightline, model):
    assert sightline("translate", model, " ", "--scores", "--alignment").lines == ["\t\t"]


def test_alignment_of_a_real_model_names_words_that_are_there(sightline, model):
    [line] = sightline("translate", model, "tiny models tell", "--alignment", "--prefix", "tales no").lines
    text, pairs = line.split("\t")
    for pair in pairs.split():
        source, target = map(int, pair.split("-"))
        assert source < 3
        assert target < len(text.replace(r"\n", " ").split())


def test_json_has_every_field(sightline, model):
    lines = sightline("translate", model, "--json", "--alignment", "--n-best", 2, stdin="tiny models\n\n").lines
    first, second, blank = map(json.loads, lines)
    expected = load(model).translations(
        ["tiny models"], alignment=True, settings=load(model).settings(n_best=2, beam_size=2)
    )[0]
    for entries, rank, translation in ((first, 1, expected[0]), (second, 2, expected[1])):
        assert (entries["line"], entries["rank"], entries["source"]) == (1, rank, "tiny models")
        assert entries["text"] == translation.text
        assert entries["score"] == pytest.approx(translation.score)
        assert entries["log_probability"] == pytest.approx(translation.log_probability)
        assert entries["tokens"] == list(translation.tokens)
        assert len(entries["alignment"]) == len(translation.alignment)
    assert (blank["line"], blank["text"], blank["score"]) == (2, "", None)
    assert blank.keys() == first.keys()


def test_language_is_chosen(sightline, folder):
    model = folder("polyglot")
    german, french = (sightline("translate", model, "tiny models", "--to", to).lines for to in ("de", "fr"))
    assert [german, french] == [[load(model).translate("tiny models", to=to)] for to in ("de", "fr")]
    assert sightline("translate", model, "tiny models", "--to", "de", "--from", "fr").lines == german


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "--to: give the target language, one of de, fr"),
        (["--to", "dee"], "--to: unknown language 'dee' (did you mean 'de'?): it must be one of de, fr"),
        (["--to", "de", "--from", "it"], "--from: unknown language 'it': it must be one of de, fr"),
    ],
)
def test_missing_or_unknown_language_is_refused_before_stdin_is_read(sightline, folder, options, reason):
    assert sightline("translate", folder("polyglot"), *options, stdin=b"\xff") == (2, "", f"sightline: {reason}\n")


def test_refused_line_is_named_and_those_before_it_are_answered(sightline, model):
    ran = sightline("translate", model, "--no-split", stdin="tiny models\n\n" + "tell no " * 40 + "\ntiny\n")
    assert ran.code == 2
    assert ran.out == load(model).translate("tiny models") + "\n\n"
    assert ran.err.startswith("sightline: stdin:3: the text has ")
    assert ran.err.count("\n") == 1


def test_text_that_looks_like_an_option_comes_after_two_dashes(sightline, model):
    assert sightline("translate", model, "--", "--debug").lines == [load(model).translate("--debug")]


@pytest.mark.parametrize("options", [["--beam", "0"], ["--n-best", "x"], ["--engine", "fast"], ["--batch-tokens", "0"]])
def test_wrong_options_end_with_2(sightline, model, options):
    ran = sightline("translate", model, "a", *options)
    assert (ran.code, ran.out) == (2, "")


def test_batches_of_one_token_change_nothing(sightline, model):
    assert sightline("translate", model, *SENTENCES, "--batch-tokens", 1).lines == load(model).translate(SENTENCES)


def test_model_for_another_task_names_its_command(sightline, folder):
    model = folder("generator")
    reason = f"{model}: this model is not for sightline translate: use sightline generate"
    assert sightline("translate", model, "a") == (2, "", f"sightline: {reason}\n")


@pytest.fixture
def calibrated(model, tmp_path):
    """A model that knows how often its scores were right, by greedy search."""
    given = load_bundle(model)
    calibration = Calibration("exact", given.generation, (Bin(-2.0, 50, 40),))
    save(replace(given, training=TrainingFacts(calibration=calibration)), tmp_path / "calibrated")
    return tmp_path / "calibrated"


def test_confidence_is_a_column_after_the_score(sightline, calibrated, answering):
    answering(result("eins", confidence=Confidence(0.876, 0.8, 0.9, 50)), result("zwei"))
    lines = sightline("translate", calibrated, "a", "--scores", "--n-best", 2, "--beam", 2).lines
    assert lines == ["-1.2500\t0.88\teins", "-1.2500\t\tzwei"]


def test_json_has_the_confidence_with_its_interval(sightline, calibrated, answering):
    answering(result("eins", confidence=Confidence(0.876, 0.8, 0.9, 50)))
    [line] = sightline("translate", calibrated, "a", "--json").lines
    assert json.loads(line)["confidence"] == {"share": 0.876, "low": 0.8, "high": 0.9, "count": 50}


def test_other_decoding_than_measured_is_said(sightline, calibrated):
    assert sightline("translate", calibrated, "tiny", "--scores").err == ""
    note = "no confidence: it was measured with --beam 1 --length-penalty 0.6\n"
    assert sightline("translate", calibrated, "tiny", "--scores", "--beam", 2).err == note
    assert sightline("translate", calibrated, "tiny", "--beam", 2).err == ""


def test_line_of_several_sentences_is_one_line(sightline, model):
    lines = sightline("translate", model, stdin="Tiny models. Tell no tales!\nmodels\n").lines
    one, two, three = load(model).translate(["Tiny models.", "Tell no tales!", "models"])
    assert lines == [f"{one} {two}", three]


def test_scores_and_json_have_every_sentence(sightline, model):
    [line] = sightline("translate", model, "Tiny models. Tell no tales!", "--scores").lines
    assert len(line.split("\t")[0].split()) == 2
    [line] = sightline("translate", model, "Tiny models. Tell no tales!", "--json").lines
    found = json.loads(line)
    assert [one["source"] for one in found["sentences"]] == ["Tiny models.", "Tell no tales!"]
    assert [one["source_span"] for one in found["sentences"]] == [[0, 12], [13, 27]]


def test_no_split_reads_a_line_at_once(sightline, model):
    [line] = sightline("translate", model, "Tiny models. Tell tales!", "--no-split", "--json").lines
    assert len(json.loads(line)["sentences"]) == 1


def test_long_sentence_is_translated_in_parts_with_a_warning(sightline, model):
    ran = sightline("translate", model, stdin="tiny\n" + "tell no " * 40 + "\n")
    assert ran.code == 0
    assert ran.err.startswith("stdin:2: a sentence has ")
    assert len(ran.lines) == 2


@pytest.mark.parametrize("markup", ["html", "markdown", "srt"])
def test_document_on_stdin_is_translated_with_its_markup(sightline, model, markup):
    source = "1\n00:00:01,000 --> 00:00:02,000\n<i>tiny</i> models\n\n"
    ran = sightline("translate", model, "--markup", markup, stdin=source)
    assert ran.out == load(model).translations([source], markup=markup)[0][0].text
    assert ran.out.count("<i>") == ran.out.count("</i>") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--markup", "pdf"], "it must be"),
        (["--markup", "html", "--scores"], "not for documents"),
        (["--markup", "html", "--prefix", "tiny"], "not for documents"),
    ],
)
def test_wrong_markup_is_refused(sightline, model, options, said):
    ran = sightline("translate", model, "a", *options)
    assert ran.code == 2
    assert said in ran.err


def test_alignment_of_sentences_without_space_between_them_has_indices_of_words(sightline, model):
    """The second sentence begins within the first word of the text."""
    text = "tiny。tell no tales"
    [line] = sightline("translate", model, text, "--alignment").lines
    assert {link.split("-")[0] for link in line.split("\t")[1].split()} <= {"0", "1", "2"}
    [line] = sightline("translate", model, text, "--alignment", "--json").lines
    assert all(link["source"] in (0, 1, 2) for link in json.loads(line)["alignment"])


def test_a_byte_order_mark_is_not_part_of_a_document(sightline, model):
    page = "# tiny models\n"
    plain = sightline("translate", model, "--markup", "markdown", stdin=page).out
    assert sightline("translate", model, "--markup", "markdown", stdin="\ufeff" + page).out == plain


def test_documents_as_arguments_begin_on_lines_of_their_own(sightline, model):
    ran = sightline("translate", model, "--markup", "html", "<p>tiny</p>", "<p>tales</p>")
    first, second = ran.out.splitlines()
    assert first.startswith("<p>")
    assert second.startswith("<p>")
