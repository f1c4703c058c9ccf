"""What is learned from a batch: how wrong the model is about it, as a sum over everything there was to say.

Sums, not means: those of several batches, or of several processes, add up to that of one large batch. The kind of batch
tells the task, so the loop knows none.
"""

from dataclasses import dataclass, field
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.model import GPT, Bert, Model, Transformer
from sightline.model.bert import WordHead
from sightline.text.batch import (
    IGNORED,
    Batch,
    LabelledBatch,
    MaskedBatch,
    PairBatch,
    TaggedBatch,
    TextBatch,
    real_tokens,
)
from sightline.training.agreement import cross_entropy, projected_agreement
from sightline.training.loss import projected_cross_entropy


@dataclass(frozen=True)
class Loss:
    """How wrong a model is."""

    total: Float[Tensor, ""]
    count: int
    """Of how many answers `total` is the sum: tokens, hidden words, labels."""
    tallies: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Sums of their own and of how many, for the report: right answers, the next sentence's loss."""


@dataclass(frozen=True)
class Objective:
    """Cross-entropy, smoothed while learning (5.4) and plain when validating."""

    smoothing: float = 0.0
    next_sentence_words: float = 1.0
    """How many hidden words the question "does B follow A?" counts for. BERT adds the mean loss of one to the mean loss
    of the other: so it is how many words a pair hides on average, the same number in every batch."""
    agreement: float = 0.0
    """How much it counts that two readings of a batch, with other dropout, answer alike; 0: it is read once."""

    def __call__(self, model: Model, batch: Batch) -> Loss:
        """Return how wrong the model is about a batch."""
        if not self.agreement:
            return self._answered(model, batch)
        loss = self._answered(model, batch.twice())
        return Loss(loss.total / 2, loss.count // 2, loss.tallies)

    def _answered(self, model: Model, batch: Batch) -> Loss:
        match batch, model:
            case PairBatch(), Transformer():
                return self._pairs(batch, model)
            case TextBatch(), GPT():
                return self._text(batch, model)
            case MaskedBatch(), Bert():
                return self._masked(batch, model)
            case LabelledBatch(), Bert():
                return self._labelled(batch, model)
            case TaggedBatch(), Bert():
                return self._tagged(batch, model)
        raise TypeError(f"a {type(model).__name__} has nothing to learn from a {type(batch).__name__}")

    def _pairs(self, batch: PairBatch, model: Transformer) -> Loss:
        """Teacher forcing: each word of the target from the right words before it."""
        memory = model.encode(batch.source, lengths=batch.source_lengths, packed=True)
        hidden = model.decode(batch.inputs, memory, lengths=batch.lengths, packed=True)
        return self._words(hidden, model, real(batch.targets, batch.lengths))

    def _text(self, batch: TextBatch, model: GPT) -> Loss:
        """Each token of running text from those before it."""
        hidden = model.decode(batch.inputs, lengths=batch.lengths, packed=True)
        return self._words(hidden, model, real(batch.targets, batch.lengths))

    def _masked(self, batch: MaskedBatch, model: Bert) -> Loss:
        """The hidden words, and whether B follows A (Devlin et al. 2019, 3.1)."""
        hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
        head = cast("WordHead", model.head("masked_words"))
        features = head.features(hidden[real(batch.chosen, batch.lengths)])
        words = self._projected(features, head.output, batch.targets)
        count = batch.targets.numel()
        if batch.not_next is None:
            return Loss(words, count)
        scores = model.next_sentence(model.pool(hidden, batch.lengths))
        following = cross_entropy(scores, batch.not_next, agreement=self.agreement)
        rows = batch.not_next.numel()
        tallies = {
            "words_loss": (float(words.detach()), count),
            "next_sentence_loss": (float(following.detach()), rows),
            "next_sentence_accuracy": (right_answers(scores, batch.not_next), rows),
        }
        return Loss(words + self.next_sentence_words * following, count, tallies)

    def _labelled(self, batch: LabelledBatch, model: Bert) -> Loss:
        """The class of each text."""
        hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
        return self._classes(model.sequence_classes(model.pool(hidden, batch.lengths)), batch.labels)

    def _tagged(self, batch: TaggedBatch, model: Bert) -> Loss:
        """The class of each word, said at its first token."""
        hidden = model(batch.inputs, lengths=batch.lengths, packed=True)
        labels = real(batch.labels, batch.lengths)
        known = labels != IGNORED
        return self._classes(model.token_classes(hidden[known]), labels[known])

    def _words(self, hidden: Float[Tensor, "N E"], model: Transformer | GPT, targets: Int[Tensor, "N"]) -> Loss:
        return Loss(self._projected(hidden, model.output, targets), targets.numel())

    def _projected(self, hidden: Float[Tensor, "N E"], output: nn.Linear, targets: Int[Tensor, "N"]) -> Tensor:
        if self.agreement:
            return projected_agreement(
                hidden, output.weight, targets, bias=output.bias, smoothing=self.smoothing, agreement=self.agreement
            )
        return projected_cross_entropy(hidden, output.weight, targets, bias=output.bias, smoothing=self.smoothing)

    def _classes(self, scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> Loss:
        total = cross_entropy(scores, labels, smoothing=self.smoothing, agreement=self.agreement)
        return Loss(total, labels.numel(), {"accuracy": (right_answers(scores, labels), labels.numel())})


def right_answers(scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> float:
    """Count where the highest score is the right one's."""
    return float((scores.detach().argmax(dim=-1) == labels).sum())


def real(grid: Tensor, lengths: Int[Tensor, "B"]) -> Tensor:
    """Return what is not padding, row by row: the order of packed rows."""
    return grid[real_tokens(grid, lengths)]
