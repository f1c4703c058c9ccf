"""Encoder-only models: BERT, with its heads for pre-training and for classification."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError, SettingsError
from sightline.model.config import Activation, BlockConfig, Positions, check_layers
from sightline.model.dropout import Dropout
from sightline.model.embedding import Embedding
from sightline.model.initialize import initialize, small_normal
from sightline.model.layers import ACTIVATIONS, Stack
from sightline.model.packing import Layout
from sightline.model.probe import IDLE, Idle
from sightline.model.sight import Sight
from sightline.settings import Checks

Head = Literal["masked_words", "next_sentence", "sequence_classes", "token_classes"]


@dataclass(frozen=True, kw_only=True)
class BertConfig(BlockConfig):
    """An encoder-only model; the defaults are BERT-base's, but for attention dropout, which the kernel cannot do."""

    d_model: int = 768
    n_heads: int = 12
    d_ff: int = 3072
    n_layers: int = field(default=12, metadata={"help": "layers"})
    n_segments: int = field(default=2, metadata={"help": "texts that are told apart within one input"})
    activation: Activation = "gelu"
    norm_epsilon: float = 1e-12
    positions: Positions = "learned"
    max_length: int | None = 512
    scaled_embedding: bool = False
    output_bias: bool = True
    heads: tuple[Head, ...] = field(
        default=("masked_words", "next_sentence"), metadata={"help": "what the model can be asked"}
    )
    n_classes: int = field(default=2, metadata={"help": "classes that are told apart"})

    def check(self, checks: Checks) -> None:
        """Note impossible counts."""
        check_layers(checks, n_layers=self.n_layers)
        checks.between(0, 1024, n_segments=self.n_segments)
        checks.between(1, 1_000_000, n_classes=self.n_classes)
        checks.that(len(set(self.heads)) == len(self.heads), "heads names one head twice")


class Bert(nn.Module):
    """Gives every token of a text, or of a pair of texts, a vector that knows its context on both sides.

    `forward` returns these vectors; the methods named after the heads turn them into scores.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, vocab_size=config.vocab_size, n_segments=config.n_segments, normed=True)
        self.encoder = Stack(config, n_layers=config.n_layers)
        self.pooler = (
            nn.Linear(config.d_model, config.d_model)
            if {"next_sentence", "sequence_classes"} & set(config.heads)
            else None
        )
        self.dropout = Dropout(config.dropout)
        self.heads = nn.ModuleDict({name: make_head(name, config) for name in config.heads})
        initialize(self, embedding_std=0.02, linear=small_normal())
        self.tie()

    def tie(self) -> None:
        """Make weights that are one, one: called again whenever parameters have been exchanged."""
        if self.config.tied_output and "masked_words" in self.heads:
            self.heads["masked_words"].output.weight = self.embedding.tokens.weight  # type: ignore[union-attr]

    def forward(
        self,
        ids: Int[Tensor, "B T"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        probe: Idle = IDLE,
    ) -> Float[Tensor, "*rows E"]:
        """Return the contextual embedding of every token."""
        probe = probe.within("encoder")
        layout = Layout.of(ids, lengths, packed=packed)
        sight = Sight.both_ways(layout, self.config, self.embedding.tokens.weight.dtype)
        kinds = None if segments is None else layout.pack(segments)
        x = self.embedding(layout.pack(ids), sight, segments=kinds, probe=probe.within("embedding"))
        hidden: Tensor = self.encoder(x, sight, probe=probe)
        return hidden

    def masked_words(self, hidden: Float[Tensor, "*rows E"], *, probe: Idle = IDLE) -> Float[Tensor, "*rows V"]:
        """Return the score of every word at each token."""
        return probe("logits", self.head("masked_words")(hidden))

    def token_classes(self, hidden: Float[Tensor, "*rows E"], *, probe: Idle = IDLE) -> Float[Tensor, "*rows C"]:
        """Return the score of every class at each token."""
        return probe("logits", self.head("token_classes")(self.dropout(hidden)))

    def sequence_classes(self, pooled: Float[Tensor, "B E"], *, probe: Idle = IDLE) -> Float[Tensor, "B C"]:
        """Return the score of every class for each text, from `pool`."""
        return probe("logits", self.head("sequence_classes")(self.dropout(pooled)))

    def next_sentence(self, pooled: Float[Tensor, "B E"], *, probe: Idle = IDLE) -> Float[Tensor, "B 2"]:
        """Return the scores of "B follows A" and "B does not", from `pool`."""
        return probe("logits", self.head("next_sentence")(pooled))

    def pool(self, hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None = None) -> Float[Tensor, "B E"]:
        """Return one vector a text, from that of its first token, [CLS]; `lengths` where `hidden` is packed."""
        if self.pooler is None:
            raise SettingsError(
                f"this model has no head for whole texts, only {', '.join(self.config.heads) or 'none'}"
            )
        return torch.tanh(self.pooler(first_of(hidden, lengths)))

    def head(self, name: Head) -> nn.Module:
        """Return a head, or say which ones this model has."""
        if name not in self.heads:
            raise SettingsError(f"this model has no head {name!r}, only {', '.join(self.config.heads) or 'none'}")
        return self.heads[name]


class WordHead(nn.Module):
    """Scores every word of the vocabulary at each token: a layer, a norm, the output projection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.transform = nn.Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)

    def forward(self, hidden: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows V"]:
        """Score words."""
        scores: Tensor = self.output(self.features(hidden))
        return scores

    def features(self, hidden: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Return what the output projection is applied to, so that a loss may do that in chunks."""
        normed: Tensor = self.norm(ACTIVATIONS[self.activation](self.transform(hidden)))
        return normed


def make_head(name: Head, config: BertConfig) -> nn.Module:
    """Return a head by name."""
    if name == "masked_words":
        return WordHead(config)
    return nn.Linear(config.d_model, 2 if name == "next_sentence" else config.n_classes)


def first_of(hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None) -> Float[Tensor, "B E"]:
    """Return the first token of every text, from a grid or from packed rows."""
    if hidden.ndim == 3:
        return hidden[:, 0]
    if lengths is None:
        raise InputError("packed rows need the lengths of their texts")
    return hidden[lengths.cumsum(0) - lengths]
