"""The beginning of a run: the model, new or from a folder, and all that goes with it into the model folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sightline import bundle
from sightline.bundle import Bundle
from sightline.bundle.purpose import Purpose, head_for
from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.model import Model, build
from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.model.registry import architecture_of
from sightline.run.recipe import Recipe
from sightline.run.sizes import Amount, model_config
from sightline.run.vocabulary import Vocabulary
from sightline.text.data import DataSettings
from sightline.text.labels import Labels

MAY_DIFFER = {"dropout", "attention_dropout", "heads"}
"""What may be other than in the model one goes on from; everything else shapes its weights."""


def purpose_of(recipe: Recipe, data: DataSettings, labels: Labels | None) -> Purpose:
    """Return what the model will be for."""
    return Purpose(
        recipe.task,
        languages=data.languages if recipe.task == "translation" else (),
        labels=labels.names if labels else (),
        per_word=recipe.task == "classification" and data.classified == "words",
        history=data.history,
    )


def opened_start(recipe: Recipe) -> Bundle | None:
    """Open the model to go on from, if the recipe names one."""
    if recipe.model.start is None:
        return None
    if recipe.tokenizer.folder is not None:
        raise SettingsError("model.start brings its own tokenizer: leave tokenizer.folder out")
    start = bundle.load(Path(recipe.model.start))
    if architecture_of(start.model.config) != recipe.architecture:
        raise SettingsError(
            f"model.start: {recipe.model.start} is a {architecture_of(start.model.config)}, "
            f"but {recipe.task} needs a {recipe.architecture}"
        )
    if start.tokenizer is None:
        raise SettingsError(f"model.start: {recipe.model.start} has no tokenizer: text cannot be spelled for it")
    return start


def config_of(
    recipe: Recipe, amount: Amount, vocabulary: Vocabulary, purpose: Purpose, start: Bundle | None
) -> BlockConfig:
    """Return the config of the model to be trained."""
    decided = decided_by_data(recipe, vocabulary, purpose)
    if start is None:
        return model_config(recipe, amount, **decided)
    typed = {name.removeprefix("model.") for name in recipe.typed if name.startswith("model.")}
    if fixed := sorted(typed & set(recipe.model_fields) - MAY_DIFFER):
        raise SettingsError(
            f"model.start brings its own {', '.join(fixed)}: leave them out; "
            f"only {', '.join(sorted(MAY_DIFFER))} may differ"
        )
    changes = {**{k: v for k, v in recipe.model_fields.items() if k in MAY_DIFFER}, **decided}
    return replace(start.model.config, **{k: v for k, v in changes.items() if "vocab_size" not in k})


def decided_by_data(recipe: Recipe, vocabulary: Vocabulary, purpose: Purpose) -> dict[str, Any]:
    """Return the fields of a config that no recipe chooses."""
    decided: dict[str, Any] = {"vocab_size": vocabulary.source.vocab_size}
    if vocabulary.target is not None:
        decided["target_vocab_size"] = vocabulary.target.vocab_size
    if purpose.task == "classification":
        decided |= {"heads": (head_for(purpose),), "n_classes": max(1, len(purpose.labels))}
    elif recipe.architecture == "bert":
        decided["heads"] = tuple(recipe.model_fields.get("heads", BertConfig.heads))  # type: ignore[arg-type]
    return decided


@torch.no_grad()
def beginning_model(config: BlockConfig, start: Bundle | None) -> tuple[Model, list[str]]:
    """Build the model; where it goes on from another one, all that both have is taken over.

    Also return the names of the weights that are new.
    """
    model = build(config)
    theirs = dict(start.model.named_parameters()) if start else {}
    fresh = []
    for name, parameter in model.named_parameters():
        if name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
        else:
            fresh.append(name)
    return model, fresh


def bundle_of(
    model: Model, vocabulary: Vocabulary, purpose: Purpose, generation: DecodingSettings, *, card: str = ""
) -> Bundle:
    """Put everything that belongs to a model folder together."""
    return Bundle(
        model,
        vocabulary.source,
        generation,
        card,
        purpose=purpose,
        target_tokenizer=vocabulary.target,
        words=vocabulary.words,
    )
