"""`sightline classify`: classify texts, pairs of texts, or words."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder, Texts, open_pipeline
from sightline.cli.texts import Text, process_texts, put_json, put_line, put_row, read_blocks, show_progress
from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Classification, Classifier


def classify(
    model: ModelFolder,
    texts: Texts = None,
    pair: Annotated[
        bool,
        typer.Option(
            "--pair", help="Classify pairs of texts: every two arguments, or lines with a tab between two texts."
        ),
    ] = False,
    truncate: Annotated[
        bool,
        typer.Option("--truncate", help="Truncate texts that are too long for the model instead of refusing them."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Classify texts, pairs of texts, or words.

    Prints the class, a tab and the probability for each text or line of stdin; an empty line for a blank one. A model
    that classifies words prints each word with its class, for example dog/NOUN.

    \b
    Examples:
      sightline classify runs/mood "What a lovely day!"
      sightline classify runs/entailment --pair "A dog runs." "An animal moves."
      sightline classify runs/mood --json < reviews.txt
    """
    from sightline.pipelines import Classifier

    classifier = open_pipeline(model, Classifier)
    if classifier.per_word:
        if pair:
            raise RefusedError(f"{model}: this model classifies words, not pairs of texts: leave --pair out")
        tag_words(classifier, texts, as_json=as_json)
        return

    def work(block: list[Text]) -> "list[Classification]":
        return classifier.classify([split_pair(text) if pair else text.text for text in block], truncate=truncate)

    for text, found in process_texts(show_progress(read_blocks(join_pairs(texts) if pair else texts)), work):
        if as_json:
            put_json({"line": text.number, "text": text.text.split("\t") if pair else text.text, **to_json_dict(found)})
        elif found is None:
            put_line("")
        else:
            put_row(found.label, f"{found.probability:.4f}")


def tag_words(classifier: "Classifier", texts: list[str] | None, *, as_json: bool) -> None:
    """Print every word with its class."""

    def work(block: list[Text]) -> "list[list[Classification]]":
        return classifier.tags([text.text.split() for text in block])

    for text, found in process_texts(show_progress(read_blocks(texts)), work):
        tagged = list(zip(text.text.split(), found or (), strict=True))
        if as_json:
            words = [{"word": word, **to_json_dict(each)} for word, each in tagged]
            put_json({"line": text.number, "text": text.text, "words": words})
        else:
            put_line(" ".join(f"{word}/{each.label}" for word, each in tagged))


def to_json_dict(found: "Classification | None") -> dict[str, object]:
    """Return a classification as a JSON object."""
    if found is None:
        return {"label": None, "probability": None, "probabilities": None}
    return {"label": found.label, "probability": found.probability, "probabilities": found.probabilities}


def join_pairs(texts: list[str] | None) -> list[str] | None:
    """Join every two arguments by a tab, unless they contain tabs already."""
    if not texts or texts == ["-"] or any("\t" in text for text in texts):
        return texts
    if len(texts) % 2:
        raise InputError(f"--pair needs an even number of texts, not {len(texts)}")
    return [f"{first}\t{second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]


def split_pair(text: Text) -> tuple[str, str]:
    """Split a line into the two texts of a pair."""
    first, *others = text.text.split("\t")
    if len(others) != 1:
        raise InputError(f"a pair is two texts with a tab between them, not {len(others) + 1}")
    return first, others[0]
