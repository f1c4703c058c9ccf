"""Prepare everything the loop needs from a recipe: corpora, tokenizers, model, settings, batches, validation."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from sightline import bundle
from sightline.bundle import Bundle
from sightline.bundle.contents import TaskConfig, head_for
from sightline.data.corpora.builtin import resolve_builtin
from sightline.data.corpora.records import Labels
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.batch_source import BatchSource, RankSlice
from sightline.data.datasets.batching import BatchSettings
from sightline.decoding import DecodingSettings
from sightline.errors import ModelFileError, SettingsError
from sightline.model import Model, build
from sightline.model.config import BertConfig, ModelConfig
from sightline.model.registry import FAMILIES, family_of
from sightline.runs.autosize import DatasetSize, build_model_config, choose_batch_tokens, resolve_training_settings
from sightline.runs.examples import (
    Examples,
    Tokenizers,
    find_labels,
    open_corpus,
    open_examples,
    open_tokenizers,
    uses_nsp,
)
from sightline.runs.folder import encoded_folder, initial_snapshot
from sightline.runs.recipe import Recipe, field_names
from sightline.runs.validation import Validator
from sightline.runtime import seed_everything
from sightline.storage import wait_for_lock
from sightline.training.distributed import Rank
from sightline.training.objective import Objective
from sightline.training.optimizer import ExponentialMovingAverage, make_optimizer
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


def prepare(recipe: Recipe, folder: Path, *, rank: Rank, resume: bool, device: torch.device) -> PreparedRun:
    """Prepare a run; a resumed one keeps its tokenizers and labels.

    The initial weights are drawn on the CPU, so that they are the same on every device.
    """
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
    model.to(device)  # before the optimizer and the EMA, which follow it
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


def load_init_model(recipe: Recipe) -> Bundle | None:
    """Load the init_from model, if the recipe names one."""
    if recipe.model.init_from is None:
        return None
    if recipe.tokenizer.path is not None:
        raise SettingsError("model.init_from already sets the tokenizer: leave tokenizer.path out")
    init = bundle.load(Path(recipe.model.init_from))
    if family_of(init.model.config).name != recipe.family:
        raise SettingsError(
            f"model.init_from: {recipe.model.init_from} is a {family_of(init.model.config).name}, "
            f"but {recipe.task} needs a {recipe.family}"
        )
    if init.tokenizer is None:
        raise SettingsError(f"model.init_from: {recipe.model.init_from} has no tokenizer")
    return init


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
    if not recipe.reads_pairs or not isinstance(limit, int):
        return data
    return replace(data, max_length=max(1, min(data.max_length, limit - 1)))  # the start token comes before a target


def build_task_config(recipe: Recipe, data: DataSettings, labels: Labels | None) -> TaskConfig:
    """Return the task config of the model."""
    return TaskConfig(
        recipe.task,
        languages=data.languages if recipe.task == "translation" else (),
        labels=labels.names if labels else (),
        per_word=recipe.task == "classification" and data.label_level == "token",
        context_turns=data.context_turns,
    )


OVERRIDABLE = {"dropout", "attention_dropout", "heads"}
"""Config fields that may differ from the init_from model; all others determine the weights."""


def resolve_model_config(
    recipe: Recipe, dataset_size: DatasetSize, tokenizers: Tokenizers, task_config: TaskConfig, init: Bundle | None
) -> ModelConfig:
    """Return the config of the model to train."""
    from_data = config_from_data(recipe, tokenizers, task_config)
    if init is None:
        return build_model_config(recipe, dataset_size, **from_data)
    overridden = {name.removeprefix("model.") for name in recipe.overridden if name.startswith("model.")}
    if fixed := sorted(overridden & set(recipe.model_fields) - OVERRIDABLE):
        raise SettingsError(
            f"model.init_from already sets {', '.join(fixed)}: leave them out; "
            f"only {', '.join(sorted(OVERRIDABLE))} may differ"
        )
    changes = {**{k: v for k, v in recipe.model_fields.items() if k in OVERRIDABLE}, **from_data}
    return replace(init.model.config, **{k: v for k, v in changes.items() if "vocab_size" not in k})


def config_from_data(recipe: Recipe, tokenizers: Tokenizers, task_config: TaskConfig) -> dict[str, Any]:
    """Return the config fields that the data decides."""
    from_data: dict[str, Any] = {"vocab_size": tokenizers.source.vocab_size}
    if tokenizers.target is not None:
        from_data["target_vocab_size"] = tokenizers.target.vocab_size
    if task_config.task == "classification":
        from_data |= {"heads": (head_for(task_config),), "n_classes": max(1, len(task_config.labels))}
    elif "heads" in field_names(FAMILIES[recipe.family].config):
        from_data["heads"] = tuple(recipe.model_fields.get("heads", BertConfig.heads))  # type: ignore[arg-type]
    return from_data


def early_setting(recipe: Recipe, name: str) -> int:
    """Return a training setting that is needed before all of them are resolved."""
    default: int = getattr(TrainingSettings, name)
    given = recipe.sections["training"].get(name, default)
    return given if isinstance(given, int) else default


@torch.no_grad()
def build_initial_model(config: ModelConfig, init: Bundle | None) -> tuple[Model, list[str]]:
    """Build the model and copy all weights it shares with the init_from model.

    Also return the names of the newly initialized weights.
    """
    model = build(config)
    theirs = dict(init.model.named_parameters()) if init else {}
    new_weights = []
    for name, parameter in model.named_parameters():
        if name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
        else:
            new_weights.append(name)
    return model, new_weights


def build_bundle(
    model: Model, tokenizers: Tokenizers, task_config: TaskConfig, generation: DecodingSettings, *, card: str = ""
) -> Bundle:
    """Bundle everything that belongs in the model folder."""
    return Bundle(
        model,
        tokenizers.source,
        generation,
        card,
        task_config=task_config,
        target_tokenizer=tokenizers.target,
        words=tokenizers.words,
    )


def masked_tokens_per_pair(recipe: Recipe, examples: Examples, max_length: int | None) -> float:
    """Return the mean number of masked tokens in a pair of sentences (`Objective.nsp_weight`)."""
    lengths = examples.train.dataset.lengths[examples.train.selected, 0]
    pair = min(2 * float(lengths.mean()), float(max_length or 512))
    return max(1.0, recipe.masking.mask_rate * pair)
