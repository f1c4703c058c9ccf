"""Names, figures and numbers of docs/walkthrough.md exist and are true."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from making import chapter, drawings, facts
from making import example as examples

from named import ROOT, is_defined
from runs.small import TINY
from sightline.errors import SightlineError
from sightline.runs import train
from sightline.tasks import load

DOCS = ROOT / "docs"

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


def test_every_generated_figure_is_shown():
    files = {path.stem for path in (DOCS / "figures").glob("*.svg")}
    assert files == set(drawings.FIGURES)
    assert sorted(SHOWN.findall(TEXT)) == sorted(f"figures/{name}.svg" for name in drawings.FIGURES)


@pytest.mark.parametrize("name", drawings.FIGURES)
def test_figure_is_small_and_valid(name):
    path = DOCS / "figures" / f"{name}.svg"
    assert path.stat().st_size < 150_000
    ElementTree.parse(path)  # noqa: S314 - our own


@pytest.mark.parametrize("name", sorted(NUMBERS.keys() & drawings.FIGURES.keys()))
def test_numbers_appear_in_their_figure(name):
    root = ElementTree.parse(DOCS / "figures" / f"{name}.svg").getroot()  # noqa: S314 - our own
    written = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    for words, number in NUMBERS[name].items():
        assert number in written, words


def test_every_number_in_the_prose_is_true():
    numbers = chapter.find_numbers(TEXT)
    assert {"0.671", "−0.656", ".49", "79%"} <= set(numbers)
    assert chapter.find_stale_numbers(TEXT, TRUE) == []


def test_stale_number_is_found():
    assert chapter.find_stale_numbers(TEXT.replace("0.671", "0.672"), TRUE) == ["0.672"]


def test_links_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (DOCS / target).exists()


def test_tables_are_replaced_and_nothing_else():
    tables = {name: f"the table of {name}" for name in chapter.blocks(TEXT)}
    replaced = chapter.replace_tables(TEXT, tables)
    assert all(f"-->\nthe table of {name}\n<!-- end -->" in replaced for name in tables)
    assert chapter.BLOCK.sub("", replaced) == chapter.BLOCK.sub("", TEXT)
    assert chapter.replace_tables(replaced, tables) == replaced


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A run of the demo recipe with the layers and heads that the chapter shows, trained for two steps."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    sizes = {"model.n_heads": 4, "model.n_encoder_layers": 2, "model.n_decoder_layers": 2}
    rest = {"training.snapshots": False, "training.warmup_steps": 1, "training.max_steps": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sightline.data.corpora.builtin.N_TRAIN", 150)
        patch.setattr("sightline.data.corpora.builtin.N_UNSEEN", 10)
        train("phrases", {**TINY, **sizes, **rest}, out=folder)
    return folder


def test_figures_numbers_and_tables_are_generated_from_a_run(small_run, tmp_path):
    example = examples.trace_example(load(small_run), examples.read_run_record(small_run))
    (tmp_path / "old.svg").write_text("<svg/>")
    drawings.draw_all(example, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(drawings.FIGURES)
    true = facts.collect_facts(example)
    assert true.keys() == NUMBERS.keys()
    assert all(true[name].keys() == NUMBERS[name].keys() for name in NUMBERS.keys() - {"beam"})
    assert set(facts.tables(example)) == set(chapter.blocks(TEXT))


def test_model_with_another_translation_is_refused(small_run):
    with pytest.raises(SightlineError, match=r"writes '.*', but the chapter describes '14\. März 2026'"):
        examples.load_example(Path(small_run))
