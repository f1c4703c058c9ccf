"""`sightline inspect`: one file that shows what a model did."""

import json
import re

import numpy as np
import pytest

from sightline.tasks import load
from sightline.tracing.figures import KINDS

TEXT = "tiny models tell"


@pytest.mark.parametrize("name", ["translator", "chat", "generator", "filler", "classifier", "tagger"])
@pytest.mark.parametrize("ending", ["svg", "png", "json"])
def test_every_model_is_drawn(sightline, folder, tmp_path, name, ending):
    ran = sightline("inspect", folder(name), TEXT, "--out", tmp_path / f"seen.{ending}")
    assert (ran.code, ran.out) == (0, ""), ran.err
    assert ran.err.splitlines()[-1].startswith("wrote ")
    assert (tmp_path / f"seen.{ending}").stat().st_size > 1000


def test_json_has_the_numbers_of_the_trace(sightline, folder, tmp_path):
    assert sightline("inspect", folder("translator"), TEXT, "--out", tmp_path / "seen.json").code == 0
    assert json.loads((tmp_path / "seen.json").read_text()) == json.loads(
        load(folder("translator")).trace(TEXT).to_json()
    )


def test_target_is_the_given_one(sightline, folder, tmp_path):
    sightline("inspect", folder("translator"), TEXT, "--target", "no tales", "--out", tmp_path / "seen.json")
    assert json.loads((tmp_path / "seen.json").read_text())["target"]["text"] == "no tales"


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_drawn(sightline, folder, tmp_path, kind):
    arguments = ("--figure", kind, "--title", "Tiny & <true>", "--out", tmp_path / "seen.svg")
    ran = sightline("inspect", folder("polyglot"), TEXT, "--to", "de", *arguments)
    assert ran.code == 0, ran.err
    assert "Tiny &amp; &lt;true&gt;" in (tmp_path / "seen.svg").read_text()


def test_help_names_every_figure(sightline):
    said = sightline("inspect", "--help").out
    assert all(re.search(rf"\b{kind}\b", said) for kind in KINDS)


def test_layer_head_and_row_choose_the_calculation(sightline, folder, tmp_path):
    chosen = ("--attention", "encoder", "--layer", 0, "--head", 1, "--row", 1, "--out", tmp_path / "seen.svg")
    assert sightline("inspect", folder("translator"), TEXT, *chosen).code == 0
    drawn = (tmp_path / "seen.svg").read_text()
    assert "Encoder self-attention of layer 0, head 1, row 1." in drawn
    trace = load(folder("translator")).trace(TEXT)
    for weight in trace.attention("encoder.0.self_attention")[1, 1][:3]:
        assert f">{np.float32(weight):.3f}<" in drawn


def test_chosen_layer_of_a_gpt_is_drawn_large(sightline, folder, tmp_path):
    assert sightline("inspect", folder("generator"), TEXT, "--layer", 0, "--out", tmp_path / "seen.svg").code == 0
    assert "Decoder self-attention of layer 0, mean of 2 heads" in (tmp_path / "seen.svg").read_text()


def test_page_is_one_file(sightline, folder, tmp_path):
    ran = sightline("inspect", folder("translator"), TEXT, "--beam", 2, "--out", tmp_path / "seen.html", "--json")
    assert json.loads(ran.out) == {
        "out": str(tmp_path / "seen.html"),
        "bytes": (tmp_path / "seen.html").stat().st_size,
    }
    assert "<html" in (tmp_path / "seen.html").read_text()[:200]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("translator", ["--out", "x.gif"], "the name must end in .html, .svg, .png or .json"),
        ("translator", ["--out", "no/where/x.svg"], "there is no folder"),
        ("translator", ["--out", "x.svg", "--figure", "pie"], "--figure 'pie': it is one of attention, matrix"),
        (
            "translator",
            ["--out", "x.svg", "--layer", "7"],
            "this trace has no layer 7: cross-attention has the layers 0",
        ),
        ("translator", ["--out", "x.svg", "--head", "7"], "this trace has no head 7: it has the heads 0, 1"),
        ("translator", ["--out", "x.svg", "--figure", "beam", "--head", "0"], "--head is not for the figure 'beam'"),
        ("translator", ["--out", "x.html", "--layer", "0"], "--layer is for figures: let --out end in .svg or .png"),
        ("translator", ["--out", "x.svg", "--to", "xx"], "--to"),
        ("filler", ["--out", "x.svg", "--to", "de"], "--to is not for this model, which is a Filler"),
        ("filler", ["--out", "x.svg", "--beam", "4"], "--beam is not for this model, which is a Filler"),
        (
            "generator",
            ["--out", "x.svg", "--attention", "cross"],
            "this trace has no attention 'cross': choose one of decoder",
        ),
    ],
)
def test_errors_are_one_line(sightline, folder, tmp_path, monkeypatch, name, arguments, said):
    monkeypatch.chdir(tmp_path)
    ran = sightline("inspect", folder(name), TEXT, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_file_that_cannot_be_written_is_refused(sightline, folder, tmp_path):
    (tmp_path / "seen.svg").mkdir()
    ran = sightline("inspect", folder("generator"), TEXT, "--out", tmp_path / "seen.svg")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
