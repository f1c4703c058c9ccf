"""The training objective: the loss of a model on a batch, summed over all targets.

Sums, not means: those of several batches, or of several ranks, add up to that of one large batch. The type of the batch
implies the task, so the loop knows none.
"""

from dataclasses import dataclass, field
from typing import cast

from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.data.datasets.batch import (
    IGNORE_INDEX,
    Batch,
    LabeledBatch,
    MaskedBatch,
    PairBatch,
    TaggedBatch,
    TextBatch,
    token_mask,
)
from sightline.model import GPT, Bert, Model, Transformer
from sightline.model.bert import MLMHead
from sightline.training.loss import cross_entropy, projected_cross_entropy


@dataclass(frozen=True)
class Loss:
    """The loss on one batch."""

    total: Float[Tensor, ""]
    count: int
    """Number of targets that `total` is the sum over: tokens, masked tokens, labels."""
    tallies: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Other sums with their counts, for the report: correct predictions, the loss of next sentence prediction."""


@dataclass(frozen=True)
class Objective:
    """Cross-entropy, with label smoothing in training (5.4) and without in validation."""

    smoothing: float = 0.0
    nsp_weight: float = 1.0
    """Weight of a next sentence prediction, in masked tokens. BERT adds the mean loss of one to the mean loss of the
    other, so this is the mean number of masked tokens per pair, the same in every batch."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout (R-Drop); 0: one pass."""

    def __call__(self, model: Model, batch: Batch) -> Loss:
        """Return the loss of the model on a batch."""
        if not self.r_drop:
            return self._compute(model, batch)
        loss = self._compute(model, batch.duplicate())
        return Loss(loss.total / 2, loss.count // 2, loss.tallies)

    def _compute(self, model: Model, batch: Batch) -> Loss:
        match batch, model:
            case PairBatch(), Transformer():
                return self._pairs(batch, model)
            case TextBatch(), GPT():
                return self._text(batch, model)
            case MaskedBatch(), Bert():
                return self._masked(batch, model)
            case LabeledBatch(), Bert():
                return self._labeled(batch, model)
            case TaggedBatch(), Bert():
                return self._tagged(batch, model)
        raise TypeError(f"a {type(model).__name__} cannot be trained on a {type(batch).__name__}")

    def _pairs(self, batch: PairBatch, model: Transformer) -> Loss:
        """Teacher forcing: each target token from the reference tokens before it."""
        encoder_output = model.encode(batch.source, lengths=batch.source_lengths, packed=True)
        hidden = model.decode(batch.inputs, encoder_output, lengths=batch.lengths, packed=True)
        return self._words(hidden, model, drop_padding(batch.targets, batch.lengths))

    def _text(self, batch: TextBatch, model: GPT) -> Loss:
        """Each token of running text from those before it."""
        hidden = model.decode(batch.inputs, lengths=batch.lengths, packed=True)
        return self._words(hidden, model, drop_padding(batch.targets, batch.lengths))

    def _masked(self, batch: MaskedBatch, model: Bert) -> Loss:
        """Masked language modeling and next sentence prediction (Devlin et al. 2019, 3.1)."""
        hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
        head = cast("MLMHead", model.head("mlm"))
        features = head.features(hidden[drop_padding(batch.selected, batch.lengths)])
        words = self._projected(features, head.output, batch.targets)
        count = batch.targets.numel()
        if batch.not_next is None:
            return Loss(words, count)
        scores = model.nsp(model.pool(hidden, batch.lengths))
        following = cross_entropy(scores, batch.not_next, r_drop=self.r_drop)
        rows = batch.not_next.numel()
        tallies = {
            "words_loss": (float(words.detach()), count),
            "next_sentence_loss": (float(following.detach()), rows),
            "next_sentence_accuracy": (count_correct(scores, batch.not_next), rows),
        }
        return Loss(words + self.nsp_weight * following, count, tallies)

    def _labeled(self, batch: LabeledBatch, model: Bert) -> Loss:
        """The class of each text."""
        hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
        return self._classes(model.sequence_classification(model.pool(hidden, batch.lengths)), batch.labels)

    def _tagged(self, batch: TaggedBatch, model: Bert) -> Loss:
        """The class of each word, predicted at its first token."""
        hidden = model(batch.inputs, lengths=batch.lengths, packed=True)
        labels = drop_padding(batch.labels, batch.lengths)
        known = labels != IGNORE_INDEX
        return self._classes(model.token_classification(hidden[known]), labels[known])

    def _words(self, hidden: Float[Tensor, "N E"], model: Transformer | GPT, targets: Int[Tensor, "N"]) -> Loss:
        return Loss(self._projected(hidden, model.output, targets), targets.numel())

    def _projected(self, hidden: Float[Tensor, "N E"], output: nn.Linear, targets: Int[Tensor, "N"]) -> Tensor:
        return projected_cross_entropy(
            hidden, output.weight, targets, bias=output.bias, smoothing=self.smoothing, r_drop=self.r_drop
        )

    def _classes(self, scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> Loss:
        total = cross_entropy(scores, labels, smoothing=self.smoothing, r_drop=self.r_drop)
        return Loss(total, labels.numel(), {"accuracy": (count_correct(scores, labels), labels.numel())})


def count_correct(scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> float:
    """Count the rows whose highest score is the label's."""
    return float((scores.detach().argmax(dim=-1) == labels).sum())


def drop_padding(grid: Tensor, lengths: Int[Tensor, "B"]) -> Tensor:
    """Return the entries that are not padding, row by row: the order of packed rows."""
    return grid[token_mask(grid, lengths)]
