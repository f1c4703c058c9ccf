"""torch.nn.Transformer, with the embedding and output projection that it leaves to the user."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from sightline.bench.shapes import PAD
from sightline.data.datasets.batch import PairBatch
from sightline.model.config import TransformerConfig
from sightline.model.positions import sinusoid_table


def smoothed_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the usual cross-entropy of padded logits, with label smoothing."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=0.1)


class TorchTransformer(nn.Module):
    """The paper's model."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.d_model, config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.d_ff,
            config.dropout, batch_first=True,
        )  # fmt: skip
        for module in self.body.modules():  # its extra dropouts would keep it from its fused kernel
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout = nn.Identity()  # type: ignore[assignment]

    def embed(self, ids: Tensor) -> Tensor:
        """Token plus position."""
        code = sinusoid_table(ids.size(1), self.config.d_model).to(ids.device)
        embedded: Tensor = self.dropout(self.tokens(ids) * math.sqrt(self.config.d_model) + code)
        return embedded

    def forward(self, batch: PairBatch) -> Tensor:
        """Return the loss."""
        pad = batch.source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(batch.inputs.size(1), device=batch.inputs.device)
        hidden = self.body(
            self.embed(batch.source), self.embed(batch.inputs), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=pad, memory_key_padding_mask=pad,
        )  # fmt: skip
        return smoothed_loss(F.linear(hidden, self.tokens.weight), batch.targets)
