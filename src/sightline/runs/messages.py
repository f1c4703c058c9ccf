"""What a run tells people: its data, an estimate, the result and the next command; and the card of its model."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from sightline.bundle.input_statistics import collect_input_statistics
from sightline.bundle.training_facts import InputExample, TrainingFacts
from sightline.data.datasets.batch import Batch
from sightline.data.datasets.examples import Examples
from sightline.model import Model
from sightline.runs.folder import MODEL
from sightline.runs.prepare import PreparedRun
from sightline.runs.recipe import Recipe
from sightline.training.distributed import Rank
from sightline.training.estimate import Estimate, estimate
from sightline.training.loop import CHECKPOINTS, StopReason, autocast
from sightline.training.recipe_warnings import DataFacts, recipe_warnings
from sightline.training.report import Reporter, Sample
from sightline.training.settings import MAX_STEPS, TrainingSettings
from sightline.training.state import Metric, Progress


def log_introduction(run: PreparedRun, reporter: Reporter) -> None:
    """Print the size of the data, the vocabulary and the labels."""
    examples, tokenizer = run.examples, run.examples.tokenizers.source
    reporter.info(
        f"{run.recipe.task}: {run.dataset_size.n_examples:,} training examples ({run.dataset_size.n_tokens:,} tokens), "
        f"{int(examples.valid.selected.sum()):,} validation examples"
    )
    for line in examples.train.dataset.counts.report():
        reporter.info(f"  {line}")
    target = examples.tokenizers.target
    sizes = f"{tokenizer.vocab_size:,}" + (f" and {target.vocab_size:,}" if target else "")
    settings = run.recipe.tokenizer
    origin = f"from {settings.path}" if settings.path else settings.kind
    reporter.info(f"vocabulary: {sizes} tokens ({origin})")
    if examples.labels:
        names = examples.labels.names
        reporter.info(f"{len(names):,} labels: {', '.join(names[:20])}" + (", …" if len(names) > 20 else ""))
        if "label" in names:
            reporter.warn('one label is "label": if the file starts with column names, set data.header=true')
    if run.recipe.model.init_from:
        new = ", ".join(sorted({".".join(name.split(".")[:2]) for name in run.new_weights})) or "none"
        reporter.info(f"weights from {run.recipe.model.init_from}; newly initialized: {new}")


def log_estimate(run: PreparedRun, rank: Rank, reporter: Reporter) -> None:
    """Print parameters, memory and time before the first step, and warnings about the settings."""
    settings, epoch = run.settings, run.batch_source.epoch(0)
    steps = settings.max_steps
    if settings.max_epochs is not None:
        steps = min(steps or MAX_STEPS, math.ceil(settings.max_epochs * len(epoch) / settings.gradient_accumulation))
    if not rank.is_main:
        return
    facts = DataFacts(
        n_examples=run.dataset_size.n_examples,
        n_tokens=run.dataset_size.n_tokens,
        longest=run.dataset_size.max_length or run.state.model.config.max_length or 0,
        batches_per_epoch=len(epoch),
        total_steps=steps,
        vocab_size=run.state.model.config.vocab_size,
    )
    for warning in recipe_warnings(settings, run.state.model.config, facts=facts, device=run.state.device.type):
        reporter.warn(warning)
    n_updates = None if steps is None else max(0, steps - run.state.progress.step)
    reporter.info(run_trial(run, n_updates).describe())


def run_trial(run: PreparedRun, n_updates: int | None) -> Estimate:
    """Measure a typical batch and the largest one."""
    epoch = run.batch_source.epoch(0)
    by_size = epoch.sizes.argsort()

    def loss(model: Model, batch: Batch) -> Tensor:
        with autocast(run.settings, run.state):
            return run.objective(model, batch.to(run.state.device)).total

    return estimate(
        run.state.model,
        [epoch[int(by_size[len(epoch) // 2])], epoch[int(by_size[-1])]],
        loss,
        n_updates=n_updates,
        gradient_accumulation=run.settings.gradient_accumulation,
        optimizer=run.state.optimizer,
    )


STOP_REASONS: dict[StopReason, str] = {
    "steps": "finished all steps",
    "epochs": "finished all epochs",
    "minutes": "reached the time limit",
    "patience": "stopped early, no improvement",
    "signal": "stopped by a signal, everything is saved",
}


def log_summary(
    run: PreparedRun, folder: Path, stop_reason: StopReason, scores: Mapping[str, Metric], reporter: Reporter
) -> None:
    """Print how the run ended, the scores of the model, and the next command."""
    progress = run.state.progress
    reporter.info(f"{STOP_REASONS[stop_reason]} (step {progress.step:,})")
    if progress.skipped:
        reporter.warn(f"{progress.skipped:,} updates were skipped because of non-finite gradients")
    if stop_reason == "signal":
        reporter.info(f"to resume: sightline train --resume --out {folder}")
        return
    if progress.best_step is None:
        reporter.warn(
            f"no validation gave a finite score, so no model was saved; the checkpoints are in {folder / CHECKPOINTS}: "
            "try a lower learning rate"
        )
        return
    shown = ", ".join(f"{name} {format_score(value)}" for name, value in scores.items())
    reporter.info(f"best model (step {progress.best_step:,}): {shown}")
    next_command = run.recipe.task_row.next_command(folder, run.task_config)
    reporter.info(f"the model is in {folder / MODEL}; to use it: {next_command}")


def card_sections(
    recipe: Recipe,
    examples: Examples,
    settings: TrainingSettings,
    progress: Progress,
    scores: Mapping[str, Metric],
    samples: Sequence[Sample],
) -> dict[str, str]:
    """Return the sections of the model card about the run."""
    data, names = examples.data, training_file_names(examples)
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


def training_file_names(examples: Examples) -> tuple[str, ...]:
    """Return the names of the training files, without their folders."""
    return tuple(Path(name).name for name in (examples.data.train, examples.data.train_target) if name)


MAX_EXAMPLES = 8
MAX_EXAMPLE_LENGTH = 160
"""Characters of each text of an example: one must fit into a button, and be read at a glance."""


def collect_training_facts(
    examples: Examples, scores: Mapping[str, Metric], inputs: Sequence[InputExample]
) -> TrainingFacts:
    """Return what the model folder records about the run, for programs; `inputs` are those of the validation set."""
    pairs = any(one.second is not None for one in inputs)
    texts = [text for one in inputs for text in (one.text, one.second) if text]
    seen_ids = examples.train.find_ids(columns=2 if pairs else 1)
    tokenizers = examples.tokenizers
    return TrainingFacts(
        files=training_file_names(examples),
        n_examples=int(examples.train.selected.sum()),
        n_validation=int(examples.valid.selected.sum()),
        scores={
            name: float(value)
            for name, value in scores.items()
            if isinstance(value, int | float) and math.isfinite(value)
        },
        examples=choose_examples(inputs),
        inputs=collect_input_statistics(texts, tokenizers.source, tokenizers.words, seen_ids) if texts else None,
    )


def choose_examples(inputs: Sequence[InputExample], n: int = MAX_EXAMPLES) -> tuple[InputExample, ...]:
    """Return a few short inputs that differ in length, words and target language; a longer one comes first."""
    short = {
        one.text: one
        for one in inputs
        if one.text.strip() and all(len(text or "") <= MAX_EXAMPLE_LENGTH for text in (one.text, one.second))
    }
    in_one_line = [one for text, one in short.items() if "\n" not in text]
    rest = sorted(in_one_line or short.values(), key=lambda one: (len(one.text), one.text))
    chosen: list[InputExample] = []
    words_used, languages_used = Counter[str](), Counter[str | None]()
    for number in range(min(n, len(rest))):
        group = rest[number * len(rest) // n : (number + 1) * len(rest) // n] if len(rest) > n else [rest[number]]
        best = min(
            group,
            key=lambda one: (languages_used[one.to], sum(words_used[word] for word in one.text.casefold().split())),
        )
        chosen.append(replace(best, reference=best.reference[:MAX_EXAMPLE_LENGTH]))
        languages_used[best.to] += 1
        words_used.update(set(best.text.casefold().split()))
    first = 3 * len(chosen) // 4
    return (*chosen[first : first + 1], *chosen[:first], *chosen[first + 1 :])


def describe_languages(languages: Sequence[str]) -> str:
    """Return a sentence about the languages of a multilingual model."""
    return f" Languages: {', '.join(languages)}." if languages else ""


def one_line(text: str) -> str:
    """Fit a text into one quoted line."""
    flat = " ⏎ ".join(text.split("\n")).replace("`", "'")
    return flat if len(flat) <= 200 else f"{flat[:198]} …"


def format_score(value: Metric) -> str:
    """Format a score for people."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
