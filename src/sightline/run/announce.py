"""What a run says to a person: first what it found and how long it will take, last what came of it and what to type."""

import math
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from sightline.model import Model
from sightline.run.card import in_short
from sightline.run.folder import MODEL
from sightline.run.prepare import Prepared
from sightline.text.batch import Batch
from sightline.training.advice import DataFacts, advice
from sightline.training.distributed import Rank
from sightline.training.estimate import Estimate, estimate
from sightline.training.loop import CHECKPOINTS, Ending, computing_in
from sightline.training.report import Reporter
from sightline.training.settings import MOST_STEPS
from sightline.training.state import Metric

ENDINGS: dict[Ending, str] = {
    "steps": "all updates are done",
    "epochs": "all passes over the data are done",
    "minutes": "the time is up",
    "patience": "the score has not become better for a while",
    "signal": "stopped on request; everything is saved",
}


def introduce(ready: Prepared, reporter: Reporter) -> None:
    """Say what was found in the data, and which model it will be."""
    examples, tokenizer = ready.examples, ready.examples.vocabulary.source
    reporter.say(
        f"{ready.recipe.task}: learning from {ready.amount.examples:,} examples ({ready.amount.tokens:,} tokens), "
        f"validating on {int(examples.valid.chosen.sum()):,}"
    )
    for line in examples.train.store.counts.report():
        reporter.say(f"  {line}")
    target = examples.vocabulary.target
    sizes = f"{tokenizer.vocab_size:,}" + (f" and {target.vocab_size:,}" if target else "")
    settings = ready.recipe.tokenizer
    origin = f"that of {settings.folder}" if settings.folder else settings.kind
    reporter.say(f"a vocabulary of {sizes} tokens ({origin})")
    if examples.labels:
        names = examples.labels.names
        reporter.say(f"{len(names):,} classes: {', '.join(names[:20])}" + (", …" if len(names) > 20 else ""))
        if "label" in names:
            reporter.warn('one class is called "label": if the file begins with names of columns, set data.header=true')
    if ready.recipe.model.start:
        new = ", ".join(sorted({".".join(name.split(".")[:2]) for name in ready.fresh})) or "nothing"
        reporter.say(f"the weights are those of {ready.recipe.model.start}; new: {new}")


def foretell(ready: Prepared, rank: Rank, reporter: Reporter) -> None:
    """Say parameters, memory and time before the first step, and warn of settings that cannot work."""
    settings, epoch = ready.settings, ready.feed.epoch(0)
    steps = settings.max_steps
    if settings.max_epochs is not None:
        steps = min(steps or MOST_STEPS, math.ceil(settings.max_epochs * len(epoch) / settings.accumulate))
    if not rank.is_main:
        return
    facts = DataFacts(
        n_examples=ready.amount.examples,
        n_tokens=ready.amount.tokens,
        longest=ready.amount.longest or ready.state.model.config.max_length or 0,
        batches_per_epoch=len(epoch),
        total_steps=steps,
        vocab_size=ready.state.model.config.vocab_size,
    )
    for warning in advice(settings, ready.state.model.config, facts=facts):
        reporter.warn(warning)
    left = None if steps is None else max(0, steps - ready.state.progress.step)
    reporter.say(trial(ready, left).sentence())


def trial(ready: Prepared, n_updates: int | None) -> Estimate:
    """Try a typical batch and a large one; nothing of it remains but the measurement."""
    epoch = ready.feed.epoch(0)
    by_size = epoch.sizes.argsort()

    def loss(model: Model, batch: Batch) -> Tensor:
        with computing_in(ready.settings, ready.state):
            return ready.objective(model, batch).total

    return estimate(
        ready.state.model,
        [epoch[int(by_size[len(epoch) // 2])], epoch[int(by_size[-1])]],
        loss,
        n_updates=n_updates,
        accumulate=ready.settings.accumulate,
        optimizer=ready.state.optimizer,
    )


def farewell(ready: Prepared, folder: Path, ending: Ending, scores: Mapping[str, Metric], reporter: Reporter) -> None:
    """Say how the run ended, how good the model is, and what to type next."""
    progress = ready.state.progress
    reporter.say(f"{ENDINGS[ending]}: step {progress.step:,}")
    if progress.skipped:
        reporter.warn(f"{progress.skipped:,} updates were skipped: their gradients were not finite")
    if ending == "signal":
        reporter.say(f"go on with: sightline train --resume --out {folder}")
        return
    if progress.best_step is None:
        reporter.warn(
            f"no validation gave a finite score, so there is no model: the checkpoints are in {folder / CHECKPOINTS}; "
            "try a lower learning rate"
        )
        return
    shown = ", ".join(f"{name} {in_short(value)}" for name, value in scores.items())
    reporter.say(f"best model (step {progress.best_step:,}): {shown}")
    reporter.say(f"the model is in {folder / MODEL}; next: {next_command(ready, folder)}")


def next_command(ready: Prepared, folder: Path) -> str:
    """Return what a person would type next."""
    languages = ready.examples.data.languages
    return {
        "translation": f'sightline translate {folder} "…"' + (f" --to {languages[0]}" if languages else ""),
        "chat": f"sightline chat {folder}",
        "language-model": f'sightline generate {folder} "…"',
        "masked-language-model": f'sightline fill {folder} "… [MASK] …"',
        "classification": f'sightline classify {folder} "…"',
    }[ready.recipe.task]
