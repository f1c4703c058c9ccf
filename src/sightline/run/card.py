"""The model card of a run: what the model learned from, how, and how well it does, with signatures."""

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
    """Return the parts of the card that tell about a run."""
    recipe, data = examples.recipe, examples.data
    names = [Path(name).name for name in (data.train, data.train_target) if name]
    met = "; ".join(examples.train.store.counts.report())
    sections = {
        "What it is for": f"{recipe.task}, by the recipe `{recipe.name}`." + languages_of(data.languages),
        "Data": (
            f"Learned from {' and '.join(names)}: {int(examples.train.chosen.sum()):,} examples ({met}); validated on "
            f"{int(examples.valid.chosen.sum()):,}, none of which was learned from."
        ),
        "Training": (
            f"Kept from step {progress.best_step or progress.step:,} of {progress.step:,} updates "
            f"({progress.seconds / 60:.1f} minutes), seed {settings.seed}, "
            f"{settings.optimizer} with the schedule {settings.schedule}."
        ),
        "Scores on the validation set": "\n".join(f"- {name}: {in_short(value)}" for name, value in scores.items()),
    }
    if samples:
        lines = ((one_line(s.source), one_line(s.output), one_line(s.reference)) for s in samples)
        sections["Samples"] = "\n".join(f"- `{a}` → `{b}` (reference: `{c}`)" for a, b, c in lines)
    return sections


def languages_of(languages: Sequence[str]) -> str:
    """Return a sentence about the languages of a model, if it knows several."""
    return f" Languages: {', '.join(languages)}." if languages else ""


def in_short(value: Metric) -> str:
    """Write a score as people read it."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def one_line(text: str) -> str:
    """Keep a text within its line and its quotes."""
    flat = " ⏎ ".join(text.split("\n")).replace("`", "'")
    return flat if len(flat) <= 200 else f"{flat[:198]} …"
