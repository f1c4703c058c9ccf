"""What the server tells of runs: true, strict, bounded, and never of anything outside the folder."""

import json
import math
import os
import shutil
from dataclasses import replace

import httpx
import pytest

from sightline.runs.folder import pipeline_at
from sightline.studio.runs import ByteLimitedCache, Timelapse, TimelapseRequest
from sightline.studio.runs_table import MAX_FILE_BYTES, MAX_RESPONSE_BYTES, RunsTable, parse_record, read_since
from sightline.tracing.page import pack_bytes

from .runs import copy_of, metrics_of, served, small_run

TEXTS = {"masked-language-model": "red [MASK] cat", "classification": "red green cat"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small_run(tmp_path_factory.mktemp("told") / "runs" / "First Run")


@pytest.fixture(scope="module")
def api(run, models):
    copy_of(run, "second", model={"d_ff": 64})
    with served({"gpt": models["gpt"]}, run.parent) as url, httpx.Client(base_url=url, timeout=120) as client:
        yield client


def test_list_tells_of_every_run(api, run):
    cards = {card["id"]: card for card in api.get("/studio-api/runs").json()["runs"]}
    assert set(cards) == {"first-run", "second"}
    first = cards["first-run"]
    assert first["name"] == "First Run"
    assert first["task"] == "translation"
    assert first["generates"]
    assert first["example"] == {"text": "Good morning"}
    assert first["state"] == "ended"
    assert first["stop_reason"] == "steps"
    assert first["snapshots"] == [0, 1, 2, 4]
    assert first["has_best_model"]
    record = json.loads((run / "run.json").read_text())
    assert first["scores"]["bleu"] == record["outcome"]["scores"]["bleu"]


def test_metrics_are_those_of_the_file_and_then_only_what_is_new(api, run):
    answer = api.get("/studio-api/runs/first-run/metrics").json()
    assert answer["records"] == metrics_of(run)
    assert not answer["more"]
    again = api.get("/studio-api/runs/first-run/metrics", params={"since": answer["next"], "tag": answer["tag"]}).json()
    assert again == {**answer, "records": []}


def test_settings_are_flat_and_name_no_place_of_this_machine(api, run):
    first, second = (
        api.get(f"/studio-api/runs/{name}/settings").json()["settings"] for name in ("first-run", "second")
    )
    assert {name for name in first if first[name] != second[name]} == {"model.d_ff"}
    assert (first["model.d_ff"], second["model.d_ff"]) == ("32", "64")
    assert first["data.train"] == "pairs.tsv"
    assert str(run.parent.parent) not in json.dumps(first)


@pytest.mark.parametrize("step", [0, 2, None])
def test_trace_is_that_of_the_snapshot(api, run, step):
    body = {"step": step, "input": "red cat", "target": "RED CAT"}
    answer = api.post("/studio-api/runs/first-run/trace", json=body)
    expected = pipeline_at(run, step).trace("red cat", target="RED CAT", logit_lens=False, candidates=5)
    assert answer.content == pack_bytes(expected)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("nothing/metrics", None, 404, "no such run"),
        ("First%20Run/metrics", None, 404, "no such run"),
        ("..%2Fruns%2Fsecond/metrics", None, 404, "path not found"),
        ("first-run/metrics?since=-1", None, 400, "since"),
        ("first-run/metrics?tag=aaaaaaaaaaaaaaaa", None, 400, "tag"),
        ("first-run/trace", {"step": 3, "input": "red"}, 404, "no snapshot at this step"),
        ("first-run/trace", {"step": 4, "input": "red", "path": "/etc"}, 400, "path is not supported"),
        ("first-run/trace", {"step": 4, "input": "red " * 300}, 400, "the limit is 200"),
        ("first-run/trace", {"step": 4, "input": "x" * 3000}, 400, "input"),
        ("first-run/trace", {"step": 4, "input": " "}, 400, "nothing to trace"),
        ("first-run/trace", {"step": 4, "input": "red", "to": "xx"}, 400, ""),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(api, path, body, status, words):
    url = f"/studio-api/runs/{path}"
    answer = api.get(url) if body is None else api.post(url, json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_without_a_folder_there_is_nothing_of_runs(http):
    assert http.get("/studio-api/runs").status_code == 404
    assert "hasRuns = false" in http.get("/studio/runs_enabled.js").text


def test_with_a_folder_the_page_knows_it(api):
    assert api.get("/studio/runs_enabled.js").text == "export const hasRuns = true;\n"


@pytest.mark.parametrize("task", ["language-model", "masked-language-model", "classification", "chat"])
def test_every_kind_of_run_has_its_time_lapse(tmp_path, task):
    run = small_run(tmp_path / "runs" / task, task)
    text = TEXTS.get(task, "red green")
    timelapse = Timelapse()
    answers = {step: timelapse.trace(run, TimelapseRequest(step, text, None, None, 8)) for step in (0, 4, None)}
    assert len(set(answers.values())) == 3
    again = Timelapse().trace(run, TimelapseRequest(4, text, None, None, 8))  # from files alone: nothing is shared
    assert again == answers[4]


def test_lapse_opens_a_model_again_when_another_took_its_place(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    timelapse, question = Timelapse(), TimelapseRequest(None, "red cat", None, "RED", 8)
    before = timelapse.trace(tmp_path / "run", question)
    assert timelapse.trace(tmp_path / "run", question) is before
    shutil.rmtree(tmp_path / "run" / "model")
    shutil.copytree(run / "model", tmp_path / "run" / "model")
    weights = run / "snapshots" / "step-00000000" / "model.safetensors"
    shutil.copy(weights, tmp_path / "run" / "model" / "model.safetensors")
    os.utime(tmp_path / "run" / "model" / "config.json")
    assert timelapse.trace(tmp_path / "run", question) == timelapse.trace(run, replace(question, step=0))


def test_recent_keeps_what_fits_and_always_the_newest():
    recent = ByteLimitedCache(10)
    made = []
    for name in ("a", "b", "a", "c", "b", "d"):
        recent.get(name, lambda name=name: made.append(name) or name, lambda name: 50 if name == "d" else 4)
    assert made == ["a", "b", "c", "b", "d"]
    assert list(recent.entries) == ["d"]


def lines(*records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def test_half_a_line_waits_until_it_is_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    whole = lines({"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5})
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        begun = read_since(path, 0, "")
        path.write_bytes(whole)
        rest = read_since(path, begun["next"], begun["tag"])
        assert [*begun["records"], *rest["records"]] == [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5}]
        assert not rest["reset"]


def test_a_file_that_was_cut_back_is_told_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(lines({"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0}))
    known = read_since(path, 0, "")
    path.write_bytes(lines({"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.5}, {"step": 3, "loss": 2.0}))
    answer = read_since(path, known["next"], known["tag"])
    assert answer["reset"]
    assert [record["loss"] for record in answer["records"]] == [3.0, 2.5, 2.0]
    path.unlink()
    assert read_since(path, answer["next"], answer["tag"]) == {
        "records": [], "next": 0, "tag": "", "reset": True, "more": False,
    }  # fmt: skip


def test_a_large_file_comes_in_parts_that_are_all_of_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = [{"step": step, "loss": step / 7, "note": "x" * 100} for step in range(8000)]
    path.write_bytes(lines(*records))
    found, answer, parts = [], {"next": 0, "tag": "", "more": True}, 0
    while answer["more"]:
        answer = read_since(path, answer["next"], answer["tag"])
        assert len(json.dumps(answer["records"])) < 2 * MAX_RESPONSE_BYTES
        found += answer["records"]
        parts += 1
    assert found == records
    assert parts == math.ceil(path.stat().st_size / MAX_RESPONSE_BYTES)


def test_of_a_file_beyond_measure_the_end_is_told(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.write(b"x" * (MAX_FILE_BYTES + 100) + b"\n" + lines({"step": 9, "loss": 1.0}))
    answer, found = {"next": 0, "tag": "", "more": True}, []
    while answer["more"]:
        answer = read_since(path, answer["next"], answer["tag"])
        found += answer["records"]
    assert found == [{"step": 9, "loss": 1.0}]


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (b'{"step": 1, "loss": NaN, "a": Infinity}', {"loss": None, "a": None}),
        (b'{"step": 1, "b": -Infinity, "c": 1e999}', {"b": None, "c": None}),
        (b'{"step": 1, "big": 123456789012345678901234567890, "none": null}', {"big": None, "none": None}),
        (b'{"step": 1, "yes": true, "list": [1], "object": {}}', {}),
        (b'{"step": 1, "text": "\\ud800<script>"}', {"text": "\ud800<script>"}),
        (b'{"step": -1}', None),
        (b'{"step": 1.5}', None),
        (b'{"loss": 1}', None),
        (b"[1, 2]", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"step": ' + b"1" * 5000 + b"}", None),
    ],
)  # fmt: skip
def test_a_line_of_any_kind_becomes_strict_json_or_nothing(line, record):
    found = parse_record(line)
    assert found == (None if record is None else {"step": 1, **record})
    json.loads(json.dumps(found, allow_nan=False).encode("ascii"))


def test_links_out_of_the_folder_are_not_followed(run, tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    (root / "out").symlink_to(run)
    (root / "loop").symlink_to(root / "loop")
    inside = root / "inside"
    shutil.copytree(run, inside)
    shutil.rmtree(inside / "snapshots")
    (inside / "snapshots").symlink_to(run / "snapshots")
    (inside / "metrics.jsonl").unlink()
    (inside / "metrics.jsonl").symlink_to(run / "metrics.jsonl")
    shutil.rmtree(inside / "model")
    (inside / "model").symlink_to(run / "model")
    table = RunsTable(root)
    [card] = table.cards()
    assert (card["id"], card["snapshots"], card["has_best_model"]) == ("inside", [], False)
    assert read_since(inside / "metrics.jsonl", 0, "")["records"] == []


def test_ids_stay_when_runs_come_and_go(run, tmp_path):
    shutil.copytree(run, tmp_path / "B")
    table = RunsTable(tmp_path)
    assert [card["id"] for card in table.cards()] == ["b"]
    shutil.copytree(run, tmp_path / "A!")
    shutil.copytree(run, tmp_path / "b")
    assert {card["name"]: card["id"] for card in table.cards()} == {"B": "b", "A!": "a", "b": "b-2"}
    shutil.rmtree(tmp_path / "B")
    assert {card["id"] for card in table.cards()} == {"a", "b-2"}


def test_a_run_may_be_the_folder_itself(run):
    assert [card["id"] for card in RunsTable(run).cards()] == ["first-run"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1, "resolved": 3, "outcome": [], "began": "x"}'])
def test_a_broken_journal_breaks_no_list(run, tmp_path, text):
    shutil.copytree(run, tmp_path / "broken")
    (tmp_path / "broken" / "run.json").write_text(text)
    [card] = RunsTable(tmp_path).cards()
    assert card["task"] == ""
    assert not card["generates"]
    assert card["example"]["text"]
    assert RunsTable(tmp_path).settings("broken") == {}


def test_a_run_without_an_outcome_is_training_as_long_as_it_writes(run, tmp_path):
    shutil.copytree(run, tmp_path / "live")
    record = json.loads((run / "run.json").read_text())
    (tmp_path / "live" / "run.json").write_text(json.dumps({**record, "outcome": None}))
    os.utime(tmp_path / "live" / "run.json", (4_000_000_000, 4_000_000_000))  # however long this takes, just now
    table = RunsTable(tmp_path)
    assert table.cards()[0]["state"] == "training"
    for name in ("run.json", "metrics.jsonl"):
        os.utime(tmp_path / "live" / name, (0, 1))
    assert table.cards()[0]["state"] == "stalled"
