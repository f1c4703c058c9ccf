"""A linear model of words, trained in seconds: the baseline that a classifier must beat to be worth its time.

Each text is a bag of its words and of pairs of neighboring words, weighted by TF-IDF; a logistic regression predicts
the class. It does not know the order of words, and has no notion of similar ones.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor
from torch.nn import functional as F

from sightline.data.datasets.stateless_random import permutation

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|\w+|[^\w\s]")
"""A word, a punctuation mark, or a character of Chinese or Japanese, which have no spaces between words."""
MAX_FEATURES, MAX_WEIGHTS = 200_000, 2_000_000
"""The most frequent features are kept; with many classes fewer of them, so that training takes seconds."""
MAX_EXAMPLES = 20_000
"""Examples to train on: of a larger set a caller gives so many at random."""
MAX_TUNING_EXAMPLES = 4_000
INVERSE_REGULARIZATIONS = (0.3, 1.0, 3.0, 10.0)
"""Inverse strengths of the L2 penalty (scikit-learn's C); the best on a fifth of the training set is used."""
MAX_ITERATIONS, HISTORY = 100, 10


@dataclass(frozen=True)
class SparseRows:
    """The features of many texts, row after row, as `embedding_bag` takes them."""

    ids: Int[Tensor, "N"]
    weights: Float[Tensor, "N"]
    offsets: Int[Tensor, "B"]
    """Where each row begins."""

    def select(self, rows: Int[ndarray, " n"]) -> "SparseRows":
        """Return some of the rows."""
        ends = torch.cat([self.offsets[1:], torch.tensor([len(self.ids)])])
        spans = [slice(int(self.offsets[row]), int(ends[row])) for row in rows]
        lengths = torch.tensor([span.stop - span.start for span in spans])
        empty = [torch.zeros(0, dtype=torch.long)]
        return SparseRows(
            torch.cat([self.ids[span] for span in spans] or empty),
            torch.cat([self.weights[span] for span in spans] or [torch.zeros(0)]),
            lengths.cumsum(0) - lengths,
        )


@dataclass(frozen=True)
class LinearBaseline:
    """A trained linear model."""

    vocabulary: dict[str, int]
    idf: Float[ndarray, " V"]
    weight: Float[Tensor, "V C"]
    bias: Float[Tensor, "C"]

    def predict(self, texts: Iterable[Sequence[str]]) -> list[int]:
        """Return the class of each text, or pair of texts."""
        rows = tfidf([extract_features(text) for text in texts], self.vocabulary, self.idf)
        classes: list[int] = linear_logits(rows, self.weight, self.bias).argmax(dim=1).tolist()
        return classes


def train_linear_baseline(
    texts: Sequence[Sequence[str]], labels: Sequence[int], *, n_classes: int, seed: int = 0
) -> LinearBaseline:
    """Train on texts, each given as one text or the two of a pair, and their classes."""
    order = permutation(len(texts), seed, 0)
    bags = [extract_features(texts[number]) for number in order]
    targets = torch.tensor([labels[number] for number in order])
    counts = Counter(feature for bag in bags for feature in bag)
    size = min(MAX_FEATURES, max(1, MAX_WEIGHTS // n_classes))
    frequent = sorted(counts, key=lambda feature: (-counts[feature], feature))[:size]
    vocabulary = {feature: number for number, feature in enumerate(frequent)}
    idf = np.array([math.log((1 + len(bags)) / (1 + counts[name])) + 1 for name in frequent])
    rows = tfidf(bags, vocabulary, idf)
    n_tried = min(len(bags), MAX_TUNING_EXAMPLES)
    held_out, rest = np.arange(n_tried // 5), np.arange(n_tried // 5, n_tried)
    best = INVERSE_REGULARIZATIONS[1]
    if len(held_out):
        some, others = rows.select(rest), rows.select(held_out)
        n_right = {}
        for c in INVERSE_REGULARIZATIONS:
            fitted = fit(some, targets[rest], n_features=len(vocabulary), n_classes=n_classes, c=c)
            n_right[c] = int((linear_logits(others, *fitted).argmax(dim=1) == targets[held_out]).sum())
        best = max(INVERSE_REGULARIZATIONS, key=lambda c: n_right[c])
    weight, bias = fit(rows, targets, n_features=len(vocabulary), n_classes=n_classes, c=best)
    return LinearBaseline(vocabulary, idf, weight, bias)


def extract_features(texts: Sequence[str]) -> Counter[str]:
    """Count words and pairs of neighboring words; those of a pair of texts by text, and the words of both."""
    bag: Counter[str] = Counter()
    words = [WORD.findall(text.casefold()) for text in texts]
    for number, found in enumerate(words):
        side = str(number) if len(words) > 1 else ""
        bag.update(side + word for word in found)
        bag.update(f"{side}{first} {second}" for first, second in pairwise(found))
    if len(words) == 2:
        bag.update(f"both {word}" for word in set(words[0]) & set(words[1]))
    return bag


def tfidf(bags: Sequence[Counter[str]], vocabulary: dict[str, int], idf: Float[ndarray, " V"]) -> SparseRows:
    """Return the features by TF-IDF, each row of length 1; features that were not seen in training are left out."""
    ids: list[int] = []
    weights: list[float] = []
    offsets = []
    for bag in bags:
        offsets.append(len(ids))
        known = sorted((vocabulary[name], count) for name, count in bag.items() if name in vocabulary)
        values = [(1 + math.log(count)) * idf[number] for number, count in known]
        norm = math.sqrt(sum(value * value for value in values)) or 1.0
        ids += [number for number, _ in known]
        weights += [float(value / norm) for value in values]
    return SparseRows(torch.tensor(ids, dtype=torch.long), torch.tensor(weights), torch.tensor(offsets))


def linear_logits(rows: SparseRows, weight: Float[Tensor, "V C"], bias: Float[Tensor, "C"]) -> Float[Tensor, "B C"]:
    """Return the score of every class for each row."""
    return F.embedding_bag(rows.ids, weight, rows.offsets, mode="sum", per_sample_weights=rows.weights) + bias


def fit(
    rows: SparseRows, targets: Int[Tensor, "B"], *, n_features: int, n_classes: int, c: float
) -> tuple[Float[Tensor, "V C"], Float[Tensor, "C"]]:
    """Return weights and biases of the logistic regression, by L-BFGS."""
    weight = torch.zeros(n_features, n_classes, requires_grad=True)
    bias = torch.zeros(n_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=MAX_ITERATIONS,
        history_size=HISTORY,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(linear_logits(rows, weight, bias), targets, reduction="sum")
        loss = loss + weight.square().sum() / (2 * c)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
