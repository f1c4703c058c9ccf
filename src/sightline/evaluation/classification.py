"""How often a classifier is right: accuracy, and F1 of each class and of all."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from sightline.errors import InputError
from sightline.evaluation.report import Report, Value
from sightline.pipelines import Classifier
from sightline.pipelines.classifier import OneOrPair
from sightline.settings import unknown_name


def evaluate_classifier(
    classifier: Classifier, examples: Sequence[tuple[OneOrPair, str]] | Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Report:
    """Classify examples (a text or a pair and its label; for a model of words, words and their labels) and count.

    What is longer than the model can take is cut, as it was in training.
    """
    given, wanted = [example[0] for example in examples], [example[1] for example in examples]
    if classifier.per_word:
        found = [[word.label for word in words] for words in classifier.tags(given, cut=True)]
        sides = zip(given, wanted, found, strict=True)
        # Of a sentence that was cut, only the words that were read are compared.
        wanted = [theirs[: len(ours)] if len(theirs) == len(words) else theirs for words, theirs, ours in sides]
        uneven = [n for n, (ours, theirs) in enumerate(zip(found, wanted, strict=True), 1) if len(ours) != len(theirs)]
        if uneven:
            raise InputError(f"example {uneven[0]} does not have a label for each of its words")
        return classification_report(list(chain(*found)), list(chain(*wanted)), labels=classifier.labels)
    labels = [one.label for one in classifier.classify(given, cut=True)]  # type: ignore[arg-type]
    return classification_report(labels, [str(label) for label in wanted], labels=classifier.labels)


def classification_report(found: Sequence[str], wanted: Sequence[str], *, labels: Sequence[str]) -> Report:
    """Compare labels with those that are right; macro F1 is the mean over the classes that occur on either side."""
    if not wanted:
        raise InputError("there is nothing to compare: the test set is empty")
    strange = next((label for label in wanted if label not in labels), None)
    if strange is not None:
        raise InputError(f"{unknown_name(strange, labels, what='label')}: the model knows {', '.join(labels[:20])}")
    right = Counter(ours for ours, theirs in zip(found, wanted, strict=True) if ours == theirs)
    guessed, there = Counter(found), Counter(wanted)
    scores = {
        label: 200 * right[label] / (guessed[label] + there[label]) for label in labels if guessed[label] + there[label]
    }
    values: dict[str, Value] = {
        "examples": len(wanted),
        "accuracy": 100 * sum(right.values()) / len(wanted),
        "macro_f1": sum(scores.values()) / len(scores),
    }
    return Report({**values, **{f"f1 {label}": score for label, score in scores.items()}})
