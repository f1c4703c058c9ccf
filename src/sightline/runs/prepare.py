"""Prepare everything the loop needs from a recipe: corpora, tokenizers, model, settings, batches, validation."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from sightline import bundle
from sightline.bundle import Bundle
from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import TrainingFacts
from sightline.data.corpora.builtin import resolve_builtin
from sightline.data.corpora.records import Labels
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.batch_source import BatchSource, RankSlice
from sightline.data.datasets.batching import BatchSettings
from sightline.data.datasets.examples import DatasetSize, Examples, Tokenizers
from sightline.decoding import DecodingSettings
from sightline.errors import ModelFileError, SettingsError
from sightline.model import Model, build
from sightline.model.config import ModelConfig
from sightline.model.registry import FAMILIES, family_of, resolve
from sightline.pipelines.scoring import PAIR_READERS
from sightline.runs.autosize import (
    adapt_to_small_data,
    build_model_config,
    choose_batch_tokens,
    resolve_training_settings,
)
from sightline.runs.examples import corpus_bytes, open_examples, open_tokenizers
from sightline.runs.folder import encoded_folder, initial_snapshot
from sightline.runs.recipe import Recipe
from sightline.runs.training_facts import collect_data_facts
from sightline.runs.validation import FoldScores, Validator
from sightline.runtime import seed_everything
from sightline.storage import wait_for_lock
from sightline.tasks.registry import families_for
from sightline.tasks.task import BatchPlan, TaskSettings
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
    task_config: TaskConfig
    batch_source: BatchSource
    objective: Objective
    validator: Validator | FoldScores
    new_weights: list[str]
    """Randomly initialized weights: with init_from, only those that the other model lacks."""
    unused_settings: list[str]
    """Settings of the recipe that the init_from model decides otherwise, as section.key."""

    @cached_property
    def data_facts(self) -> TrainingFacts:
        """What the model folder records about the data, collected once."""
        return collect_data_facts(self.examples, self.validator.inputs())


def prepare(recipe: Recipe, folder: Path, *, rank: Rank, resume: bool, device: torch.device) -> PreparedRun:
    """Prepare a run; a resumed one keeps its tokenizers and labels.

    The initial weights are drawn on the CPU, so that they are the same on every device.
    """
    root = encoded_folder(folder)
    with wait_for_lock(root):  # another run may be about to encode the same corpus
        settings = recipe.task_settings(resolve_builtin(root, recipe.data))
        init = bundle.load(initial_snapshot(folder)) if resume else load_init_model(recipe)
        unused = check_init_model(recipe, init, resume=resume) if init and recipe.model.init_from else []
        recipe = adopt_family(recipe, init) if init and recipe.model.init_from else recipe
        if init is None:
            n_bytes = corpus_bytes(recipe.task_row.open_corpus(settings))
            recipe = adapt_to_small_data(recipe, settings.data, n_bytes=n_bytes)
        tokenizers, labels = open_tokenizers_and_labels(root, recipe, settings, init, resume=resume)
        settings = replace(settings, data=limit_lengths(recipe, settings.data, init))
        examples = open_examples(root, recipe, settings, tokenizers, labels)
    task = recipe.task_row
    dataset_size = examples.train.measure(running_text=task.running_text)
    task_config = task.build_task_config(settings, labels)
    config = resolve_model_config(
        recipe, settings, dataset_size, tokenizers, task_config, init if recipe.model.init_from else None
    )
    size = choose_batch_tokens(recipe, dataset_size, config)
    seed, window = early_setting(recipe, "seed"), early_setting(recipe, "bucket_window")
    rank_slice = RankSlice(BatchSettings(batch_tokens=size, bucket_window=window), seed, rank.index, rank.world_size)
    plan = BatchPlan(examples.train, rank_slice, tokenizers, config.max_length)
    batch_source = task.batch_source(settings, plan)
    training = resolve_training_settings(recipe, dataset_size, config, n_batches=len(batch_source.epoch(0)))
    seed_everything(training.seed)
    model, new_weights = build_initial_model(config, init)
    model.to(device)  # before the optimizer and the EMA, which follow it
    model.tie_weights()  # a device may have replaced the parameters
    seed_everything(training.seed + rank.index)  # dropout differs between ranks, the initial weights do not
    ema = ExponentialMovingAverage(model, decay=training.ema_decay) if training.ema_decay else None
    state = TrainingState(model, make_optimizer(model, training), ema, Progress(seed=training.seed))
    trained = build_bundle(model, tokenizers, task_config, recipe.decoding)
    unsliced = RankSlice(BatchSettings(batch_tokens=size), seed)
    validation_plan = replace(plan, split=examples.valid, rank_slice=unsliced, training=False)
    valid = task.batch_source(settings, validation_plan)
    from_data = task.objective_options(settings, examples.train, max_length=config.max_length)
    validator = Validator(task, trained, examples, valid, Objective(**from_data), seed)
    objective = Objective(training.label_smoothing, r_drop=training.r_drop, **from_data)
    return PreparedRun(
        recipe,
        examples,
        dataset_size,
        training,
        state,
        trained,
        task_config,
        batch_source,
        objective,
        validator,
        new_weights,
        unused,
    )


def load_init_model(recipe: Recipe) -> Bundle | None:
    """Load the init_from model, if the recipe names one."""
    if recipe.model.init_from is None:
        return None
    if recipe.tokenizer.path is not None:
        raise SettingsError("model.init_from already sets the tokenizer: leave tokenizer.path out")
    init = bundle.load(Path(recipe.model.init_from))
    found, possible = family_of(init.model.config).name, families_for(recipe.task_row)
    if found not in possible:
        raise SettingsError(
            f"model.init_from: {recipe.model.init_from} is a {found}, "
            f"but {recipe.task} needs a {' or a '.join(possible)}"
        )
    if init.tokenizer is None:
        raise SettingsError(f"model.init_from: {recipe.model.init_from} has no tokenizer")
    return init


def check_init_model(recipe: Recipe, init: Bundle, *, resume: bool) -> list[str]:
    """Return the settings of the recipe that the init_from model decides otherwise; refuse those that the user set.

    A user who names the model sees it replace what a recipe says of another. But what is set in the same place as
    init_from itself, on the command line or in one file, contradicts it.
    """
    unused = find_unused_settings(recipe, init)
    typed = "model.init_from" in recipe.overridden
    refused = [name for name in unused if name in recipe.overridden or not (typed or resume)]
    if refused:
        raise SettingsError(
            f"model.init_from already sets {', '.join(refused)}: leave {'them' if len(refused) > 1 else 'it'} out; "
            f"of the model only {', '.join(sorted(OVERRIDABLE))} may differ"
        )
    return unused


def find_unused_settings(recipe: Recipe, init: Bundle) -> list[str]:
    """Return the settings of a recipe that do not hold for a model that begins as another, as section.key."""
    config, model, tokenizer = init.model.config, recipe.model, recipe.sections["tokenizer"]
    fields = {name: value for name, value in recipe.model_fields.items() if name not in OVERRIDABLE}
    unused = [f"model.{name}" for name, value in fields.items() if differs(config, name, value)]
    of_preset = recipe.preset_fields().items()
    decided = {
        "model.family": model.family not in (None, family_of(config).name),
        "model.preset": any(differs(config, name, value) for name, value in of_preset),
        "model.size": model.size != "auto",
        "tokenizer.vocab_size": init.tokenizer is None or tokenizer.get("vocab_size") != init.tokenizer.vocab_size,
        "tokenizer.shared_vocab": tokenizer.get("shared_vocab") is not (init.target_tokenizer is None),
        **{f"tokenizer.{name}": True for name in ("kind", "split_digits", "min_frequency", "add_prefix_space")},
    }
    given = (name for name in decided if name.split(".")[1] in recipe.sections[name.split(".")[0]])
    unused += [name for name in given if decided[name]]
    max_length = recipe.sections["data"].get("max_length")
    if isinstance(max_length, int) and limit_lengths(recipe, recipe.data, init).max_length < max_length:
        unused.append("data.max_length")
    return sorted(unused)


def differs(config: ModelConfig, name: str, value: object) -> bool:
    """Tell whether a model's config has another value than a recipe, where a list is a tuple."""
    return getattr(config, name, None) != (tuple(value) if isinstance(value, list) else value)


def adopt_family(recipe: Recipe, init: Bundle) -> Recipe:
    """Return the recipe for the family of the init_from model, which the task can do too."""
    family = family_of(init.model.config).name
    return recipe if family == recipe.family else recipe.with_family(family)


def open_tokenizers_and_labels(
    root: Path, recipe: Recipe, settings: TaskSettings, init: Bundle | None, *, resume: bool
) -> tuple[Tokenizers, Labels | None]:
    """Return tokenizers and labels: those of the initial model, or new ones from the data."""
    task = recipe.task_row
    if init is None:
        return open_tokenizers(root, recipe, task.open_corpus(settings)), task.find_labels(settings)
    if init.tokenizer is None:
        raise ModelFileError(recipe.model.init_from or "model", "has no tokenizer")
    tokenizers = Tokenizers(init.tokenizer, init.target_tokenizer, init.words)
    if not resume:
        return tokenizers, task.find_labels(settings)
    if init.task_config is None:
        raise SettingsError("the initial snapshot of the run does not name its task")
    return tokenizers, Labels(init.task_config.labels) if init.task_config.labels else None


def limit_lengths(recipe: Recipe, data: DataSettings, init: Bundle | None) -> DataSettings:
    """Limit data.max_length to what the model takes of a source and of a target, if it has a limit."""
    fields = {**recipe.preset_fields(), **recipe.model_fields}
    family = FAMILIES[recipe.family] if init is None else family_of(init.model.config)
    limit = fields.get("max_length", family.config.max_length) if init is None else init.model.config.max_length
    if not recipe.task_row.reads_pairs or not isinstance(limit, int):
        return data
    # The start token comes before a target; a model without an encoder reads the source before that.
    in_sequence = PAIR_READERS[resolve(family.interface)].in_sequence
    room = (limit - 1) // 2 if in_sequence else limit - 1
    return replace(data, max_length=max(1, min(data.max_length, room)))


OVERRIDABLE = {"dropout", "attention_dropout", "heads"}
"""Config fields that may differ from the init_from model; all others determine the weights."""


def resolve_model_config(
    recipe: Recipe,
    settings: TaskSettings,
    dataset_size: DatasetSize,
    tokenizers: Tokenizers,
    task_config: TaskConfig,
    init: Bundle | None,
) -> ModelConfig:
    """Return the config of the model to train."""
    from_data: dict[str, Any] = {"vocab_size": tokenizers.source.vocab_size}
    if tokenizers.target is not None:
        from_data["target_vocab_size"] = tokenizers.target.vocab_size
    from_data |= recipe.task_row.config_fields(settings, task_config)
    if init is None:
        return build_model_config(recipe, dataset_size, **from_data)
    changes = {**{k: v for k, v in recipe.model_fields.items() if k in OVERRIDABLE}, **from_data}
    return replace(init.model.config, **{k: v for k, v in changes.items() if "vocab_size" not in k})


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
