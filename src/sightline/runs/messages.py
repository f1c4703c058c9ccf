"""What a run tells people: its data, an estimate, the result and the next command; and the card of its model."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from sightline.data.datasets.batch import Batch
from sightline.data.datasets.examples import Examples
from sightline.data.datasets.splits import MIN_VALIDATION
from sightline.model import Model
from sightline.runs.folder import MODEL
from sightline.runs.prepare import PreparedRun
from sightline.runs.show_config import to_toml
from sightline.runs.training_facts import has_fold_scores, training_file_names
from sightline.runtime import Products, multiply_by
from sightline.training.estimate import BatchLoss, Estimate, estimate
from sightline.training.loop import CHECKPOINTS, StopReason, autocast
from sightline.training.recipe_warnings import DataFacts, recipe_warnings
from sightline.training.report import Reporter, Sample
from sightline.training.settings import MAX_STEPS, BestMetric
from sightline.training.state import Metric
from sightline.training.time_budget import TimeBudget


def log_introduction(run: PreparedRun, reporter: Reporter, *, resume: bool) -> None:
    """Print the size of the data, the vocabulary and the labels."""
    examples, tokenizer = run.examples, run.examples.tokenizers.source
    reporter.info(
        f"{run.recipe.task}: {run.dataset_size.n_examples:,} training examples ({run.dataset_size.n_tokens:,} tokens), "
        f"{describe_validation(examples)}"
    )
    log_small_validation(examples, reporter)
    settings = run.recipe.task_settings(examples.data)
    for line in (*run.recipe.task_row.open_corpus(settings).describe_tables(), *examples.train.dataset.counts.report()):
        reporter.info(f"  {line}")
    target = examples.tokenizers.target
    sizes = f"{tokenizer.vocab_size:,}" + (f" and {target.vocab_size:,}" if target else "")
    tokenization = run.recipe.tokenizer
    origin = f"from {tokenization.path}" if tokenization.path else tokenization.kind
    reporter.info(f"vocabulary: {sizes} tokens ({origin})")
    if examples.labels:
        names = examples.labels.names
        reporter.info(f"{len(names):,} labels: {', '.join(names[:20])}" + (", …" if len(names) > 20 else ""))
        if "label" in names:
            reporter.warn('one label is "label": if the file starts with column names, set data.header=true')
    if run.recipe.adapted:
        chosen = ", ".join(f"{name}={to_toml(value)}" for name, value in run.recipe.adapted.items())
        reporter.info(f"chosen for a small dataset: {chosen}")
    suggestion = run.recipe.task_row.suggest_start(n_examples=run.dataset_size.n_examples)
    is_first = run.examples.data.fold in (None, 1)
    if suggestion and is_first and not run.recipe.model.init_from and not resume:
        reporter.info(suggestion)
    if run.recipe.model.init_from:
        new = ", ".join(sorted({".".join(name.split(".")[:2]) for name in run.new_weights})) or "none"
        reporter.info(f"weights from {run.recipe.model.init_from}; newly initialized: {new}")
        if run.unused_settings:
            unused = ", ".join(run.unused_settings)
            reporter.warn(f"model.init_from decides these settings, so those of the recipe are not used: {unused}")


def describe_validation(examples: Examples) -> str:
    """Return how many examples the model is validated on, and where they come from."""
    n, data = int(examples.valid.selected.sum()), examples.data
    if data.valid is not None:
        return f"{n:,} validation examples"
    if has_fold_scores(examples):
        return f"scores from {data.folds} folds"
    part = f"fold {data.fold} of {data.folds}" if data.fold else f"{n / len(examples.valid.dataset):.0%} of the data"
    return f"{n:,} validation examples held out ({part})"


def log_small_validation(examples: Examples, reporter: Reporter) -> None:
    """Say how little a small validation set tells about a classifier, and what tells more."""
    n, data = int(examples.valid.selected.sum()), examples.data
    if examples.labels and not data.folds and data.valid is None and n < MIN_VALIDATION:
        reporter.info(
            f"  an accuracy on {n:,} examples is uncertain by ±{100 / math.sqrt(n):.0f} points or so: data.folds=5 "
            "validates on every example and trains the final model on all of them (six runs instead of one)"
        )


def log_estimate(run: PreparedRun, trial: Estimate, budget: TimeBudget, reporter: Reporter) -> None:
    """Print parameters, memory and time before the first step, and warnings about the settings."""
    settings, epoch, progress = run.settings, run.batch_source.epoch(0), run.state.progress
    total_steps = budget.total_steps(progress.step)
    if settings.max_epochs is not None:
        total_steps = min(
            total_steps or MAX_STEPS, math.ceil(settings.max_epochs * len(epoch) / settings.gradient_accumulation)
        )
    facts = DataFacts(
        n_examples=run.dataset_size.n_examples,
        n_tokens=run.dataset_size.n_tokens,
        longest=run.dataset_size.max_length or run.state.model.config.max_length or 0,
        batches_per_epoch=len(epoch),
        total_steps=total_steps,
        vocab_size=run.state.model.config.vocab_size,
    )
    for warning in recipe_warnings(settings, run.state.model.config, facts=facts, device=run.state.device.type):
        reporter.warn(warning)
    n_updates = None if total_steps is None else max(0, total_steps - progress.step)
    max_seconds = None if budget.limit is None else max(0.0, budget.limit - progress.seconds)
    reporter.info(trial.describe(n_updates, max_seconds=max_seconds))


def run_trial(run: PreparedRun, products: Products) -> Estimate:
    """Measure a typical batch and the largest one."""
    epoch = run.batch_source.epoch(0)
    by_size = epoch.sizes.argsort()
    with multiply_by(products):
        return estimate(
            run.state.model,
            [epoch[int(by_size[len(epoch) // 2])], epoch[int(by_size[-1])]],
            batch_loss(run),
            gradient_accumulation=run.settings.gradient_accumulation,
            optimizer=run.state.optimizer,
        )


def batch_loss(run: PreparedRun) -> BatchLoss:
    """Return the loss of the run's loop."""

    def loss(model: Model, batch: Batch) -> Tensor:
        with autocast(run.settings, run.state):
            return run.objective(model, batch.to(run.state.device)).total

    return loss


STOP_REASONS: dict[StopReason, str] = {
    "steps": "finished all steps",
    "epochs": "finished all epochs",
    "minutes": "reached the time limit",
    "patience": "stopped early, no improvement",
    "signal": "stopped by a signal, everything is saved",
}


SELECTION: dict[BestMetric, str] = {
    "score": "best model",
    "loss": "model with the lowest validation loss",
    "last": "last model",
}
"""What the saved model of a run is called, by the metric that selects it."""


def log_summary(
    run: PreparedRun,
    folder: Path,
    stop_reason: StopReason,
    scores: Mapping[str, Metric],
    reporter: Reporter,
    *,
    whole: Path | None = None,
) -> None:
    """Print how the run ended, the scores of the model, and the next command; of a fold, what the whole needs."""
    progress = run.state.progress
    reporter.info(f"{STOP_REASONS[stop_reason]} (step {progress.step:,})")
    if progress.skipped:
        reporter.warn(f"{progress.skipped:,} updates were skipped because of non-finite gradients")
    if stop_reason == "signal":
        reporter.info(f"to resume: sightline train --resume --out {whole or folder}")
        return
    if progress.best_step is None:
        reporter.warn(
            f"no validation gave a finite score, so no model was saved; the checkpoints are in {folder / CHECKPOINTS}: "
            "try a lower learning rate"
        )
        return
    shown = ", ".join(f"{name} {format_score(value)}" for name, value in scores.items())
    kept = SELECTION[run.settings.best_metric]
    reporter.info(f"{kept} (step {progress.best_step:,}): {shown}")
    if whole is not None:
        return
    n_validation = int(run.examples.valid.selected.sum())
    if comment := run.recipe.task_row.comment_on(scores, n_validation=n_validation):
        reporter.info(comment)
    next_command = run.recipe.task_row.next_command(folder, run.task_config)
    reporter.info(f"the model is in {folder / MODEL}; to use it: {next_command}")


def card_sections(
    run: PreparedRun, scores: Mapping[str, Metric], samples: Sequence[Sample], *, step: int
) -> dict[str, str]:
    """Return the sections of the model card about the run; `step` is that of the weights."""
    recipe, examples, settings, progress = run.recipe, run.examples, run.settings, run.state.progress
    names = training_file_names(examples)
    counts = "; ".join(examples.train.dataset.counts.report())
    sections = {
        "Task": f"{capitalize(recipe.task_row.describe(run.task_config, run.data_facts))}. {capitalize(recipe.task)}, "
        f"trained with the recipe `{recipe.name}`.",
        "Data": (
            f"Trained on {' and '.join(names)}: {int(examples.train.selected.sum()):,} examples ({counts}); "
            f"{describe_scores_origin(examples)}."
        ),
        "Training": (
            f"Saved at step {step:,}"
            + (f" of {progress.step:,}" if step < progress.step else "")
            + f" ({SELECTION[settings.best_metric]}; {progress.seconds / 60:.1f} minutes), seed {settings.seed}, "
            f"optimizer {settings.optimizer}, schedule {settings.schedule}."
        ),
        "Scores on the validation set": "\n".join(f"- {name}: {format_score(value)}" for name, value in scores.items()),
    }
    if samples:
        lines = ((one_line(s.source), one_line(s.output), one_line(s.reference)) for s in samples)
        sections["Samples"] = "\n".join(f"- `{a}` → `{b}` (reference: `{c}`)" for a, b, c in lines)
    return sections


def describe_scores_origin(examples: Examples) -> str:
    """Return what the scores of a model are measured on."""
    if has_fold_scores(examples):
        n = examples.data.folds
        return f"its scores are the means of {n} models, each validated on a fold it was not trained on"
    return f"validated on {int(examples.valid.selected.sum()):,} held-out examples"


def capitalize(text: str) -> str:
    """Return a text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def one_line(text: str) -> str:
    """Fit a text into one quoted line."""
    flat = " ⏎ ".join(text.split("\n")).replace("`", "'")
    return flat if len(flat) <= 200 else f"{flat[:198]} …"


def format_score(value: Metric) -> str:
    """Format a score for people."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
