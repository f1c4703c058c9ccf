"""`sightline classify`: the class of a text, of a pair of texts, or of every word."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.opening import opened
from sightline.cli.options import AsJson, ModelFolder, Texts
from sightline.cli.output import put_json, put_line, put_row
from sightline.cli.progress import shown
from sightline.cli.texts import Text, answers, text_blocks
from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Classification, Classifier


def classify(
    model: ModelFolder,
    texts: Texts = None,
    pair: Annotated[
        bool,
        typer.Option("--pair", help="Classify pairs: arguments two by two, or lines with a tab between two texts."),
    ] = False,
    cut: Annotated[
        bool, typer.Option("--cut", help="Read as much of a text as the model can take, instead of refusing it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Classify texts, pairs of texts, or words.

    Prints for each text, or line of stdin, its class, a tab, and the probability; nothing in the line of a blank one.
    A model that classifies words prints each word of the text with its class, as dog/NOUN.

    \b
    Examples:
      sightline classify runs/mood "What a lovely day!"
      sightline classify runs/entailment --pair "A dog runs." "An animal moves."
      sightline classify runs/mood --json < reviews.txt
    """
    from sightline.pipelines import Classifier

    classifier = opened(model, Classifier)
    if classifier.per_word:
        if pair:
            raise RefusedError(f"{model}: this model classifies words, not pairs of texts: leave --pair out")
        tag_words(classifier, texts, as_json=as_json)
        return

    def work(block: list[Text]) -> "list[Classification]":
        return classifier.classify([two_texts(text) if pair else text.text for text in block], cut=cut)

    for text, found in answers(shown(text_blocks(joined(texts) if pair else texts)), work):
        if as_json:
            put_json({"line": text.number, "text": text.text.split("\t") if pair else text.text, **entries_of(found)})
        elif found is None:
            put_line("")
        else:
            put_row(found.label, f"{found.probability:.4f}")


def tag_words(classifier: "Classifier", texts: list[str] | None, *, as_json: bool) -> None:
    """Print the class of every word."""

    def work(block: list[Text]) -> "list[list[Classification]]":
        return classifier.tags([text.text.split() for text in block])

    for text, found in answers(shown(text_blocks(texts)), work):
        tagged = list(zip(text.text.split(), found or (), strict=True))
        if as_json:
            words = [{"word": word, **entries_of(each)} for word, each in tagged]
            put_json({"line": text.number, "text": text.text, "words": words})
        else:
            put_line(" ".join(f"{word}/{each.label}" for word, each in tagged))


def entries_of(found: "Classification | None") -> dict[str, object]:
    """Return what was found, ready for JSON."""
    if found is None:
        return {"label": None, "probability": None, "probabilities": None}
    return {"label": found.label, "probability": found.probability, "probabilities": found.probabilities}


def joined(texts: list[str] | None) -> list[str] | None:
    """Return arguments as pairs with a tab between: as they are if they have one, else two by two."""
    if not texts or texts == ["-"] or any("\t" in text for text in texts):
        return texts
    if len(texts) % 2:
        raise InputError(f"--pair takes texts two by two, not {len(texts)}")
    return [f"{first}\t{second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]


def two_texts(text: Text) -> tuple[str, str]:
    """Return the two texts of a pair."""
    first, *others = text.text.split("\t")
    if len(others) != 1:
        raise InputError(f"a pair is two texts with a tab between them, not {len(others) + 1}")
    return first, others[0]
