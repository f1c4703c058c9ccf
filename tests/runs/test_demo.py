"""The demo and the built-in corpora."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from sightline.data.corpora import builtin
from sightline.data.corpora.builtin import phrasebook, resolve_builtin, training_phrases, validation_phrases
from sightline.data.corpora.settings import DataSettings
from sightline.errors import SettingsError
from sightline.runs.demo import demo, print_demo
from sightline.training.report import SilentReporter

from . import small_demo
from .small_demo import SMALL


@pytest.fixture
def few_phrases():
    with small_demo.few_phrases():
        yield


def test_no_unseen_phrase_is_learned_in_any_direction(few_phrases):
    learned = {text for line in training_phrases() for text in line.split("\t")[:2]}
    assert not learned & {text for line in validation_phrases() for text in line.split("\t")[:2]}
    assert not learned & {phrase.text(language) for phrase in phrasebook().unseen for language in ("en", "de", "it")}


def test_no_source_has_two_answers(few_phrases):
    answers: dict[tuple[str, str], set[str]] = {}
    for line in training_phrases():
        source, target, language = line.split("\t")
        answers.setdefault((source, language), set()).add(target)
    assert max(map(len, answers.values())) == 1


def test_the_builtin_corpus_becomes_an_ordinary_file_once(tmp_path, few_phrases):
    data = DataSettings(train="builtin:phrasebook", languages=("en", "de", "fr", "es", "pt", "it"))
    first = resolve_builtin(tmp_path, data)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert resolve_builtin(tmp_path, data) == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    with pytest.raises(SettingsError, match=r"no built-in corpus 'phrasbook', only .*did you mean phrasebook"):
        resolve_builtin(tmp_path, DataSettings(train="builtin:phrasbook"))


def test_dialogues_come_from_the_package(tmp_path):
    pytest.importorskip("chatterbot_corpus")
    found = resolve_builtin(tmp_path, DataSettings(train="builtin:chatterbot"))
    lines = Path(found.train).read_text(encoding="utf-8").splitlines()
    dialogues = [json.loads(line)["turns"] for line in lines]
    assert ["How are you?", "I am doing well."] in dialogues


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(builtin, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install .sightline\[chat\].*data\.train=FILE"):
        resolve_builtin(tmp_path, DataSettings(train="builtin:chatterbot"))


def test_the_demo_trains_once_and_again_only_when_asked(tmp_path, few_phrases):
    out, reporter = tmp_path / "runs" / "demo", SilentReporter()
    first = demo(out, reporter, overrides=SMALL)
    assert reporter.steps[-1] == 6
    assert (first.n_unseen, len(first.shown)) == (10, 6)
    again = demo(out, reporter := SilentReporter(), overrides=SMALL)
    assert not reporter.steps
    assert again.shown == first.shown
    demo(out, reporter, retrain=True, overrides=SMALL)
    assert reporter.steps[-1] == 6


@pytest.fixture(scope="module")
def finished_demo(tmp_path_factory):
    return small_demo.small_demo(tmp_path_factory.mktemp("done") / "demo")


@pytest.fixture
def done(finished_demo, tmp_path, few_phrases):
    """A copy of a finished demo."""
    return Path(shutil.copytree(finished_demo, tmp_path / "demo"))


def test_the_demo_prints_score_folder_page_and_commands(done, tmp_path):
    lines: list[str] = []
    print_demo(demo(done, SilentReporter()), lines.append)
    text = "\n".join(lines)
    assert "March 14, 2026" in text
    assert "% of 10 unseen phrases are translated exactly right" in text
    assert f"{tmp_path / 'demo' / 'look.html'} (open it in a browser, works offline)" in text
    assert f"The model is in {tmp_path / 'demo' / 'model'}" in text
    assert f"sightline translate {tmp_path / 'demo'} --to fr" in text


def test_the_page_of_the_demo_is_drawn_without_matplotlib(done):
    drawn = (done / "look.html").read_text(encoding="utf-8")
    assert "March 14, 2026" in drawn
    assert "default-src 'none'" in drawn  # it has no way to the network
    data = json.loads(re.search(r'id="trace">(.*?)</script>', drawn, re.DOTALL)[1])
    assert data["trace"]["tree"] is not None
    assert data["trace"]["head_ablation"] is not None


def test_the_page_of_the_demo_is_drawn_when_it_is_missing_or_older_than_the_model(done):
    page = demo(done, SilentReporter()).page
    drawn = page.read_text(encoding="utf-8")
    page.write_text("mine", encoding="utf-8")
    demo(done, SilentReporter())
    assert page.read_text(encoding="utf-8") == "mine"
    os.utime(page, (0, 0))
    demo(done, SilentReporter())
    assert page.read_text(encoding="utf-8") == drawn
    page.unlink()
    demo(done, SilentReporter())
    assert page.read_text(encoding="utf-8") == drawn


def test_the_demo_continues_if_no_page_can_be_written(done):
    lines = []
    (done / "look.html").unlink()
    (done / "look.html").mkdir()
    os.utime(done / "look.html", (0, 0))
    found = demo(done, SilentReporter())
    assert found.page is None
    print_demo(found, lines.append)
    assert "browser" not in "\n".join(lines)
