"""The model card of a run: training data, settings and scores, with signatures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sightline.run.examples import Examples
from sightline.training.report import Sample
from sightline.training.settings import TrainingSettings
from sightline.training.state import Metric, Progress


def card_sections(
    examples: Examples,
    settings: TrainingSettings,
    progress: Progress,
    scores: Mapping[str, Metric],
    samples: Sequence[Sample],
) -> dict[str, str]:
    """Return the sections of the model card about the run."""
    recipe, data = examples.recipe, examples.data
    names = [Path(name).name for name in (data.train, data.train_target) if name]
    counts = "; ".join(examples.train.dataset.counts.report())
    sections = {
        "Task": f"{recipe.task}, trained with the recipe `{recipe.name}`." + describe_languages(data.languages),
        "Data": (
            f"Trained on {' and '.join(names)}: {int(examples.train.selected.sum()):,} examples ({counts}); "
            f"validated on {int(examples.valid.selected.sum()):,} held-out examples."
        ),
        "Training": (
            f"Saved at step {progress.best_step or progress.step:,} of {progress.step:,} "
            f"({progress.seconds / 60:.1f} minutes), seed {settings.seed}, "
            f"optimizer {settings.optimizer}, schedule {settings.schedule}."
        ),
        "Scores on the validation set": "\n".join(f"- {name}: {format_score(value)}" for name, value in scores.items()),
    }
    if samples:
        lines = ((one_line(s.source), one_line(s.output), one_line(s.reference)) for s in samples)
        sections["Samples"] = "\n".join(f"- `{a}` → `{b}` (reference: `{c}`)" for a, b, c in lines)
    return sections


def describe_languages(languages: Sequence[str]) -> str:
    """Return a sentence about the languages of a multilingual model."""
    return f" Languages: {', '.join(languages)}." if languages else ""


def format_score(value: Metric) -> str:
    """Format a score for people."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def one_line(text: str) -> str:
    """Fit a text into one quoted line."""
    flat = " ⏎ ".join(text.split("\n")).replace("`", "'")
    return flat if len(flat) <= 200 else f"{flat[:198]} …"
