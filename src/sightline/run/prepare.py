"""Prepare everything the loop needs from a recipe: corpora, tokenizers, model, settings, batches, validation."""

from dataclasses import dataclass, replace
from pathlib import Path

from sightline import bundle
from sightline.bundle import Bundle
from sightline.errors import ModelFileError, SettingsError
from sightline.run.autosize import DatasetSize, choose_batch_tokens, resolve_training_settings
from sightline.run.builtin import resolve_builtin
from sightline.run.examples import Examples, find_labels, open_corpus, open_examples, uses_nsp
from sightline.run.folder import encoded_folder, initial_snapshot
from sightline.run.model_setup import (
    build_bundle,
    build_initial_model,
    build_task_config,
    load_init_model,
    resolve_model_config,
)
from sightline.run.recipe import Recipe
from sightline.run.tokenization import Tokenizers, open_tokenizers
from sightline.run.validation import Validator
from sightline.runtime import seed_everything
from sightline.storage import wait_for_lock
from sightline.text.batch_source import BatchSource, RankSlice
from sightline.text.batching import BatchSettings
from sightline.text.data import DataSettings
from sightline.text.labels import Labels
from sightline.training.averaging import ExponentialMovingAverage
from sightline.training.distributed import Rank
from sightline.training.objective import Objective
from sightline.training.optimizer import make_optimizer
from sightline.training.settings import TrainingSettings
from sightline.training.state import Progress, TrainingState


@dataclass(frozen=True)
class PreparedRun:
    """A run that is ready to start or resume."""

    recipe: Recipe
    examples: Examples
    dataset_size: DatasetSize
    settings: TrainingSettings
    state: TrainingState
    bundle: Bundle
    """The model in training, with everything that belongs in its folder."""
    batch_source: BatchSource
    objective: Objective
    validator: Validator
    new_weights: list[str]
    """Randomly initialized weights: with init_from, only those that the other model lacks."""


def prepare(recipe: Recipe, folder: Path, *, rank: Rank, resume: bool) -> PreparedRun:
    """Prepare a run; a resumed one keeps its tokenizers and labels."""
    root = encoded_folder(folder)
    with wait_for_lock(root):  # another run may be about to encode the same corpus
        data = resolve_builtin(root, recipe.data)
        init = bundle.load(initial_snapshot(folder)) if resume else load_init_model(recipe)
        tokenizers, labels = open_tokenizers_and_labels(root, recipe, data, init, resume=resume)
        examples = open_examples(root, recipe, limit_lengths(recipe, data, init), tokenizers, labels)
    dataset_size = examples.train.measure(running_text=recipe.task.endswith("language-model"))
    task_config = build_task_config(recipe, data, labels)
    config = resolve_model_config(
        recipe, dataset_size, tokenizers, task_config, init if recipe.model.init_from else None
    )
    size = choose_batch_tokens(recipe, dataset_size, config)
    seed, window = early_setting(recipe, "seed"), early_setting(recipe, "bucket_window")
    rank_slice = RankSlice(BatchSettings(batch_tokens=size, bucket_window=window), seed, rank.index, rank.world_size)
    batch_source = examples.batch_source(examples.train, config, rank_slice)
    settings = resolve_training_settings(recipe, dataset_size, config, n_batches=len(batch_source.epoch(0)))
    seed_everything(settings.seed)
    model, new_weights = build_initial_model(config, init)
    seed_everything(settings.seed + rank.index)  # dropout differs between ranks, the initial weights do not
    ema = ExponentialMovingAverage(model, decay=settings.ema_decay) if settings.ema_decay else None
    state = TrainingState(model, make_optimizer(model, settings), ema, Progress(seed=settings.seed))
    trained = build_bundle(model, tokenizers, task_config, recipe.decoding)
    unsliced = RankSlice(BatchSettings(batch_tokens=size), seed)
    valid = examples.batch_source(examples.valid, config, unsliced, training=False)
    nsp_weight = masked_tokens_per_pair(recipe, examples, config.max_length) if uses_nsp(recipe) else 1.0
    validator = Validator(trained, examples, valid, Objective(nsp_weight=nsp_weight), seed)
    objective = Objective(settings.label_smoothing, nsp_weight=nsp_weight, r_drop=settings.r_drop)
    return PreparedRun(
        recipe, examples, dataset_size, settings, state, trained, batch_source, objective, validator, new_weights
    )


def open_tokenizers_and_labels(
    root: Path, recipe: Recipe, data: DataSettings, init: Bundle | None, *, resume: bool
) -> tuple[Tokenizers, Labels | None]:
    """Return tokenizers and labels: those of the initial model, or new ones from the data."""
    if init is None:
        return open_tokenizers(root, recipe, open_corpus(recipe, data)), find_labels(recipe, data)
    if init.tokenizer is None:
        raise ModelFileError(recipe.model.init_from or "model", "has no tokenizer")
    tokenizers = Tokenizers(init.tokenizer, init.target_tokenizer, init.words)
    if not resume:
        return tokenizers, find_labels(recipe, data)
    if init.task_config is None:
        raise SettingsError("the initial snapshot of the run does not name its task")
    return tokenizers, Labels(init.task_config.labels) if init.task_config.labels else None


def limit_lengths(recipe: Recipe, data: DataSettings, init: Bundle | None) -> DataSettings:
    """Limit data.max_length to what an encoder–decoder takes, if it has a limit."""
    limit = recipe.model_fields.get("max_length", recipe.preset_fields().get("max_length"))
    if init is not None and limit is None:
        limit = init.model.config.max_length
    if recipe.architecture != "transformer" or not isinstance(limit, int):
        return data
    return replace(data, max_length=max(1, min(data.max_length, limit - 1)))  # the start token comes before a target


def early_setting(recipe: Recipe, name: str) -> int:
    """Return a training setting that is needed before all of them are resolved."""
    default: int = getattr(TrainingSettings, name)
    given = recipe.sections["training"].get(name, default)
    return given if isinstance(given, int) else default


def masked_tokens_per_pair(recipe: Recipe, examples: Examples, max_length: int | None) -> float:
    """Return the mean number of masked tokens in a pair of sentences (`Objective.nsp_weight`)."""
    lengths = examples.train.dataset.lengths[examples.train.selected, 0]
    pair = min(2 * float(lengths.mean()), float(max_length or 512))
    return max(1.0, recipe.masking.mask_rate * pair)
