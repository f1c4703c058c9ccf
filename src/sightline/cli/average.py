"""`sightline average`: the mean of a run's last checkpoints as a model (Vaswani et al. 2017, 6.1)."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.texts import put_json, put_line
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.bundle import Bundle


DEFAULT_COUNT = 5
"""Checkpoints averaged by default, as in the paper."""


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder with checkpoints.")],
    last: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of checkpoints to average, newest first; default: up to 5."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Model folder to write; default: RUN/model-average.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Average the last checkpoints of a run into one model.

    The mean of their weights is often a better model than any single checkpoint.

    \b
    Examples:
      sightline average runs/en-de
      sightline average runs/en-de --last 3 --out models/en-de
    """
    from sightline.bundle import save
    from sightline.training.checkpoint import parse_step

    chosen = newest_checkpoints(run, last)
    steps = [parse_step(path) for path in chosen]
    folder = out or run / "model-average"
    save(average_checkpoints(run, chosen, steps), folder)
    if as_json:
        put_json({"folder": str(folder), "steps": steps})
    else:
        put_line(f"{folder}: the mean of {len(steps)} checkpoints, steps {join_steps(steps)}")


def newest_checkpoints(run: Path, wanted: int | None) -> list[Path]:
    """Return the last checkpoints of a run."""
    from sightline.training.checkpoint import list_checkpoints, parse_step

    found = list_checkpoints(run / "checkpoints")
    if not found:
        raise RefusedError(f"{run}: there are no checkpoints: give a run folder, the RUN of RUN/checkpoints")
    count = min(len(found), DEFAULT_COUNT) if wanted is None else wanted
    if len(found) < count:
        raise RefusedError(
            f"{run}: {count} checkpoints were requested, but there are only {len(found)} (steps "
            f"{join_steps([parse_step(path) for path in found])}): use --last {len(found)}, or train with "
            f"training.keep_checkpoints={count}"
        )
    return found[-count:]


def average_checkpoints(run: Path, chosen: list[Path], steps: list[int]) -> "Bundle":
    """Return the run's model with the mean of the checkpoints' weights."""
    from sightline.bundle import load
    from sightline.training.optimizer import average_files

    bundle = load(run)
    for path in chosen:
        check_weights(path)
    files = [path / "model.safetensors" for path in chosen]
    check_fit(bundle, files[0])
    means = average_files(files)
    bundle.model.load_state_dict({name: mean.float() for name, mean in means.items()}, strict=False)
    note = f"\n## Average\n\nThe weights are the mean of those after steps {join_steps(steps)}.\n"
    facts = replace(bundle.training, scores={}, step=None, calibration=None)  # those of other weights
    return replace(bundle, card=bundle.card + note if bundle.card else "", training=facts)


def check_weights(checkpoint: Path) -> None:
    """Refuse a checkpoint whose weights do not match their checksum."""
    from sightline.bundle.weights import open_required
    from sightline.training.checkpoint import SUMS, check_digest, read_sums

    path = checkpoint / "model.safetensors"
    expected = read_sums(checkpoint / SUMS)[path.name]
    with open_required(path) as file:
        check_digest(file, path, expected)


def check_fit(bundle: "Bundle", path: Path) -> None:
    """Refuse checkpoints of another model than the one in the run folder."""
    from sightline.bundle.weights import check_tensors, open_tensor_file

    with open_tensor_file(path) as file:
        check_tensors(file.header, {name: tuple(p.shape) for name, p in bundle.model.named_parameters()}, path)


def join_steps(steps: list[int]) -> str:
    """Join steps for a message."""
    return ", ".join(map(str, steps))
