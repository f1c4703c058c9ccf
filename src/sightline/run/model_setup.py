"""Set up the model of a run, new or initialized from another, with everything that belongs in its folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sightline import bundle
from sightline.bundle import Bundle
from sightline.bundle.task_config import TaskConfig, head_for
from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.model import Model, build
from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.model.registry import architecture_of
from sightline.run.autosize import DatasetSize, build_model_config
from sightline.run.recipe import Recipe
from sightline.run.tokenization import Tokenizers
from sightline.text.data import DataSettings
from sightline.text.labels import Labels

OVERRIDABLE = {"dropout", "attention_dropout", "heads"}
"""Config fields that may differ from the init_from model; all others determine the weights."""


def build_task_config(recipe: Recipe, data: DataSettings, labels: Labels | None) -> TaskConfig:
    """Return the task config of the model."""
    return TaskConfig(
        recipe.task,
        languages=data.languages if recipe.task == "translation" else (),
        labels=labels.names if labels else (),
        per_word=recipe.task == "classification" and data.label_level == "token",
        context_turns=data.context_turns,
    )


def load_init_model(recipe: Recipe) -> Bundle | None:
    """Load the init_from model, if the recipe names one."""
    if recipe.model.init_from is None:
        return None
    if recipe.tokenizer.path is not None:
        raise SettingsError("model.init_from already sets the tokenizer: leave tokenizer.path out")
    init = bundle.load(Path(recipe.model.init_from))
    if architecture_of(init.model.config) != recipe.architecture:
        raise SettingsError(
            f"model.init_from: {recipe.model.init_from} is a {architecture_of(init.model.config)}, "
            f"but {recipe.task} needs a {recipe.architecture}"
        )
    if init.tokenizer is None:
        raise SettingsError(f"model.init_from: {recipe.model.init_from} has no tokenizer")
    return init


def resolve_model_config(
    recipe: Recipe, dataset_size: DatasetSize, tokenizers: Tokenizers, task_config: TaskConfig, init: Bundle | None
) -> BlockConfig:
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
    elif recipe.architecture == "bert":
        from_data["heads"] = tuple(recipe.model_fields.get("heads", BertConfig.heads))  # type: ignore[arg-type]
    return from_data


@torch.no_grad()
def build_initial_model(config: BlockConfig, init: Bundle | None) -> tuple[Model, list[str]]:
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
