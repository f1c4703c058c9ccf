"""Encoder-only models: BERT, with its heads for pre-training and for classification."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.errors import InputError, SettingsError
from sightline.model.attention import Dropout
from sightline.model.config import BertConfig, Head
from sightline.model.context import AttentionContext
from sightline.model.embedding import TokenEmbedding
from sightline.model.hooks import NO_HOOKS, NoHooks
from sightline.model.layers import ACTIVATIONS, Stack, initialize, small_normal
from sightline.model.packing import Layout
from sightline.model.products import Linear


class Bert(nn.Module):
    """Computes contextual embeddings: a vector for every token of a text, or of a pair of texts.

    `forward` returns these vectors; the methods named after the heads turn them into logits. In place of token ids, it
    takes vectors: those of `embedding.embed(ids)`, or of anything else.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(
            config, vocab_size=config.vocab_size, n_segments=config.n_segments, normed=config.embedding_norm
        )
        self.encoder = Stack(config, n_layers=config.n_layers)
        self.pooler = (
            nn.Linear(config.d_model, config.d_model)
            if {"nsp", "sequence_classification"} & set(config.heads)
            else None
        )
        self.dropout = Dropout(config.dropout)
        self.heads = nn.ModuleDict({name: make_head(name, config) for name in config.heads})
        initialize(self, embedding_std=0.02, linear=small_normal())
        self.tie_weights()

    def tie_weights(self) -> None:
        """Share the tied weights; call again after parameters have been replaced."""
        if self.config.tie_embeddings and "mlm" in self.heads:
            self.heads["mlm"].output.weight = self.embedding.tokens.weight  # type: ignore[union-attr]

    @property
    def input_embedding(self) -> TokenEmbedding:
        """The embedding of the text."""
        return self.embedding

    def forward(
        self,
        ids: Int[Tensor, "B T"] | Float[Tensor, "B T E"],
        *,
        segments: Int[Tensor, "B T"] | None = None,
        lengths: Int[Tensor, "B"] | None = None,
        packed: bool = False,
        hooks: NoHooks = NO_HOOKS,
    ) -> Float[Tensor, "*rows E"]:
        """Return the contextual embedding of every token."""
        hooks = hooks.within("encoder")
        layout = Layout.of(ids, lengths, packed=packed)
        context = AttentionContext.bidirectional(layout, self.config, self.embedding.tokens.weight.dtype)
        packed_segments = None if segments is None else layout.pack(segments)
        x = self.embedding(layout.pack(ids), context, segments=packed_segments, hooks=hooks.within("embedding"))
        hidden: Tensor = self.encoder(x, context, hooks=hooks)
        return layout.trim(hidden)

    def mlm(self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "*rows V"]:
        """Return the logits of the vocabulary at each token (masked language modeling)."""
        return hooks("logits", self.head("mlm")(hidden))

    def token_classification(
        self, hidden: Float[Tensor, "*rows E"], *, hooks: NoHooks = NO_HOOKS
    ) -> Float[Tensor, "*rows C"]:
        """Return the logits of the classes at each token."""
        return hooks("logits", self.head("token_classification")(self.dropout(hidden)))

    def sequence_classification(
        self, pooled: Float[Tensor, "B E"], *, hooks: NoHooks = NO_HOOKS
    ) -> Float[Tensor, "B C"]:
        """Return the logits of the classes for each text, from the output of `pool`."""
        return hooks("logits", self.head("sequence_classification")(self.dropout(pooled)))

    def nsp(self, pooled: Float[Tensor, "B E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "B 2"]:
        """Return the logits of "B follows A" and "B does not" (next-sentence prediction), from the output of `pool`."""
        return hooks("logits", self.head("nsp")(pooled))

    def pool(self, hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None = None) -> Float[Tensor, "B E"]:
        """Return one vector per text, from its first token, [CLS], or from the mean of all its tokens.

        `lengths` are needed if `hidden` is packed, and for the mean if it is padded.
        """
        if self.pooler is None:
            raise SettingsError(
                f"this model has no head for whole texts, only {', '.join(self.config.heads) or 'none'}"
            )
        select = mean_of_tokens if self.config.pooling == "mean" else select_first
        return torch.tanh(self.pooler(select(hidden, lengths)))

    def head(self, name: Head) -> nn.Module:
        """Return a head by name; raise if this model does not have it."""
        if name not in self.heads:
            raise SettingsError(f"this model has no head {name!r}, only {', '.join(self.config.heads) or 'none'}")
        return self.heads[name]


class MLMHead(nn.Module):
    """Predicts the vocabulary at each token: a linear layer, a norm, the output projection."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.transform = Linear(config.d_model, config.d_model)
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)

    def forward(self, hidden: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows V"]:
        """Return the logits of the vocabulary."""
        logits: Tensor = self.output(self.features(hidden))
        return logits

    def features(self, hidden: Float[Tensor, "*rows E"]) -> Float[Tensor, "*rows E"]:
        """Return the input of the output projection, which a loss may apply in chunks."""
        normed: Tensor = self.norm(ACTIVATIONS[self.activation](self.transform(hidden)))
        return normed


def make_head(name: Head, config: BertConfig) -> nn.Module:
    """Build a head by name."""
    if name == "mlm":
        return MLMHead(config)
    return nn.Linear(config.d_model, 2 if name == "nsp" else config.n_classes)


def select_first(hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None) -> Float[Tensor, "B E"]:
    """Return the first token of every text, from padded or packed hidden states."""
    if hidden.ndim == 3:
        return hidden[:, 0]
    if lengths is None:
        raise InputError("packed rows need the lengths of their texts")
    return hidden[lengths.cumsum(0) - lengths]


def mean_of_tokens(hidden: Float[Tensor, "*rows E"], lengths: Int[Tensor, "B"] | None) -> Float[Tensor, "B E"]:
    """Return the mean over the tokens of every text, from padded or packed hidden states."""
    if hidden.ndim == 3:
        if lengths is None:
            return hidden.mean(1)
        is_token = torch.arange(hidden.size(1), device=hidden.device) < lengths[:, None]  # B T
        total = hidden.masked_fill(~is_token[..., None], 0.0).sum(1)
    elif lengths is None:
        raise InputError("packed rows need the lengths of their texts")
    else:
        text_of_token = torch.repeat_interleave(torch.arange(len(lengths), device=hidden.device), lengths)  # N
        total = hidden.new_zeros(len(lengths), hidden.size(-1)).index_add(0, text_of_token, hidden)
    return total / lengths.clamp(min=1)[:, None]
