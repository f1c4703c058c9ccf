"""A row of the results table: the models to train, their test sets, and the published result to compare with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

DATA, RUNS = "DATA", "RUNS"
"""Placeholders in commands for the folders of the corpora and of the runs."""


@dataclass(frozen=True)
class Training:
    """One run: `sightline train RECIPE SETTINGS --out RUNS/ROW/FOLDER`."""

    folder: str
    recipe: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """One model and its score: the training runs that lead to it, and the test set, used once at the end."""

    name: str
    trainings: tuple[Training, ...]
    """In order; the model of the last one is scored."""
    test: tuple[str, ...]
    """Options of `sightline evaluate`."""
    prerequisites: tuple[Training, ...] = ()
    """Training runs of other models whose output is needed, such as a tokenizer; their minutes are not counted."""


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    name: str
    """As in `make results ROW=name`."""
    title: str
    measure: str
    """The metric of `sightline evaluate` that is compared."""
    published: str
    """The published result and its source; empty if nothing is comparable."""
    needs: tuple[str, ...]
    """Files below the folder of the corpora."""
    trials: tuple[Trial, ...]
    prepare: Callable[[Path, Path], None] | None = None
    """Writes the files that the training runs read, from the corpora into the folder of the row."""
    decimals: int = 2
    also: tuple[str, ...] = ()
    """Other metrics of `sightline evaluate` for the full table."""
    falls_short: bool = False
    """Whether the published result is better: then the row is in docs/results.md only, with the reason."""
    derive: Callable[[Mapping[str, object]], float] | None = None
    """Computes the metric from others, if `sightline evaluate` does not give it."""

    def missing(self, data: Path) -> list[str]:
        """Return the missing files."""
        return [name for name in self.needs if not (data / name).is_file()]

    def score(self, values: Mapping[str, object]) -> float:
        """Return the metric from the values of `sightline evaluate`."""
        return self.derive(values) if self.derive else float(str(values[self.measure]))

    def summary(self, scores: list[float]) -> str:
        """Return the score, or the mean and standard deviation of several."""
        if len(scores) < 2:
            return "".join(f"{score:.{self.decimals}f}" for score in scores)
        return f"{mean(scores):.{self.decimals}f} ± {stdev(scores):.{self.decimals}f} ({len(scores)} seeds)"


def seeds(make: Callable[[int], Trial], *, n: int) -> tuple[Trial, ...]:
    """Return the same trial with the seeds 1 to n."""
    return tuple(make(seed) for seed in range(1, n + 1))
