"""The training objective: the loss of a model on a batch, summed over all targets.

Sums, not means: those of several batches, or of several ranks, add up to that of one large batch. The type of the batch
and the interface of the model decide what is computed (`register_loss`), so the loop knows neither task nor family.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

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
    join_rows,
    token_mask,
)
from sightline.model import CausalLM, Model, Seq2Seq, TextEncoder
from sightline.model.bert import MLMHead
from sightline.model.registry import interface_of
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
        compute = LOSSES.get((type(batch), interface_of(model.config)))
        if compute is None:
            raise TypeError(f"a {type(model).__name__} cannot be trained on a {type(batch).__name__}")
        return compute(self, batch, model)

    def predict_tokens(
        self, hidden: Float[Tensor, "N E"], model: Seq2Seq | CausalLM, targets: Int[Tensor, "N"]
    ) -> Loss:
        """Return the loss of the next tokens, from the input of the output projection."""
        return Loss(self.cross_entropy_of(hidden, model.output, targets), targets.numel())

    def cross_entropy_of(self, hidden: Float[Tensor, "N E"], output: nn.Linear, targets: Int[Tensor, "N"]) -> Tensor:
        """Return the cross-entropy of an output projection, which is applied in chunks."""
        return projected_cross_entropy(
            hidden, output.weight, targets, bias=output.bias, smoothing=self.smoothing, r_drop=self.r_drop
        )

    def predict_classes(self, scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> Loss:
        """Return the loss of classes, with the share that is right."""
        total = cross_entropy(scores, labels, smoothing=self.smoothing, r_drop=self.r_drop)
        return Loss(total, labels.numel(), {"accuracy": (count_correct(scores, labels), labels.numel())})


def pair_loss(objective: Objective, batch: PairBatch, model: Seq2Seq) -> Loss:
    """Teacher forcing: each target token from the reference tokens before it."""
    encoder_output = model.encode(batch.source, lengths=batch.source_lengths, packed=True)
    hidden = model.decode(batch.inputs, encoder_output, lengths=batch.lengths, packed=True)
    return objective.predict_tokens(hidden, model, drop_padding(batch.targets, batch.lengths))


def pair_sequence_loss(objective: Objective, batch: PairBatch, model: CausalLM) -> Loss:
    """Each target token from the source and the reference tokens before it, all in one sequence."""
    ids, lengths, is_input = join_rows(batch.source, batch.source_lengths, batch.inputs, batch.lengths)
    hidden = model.decode(ids, lengths=lengths, packed=True)[is_input]
    return objective.predict_tokens(hidden, model, drop_padding(batch.targets, batch.lengths))


def text_loss(objective: Objective, batch: TextBatch, model: CausalLM) -> Loss:
    """Each token of running text from those before it."""
    hidden = model.decode(batch.inputs, lengths=batch.lengths, packed=True)
    return objective.predict_tokens(hidden, model, drop_padding(batch.targets, batch.lengths))


def masked_loss(objective: Objective, batch: MaskedBatch, model: TextEncoder) -> Loss:
    """Masked language modeling and next sentence prediction (Devlin et al. 2019, 3.1)."""
    hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
    head = cast("MLMHead", model.head("mlm"))
    features = head.features(hidden[drop_padding(batch.selected, batch.lengths)])
    words = objective.cross_entropy_of(features, head.output, batch.targets)
    count = batch.targets.numel()
    if batch.not_next is None:
        return Loss(words, count)
    scores = model.nsp(model.pool(hidden, batch.lengths))
    following = cross_entropy(scores, batch.not_next, r_drop=objective.r_drop)
    rows = batch.not_next.numel()
    tallies = {
        "words_loss": (float(words.detach()), count),
        "next_sentence_loss": (float(following.detach()), rows),
        "next_sentence_accuracy": (count_correct(scores, batch.not_next), rows),
    }
    return Loss(words + objective.nsp_weight * following, count, tallies)


def labeled_loss(objective: Objective, batch: LabeledBatch, model: TextEncoder) -> Loss:
    """The class of each text."""
    hidden = model(batch.inputs, segments=batch.segments, lengths=batch.lengths, packed=True)
    return objective.predict_classes(model.sequence_classification(model.pool(hidden, batch.lengths)), batch.labels)


def tagged_loss(objective: Objective, batch: TaggedBatch, model: TextEncoder) -> Loss:
    """The class of each word, predicted at its first token."""
    hidden = model(batch.inputs, lengths=batch.lengths, packed=True)
    labels = drop_padding(batch.labels, batch.lengths)
    known = labels != IGNORE_INDEX
    return objective.predict_classes(model.token_classification(hidden[known]), labels[known])


def count_correct(scores: Float[Tensor, "N C"], labels: Int[Tensor, "N"]) -> float:
    """Count the rows whose highest score is the label's."""
    return float((scores.detach().argmax(dim=-1) == labels).sum())


def drop_padding(grid: Tensor, lengths: Int[Tensor, "B"]) -> Tensor:
    """Return the entries that are not padding, row by row: the order of packed rows."""
    return grid[token_mask(grid, lengths)]


LossFunction = Callable[[Objective, Any, Any], Loss]
LOSSES: dict[tuple[type[Batch], type], LossFunction] = {
    (PairBatch, Seq2Seq): pair_loss,
    (PairBatch, CausalLM): pair_sequence_loss,
    (TextBatch, CausalLM): text_loss,
    (MaskedBatch, TextEncoder): masked_loss,
    (LabeledBatch, TextEncoder): labeled_loss,
    (TaggedBatch, TextEncoder): tagged_loss,
}


def register_loss(batch: type[Batch], interface: type, loss: LossFunction) -> None:
    """Train models of an interface on a type of batch by this loss."""
    LOSSES[batch, interface] = loss
