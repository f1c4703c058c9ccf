"""metrics.jsonl can be followed, truncated and trusted, and TensorBoard shows each event once."""

import json
import math
import os
import sys
from importlib.util import find_spec

import pytest

from sightline.errors import InputError, RefusedError, SightlineError
from sightline.runtime import import_optional
from sightline.training.metrics import MetricsFile, TensorBoardWriter, read_metrics
from sightline.training.report import Sample


def write_steps(path, *steps: int) -> MetricsFile:
    metrics = MetricsFile(path)
    for step in steps:
        metrics.append({"step": step, "loss": 1 / (step + 1)})
    return metrics


def test_record_can_be_read_at_once_by_another(tmp_path):
    path = tmp_path / "metrics.jsonl"
    record = {"step": 7, "loss": 0.1 + 0.2, "kind": "validation", "bleu": None, "signature": "größer\n\x1b"}
    MetricsFile(path).append(record)
    assert read_metrics(path) == [record]
    assert path.read_bytes().count(b"\n") == 1


def test_line_is_json_of_the_strict_kind(tmp_path):
    path = tmp_path / "metrics.jsonl"
    MetricsFile(path).append({"step": 1, "loss": math.nan, "worst": -math.inf, "name": "half \ud83d"})
    line = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert line == {"step": 1, "loss": None, "worst": None, "name": "half \ud83d"}


@pytest.mark.parametrize("record", [{"loss": 1.0}, {"step": None}, {"step": -1}, {"step": 1.0}, {"step": "1"}])
def test_record_without_its_step_is_refused(tmp_path, record):
    with pytest.raises(InputError, match='must have a "step", an integer of at least 0'):
        MetricsFile(tmp_path / "metrics.jsonl").append(record)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_truncating_leaves_each_step_once(tmp_path):
    uninterrupted = write_steps(tmp_path / "whole.jsonl", *range(1, 9))
    killed = write_steps(tmp_path / "killed.jsonl", *range(1, 7))
    assert killed.truncate(4) == 2
    for step in range(5, 9):
        killed.append({"step": step, "loss": 1 / (step + 1)})
    assert killed.path.read_bytes() == uninterrupted.path.read_bytes()


def test_truncating_drops_a_validation_that_will_be_repeated(tmp_path):
    metrics = write_steps(tmp_path / "metrics.jsonl", 1, 2)
    for step in (1, 2):
        metrics.append({"step": step, "validation_loss": 1.0})
    assert metrics.truncate(2, validated=1) == 1
    assert [(record["step"], "validation_loss" in record) for record in read_metrics(metrics.path)] == [
        (1, False), (2, False), (1, True),
    ]  # fmt: skip


def test_truncating_to_the_start_leaves_an_empty_file(tmp_path):
    metrics = write_steps(tmp_path / "metrics.jsonl", 1, 2)
    metrics.truncate(0)
    assert read_metrics(metrics.path) == []


def test_truncating_a_missing_file_is_no_error(tmp_path):
    assert MetricsFile(tmp_path / "metrics.jsonl").truncate(3) == 0
    assert list(tmp_path.iterdir()) == []


def test_kill_at_any_byte_of_the_last_line_loses_at_most_that_line(tmp_path):
    whole = write_steps(tmp_path / "whole.jsonl", 1, 2).path.read_bytes()
    path = tmp_path / "metrics.jsonl"
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        expected = [1, 2] if end == len(whole) - 1 else [1]  # only the end of the line is lacking: nothing is lost
        assert [record["step"] for record in read_metrics(path)] == expected
        MetricsFile(path).truncate(2)
        assert path.read_bytes() == whole[: first if len(expected) == 1 else len(whole)]


def test_failed_rewrite_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    metrics = write_steps(tmp_path / "metrics.jsonl", 1, 2, 3)
    before = metrics.path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SightlineError, match=r"could not truncate .*metrics\.jsonl: No space left on device"):
        metrics.truncate(1)
    assert metrics.path.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    metrics = write_steps(tmp_path / "metrics.jsonl", 1)
    before, write = metrics.path.read_bytes(), os.write

    def half(descriptor, data):
        if len(data) < 15:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(SightlineError, match=r"could not write to .*: No space left on device"):
        metrics.append({"step": 2, "loss": 0.5})
    assert metrics.path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"step": 2, "loss": NaN}', "NaN is not a JSON number"),
        (b'{"step": 2, "loss": 1e999}', "'loss' is not a finite number"),
        (b'{"step": 2, "step": 3}', "duplicate key 'step'"),
        (b'{"step": true}', 'must have a "step"'),
        (b'{"step": 9223372036854775808}', 'must have a "step"'),
        (b'{"step": 2, "loss": [1]}', "'loss' must be a number or text"),
        (b'{"step": 2, "loss": false}', "'loss' must be a number or text"),
        (b"[2]", "not an object"),
        (b"", "this is not JSON"),
        (b'{"step": 2, "n": "\xff"}', "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"step": 2, "n": ' + b"9" * 5000 + b"}", "this is not JSON"),
        (b'"' + b"x" * (3 << 20), "has more than 1,048,576 bytes"),
    ],
)
def test_hostile_line_is_refused_with_its_place(tmp_path, line, reason):
    path = tmp_path / "metrics.jsonl"
    hostile = b'{"step": 1}\n' + line + b'\n{"step": 3}\n'
    path.write_bytes(hostile)
    for attempt in (lambda: read_metrics(path), lambda: MetricsFile(path).truncate(3)):
        with pytest.raises(InputError, match=rf"metrics\.jsonl:2: .*{reason}"):
            attempt()
    assert path.read_bytes() == hostile


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("folder", "pipe", "link", "missing"):
        with pytest.raises(RefusedError, match=name):
            read_metrics(tmp_path / name)
    for name in ("folder", "pipe", "link"):
        with pytest.raises(SightlineError, match=name):
            MetricsFile(tmp_path / name).append({"step": 1})
    assert not (tmp_path / "elsewhere").exists()


needs_tensorboard = pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")


def curves(folder) -> dict[str, list[tuple[int, float]]]:
    """Read the folder as TensorBoard does."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    found = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    for tag in events.Tags()["tensors"]:
        found[tag] = [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(tag)]
    return found


@needs_tensorboard
def test_training_and_validation_are_separate_and_texts_left_out(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 5, "loss": 2.5, "skipped": 1, "signature": "text", "nothing": None})
    writer.append({"step": 6, "validation_loss": 1.5, "bleu": 30.0, "best_step": None})
    assert curves(tmp_path) == {  # before it is closed: a curve grows during the run
        "train/loss": [(5, 2.5)],
        "train/skipped": [(5, 1.0)],
        "validation/loss": [(6, 1.5)],
        "validation/bleu": [(6, 30.0)],
    }
    writer.close()


@needs_tensorboard
def test_samples_are_shown_as_they_are(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 6, "validation_loss": 1.5}, [Sample("<b>*a*\n", "x", ""), Sample("c", "", "d")])
    writer.close()
    ((step, text),) = curves(tmp_path)["validation/samples/text_summary"]
    assert step == 6
    assert text.splitlines() == [
        "    source     <b>*a*\\n",
        "    output     x",
        "",
        "---",
        "",
        "    source     c",
        "    output     (empty)",
        "    reference  d",
    ]


@needs_tensorboard
def test_resumed_run_draws_each_step_once(tmp_path):
    killed = TensorBoardWriter(tmp_path)
    for step in range(1, 7):
        killed.append({"step": step, "loss": 10.0 + step})
    killed.close()
    resumed = TensorBoardWriter(tmp_path, purge_step=5)
    for step in range(5, 9):
        resumed.append({"step": step, "loss": 20.0 + step})
    resumed.close()
    expected = [*((step, 10.0 + step) for step in range(1, 5)), *((step, 20.0 + step) for step in range(5, 9))]
    assert curves(tmp_path)["train/loss"] == expected


@needs_tensorboard
def test_loss_that_is_no_number_is_written_as_such(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.append({"step": 1, "loss": math.nan})
    writer.close()
    assert math.isnan(curves(tmp_path)["train/loss"][0][1])


@needs_tensorboard
def test_folder_that_cannot_be_written_to_is_an_error_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SightlineError, match=r"could not write TensorBoard events into .*file"):
        TensorBoardWriter(tmp_path / "file")


def test_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(RefusedError) as caught:
        TensorBoardWriter(tmp_path)
    assert str(caught.value) == (
        "writing TensorBoard events needs the package tensorboard, which is not installed: "
        'pip install "sightline[tensorboard]"'
    )


def test_package_that_is_there_is_returned():
    assert import_optional("json.decoder", extra="x", purpose="this").__name__ == "json.decoder"


def test_package_that_lacks_another_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        import_optional("broken_package", extra="x", purpose="this")
