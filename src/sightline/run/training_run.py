"""A recipe carried out: prepared, trained, validated, saved, and told about."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sightline import bundle, runtime
from sightline.bundle import model_card
from sightline.bundle.atomic import place_of
from sightline.errors import SettingsError
from sightline.model import Model
from sightline.pipelines import Pipeline, load
from sightline.run.announce import farewell, foretell, introduce
from sightline.run.card import card_sections
from sightline.run.folder import MODEL, first_snapshot, folder_for
from sightline.run.journal import check_same, entries_of, now, read_journal, recipe_entries, write_journal
from sightline.run.overrides import changed
from sightline.run.prepare import Prepared, prepare
from sightline.run.recipe import Recipe, read_recipe, recipe_of, shipped
from sightline.settings import to_mapping
from sightline.training import checkpoint
from sightline.training.distributed import Rank, joined_rank
from sightline.training.lock import locked
from sightline.training.loop import CHECKPOINTS, Ending, Surroundings, validated_step
from sightline.training.loop import train as train_loop
from sightline.training.metrics import FILE_NAME as METRICS
from sightline.training.metrics import VALIDATION, MetricsFile, read
from sightline.training.report import Reporter, Sample, SilentReporter
from sightline.training.self_check import SelfCheck, self_check
from sightline.training.signals import StopRequest, stop_on_signals
from sightline.training.state import Metric
from sightline.training.tensorboard import TensorBoardWriter
from sightline.training.validation import Validation


@dataclass(frozen=True)
class Result:
    """What became of a run."""

    folder: Path
    ending: Ending
    scores: Mapping[str, Metric]
    """Of the best model, on the validation set."""
    exit_code: int = 0

    def load(self) -> Pipeline:
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
) -> Result:
    """Carry a recipe out: a TOML file, the name of one that comes with Sightline, or its entries.

    `overrides` are "section.key=value" each, or a mapping of "section.key" to values. With `resume` a run goes on
    where it stopped; the recipe may then be left out.
    """
    reporter = reporter or SilentReporter()
    asked, folder = asked_recipe(recipe, overrides, Path(out) if out is not None else None, resume=resume)
    with ExitStack() as stack:
        rank = stack.enter_context(joined_rank())
        stack.enter_context(locked(folder) if rank.is_main else nullcontext())
        heard = reporter if rank.is_main else SilentReporter()
        stack.callback(heard.end)
        return carry_out(asked, folder, rank, heard, resume=resume, tensorboard=tensorboard)


def check(
    recipe: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, out: Path | str | None = None
) -> SelfCheck:
    """Ask "does it learn?": whether this model can learn a few examples by heart.

    Nothing is kept but the encoded corpus, which the run itself will find.
    """
    asked, folder = asked_recipe(recipe, overrides, Path(out) if out is not None else None, resume=False)
    use_machine(asked)
    ready = prepare(asked, folder, rank=Rank(), resume=False)
    epoch = ready.feed.epoch(0)
    smallest = epoch[int(epoch.sizes.argmin())]
    return self_check(ready.state.model, smallest, lambda model, batch: per_answer(ready, model, batch))


def per_answer(ready: Prepared, model: Any, batch: Any) -> Any:
    """Return the mean loss of a batch."""
    loss = replace(ready.objective, smoothing=0.0)(model, batch)
    return loss.total / max(1, loss.count)


def asked_recipe(
    recipe: str | Path | Mapping[str, Any] | None,
    overrides: Sequence[str] | Mapping[str, object],
    out: Path | None,
    *,
    resume: bool,
) -> tuple[Recipe, Path]:
    """Return the recipe with its changes, and the folder of the run."""
    if recipe is None and (out is None or not resume):
        raise SettingsError("say which recipe to follow, or which run to go on with (--resume --out RUN)")
    name = recipe if isinstance(recipe, str) else recipe.stem if isinstance(recipe, Path) else "run"
    folder = folder_for(Path(name).stem if name.endswith(".toml") else name, out, resume=resume)
    journal = read_journal(folder) if resume else None
    if journal is not None and (recipe is None or name in shipped()):
        name, entries = recipe_entries(journal, folder)  # as it was changed when the run began
        found = recipe_of(entries, name=name, where=str(folder))
    elif isinstance(recipe, Mapping):
        found = recipe_of(recipe, name=name, where="recipe")
    else:
        found = read_recipe(recipe or "")
    found = found.with_values(overrides) if isinstance(overrides, Mapping) else changed(found, overrides)
    return found if journal is None else as_resolved(found, journal["resolved"]["training"]), folder


def as_resolved(recipe: Recipe, training: Mapping[str, object]) -> Recipe:
    """Return the recipe with what was chosen by the data when the run began, so that more steps change nothing else."""
    ends = {"training.max_steps", "training.max_epochs"} & recipe.typed
    set_by_hand = recipe.sections["training"]
    chosen = {name: value for name, value in training.items() if name != "max_steps" or not ends}
    sections = {**recipe.sections, "training": {**chosen, **set_by_hand}}
    return replace(recipe, sections=sections, filled=frozenset(chosen) - frozenset(set_by_hand))


def carry_out(
    recipe: Recipe,
    folder: Path,
    rank: Rank,
    reporter: Reporter,
    *,
    resume: bool,
    tensorboard: bool,
) -> Result:
    """Prepare, say what is going to happen, train, and say what came of it."""
    use_machine(recipe)
    journal = read_journal(folder) if resume else None
    if not rank.is_main:
        rank.barrier()  # one reads and encodes, the others find it done
    ready = prepare(recipe, folder, rank=rank, resume=resume)
    if rank.is_main:
        introduce(ready, reporter)
        facts = entries_of(ready, journal)
        for change in check_same(journal["resolved"], facts["resolved"], folder) if journal else ():  # type: ignore[arg-type]
            reporter.warn(f"going on with other settings: {change}")
        if not resume:
            bundle.save(ready.bundle, first_snapshot(folder))
        write_journal(folder, facts)  # only now is it a run that can go on
        rank.barrier()
    goes_on = bool(resume and restore(ready, folder, rank, reporter))
    compile_layers(ready)
    foretell(ready, rank, reporter)
    first = ready.state.progress.step + 1 if goes_on else 0
    # From here on there is something to save when somebody wants to stop.
    with stop_on_signals() as stop, curves(folder, wanted=tensorboard and rank.is_main, first=first) as board:
        around = surroundings(ready, folder, rank, stop, reporter, board, first=first)
        ending = train_loop(ready.state, ready.feed, ready.objective, ready.settings, around)
    reporter.end()
    scores = best_scores(ready, folder, final=ending != "signal") if rank.is_main else {}
    if rank.is_main:
        outcome = {"ending": ending, "ended": now(), "progress": to_mapping(ready.state.progress), "scores": scores}
        write_journal(folder, {**(read_journal(folder) or {}), "outcome": outcome})
        farewell(ready, folder, ending, scores, reporter)
    return Result(folder, ending, scores, stop.exit_code if ending == "signal" else 0)


def use_machine(recipe: Recipe) -> None:
    """Set the threads that the recipe asks for, and keep freed memory."""
    threads = recipe.sections["training"].get("threads")
    if isinstance(threads, int):
        runtime.use_threads(threads)
    runtime.keep_freed_memory()


def restore(ready: Prepared, folder: Path, rank: Rank, reporter: Reporter) -> bool:
    """Go back to the last checkpoint, if there is one yet, and say what was restored."""
    if not rank.is_main:
        rank.barrier()  # the first tidies up what a killed save left, the others find it tidy
    found = checkpoint.resume(ready.state, folder / CHECKPOINTS)
    if rank.is_main:
        rank.barrier()
    elif found is not None:  # what is stored are the random generators of the first
        runtime.seed_everything(ready.settings.seed + rank.index + ready.state.progress.step * rank.world)
    if found is None:
        reporter.say(f"{folder} was stopped before its first checkpoint: it begins anew")
        return False
    progress = ready.state.progress
    parts = ["weights", "optimiser", "random generators"]
    parts += ["running average"] if ready.state.average else []
    parts += [f"gradients of {progress.accumulated} batches"] if progress.accumulated else []
    reporter.say(
        f"going on from {found.path}: step {progress.step:,}, epoch {progress.epoch:,}, batch {progress.position:,}, "
        f"after {progress.seconds / 60:.1f} minutes; restored: {', '.join(parts)}"
    )
    for note in found.notes:
        reporter.warn(note)
    return True


def compile_layers(ready: Prepared) -> None:
    """Let torch.compile translate the stacks of layers, if that is asked for; weights and names stay as they are."""
    if ready.settings.compile:
        for name in ("encoder", "decoder"):
            if (stack := getattr(ready.state.model, name, None)) is not None:
                stack.compile(dynamic=True)


@contextmanager
def curves(folder: Path, *, wanted: bool, first: int) -> Iterator[TensorBoardWriter | None]:
    """Lend what writes curves for TensorBoard, if they are wanted; what was written from step `first` on is hidden."""
    if not wanted:
        yield None
        return
    board = TensorBoardWriter(folder / "tensorboard", purge_step=first)
    try:
        yield board
    finally:
        board.close()


def surroundings(
    ready: Prepared,
    folder: Path,
    rank: Rank,
    stop: StopRequest,
    reporter: Reporter,
    board: TensorBoardWriter | None,
    *,
    first: int,
) -> Surroundings:
    """Return what the loop works with: the log, cut back to where the run goes on, and whoever keeps the best model."""
    metrics = MetricsFile(folder / METRICS)
    if rank.is_main:
        metrics.cut_back(first - 1, validated=validated_step(ready.state))

    def record(values: Mapping[str, Metric], samples: Sequence[Sample]) -> None:
        if rank.is_main:
            metrics.append(values)
            if board is not None:
                board.append(values, samples)

    def keep(found: Validation) -> None:
        save_model(ready, folder, found, found.record())

    return Surroundings(folder, reporter, record, ready.validator, keep, rank, stop)


def save_model(ready: Prepared, folder: Path, found: Validation, scores: Mapping[str, Metric]) -> None:
    """Save the model as it is now, with its card."""
    sections = card_sections(ready.examples, ready.settings, ready.state.progress, scores, found.samples)
    bundle.save(replace(ready.bundle, card=carded(ready, ready.state.model, sections)), folder / MODEL)


def carded(ready: Prepared, model: Model, sections: Mapping[str, str]) -> str:
    """Return the model's card."""
    return model_card(model, ready.bundle.tokenizer, title=f"{ready.recipe.name}, by Sightline", sections=sections)


def best_scores(ready: Prepared, folder: Path, *, final: bool) -> dict[str, Metric]:
    """Return the scores of the best model: of its validation, and at the end of the run those of the model as kept."""
    step = ready.state.progress.best_step
    if step is None:
        return {}
    records = (r for r in reversed(read(folder / METRICS)) if r["step"] == step and VALIDATION in r)
    scores = {name: value for name, value in next(records, {}).items() if name not in ("step", "best_step")}
    if final and place_of(folder / MODEL).exists():
        kept = bundle.load(folder / MODEL)
        if final_scores := ready.validator.final(kept):
            scores |= final_scores[0]
            sections = card_sections(ready.examples, ready.settings, ready.state.progress, scores, final_scores[1])
            bundle.save(replace(kept, card=carded(ready, kept.model, sections)), folder / MODEL)
    return scores
