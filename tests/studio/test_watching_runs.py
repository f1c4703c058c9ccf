"""`serve --runs DIR` alone: a run is watched from its first step, before there is any model."""

import json
import re

import httpx
import pytest

from browser import settle

from .runs import served

RECORD = {"format": 1, "name": "translation", "recipe": {"task": "translation"}, "resolved": {"task": "translation"}}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("watched") / "runs"


@pytest.fixture(scope="module")
def url(root):
    """A server that was started before the folder existed."""
    with served({}, root) as address:
        yield address


def begin_run(root, name: str) -> None:
    """Write what a run has written before its first validation."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({**RECORD, "began": ["2026-11-18 10:00:00"], "outcome": None}))
    lines = [json.dumps({"step": step, "loss": 6 - step / 10, "seconds": step}) for step in range(1, 11)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_a_folder_that_does_not_exist_yet_has_no_runs(tmp_path):
    with served({}, tmp_path / "later") as address, httpx.Client(base_url=address, timeout=120) as client:
        assert client.get("/studio-api/runs").json() == {"runs": []}
        assert client.get("/v1/models").json()["data"] == []
        assert client.get("/languages").json() == []


def test_requests_to_a_model_say_that_there_is_none(url):
    answer = httpx.post(f"{url}/translate", json={"q": "the cat", "target": "de"}, timeout=120)
    assert answer.status_code == 404
    assert "no model of this server supports this" in answer.json()["error"]["message"]


def test_a_run_is_listed_before_its_first_validation(url, root):
    begin_run(root, "first")
    with httpx.Client(base_url=url, timeout=120) as client:
        [card] = client.get("/studio-api/runs").json()["runs"]
        assert (card["has_best_model"], card["scores"], card["best_step"]) == (False, {}, None)
        records = client.get(f"/studio-api/runs/{card['id']}/metrics").json()["records"]
        assert [record["step"] for record in records] == list(range(1, 11))


@pytest.mark.browser
def test_the_page_opens_at_the_runs_and_draws_the_loss(tabs, url, root):
    begin_run(root, "first")
    page = tabs("", url=url, fresh=True)
    page.wait_for_selector("#runs-curves svg [class*=run-color]", state="attached")
    assert page.evaluate("location.hash").startswith("#/runs")
    assert page.title() == "Runs · Sightline"
    assert page.locator("nav [aria-current]").inner_text() == "Runs"
    assert page.locator("[role=alert]:not(:empty)").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("view", ["watch", "walk", "positions", "words"])
def test_other_views_say_that_there_is_no_model_yet(tabs, url, view):
    page = tabs(f"#/{view}", url=url, fresh=True)
    page.wait_for_selector("main p.explanation")
    settle(page)
    assert re.match("There is no model yet", page.locator("main").inner_text())
    assert page.locator("[role=alert]:not(:empty)").count() == 0
