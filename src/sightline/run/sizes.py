"""What a recipe leaves open, chosen by the amount of data: vocabulary, model, batches, learning rate, updates.

The rules are rules of thumb from trials on two cores (docs/log.md); whatever a recipe or a person sets stands.
"""

import math
from dataclasses import dataclass

from sightline.model.config import BlockConfig
from sightline.model.registry import ARCHITECTURES, PRESETS
from sightline.run.recipe import Recipe
from sightline.settings import from_mapping
from sightline.training.settings import TrainingSettings


@dataclass(frozen=True)
class Size:
    """A model of this size, and how much it is worth showing it."""

    n_layers: int
    d_model: int
    n_heads: int
    tokens_up_to: int
    """Data for which it is chosen."""
    tokens_to_see: int
    """How many tokens to learn from, the same ones again and again if there are fewer."""


SIZES = {
    "tiny": Size(3, 128, 4, tokens_up_to=4_000_000, tokens_to_see=12_000_000),
    "small": Size(4, 256, 4, tokens_up_to=20_000_000, tokens_to_see=24_000_000),
    "medium": Size(6, 384, 6, tokens_up_to=60_000_000, tokens_to_see=80_000_000),
    "base": Size(6, 512, 8, tokens_up_to=1 << 62, tokens_to_see=400_000_000),
}

FEWEST_UPDATES, MOST_EPOCHS = 800, 60
WARM_UP = 0.05
GENTLY = 0.5
"""Of the usual learning rate, for a model that goes on from another: faster, and it forgets what that had learned.

Half was ahead of a fifth and of all of it when a small BERT went on to SST-2 (docs/log.md)."""
BATCHES_IN_EPOCH = 40
"""Wished for: with little data batches are smaller, so that there are enough updates."""


CHOSEN_MODEL = ("d_model", "n_heads", "d_ff", "n_layers", "n_encoder_layers", "n_decoder_layers")
CHOSEN_TRAINING = (
    "batch_tokens", "max_steps", "warmup_steps", "learning_rate", "validate_every", "checkpoint_every", "log_every",
)  # fmt: skip


@dataclass(frozen=True)
class Amount:
    """How much there is to learn from."""

    examples: int
    tokens: int
    """To be read and written in one pass."""
    longest: int
    """Tokens of the longest example, both sides counted."""


def vocabulary_size(n_bytes: int) -> int:
    """Return how many different tokens a text of this size supports: the larger it is, the longer pieces recur."""
    return max(400, min(16_000, round(3 * math.sqrt(n_bytes) / 100) * 100))


def size_for(recipe: Recipe, amount: Amount) -> Size:
    """Return the size that was asked for, or the one that suits the amount of data."""
    if recipe.model.size != "auto":
        return SIZES[recipe.model.size]
    return next(size for size in SIZES.values() if amount.tokens <= size.tokens_up_to)


def model_config(recipe: Recipe, amount: Amount, **decided: object) -> BlockConfig:
    """Return the config of a new model; what the data decides (its vocabulary, its classes) is given."""
    kind = ARCHITECTURES[recipe.architecture][0]
    if recipe.model.preset:
        chosen = dict(PRESETS[recipe.model.preset][1])
    else:
        size = size_for(recipe, amount)
        layers = ("n_encoder_layers", "n_decoder_layers") if recipe.architecture == "transformer" else ("n_layers",)
        chosen = {"d_model": size.d_model, "n_heads": size.n_heads, "d_ff": 4 * size.d_model}
        chosen |= dict.fromkeys(layers, size.n_layers if len(layers) == 2 else size.n_layers + 1)
    return from_mapping(kind, {**chosen, **recipe.model_fields, **decided}, where="model")


def batch_tokens(recipe: Recipe, amount: Amount, config: BlockConfig) -> int:
    """Return how large batches are: with room for a few of the longest examples."""
    given = recipe.sections["training"].get("batch_tokens")
    if isinstance(given, int):
        return given
    longest = amount.longest or config.max_length or 0
    return max(1024, min(6144, amount.tokens // BATCHES_IN_EPOCH), 2 * longest)


def training_settings(recipe: Recipe, amount: Amount, config: BlockConfig, *, n_batches: int) -> TrainingSettings:
    """Return the settings of the run, every gap filled; `n_batches` are those of an epoch."""
    given = dict(recipe.sections["training"])
    accumulate = given.get("accumulate", 1)
    updates = n_batches / (accumulate if isinstance(accumulate, int) else 1)
    if given.get("max_steps") is None:
        epochs = given.pop("max_epochs", None)
        if isinstance(epochs, int | float):
            given["max_steps"] = math.ceil(epochs * updates)
        elif given.get("max_minutes") is None or given.get("schedule") in ("cosine", "linear"):
            seen = size_for(recipe, amount).tokens_to_see / max(1, amount.tokens)
            given["max_steps"] = max(FEWEST_UPDATES, round(min(seen, MOST_EPOCHS) * updates))
    given["batch_tokens"] = batch_tokens(recipe, amount, config)
    steps = given.get("max_steps")
    if isinstance(steps, int) and given.get("schedule", "paper") != "paper":
        given.setdefault("warmup_steps", min(4000, max(1, round(WARM_UP * steps))) if steps > 1 else 0)
    if given.get("schedule", "paper") != "paper" and given.get("learning_rate") is None:
        gentle = GENTLY if recipe.model.start else 1.0
        given["learning_rate"] = round(gentle * 0.003 * 128 / config.d_model, 6)
    if isinstance(steps, int):
        given.setdefault("validate_every", max(1, min(1000, steps // 8)))
        given.setdefault("checkpoint_every", max(1, min(1000, steps // 8)))
        given.setdefault("log_every", max(1, min(50, steps // 40)))
    return from_mapping(TrainingSettings, given, where="training")


def left_to_data(recipe: Recipe) -> set[tuple[str, str]]:
    """Return the options, by section and key, that will be chosen by the data because nobody has set them."""
    chosen = {("training", name) for name in CHOSEN_TRAINING} | {("tokenizer", "vocab_size")}
    if recipe.sections["training"].get("schedule", "paper") == "paper":
        chosen -= {("training", "warmup_steps"), ("training", "learning_rate")}
    if {"max_epochs", "max_steps", "max_minutes"} & set(recipe.sections["training"]):
        chosen -= {("training", "max_steps")}
    if recipe.model.preset is None:
        chosen |= {("model", name) for name in CHOSEN_MODEL}
    return {(section, key) for section, key in chosen if key not in recipe.sections[section]}
