"""What docs/walkthrough.md names, shows and counts must be there and true."""

import importlib
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from named import ROOT, is_defined
from run.small import TINY
from sightline.errors import SightlineError
from sightline.pipelines import load
from sightline.run import train

DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))  # what makes the figures is no part of the package
chapter = importlib.import_module("making.chapter")
drawings = importlib.import_module("making.drawings")
facts = importlib.import_module("making.facts")
stories = importlib.import_module("making.story")

TEXT = (DOCS / "walkthrough.md").read_text(encoding="utf-8")
NUMBERS = json.loads((DOCS / "figures" / "numbers.json").read_text(encoding="utf-8"))
TRUE = [number for group in NUMBERS.values() for number in group.values()]
NAMED = re.compile(r"`([\w.]+)`\s+\(`([\w/]+\.py)`\)")
SHOWN = re.compile(r'<img src="([^"]+)" width="\d+" alt="[^"]+">')


def named_in(document: str) -> list[tuple[str, str]]:
    return sorted(set(NAMED.findall((DOCS / document).read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    ("name", "file"), [pair for name in ("walkthrough", "architecture", "serving") for pair in named_in(f"{name}.md")]
)
def test_named_function_exists(name, file):
    assert is_defined(ROOT / "src" / "sightline" / file, name)


def test_every_stage_names_its_function():
    stages = TEXT.split("\n## ")[1:]
    assert len(stages) == 11
    assert all(NAMED.search(stage) for stage in stages)


def test_figures_are_those_that_are_made():
    files = {path.stem for path in (DOCS / "figures").glob("*.svg")}
    assert files == set(drawings.FIGURES)
    assert sorted(SHOWN.findall(TEXT)) == sorted(f"figures/{name}.svg" for name in drawings.FIGURES)


@pytest.mark.parametrize("name", drawings.FIGURES)
def test_figure_is_small_and_sound(name):
    path = DOCS / "figures" / f"{name}.svg"
    assert path.stat().st_size < 150_000
    ElementTree.parse(path)  # noqa: S314 - our own


@pytest.mark.parametrize("name", sorted(NUMBERS.keys() & drawings.FIGURES.keys()))
def test_numbers_stand_in_the_figure_they_belong_to(name):
    root = ElementTree.parse(DOCS / "figures" / f"{name}.svg").getroot()  # noqa: S314 - our own
    written = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for words, number in NUMBERS[name].items():
        assert number in written, words


def test_every_number_of_a_sentence_is_true():
    told = chapter.numbers_told(TEXT)
    assert {"0.749", "−0.622", ".46", "75%"} <= set(told)
    assert chapter.untrue(TEXT, TRUE) == []


def test_untrue_number_is_found():
    assert chapter.untrue(TEXT.replace("0.749", "0.750"), TRUE) == ["0.750"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (DOCS / target).exists()


def test_tables_are_replaced_and_nothing_else():
    tables = {name: f"the table of {name}" for name in chapter.blocks(TEXT)}
    woven = chapter.woven(TEXT, tables)
    assert all(f"-->\nthe table of {name}\n<!-- end -->" in woven for name in tables)
    assert chapter.BLOCK.sub("", woven) == chapter.BLOCK.sub("", TEXT)
    assert chapter.woven(woven, tables) == woven


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A run of the demo's recipe, with the layers and heads that the chapter looks at and hardly any training."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    sizes = {"model.n_heads": 4, "model.n_encoder_layers": 2, "model.n_decoder_layers": 2}
    rest = {"training.snapshots": False, "training.warmup_steps": 1, "training.max_steps": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sightline.run.builtin.N_TRAIN", 150)
        patch.setattr("sightline.run.builtin.N_UNSEEN", 10)
        train("phrases", {**TINY, **sizes, **rest}, out=folder)
    return folder


def test_everything_is_made_from_a_run(small_run, tmp_path):
    story = stories.told(load(small_run), stories.read_journal(small_run))
    (tmp_path / "old.svg").write_text("<svg/>")
    drawings.draw_all(story, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(drawings.FIGURES)
    true = facts.facts(story)
    assert true.keys() == NUMBERS.keys()
    assert all(true[name].keys() == NUMBERS[name].keys() for name in NUMBERS.keys() - {"beam"})
    assert set(facts.tables(story)) == set(chapter.blocks(TEXT))


def test_model_that_writes_something_else_is_refused(small_run):
    with pytest.raises(SightlineError, match=r"writes '.*', but the chapter tells of '14\. März 2026'"):
        stories.story_of(Path(small_run))
