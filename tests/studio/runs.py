"""Folders of small runs, made in seconds, and a studio that shows them."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from runs.small import overrides
from sightline.runs import train
from sightline.serving.http import ServingSettings, background
from sightline.serving.service import service
from sightline.studio import routes


def small_run(folder: Path, task: str = "translation", **more: object) -> Path:
    """Train a run of a second that keeps snapshots of steps 0, 1, 2 and 4."""
    beside = folder.parent.parent / f"{folder.name}-data"
    return train(task, {**overrides(beside, task), "training.snapshots": True, **more}, out=folder).folder


def metrics_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def copy_of(run: Path, name: str, **changes: dict[str, object]) -> Path:
    """Copy a run under another name, with other settings (section={name: value}) and a loss half as large."""
    copy = run.parent / name
    shutil.copytree(run, copy)
    record = json.loads((copy / "run.json").read_text())
    for section, values in changes.items():
        record["resolved"][section] |= values
    (copy / "run.json").write_text(json.dumps(record))
    records = [{**record, **({"loss": record["loss"] / 2} if "loss" in record else {})} for record in metrics_of(run)]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return copy


@contextmanager
def served(models: dict, root: Path) -> Iterator[str]:
    """Serve the studio with the runs of a folder."""
    routers = partial(routes.routers, runs=root)
    app = service(models, ServingSettings(port=0), more_routers=routers, public_paths=routes.public_paths())
    with background(app) as address:
        yield address
