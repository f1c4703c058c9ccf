"""`sightline generate`: text as it is generated."""

import json

import pytest

from sightline.cli import generate as command
from sightline.pipelines import Generator
from sightline.tasks import load

SAMPLED = ["--temperature", "1.2", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.01", "--seed", "7"]
SAME = {"temperature": 1.2, "top_k": 50, "top_p": 0.9, "min_p": 0.01, "seed": 7}


@pytest.fixture
def model(folder):
    return folder("generator")


def test_text_is_what_python_gives(sightline, model):
    assert sightline("generate", model, "tiny models", "--max-tokens", 8).out == (
        load(model).generate("tiny models", max_new_tokens=8) + "\n"
    )


def test_every_option_reaches_the_search(sightline, model):
    assert sightline("generate", model, "tell", *SAMPLED).out == load(model).generate("tell", **SAME) + "\n"
    assert sightline("generate", model, "tell", "--beam", 3).out == load(model).generate("tell", beam_size=3) + "\n"


def test_prompt_may_come_from_stdin(sightline, model):
    assert sightline("generate", model, stdin="tiny\nmodels\n") == sightline("generate", model, "tiny\nmodels")
    assert sightline("generate", model, "-", stdin="tiny\nmodels\n").out == load(model).generate("tiny\nmodels") + "\n"


def test_no_prompt_is_the_beginning_of_a_text(sightline, model):
    assert sightline("generate", model).out == load(model).generate("") + "\n"


def test_text_comes_in_pieces(sightline, model, monkeypatch):
    pieces = []
    monkeypatch.setattr(command, "put", pieces.append)
    assert sightline("generate", model, "tiny", "--max-tokens", 5).code == 0
    assert len(pieces) > 2
    assert "".join(pieces) == load(model).generate("tiny", max_new_tokens=5) + "\n"


def test_stop_strings_end_the_text_and_are_not_in_it(sightline, model):
    whole = load(model).generate("tiny", max_new_tokens=12)
    stop = whole[len(whole) // 2]
    options = ["--max-tokens", 12, "--stop", stop, "--stop", "never there"]
    assert sightline("generate", model, "tiny", *options).out == whole.partition(stop)[0] + "\n"


def test_several_texts_have_a_line_each(sightline, model):
    lines = sightline("generate", model, "tiny", "--n", 3, "--seed", 1, "--max-tokens", 5).lines
    assert lines == load(model).generate("tiny", n=3, seed=1, max_new_tokens=5)
    assert len(set(lines)) > 1


def test_several_texts_are_sampled_by_default(sightline, model):
    assert len(sightline("generate", model, "tiny", "--n", 2, "--max-tokens", 5).lines) == 2


def test_several_texts_may_be_those_of_a_beam(sightline, model):
    assert sightline("generate", model, "tiny", "--n", 2, "--beam", 3).lines == load(model).generate(
        "tiny", n=2, beam_size=3
    )


def test_line_breaks_of_several_texts_are_escaped(sightline, model, monkeypatch):
    class Written:
        text = "one\ntwo"

    monkeypatch.setattr(Generator, "continuations", lambda self, prompts, **_: [[Written, Written]])
    assert sightline("generate", model, "tiny", "--n", 2).lines == [r"one\ntwo", r"one\ntwo"]


def test_json_has_an_object_for_each_text(sightline, model):
    lines = sightline("generate", model, "tiny", "--n", 2, *SAMPLED, "--json").lines
    entries = [json.loads(line) for line in lines]
    assert [entry["text"] for entry in entries] == load(model).generate("tiny", n=2, **SAME)
    assert [(entry["number"], entry["prompt"]) for entry in entries] == [(1, "tiny"), (2, "tiny")]
    assert {"score", "log_probability", "tokens", "finish_reason"} <= entries[0].keys()
    assert len(sightline("generate", model, "tiny", "--json").lines) == 1


def test_temperature_zero_is_greedy(sightline, model):
    assert sightline("generate", model, "tiny", "--temperature", 0).out == load(model).generate("tiny") + "\n"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--top-p", "2"], "top_p must be above 0 and at most 1, not 2.0"),
        (["--beam", "2", "--temperature", "1"], "do_sample draws one token at a time: it needs beam_size = 1, not 2"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(sightline, model, options, reason):
    ran = sightline("generate", model, "tiny", *options)
    assert (ran.code, ran.out, ran.err) == (2, "", f"sightline: decoding: {reason}\n")


def test_prompt_that_is_too_long_is_refused(sightline, model):
    ran = sightline("generate", model, "tell no " * 40)
    assert (ran.code, ran.out) == (2, "")
    assert "this model can take" in ran.err
