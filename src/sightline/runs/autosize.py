"""Choose what a recipe leaves open by the size of the dataset: vocabulary, model, batches, learning rate, updates.

Rules of thumb from trials on two cores (docs/log.md); explicit settings always win.
"""

import math
from dataclasses import dataclass, fields

from sightline.config import from_mapping
from sightline.data.corpora.settings import DataSettings
from sightline.data.datasets.examples import DatasetSize
from sightline.model.config import ModelConfig
from sightline.model.registry import FAMILIES, PRESETS
from sightline.runs.recipe import Recipe
from sightline.training.settings import TrainingSettings


@dataclass(frozen=True)
class Size:
    """Dimensions of a model, and how long to train it."""

    n_layers: int
    d_model: int
    n_heads: int
    max_dataset_tokens: int
    """Chosen for datasets of up to this size."""
    training_tokens: int
    """Tokens to train on, over several epochs if the dataset is smaller."""


SIZES = {
    "tiny": Size(3, 128, 4, max_dataset_tokens=4_000_000, training_tokens=12_000_000),
    "small": Size(4, 256, 4, max_dataset_tokens=20_000_000, training_tokens=24_000_000),
    "medium": Size(6, 384, 6, max_dataset_tokens=60_000_000, training_tokens=80_000_000),
    "base": Size(6, 512, 8, max_dataset_tokens=1 << 62, training_tokens=400_000_000),
}

MIN_UPDATES, MAX_EPOCHS = 800, 60
WARMUP_RATIO = 0.05
FINE_TUNING_RATIO = 0.5
"""Learning rate of fine-tuning, relative to training from scratch: a higher one forgets the pretraining.

0.5 beat 0.2 and 1 when a small BERT was fine-tuned on SST-2, and 0.2 when a translator was, by Muon (docs/log.md)."""
MIN_BATCHES_PER_EPOCH = 40
"""With little data, batches are smaller, so that there are enough updates."""


MAX_VALIDATIONS = 8
"""Validations of a run of up to 8,000 updates; with a limit in minutes, at most about one a minute: they take time."""

AUTO_MODEL = ("d_model", "n_heads", "d_ff", "n_layers", "n_encoder_layers", "n_decoder_layers")
AUTO_TRAINING = (
    "batch_tokens", "max_steps", "warmup_steps", "learning_rate", "validate_every", "checkpoint_every", "log_every",
)  # fmt: skip


def choose_vocab_size(n_bytes: int) -> int:
    """Return the vocabulary size for a text of this size: the larger the text, the longer the pieces that recur."""
    return max(400, min(16_000, round(3 * math.sqrt(n_bytes) / 100) * 100))


def choose_size(recipe: Recipe, dataset_size: DatasetSize) -> Size:
    """Return the size of the recipe, or the one that suits the dataset."""
    if recipe.model.size != "auto":
        return SIZES[recipe.model.size]
    return next(size for size in SIZES.values() if dataset_size.n_tokens <= size.max_dataset_tokens)


def build_model_config(recipe: Recipe, dataset_size: DatasetSize, **from_data: object) -> ModelConfig:
    """Return the config of a new model; `from_data` holds fields that the data decides (vocabulary, classes)."""
    kind = FAMILIES[recipe.family].config
    if recipe.model.preset:
        chosen = dict(PRESETS[recipe.model.preset][1])
    else:
        size = choose_size(recipe, dataset_size)
        names = [entry.name for entry in fields(kind)]
        layers = [name for name in names if name.startswith("n_") and name.endswith("layers")]
        sizes = {"d_model": size.d_model, "n_heads": size.n_heads, "d_ff": 4 * size.d_model}
        chosen = {name: value for name, value in sizes.items() if name in names}
        chosen |= dict.fromkeys(layers, size.n_layers if len(layers) == 2 else size.n_layers + 1)
    return from_mapping(kind, {**chosen, **recipe.model_fields, **from_data}, where="model")


def adapt_to_small_data(recipe: Recipe, data: DataSettings, *, n_bytes: int) -> Recipe:
    """Return the recipe with what its task chooses for so little text, where a model and its size are left open."""
    if recipe.model.init_from or recipe.model.preset or recipe.model.size != "auto":
        return recipe
    chosen, training = recipe.task_row.small_data_settings(data, n_bytes=n_bytes), recipe.sections["training"]
    if any(training.get(name) is not None for name in ("max_steps", "max_epochs", "max_minutes")):
        chosen = {name: value for name, value in chosen.items() if name != "training.max_epochs"}
    if "dropout" in recipe.sections["model"]:  # who sets it decides on all of it
        chosen = {name: value for name, value in chosen.items() if name != "model.token_dropout"}
    if recipe.tokenizer.path:
        chosen = {name: value for name, value in chosen.items() if not name.startswith("tokenizer.")}
    return recipe.adapt({name: value for name, value in chosen.items() if is_setting(recipe, name)})


def is_setting(recipe: Recipe, name: str) -> bool:
    """Tell whether a recipe may set something, as section.key: what a model has depends on its family."""
    section, _, key = name.partition(".")
    return key in recipe.field_types(section)


def choose_batch_tokens(recipe: Recipe, dataset_size: DatasetSize, config: ModelConfig) -> int:
    """Return the batch size in tokens, with room for a few of the longest examples."""
    given = recipe.sections["training"].get("batch_tokens")
    if isinstance(given, int):
        return given
    longest = dataset_size.max_length or config.max_length or 0
    return max(1024, min(6144, dataset_size.n_tokens // MIN_BATCHES_PER_EPOCH), 2 * longest)


def choose_learning_rate(optimizer: object, d_model: int) -> float:
    """Return the peak learning rate of a model trained from scratch: a wider one needs a lower rate.

    Muon's updates of a matrix do not grow with its width, those of the embeddings, which AdamW makes, do.
    """
    width = d_model / 128
    return 0.01 / math.sqrt(width) if optimizer == "muon" else 0.003 / width


def resolve_training_settings(
    recipe: Recipe,
    dataset_size: DatasetSize,
    config: ModelConfig,
    *,
    n_batches: int,
    planned_steps: int | None = None,
) -> TrainingSettings:
    """Return the settings of the run, complete; `n_batches` is the number of batches per epoch.

    Of a run with a limit in minutes, `planned_steps` is the number of updates that fit in; before it is known, what
    depends on it is left as it is.
    """
    given = dict(recipe.sections["training"])
    gradient_accumulation = given.get("gradient_accumulation", 1)
    updates = n_batches / (gradient_accumulation if isinstance(gradient_accumulation, int) else 1)
    if given.get("max_steps") is None:
        epochs = given.pop("max_epochs", None)
        if isinstance(epochs, int | float):
            given["max_steps"] = math.ceil(epochs * updates)
        elif given.get("max_minutes") is not None:
            warmup = given.get("warmup_steps")
            given["max_steps"] = planned_steps and max(planned_steps, (warmup if isinstance(warmup, int) else 0) + 1)
        else:
            epochs_to_train = choose_size(recipe, dataset_size).training_tokens / max(1, dataset_size.n_tokens)
            given["max_steps"] = max(MIN_UPDATES, round(min(epochs_to_train, MAX_EPOCHS) * updates))
    given["batch_tokens"] = choose_batch_tokens(recipe, dataset_size, config)
    steps = given.get("max_steps")
    if isinstance(steps, int) and given.get("schedule", "noam") != "noam":
        given.setdefault("warmup_steps", min(4000, max(1, round(WARMUP_RATIO * steps))) if steps > 1 else 0)
    if given.get("schedule", "noam") != "noam" and given.get("learning_rate") is None:
        scale = FINE_TUNING_RATIO if recipe.model.init_from else 1.0
        given["learning_rate"] = round(scale * choose_learning_rate(given.get("optimizer"), config.d_model), 6)
    steps = planned_steps or steps  # which may be fewer than the user's limit
    if isinstance(steps, int):
        minutes = given.get("max_minutes")
        n_validations = (
            max(2, min(MAX_VALIDATIONS, round(minutes))) if isinstance(minutes, int | float) else MAX_VALIDATIONS
        )
        given.setdefault("validate_every", max(1, min(1000, steps // n_validations)))
        given.setdefault("checkpoint_every", max(1, min(1000, steps // 8)))
        given.setdefault("log_every", max(1, min(50, steps // 40)))
    return from_mapping(TrainingSettings, given, where="training")


def auto_settings(recipe: Recipe) -> set[tuple[str, str]]:
    """Return the settings, by section and key, that are not set and will be chosen by the size of the dataset."""
    chosen = {("training", name) for name in AUTO_TRAINING} | {("tokenizer", "vocab_size")}
    if recipe.sections["training"].get("schedule", "noam") == "noam":
        chosen -= {("training", "warmup_steps"), ("training", "learning_rate")}
    if {"max_epochs", "max_steps", "max_minutes"} & set(recipe.sections["training"]):
        chosen -= {("training", "max_steps")}
    if recipe.model.preset is None:
        chosen |= {("model", name) for name in AUTO_MODEL}
    data = from_mapping(DataSettings, {"train": "?", **recipe.sections["data"]})
    for name in adapt_to_small_data(recipe, data, n_bytes=0).adapted:
        section, _, key = name.partition(".")
        chosen.add((section, key))
    return {(section, key) for section, key in chosen if key not in recipe.sections[section]}
