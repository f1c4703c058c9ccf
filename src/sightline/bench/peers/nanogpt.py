"""The model that nanoGPT trains, written from its published description and settings.

Learned positions, norms before the sublayers, attention by torch's fused kernel, one matrix for embedding and output,
no biases. Its loop is AdamW with clipped gradients; on a CPU it runs in fp32 and uncompiled by default.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.data.datasets.batch import TextBatch
from sightline.model.config import GPTConfig


class Block(nn.Module):
    """Causal self-attention and feed-forward, each added to what came in."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.d_model
        self.n_heads = config.n_heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=config.bias) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=config.bias)
        self.merge = nn.Linear(width, width, bias=config.bias)
        self.up = nn.Linear(width, config.d_ff, bias=config.bias)
        self.down = nn.Linear(config.d_ff, width, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Pass x through both sublayers."""
        n_rows, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, dim=2)
        q, k, v = (part.view(n_rows, length, self.n_heads, -1).transpose(1, 2) for part in parts)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.merge(heads.transpose(1, 2).reshape(n_rows, length, width))
        added: Tensor = x + self.down(F.gelu(self.up(self.norms[1](x))))
        return added


class NanoGPT(nn.Module):
    """The model, with the loss of the next tokens."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = nn.Embedding(config.max_length or 0, config.d_model)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d_model, bias=config.bias)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.output.weight = self.tokens.weight
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                depth = (2 * config.n_layers) ** 0.5 if name.endswith(("merge.weight", "down.weight")) else 1
                nn.init.normal_(weight, std=0.02 / depth)

    def forward(self, batch: TextBatch) -> Tensor:
        """Return the loss."""
        ids = batch.inputs
        x = self.tokens(ids) + self.positions(torch.arange(ids.size(1), device=ids.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.output(self.norm(x)).flatten(0, 1), batch.targets.flatten())
