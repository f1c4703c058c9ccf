"""Run a recipe: prepare, train, validate, save, and report."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sightline import bundle, runtime
from sightline.bundle import build_model_card
from sightline.config import to_mapping
from sightline.errors import SettingsError
from sightline.model import Model
from sightline.runs.folder import MODEL, choose_folder, initial_snapshot
from sightline.runs.messages import (
    card_sections,
    collect_training_facts,
    log_estimate,
    log_introduction,
    log_summary,
)
from sightline.runs.prepare import PreparedRun, prepare
from sightline.runs.recipe import Recipe, apply_overrides, build_recipe, list_recipes, read_recipe
from sightline.runs.run_record import (
    build_record_entries,
    check_settings_match,
    find_recipe_entries,
    now,
    read_run_record,
    write_run_record,
)
from sightline.runtime import StopRequest, stop_on_signals
from sightline.storage import current_folder, lock_run
from sightline.tasks import load
from sightline.training import checkpoint
from sightline.training.distributed import Rank, join_process_group
from sightline.training.estimate import OverfitCheck, run_overfit_check
from sightline.training.loop import CHECKPOINTS, StopReason, TrainerContext
from sightline.training.loop import train as train_loop
from sightline.training.metrics import (
    METRICS,
    VALIDATION_LOSS,
    MetricsFile,
    TensorBoardWriter,
    ValidationResult,
    read_metrics,
)
from sightline.training.report import Reporter, Sample, SilentReporter
from sightline.training.state import Metric

if TYPE_CHECKING:
    from sightline.tasks.loading import AnyPipeline


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    folder: Path
    stop_reason: StopReason
    scores: Mapping[str, Metric]
    """Scores of the best model on the validation set."""
    exit_code: int = 0

    def load(self) -> "AnyPipeline":
        """Open the trained model."""
        return load(self.folder)


def train(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] | Mapping[str, object] = (),
    *,
    out: Path | str | None = None,
    resume: bool = False,
    reporter: Reporter | None = None,
    tensorboard: bool = False,
    device: str = "auto",
) -> Result:
    """Train a model by a recipe: a TOML file, the name of a built-in one, or its entries.

    `overrides` are strings "section.key=value", or a mapping of "section.key" to values. With `resume`, a run continues
    where it stopped; the recipe may then be left out. `device` is auto (a GPU if there is one), cpu, cuda or mps.
    """
    reporter = reporter or SilentReporter()
    place = runtime.choose_device(device)
    resolved, folder = resolve_recipe(recipe, overrides, Path(out) if out is not None else None, resume=resume)
    with ExitStack() as stack:
        rank = stack.enter_context(join_process_group(place))
        stack.enter_context(lock_run(folder) if rank.is_main else nullcontext())
        rank_reporter = reporter if rank.is_main else SilentReporter()
        stack.callback(rank_reporter.end)
        return run_training(resolved, folder, rank, rank_reporter, place, resume=resume, tensorboard=tensorboard)


def overfit_batch(
    recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, out: Path | str | None = None
) -> OverfitCheck:
    """Check whether the model of a recipe can overfit its smallest batch.

    Nothing is saved but the encoded corpus, which the run itself will use.
    """
    resolved, folder = resolve_recipe(recipe, overrides, Path(out) if out is not None else None, resume=False)
    configure_runtime(resolved)
    run = prepare(resolved, folder, rank=Rank(), resume=False, device=runtime.choose_device())
    epoch = run.batch_source.epoch(0)
    smallest = epoch[int(epoch.sizes.argmin())].to(run.state.device)
    return run_overfit_check(run.state.model, smallest, lambda model, batch: mean_batch_loss(run, model, batch))


def mean_batch_loss(run: PreparedRun, model: Any, batch: Any) -> Any:
    """Return the mean loss of a batch, without label smoothing."""
    loss = replace(run.objective, smoothing=0.0)(model, batch)
    return loss.total / max(1, loss.count)


def resolve_recipe(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] | Mapping[str, object],
    out: Path | None,
    *,
    resume: bool,
) -> tuple[Recipe, Path]:
    """Return the recipe with its overrides, and the folder of the run."""
    if recipe is None and (out is None or not resume):
        raise SettingsError("name a recipe, or a run to resume (--resume --out RUN)")
    name = recipe if isinstance(recipe, str) else recipe.stem if isinstance(recipe, Path) else "run"
    folder = choose_folder(Path(name).stem if name.endswith(".toml") else name, out, resume=resume)
    record = read_run_record(folder) if resume else None
    if record is not None and (recipe is None or name in list_recipes()):
        name, entries = find_recipe_entries(record, folder)  # with the overrides the run started with
        found = build_recipe(entries, name=name, where=str(folder))
    elif isinstance(recipe, Mapping):
        found = build_recipe(recipe, name=name, where="recipe")
    else:
        found = read_recipe(recipe or "")
    found = found.with_values(overrides) if isinstance(overrides, Mapping) else apply_overrides(found, overrides)
    return found if record is None else fill_from_resolved(found, record["resolved"]["training"]), folder


def fill_from_resolved(recipe: Recipe, training: Mapping[str, object]) -> Recipe:
    """Return the recipe with the automatic settings of the original run, so that more steps change nothing else."""
    new_limits = {"training.max_steps", "training.max_epochs"} & recipe.overridden
    explicit = recipe.sections["training"]
    chosen = {name: value for name, value in training.items() if name != "max_steps" or not new_limits}
    sections = {**recipe.sections, "training": {**chosen, **explicit}}
    return replace(recipe, sections=sections, resolved=frozenset(chosen) - frozenset(explicit))


def run_training(
    recipe: Recipe,
    folder: Path,
    rank: Rank,
    reporter: Reporter,
    device: torch.device,
    *,
    resume: bool,
    tensorboard: bool,
) -> Result:
    """Prepare the run, print the introduction, train, and print the summary."""
    configure_runtime(recipe)
    record = read_run_record(folder) if resume else None
    if not rank.is_main:
        rank.barrier()  # the main rank encodes the data, the others wait for it
    run = prepare(recipe, folder, rank=rank, resume=resume, device=device)
    if rank.is_main:
        log_introduction(run, reporter)
        facts = build_record_entries(run, record)
        for change in check_settings_match(record["resolved"], facts["resolved"], folder) if record else ():  # type: ignore[arg-type]
            reporter.warn(f"resuming with changed settings: {change}")
        if not resume:
            bundle.save(run.bundle, initial_snapshot(folder))
        write_run_record(folder, facts)  # from now on the run can be resumed
        rank.barrier()
    resumed = bool(resume and restore(run, folder, rank, reporter))
    compile_layers(run)
    log_estimate(run, rank, reporter)
    first = run.state.progress.step + 1 if resumed else 0
    # From here on there is something to save on a signal.
    with stop_on_signals() as stop, open_tensorboard(folder, wanted=tensorboard and rank.is_main, first=first) as board:
        context = build_trainer_context(run, folder, rank, stop, reporter, board, first=first)
        stop_reason = train_loop(run.state, run.batch_source, run.objective, run.settings, context)
    reporter.end()
    scores = collect_best_scores(run, folder, final=stop_reason != "signal") if rank.is_main else {}
    if rank.is_main:
        outcome = {
            "stop_reason": stop_reason,
            "ended": now(),
            "progress": to_mapping(run.state.progress),
            "scores": scores,
        }
        write_run_record(folder, {**(read_run_record(folder) or {}), "outcome": outcome})
        log_summary(run, folder, stop_reason, scores, reporter)
    return Result(folder, stop_reason, scores, stop.exit_code if stop_reason == "signal" else 0)


def configure_runtime(recipe: Recipe) -> None:
    """Set the number of threads of the recipe, and keep freed memory."""
    threads = recipe.sections["training"].get("threads")
    if isinstance(threads, int):
        runtime.set_num_threads(threads)
    runtime.keep_freed_memory()


def restore(run: PreparedRun, folder: Path, rank: Rank, reporter: Reporter) -> bool:
    """Load the last checkpoint, if there is one, and print what was restored."""
    if not rank.is_main:
        rank.barrier()  # the main rank removes the leftovers of a killed save first
    found = checkpoint.resume(run.state, folder / CHECKPOINTS, rank=rank)
    if rank.is_main:
        rank.barrier()
    if found is not None and rank.index >= found.n_ranks:  # it has no generators of this rank
        runtime.seed_everything(run.settings.seed + rank.index + run.state.progress.step * rank.world_size)
    if found is None:
        reporter.info(f"{folder} has no checkpoint yet: starting from the beginning")
        return False
    progress = run.state.progress
    parts = ["weights", "optimizer", "random generators"]
    parts += ["EMA"] if run.state.ema else []
    parts += [f"gradients of {progress.accumulated} batches"] if progress.accumulated else []
    reporter.info(
        f"resuming from {found.path}: step {progress.step:,}, epoch {progress.epoch:,}, batch {progress.position:,}, "
        f"after {progress.seconds / 60:.1f} minutes; restored: {', '.join(parts)}"
    )
    for note in found.notes:
        reporter.warn(note)
    return True


def compile_layers(run: PreparedRun) -> None:
    """Compile the layer stacks in place if the settings ask for it; weights and their names stay."""
    if run.settings.compile:
        for name in ("encoder", "decoder"):
            if (stack := getattr(run.state.model, name, None)) is not None:
                stack.compile(dynamic=True)


@contextmanager
def open_tensorboard(folder: Path, *, wanted: bool, first: int) -> Iterator[TensorBoardWriter | None]:
    """Open a TensorBoard writer, if wanted; events from step `first` on are hidden."""
    if not wanted:
        yield None
        return
    board = TensorBoardWriter(folder / "tensorboard", purge_step=first)
    try:
        yield board
    finally:
        board.close()


def build_trainer_context(
    run: PreparedRun,
    folder: Path,
    rank: Rank,
    stop: StopRequest,
    reporter: Reporter,
    board: TensorBoardWriter | None,
    *,
    first: int,
) -> TrainerContext:
    """Return the context of the loop, with metrics.jsonl truncated to where the run starts."""
    metrics = MetricsFile(folder / METRICS)
    if rank.is_main:
        metrics.truncate(first - 1, validated=run.state.loop.validated_step)

    def write_metrics(values: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        if rank.is_main:
            metrics.append(values)
            if board is not None:
                board.append(values, samples)

    def save_best(result: ValidationResult) -> None:
        save_model(run, folder, result, result.to_record())

    return TrainerContext(folder, reporter, write_metrics, run.validator, save_best, rank, stop)


def save_model(run: PreparedRun, folder: Path, result: ValidationResult, scores: Mapping[str, Metric]) -> None:
    """Save the current model with its card."""
    sections = card_sections(run.recipe, run.examples, run.settings, run.state.progress, scores, result.samples)
    facts = collect_training_facts(run.examples, scores, run.validator.inputs())
    saved = replace(run.bundle, card=build_card(run, run.state.model, sections), training=facts)
    bundle.save(saved, folder / MODEL)


def build_card(run: PreparedRun, model: Model, sections: Mapping[str, str]) -> str:
    """Return the model card."""
    return build_model_card(model, run.bundle.tokenizer, title=f"{run.recipe.name}, by Sightline", sections=sections)


def collect_best_scores(run: PreparedRun, folder: Path, *, final: bool) -> dict[str, Metric]:
    """Return the scores of the best model: those of its validation and, at the end of a run, its final scores."""
    step = run.state.progress.best_step
    if step is None:
        return {}
    records = (r for r in reversed(read_metrics(folder / METRICS)) if r["step"] == step and VALIDATION_LOSS in r)
    scores = {name: value for name, value in next(records, {}).items() if name not in ("step", "best_step")}
    if final and current_folder(folder / MODEL).exists():
        saved = bundle.load(folder / MODEL, device=run.state.device)
        if final_scores := run.validator.final(saved):
            scores |= final_scores[0]
            sections = card_sections(
                run.recipe, run.examples, run.settings, run.state.progress, scores, final_scores[1]
            )
            facts = collect_training_facts(run.examples, scores, run.validator.inputs())
            card = build_card(run, saved.model, sections)
            bundle.save(replace(saved, card=card, training=facts), folder / MODEL)
    return scores
