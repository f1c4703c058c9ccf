"""Evaluate a classifier: accuracy, and F1 per class and macro-averaged."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from sightline.config import unknown_name
from sightline.errors import InputError
from sightline.evaluation.report import Report, Value
from sightline.pipelines import Classifier
from sightline.pipelines.classifier import OneOrPair


def evaluate_classifier(
    classifier: Classifier, examples: Sequence[tuple[OneOrPair, str]] | Sequence[tuple[Sequence[str], Sequence[str]]]
) -> Report:
    """Classify examples (a text or pair and its label; for a token classifier, words and their labels) and score them.

    Examples that are too long for the model are truncated, as in training.
    """
    inputs, references = [example[0] for example in examples], [example[1] for example in examples]
    if classifier.per_word:
        predictions = [[word.label for word in words] for words in classifier.tags(inputs, truncate=True)]
        rows = zip(inputs, references, predictions, strict=True)
        # Of a truncated sentence, only the words that were read are compared.
        references = [theirs[: len(ours)] if len(theirs) == len(words) else theirs for words, theirs, ours in rows]
        uneven = [
            n
            for n, (ours, theirs) in enumerate(zip(predictions, references, strict=True), 1)
            if len(ours) != len(theirs)
        ]
        if uneven:
            raise InputError(f"example {uneven[0]} does not have a label for each of its words")
        report = classification_report(list(chain(*predictions)), list(chain(*references)), labels=classifier.labels)
        return replace(report, outputs=tuple(map(" ".join, predictions)))
    labels = [one.label for one in classifier.classify(inputs, truncate=True)]  # type: ignore[arg-type]
    report = classification_report(labels, [str(label) for label in references], labels=classifier.labels)
    return replace(report, outputs=tuple(labels))


def classification_report(predictions: Sequence[str], references: Sequence[str], *, labels: Sequence[str]) -> Report:
    """Compare predicted with reference labels; macro F1 is the mean over the classes that occur in either."""
    if not references:
        raise InputError("nothing to evaluate: the test set is empty")
    unknown = next((label for label in references if label not in labels), None)
    if unknown is not None:
        raise InputError(f"{unknown_name(unknown, labels, what='label')}: the model knows {', '.join(labels[:20])}")
    correct = Counter(ours for ours, theirs in zip(predictions, references, strict=True) if ours == theirs)
    n_predicted, n_expected = Counter(predictions), Counter(references)
    scores = {
        label: 200 * correct[label] / (n_predicted[label] + n_expected[label])
        for label in labels
        if n_predicted[label] + n_expected[label]
    }
    values: dict[str, Value] = {
        "examples": len(references),
        "accuracy": 100 * sum(correct.values()) / len(references),
        "macro_f1": sum(scores.values()) / len(scores),
    }
    return Report({**values, **{f"f1 {label}": score for label, score in scores.items()}})
