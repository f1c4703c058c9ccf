"""Run a recipe: prepare, train, validate, save, and report."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from sightline import bundle, runtime
from sightline.bundle import build_model_card
from sightline.config import to_mapping
from sightline.errors import InputError, ModelFileError, RefusedError, SettingsError
from sightline.model import Model
from sightline.runs.autosize import resolve_training_settings
from sightline.runs.folder import MODEL, RUN_RECORD, choose_folder, first_fold, initial_snapshot, is_run
from sightline.runs.folds import (
    check_finished_fold,
    collect_fold_scores,
    final_recipe,
    fold_recipes,
    has_folds,
    is_finished,
    whole_recipe,
)
from sightline.runs.messages import (
    batch_loss,
    card_sections,
    log_estimate,
    log_introduction,
    log_summary,
    run_trial,
)
from sightline.runs.prepare import PreparedRun, prepare
from sightline.runs.recipe import (
    LENGTH_SETTINGS,
    Recipe,
    apply_overrides,
    build_recipe,
    drop_length,
    list_recipes,
    read_recipe,
)
from sightline.runs.run_record import (
    build_record_entries,
    check_settings_match,
    find_recipe_entries,
    has_plans,
    now,
    read_adapted,
    read_plans,
    read_run_record,
    write_plans,
    write_run_record,
)
from sightline.runs.training_facts import keep_finite
from sightline.runs.validation import FoldScores
from sightline.runtime import Products, StopRequest, stop_on_signals
from sightline.storage import current_folder, lock_run
from sightline.tasks import load
from sightline.training import checkpoint, precision
from sightline.training.distributed import SINGLE_RANK, Rank, join_process_group
from sightline.training.estimate import OverfitCheck, forward_backward, preserve_state, run_overfit_check
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
from sightline.training.time_budget import Stopwatch, TimeBudget

if TYPE_CHECKING:
    from sightline.tasks.loading import AnyPipeline


@dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    folder: Path
    stop_reason: StopReason
    scores: Mapping[str, Metric]
    """Scores of the saved model on the validation set."""
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
    with ExitStack() as stack:
        rank = stack.enter_context(join_process_group(place))
        out = Path(out) if out is not None else None
        resolved, folder = resolve_recipe(recipe, overrides, out, resume=resume, rank=rank)
        rank.barrier()  # before the main rank writes to what the others have just read
        stack.enter_context(lock_run(folder) if rank.is_main else nullcontext())
        rank_reporter = reporter if rank.is_main else SilentReporter()
        stack.callback(rank_reporter.end)
        if has_folds(resolved):
            return run_folds(resolved, folder, rank, rank_reporter, place, resume=resume, tensorboard=tensorboard)
        return run_training(resolved, folder, rank, rank_reporter, place, resume=resume, tensorboard=tensorboard)


def run_folds(
    recipe: Recipe,
    folder: Path,
    rank: Rank,
    reporter: Reporter,
    device: torch.device,
    *,
    resume: bool,
    tensorboard: bool,
) -> Result:
    """Train a model for each fold, then the final one on all data, with the mean scores of the folds as its own."""
    folds = fold_recipes(recipe, folder)
    for number, (place, fold) in enumerate(folds.items(), 1):
        done = is_finished(place)
        reporter.info(f"fold {number} of {len(folds)}{' is finished' if done else ''}: {place}")
        if done:
            for change in () if is_run(folder) else check_finished_fold(fold, place):
                reporter.warn(f"it was trained with another setting: {change}")
            continue
        record = read_run_record(place)
        known = fold if record is None else fill_from_record(fold, record, place)
        result = run_training(
            known, place, rank, reporter, device, resume=record is not None, tensorboard=False, whole=folder
        )
        rank.barrier()  # the others read what the main rank has recorded
        if result.stop_reason == "signal":
            return replace(result, folder=folder)
    found = collect_fold_scores(folds)
    reporter.info(found.describe())
    final = final_recipe(recipe, found)
    record = read_run_record(folder) if resume else None
    resume = record is not None
    if record is not None:
        final = fill_from_record(final, record, folder)
    reporter.info(f"the final model, on all data: {final.sections['training']['max_steps']:,} updates")
    return run_training(
        final, folder, rank, reporter, device, resume=resume, tensorboard=tensorboard, fold_scores=found
    )


def overfit_batch(
    recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, out: Path | str | None = None
) -> OverfitCheck:
    """Check whether the model of a recipe can overfit its smallest batch.

    Nothing is saved but the encoded corpus, which the run itself will use.
    """
    resolved, folder = resolve_recipe(recipe, overrides, Path(out) if out is not None else None, resume=False)
    configure_runtime(choose_threads(resolved))
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
    rank: Rank = SINGLE_RANK,
) -> tuple[Recipe, Path]:
    """Return the recipe with its overrides, and the folder of the run."""
    if recipe is None and (out is None or not resume):
        raise SettingsError("name a recipe, or a run to resume (--resume --out RUN)")
    name = recipe if isinstance(recipe, str) else recipe.stem if isinstance(recipe, Path) else "run"
    folder = choose_shared_folder(Path(name).stem if name.endswith(".toml") else name, out, rank, resume=resume)
    record = read_run_record(folder) if resume else None
    if resume and record is None:  # it was stopped before its final model
        name, entries = find_recipe_entries(read_run_record(first_fold(folder)) or {}, folder)
        found = whole_recipe(build_recipe(entries, name=name, where=str(folder)))
    elif record is not None and (recipe is None or name in list_recipes()):
        name, entries = find_recipe_entries(record, folder)  # with the overrides the run started with
        found = build_recipe(entries, name=name, where=str(folder))
    elif isinstance(recipe, Mapping):
        found = build_recipe(recipe, name=name, where="recipe")
    else:
        found = read_recipe(recipe or "")
    found = found.with_values(overrides) if isinstance(overrides, Mapping) else apply_overrides(found, overrides)
    if record is None:
        return found, folder
    if record["resolved"]["data"]["validation_share"] is None:
        found = found.with_values({"data.validation_share": None})
    training = record["resolved"]["training"]
    if has_plans(record) and training.get("max_minutes") is not None:
        found = keep_recorded_length(found, record)
        if not record["plans"]:  # it was killed before it could be planned
            training = {name: value for name, value in training.items() if name not in UNDECIDED}
    return fill_from_resolved(found.adapt(read_adapted(record, folder)), training), folder


def choose_shared_folder(name: str, out: Path | None, rank: Rank, *, resume: bool) -> Path:
    """Return the folder of the run, which the main rank chooses: one that looks later may find another one free."""
    chosen, refusal = b"", None
    if rank.is_main:
        try:
            chosen = os.fsencode(choose_folder(name, out, resume=resume))
        except RefusedError as error:
            refusal = error
    told = rank.gather(chosen)[0]
    if not told:
        raise refusal or RefusedError("the main process refused to start this run and says why")
    return Path(os.fsdecode(told))


def keep_recorded_length(recipe: Recipe, recorded: Mapping[str, Any]) -> Recipe:
    """Return the recipe of a resumed run with the length that it was started with, unless the user sets another one.

    A recipe file may have one that the minutes on the command line had replaced.
    """
    given = recorded["recipe"].get("training", {})
    names = {name.removeprefix("training.") for name in LENGTH_SETTINGS}
    typed = {name for name in names if f"training.{name}" in recipe.overridden}
    training = drop_length(recipe.sections["training"], keep=typed | set(given))
    training |= {name: given[name] for name in names - typed if name in given}
    return replace(recipe, sections={**recipe.sections, "training": training})


UNDECIDED = ("max_steps", "warmup_steps", "validate_every", "checkpoint_every", "log_every")
"""Settings of a run with a limit in minutes that are only chosen when its first plan is made."""


def choose_threads(recipe: Recipe) -> Recipe:
    """Return the recipe with the number of threads; a resumed run keeps it, as last digits depend on it."""
    training = recipe.sections["training"]
    chosen = runtime.default_threads() or training.get("threads") or runtime.choose_num_threads()
    sections = {**recipe.sections, "training": {**training, "threads": chosen}}
    return replace(recipe, sections=sections, resolved=recipe.resolved | {"threads"})


def fill_from_record(recipe: Recipe, record: Mapping[str, Any], folder: Path) -> Recipe:
    """Return the recipe with all that the run in a folder has chosen itself."""
    return fill_from_resolved(recipe.adapt(read_adapted(record, folder)), record["resolved"]["training"])


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
    fold_scores: FoldScores | None = None,
    whole: Path | None = None,
) -> Result:
    """Prepare the run, print the introduction, train, and print the summary.

    `whole` is the folder of the run that this one is a fold of.
    """
    recipe = choose_threads(recipe)
    configure_runtime(recipe)
    record = read_run_record(folder) if resume else None
    if not rank.is_main:
        rank.barrier()  # the main rank encodes the data, the others wait for it
    run = prepare(recipe, folder, rank=rank, resume=resume, device=device)
    run = replace(run, validator=fold_scores) if fold_scores else run
    if rank.is_main:
        log_introduction(run, reporter, resume=resume)
        facts = build_record_entries(run, record)
        for change in check_settings_match(record["resolved"], facts["resolved"], folder) if record else ():  # type: ignore[arg-type]
            reporter.warn(f"resuming with changed settings: {change}")
        if not resume:
            bundle.save(run.bundle, initial_snapshot(folder))
        write_run_record(folder, facts)  # from now on the run can be resumed
        rank.barrier()
    resumed = bool(resume and restore(run, folder, rank, reporter))
    compile_layers(run)
    products = decide_products(run, folder, rank, reporter, resumed=resumed)
    run, budget = plan_run(run, folder, rank, reporter, products)
    first = run.state.progress.step + 1 if resumed else 0
    # From here on there is something to save on a signal.
    with stop_on_signals() as stop, open_tensorboard(folder, wanted=tensorboard and rank.is_main, first=first) as board:
        context = build_trainer_context(run, folder, rank, stop, reporter, board, budget, products, first=first)
        stop_reason = train_loop(run.state, run.batch_source, run.objective, run.settings, context)
    reporter.end()
    scores: dict[str, Metric] = {}
    if rank.is_main:
        step, scores = score_saved_model(run, folder, final=stop_reason != "signal")
        run.state.progress = replace(run.state.progress, best_step=step)
        outcome = {
            "stop_reason": stop_reason,
            "ended": now(),
            "progress": to_mapping(run.state.progress),
            "scores": scores,
        }
        write_run_record(folder, {**(read_run_record(folder) or {}), "outcome": outcome})
        log_summary(run, folder, stop_reason, scores, reporter, whole=whole)
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


def decide_products(run: PreparedRun, folder: Path, rank: Rank, reporter: Reporter, *, resumed: bool) -> Products:
    """Return how this run multiplies: as before it was stopped, or as is fastest on this machine.

    The main rank measures and decides for all, and records it: other ways have other last digits. A run that began
    before there was a choice continues as it began.
    """
    if run.settings.precision != "auto" or run.settings.compile or run.state.device.type != "cpu":
        return Products()
    told = b"null"
    if rank.is_main:
        record = read_run_record(folder) or {}
        if "products" not in record and not resumed and (products := measure_products(run)) is not None:
            record = {**record, "products": precision.to_record(products)}
            write_run_record(folder, record)
        told = json.dumps(record.get("products")).encode()
    entries = json.loads(rank.gather(told)[0])
    if entries is None:
        return Products()
    try:
        products = precision.from_record(entries)
    except InputError as error:
        raise ModelFileError(folder / RUN_RECORD, f"has invalid entries: {error}") from None
    reporter.info(precision.describe(products))
    if entries.get("machine") != precision.machine_key() and not products.are_default:
        reporter.warn("measured on another machine or with other threads; this is kept, so that the run stays the same")
    return products


def measure_products(run: PreparedRun) -> Products | None:
    """Measure with a typical batch; model, optimizer and random generators are unchanged, to the last bit.

    None if there is nothing to measure with, or it is not wanted.
    """
    epoch = run.batch_source.epoch(0)
    batch = epoch[int(epoch.sizes.argsort()[len(epoch) // 2])]
    model, optimizer, loss = run.state.model, run.state.optimizer, batch_loss(run)
    if not len(batch) or not precision.may_measure():
        return None
    with preserve_state(model, optimizer):
        return precision.choose_products(partial(forward_backward, model, batch, loss), optimizer.hidden_matrices)


def plan_run(
    run: PreparedRun, folder: Path, rank: Rank, reporter: Reporter, products: Products
) -> tuple[PreparedRun, TimeBudget]:
    """Try a few batches, fit a run with a limit in minutes to it, and print what to expect.

    The main rank measures and decides. How often such a run validates and saves depends on its number of updates: these
    settings become part of run.json together with the first plan.
    """
    trial = run_trial(run, products) if rank.is_main else None
    record, recipe, progress = read_run_record(folder) or {}, run.recipe, run.state.progress
    [seconds] = rank.sum(trial.seconds_per_update if trial else 0.0)  # all have read the record: it is about to change
    set_by_user = {name for name in ("max_steps", "max_epochs") if recipe.sections["training"].get(name) is not None}
    max_total = run.settings.max_steps if set_by_user - recipe.resolved else None
    budget = TimeBudget(run.settings, read_plans(record, folder), max_total=max_total, planned=has_plans(record))
    if budget.limit is not None and not budget.plans:
        planned = budget.fit_steps(progress.step, progress.seconds, seconds)
        n_batches, config = len(run.batch_source.epoch(0)), run.state.model.config
        settings = resolve_training_settings(
            recipe, run.dataset_size, config, n_batches=n_batches, planned_steps=planned
        )
        run, budget.settings = replace(run, settings=settings), settings
        record = {**record, "resolved": {**record["resolved"], "training": to_mapping(settings)}}
    if rank.is_main:
        budget.write = partial(write_plans, folder, record)
    budget.begin(progress.step, progress.seconds, seconds_per_update=seconds)
    if trial is not None:
        log_estimate(run, trial, budget, reporter)
    return run, budget


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
    budget: TimeBudget,
    products: Products,
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

    clock = Stopwatch(run.state.progress.seconds)
    return TrainerContext(
        folder, reporter, write_metrics, run.validator, save_best, rank, stop, budget, clock, products
    )


def save_model(run: PreparedRun, folder: Path, result: ValidationResult, scores: Mapping[str, Metric]) -> None:
    """Save the current model with its card."""
    step = run.state.progress.step
    sections = card_sections(run, scores, result.samples, step=step)
    facts = replace(run.data_facts, scores=keep_finite(scores), step=step)
    saved = replace(run.bundle, card=build_card(run, run.state.model, sections), training=facts)
    bundle.save(saved, folder / MODEL)


def build_card(run: PreparedRun, model: Model, sections: Mapping[str, str]) -> str:
    """Return the model card."""
    return build_model_card(model, run.bundle.tokenizer, title=f"{run.recipe.name}, by Sightline", sections=sections)


def score_saved_model(run: PreparedRun, folder: Path, *, final: bool) -> tuple[int | None, dict[str, Metric]]:
    """Return the step and the scores of the saved model: of its validation and, at the end of a run, its final scores.

    What the folder itself says counts: after a kill it may be ahead of the checkpoint from which the run was resumed.
    """
    if not current_folder(folder / MODEL).exists():
        return None, {}
    saved = bundle.load(folder / MODEL, device=run.state.device)
    step = saved.training.step
    if step is None:  # saved before folders had it
        step = run.state.progress.best_step
    if step is None:
        return None, {}
    scores: dict[str, Metric] = dict(saved.training.scores)
    if not scores:
        records = (r for r in reversed(read_metrics(folder / METRICS)) if r["step"] == step and VALIDATION_LOSS in r)
        scores = {name: value for name, value in next(records, {}).items() if name not in ("step", "best_step")}
    if final and (found := run.validator.final(saved)):
        scores |= found.scores
        sections = card_sections(run, scores, found.samples, step=step)
        facts = replace(run.data_facts, scores=keep_finite(scores), step=step, calibration=found.calibration)
        card = build_card(run, saved.model, sections)
        bundle.save(replace(saved, card=card, training=facts), folder / MODEL)
    return step, scores
