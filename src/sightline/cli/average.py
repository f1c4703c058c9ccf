"""`sightline average`: the mean of a run's last checkpoints as a model (Vaswani et al. 2017, 6.1)."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.output import put_json, put_line
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.bundle import Bundle


USUAL = 5
"""Checkpoints that are averaged if nobody says how many, as the paper does."""


def average(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, with checkpoints in it.")],
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many of the newest checkpoints; else up to 5.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The model folder to write; else RUN/model-average.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Average the last checkpoints of a run.

    The mean of their weights is often a better model than any one of them.

    \b
    Examples:
      sightline average runs/en-de
      sightline average runs/en-de --last 3 --out models/en-de
    """
    from sightline.bundle import save
    from sightline.training.rotation import step_of

    chosen = newest(run, last)
    steps = [step_of(path) for path in chosen]
    folder = out or run / "model-average"
    save(averaged(run, chosen, steps), folder)
    if as_json:
        put_json({"folder": str(folder), "steps": steps})
    else:
        put_line(f"{folder}: the mean of {len(steps)} checkpoints, steps {listed(steps)}")


def newest(run: Path, wanted: int | None) -> list[Path]:
    """Return the last checkpoints of a run, or say how many there are."""
    from sightline.training.rotation import checkpoints, step_of

    found = checkpoints(run / "checkpoints")
    if not found:
        raise RefusedError(f"{run}: there are no checkpoints: give the folder of a run, as RUN of RUN/checkpoints")
    count = min(len(found), USUAL) if wanted is None else wanted
    if len(found) < count:
        raise RefusedError(
            f"{run}: {count} checkpoints were asked for, but only {len(found)} are there (steps "
            f"{listed([step_of(path) for path in found])}): take --last {len(found)}, or keep more while training "
            f"with training.keep_last={count}"
        )
    return found[-count:]


def averaged(run: Path, chosen: list[Path], steps: list[int]) -> "Bundle":
    """Return the run's model with the mean of the checkpoints' weights."""
    from sightline.bundle import load
    from sightline.training.average import mean_of_files

    bundle = load(run)
    for path in chosen:
        check_weights(path)
    files = [path / "model.safetensors" for path in chosen]
    check_fit(bundle, files[0])
    means = mean_of_files(files)
    bundle.model.load_state_dict({name: mean.float() for name, mean in means.items()}, strict=False)
    note = f"\n## Average\n\nThe weights are the mean of those after steps {listed(steps)}.\n"
    return replace(bundle, card=bundle.card + note if bundle.card else "")


def check_weights(checkpoint: Path) -> None:
    """Refuse a checkpoint whose weights are not what was written."""
    from sightline.training.checkpoint import SUMS, check_digest, read_sums
    from sightline.training.tensor_file import opened

    path = checkpoint / "model.safetensors"
    expected = read_sums(checkpoint / SUMS)[path.name]
    with opened(path) as file:
        check_digest(file, path, expected)


def check_fit(bundle: "Bundle", path: Path) -> None:
    """Refuse checkpoints of another model than the one in the run folder."""
    from sightline.bundle.weights import check_tensors
    from sightline.training.tensor_file import opened_tensors

    with opened_tensors(path) as file:
        check_tensors(file.header, {name: tuple(p.shape) for name, p in bundle.model.named_parameters()}, path)


def listed(steps: list[int]) -> str:
    """Write steps for people."""
    return ", ".join(map(str, steps))
