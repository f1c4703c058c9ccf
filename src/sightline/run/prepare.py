"""From a recipe to everything the loop needs: corpora, tokenizers, model, settings, batches, validation."""

from dataclasses import dataclass, replace
from pathlib import Path

from sightline import bundle
from sightline.bundle import Bundle
from sightline.errors import ModelFileError, SettingsError
from sightline.run.begin import beginning_model, bundle_of, config_of, opened_start, purpose_of
from sightline.run.builtin import written_down
from sightline.run.examples import Examples, asks_for_next_sentence, corpus_of, labels_of, open_examples
from sightline.run.folder import encoded_beside, first_snapshot
from sightline.run.recipe import Recipe
from sightline.run.sizes import Amount, batch_tokens, training_settings
from sightline.run.validation import Validator
from sightline.run.vocabulary import Vocabulary, open_vocabulary
from sightline.runtime import seed_everything
from sightline.text.batching import BatchSettings
from sightline.text.data import DataSettings
from sightline.text.feed import Feed, Share
from sightline.text.labels import Labels
from sightline.training.average import RunningAverage
from sightline.training.distributed import Rank
from sightline.training.lock import taking_turns
from sightline.training.objective import Objective
from sightline.training.optimizer import make_optimizer
from sightline.training.settings import TrainingSettings
from sightline.training.state import Progress, TrainingState


@dataclass(frozen=True)
class Prepared:
    """A run, ready to begin or to go on."""

    recipe: Recipe
    examples: Examples
    amount: Amount
    settings: TrainingSettings
    state: TrainingState
    bundle: Bundle
    """The model that is trained, with all that belongs into its folder."""
    feed: Feed
    objective: Objective
    validator: Validator
    fresh: list[str]
    """Weights that begin at random; of a model that goes on from another one, only what that did not have."""


def prepare(recipe: Recipe, folder: Path, *, rank: Rank, resume: bool) -> Prepared:
    """Make everything ready; a run that goes on spells texts, and names classes, as it did when it began."""
    root = encoded_beside(folder)
    with taking_turns(root):  # another run may be about to encode the same corpus
        data = written_down(root, recipe.data)
        start = bundle.load(first_snapshot(folder)) if resume else opened_start(recipe)
        vocabulary, labels = spelling(root, recipe, data, start, resume=resume)
        examples = open_examples(root, recipe, within_model(recipe, data, start), vocabulary, labels)
    amount = examples.train.amount(running_text=recipe.task.endswith("language-model"))
    purpose = purpose_of(recipe, data, labels)
    config = config_of(recipe, amount, vocabulary, purpose, start if recipe.model.start else None)
    size = batch_tokens(recipe, amount, config)
    seed, window = asked_number(recipe, "seed"), asked_number(recipe, "window")
    share = Share(BatchSettings(batch_tokens=size, window=window), seed, rank.index, rank.world)
    feed = examples.feed(examples.train, config, share)
    settings = training_settings(recipe, amount, config, n_batches=len(feed.epoch(0)))
    seed_everything(settings.seed)
    model, fresh = beginning_model(config, start)
    seed_everything(settings.seed + rank.index)  # dropout differs from process to process, the weights do not
    average = RunningAverage(model, decay=settings.average_decay) if settings.average_decay else None
    state = TrainingState(model, make_optimizer(model, settings), average, Progress(seed=settings.seed))
    packed = bundle_of(model, vocabulary, purpose, recipe.decoding)
    alone = Share(BatchSettings(batch_tokens=size), seed)
    valid = examples.feed(examples.valid, config, alone, learning=False)
    words = hidden_words(recipe, examples, config.max_length) if asks_for_next_sentence(recipe) else 1.0
    validator = Validator(packed, examples, valid, Objective(next_sentence_words=words), seed)
    objective = Objective(settings.label_smoothing, next_sentence_words=words, agreement=settings.agreement)
    return Prepared(recipe, examples, amount, settings, state, packed, feed, objective, validator, fresh)


def spelling(
    root: Path, recipe: Recipe, data: DataSettings, start: Bundle | None, *, resume: bool
) -> tuple[Vocabulary, Labels | None]:
    """Return tokenizers and classes: those of the model to go on from, or new ones learned from the data."""
    if start is None:
        return open_vocabulary(root, recipe, corpus_of(recipe, data)), labels_of(recipe, data)
    if start.tokenizer is None:
        raise ModelFileError(recipe.model.start or "model", "has no tokenizer: text cannot be spelled for it")
    vocabulary = Vocabulary(start.tokenizer, start.target_tokenizer, start.words)
    if not resume:
        return vocabulary, labels_of(recipe, data)
    if start.purpose is None:
        raise SettingsError("the run's first snapshot does not say what it is for")
    return vocabulary, Labels(start.purpose.labels) if start.purpose.labels else None


def within_model(recipe: Recipe, data: DataSettings, start: Bundle | None) -> DataSettings:
    """Let nothing into the examples that is longer than an encoder–decoder takes, where it has a limit."""
    limit = recipe.model_fields.get("max_length", recipe.preset_fields().get("max_length"))
    if start is not None and limit is None:
        limit = start.model.config.max_length
    if recipe.architecture != "transformer" or not isinstance(limit, int):
        return data
    return replace(data, max_length=max(1, min(data.max_length, limit - 1)))  # a target is read behind its start


def asked_number(recipe: Recipe, name: str) -> int:
    """Return a setting of the training that is needed before all of them are known."""
    default: int = getattr(TrainingSettings, name)
    given = recipe.sections["training"].get(name, default)
    return given if isinstance(given, int) else default


def hidden_words(recipe: Recipe, examples: Examples, longest: int | None) -> float:
    """Return how many words of a pair of sentences are hidden on average (`Objective.next_sentence_words`)."""
    lengths = examples.train.store.lengths[examples.train.chosen, 0]
    pair = min(2 * float(lengths.mean()), float(longest or 512))
    return max(1.0, recipe.masking.chosen * pair)
