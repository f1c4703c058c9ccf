"""What a row of the table of results is: which models are trained, what they are scored on, and beside whose figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

DATA, RUNS = "DATA", "RUNS"
"""Stand in commands for the folder of the corpora and for that of the runs."""


@dataclass(frozen=True)
class Training:
    """One run: `sightline train RECIPE SETTINGS --out RUNS/ROW/FOLDER`."""

    folder: str
    recipe: str
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """One model and its score: the trainings that lead to it, and the test set, which is read once, at the end."""

    name: str
    trainings: tuple[Training, ...]
    """In their order; the last one's model is scored."""
    test: tuple[str, ...]
    """Options of `sightline evaluate`."""
    beforehand: tuple[Training, ...] = ()
    """Of other models, for what these leave behind, such as a tokenizer: their minutes are not this model's."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    """What is typed: `make results ROW=name`."""
    title: str
    measure: str
    """The value of `sightline evaluate` that counts."""
    published: str
    """What others have reached, and who; empty where nothing is comparable."""
    needs: tuple[str, ...]
    """Files below the folder of the corpora."""
    trials: tuple[Trial, ...]
    prepare: Callable[[Path, Path], None] | None = None
    """Makes files that the trainings read, from the corpora into the row's folder."""
    places: int = 2
    also: tuple[str, ...] = ()
    """Other values of `sightline evaluate` that the full table has."""
    derive: Callable[[Mapping[str, object]], float] | None = None
    """Computes the measure from other values, where `sightline evaluate` does not give it."""

    def missing(self, data: Path) -> list[str]:
        """Return the files that are not there."""
        return [name for name in self.needs if not (data / name).is_file()]

    def score(self, values: Mapping[str, object]) -> float:
        """Return what counts of the values that `sightline evaluate` gave."""
        return self.derive(values) if self.derive else float(str(values[self.measure]))

    def summary(self, scores: list[float]) -> str:
        """Return scores in a few signs: the mean and the spread where there are several of the same."""
        if len(scores) < 2:
            return "".join(f"{score:.{self.places}f}" for score in scores)
        return f"{mean(scores):.{self.places}f} ± {stdev(scores):.{self.places}f} ({len(scores)} seeds)"


def seeds(make: Callable[[int], Trial], *, n: int) -> tuple[Trial, ...]:
    """Return the same trial with the seeds 1 to n."""
    return tuple(make(seed) for seed in range(1, n + 1))
