"""The peers of `bench train`: the same model in other libraries, used as their documentation says.

All have the paper's shape, tied embeddings, and dropout where ours has it (embeddings and sublayer outputs), so that
each can use its fastest attention kernel; all compute logits for padding too, and leave it out of the loss.
"""

import math
from collections.abc import Callable
from importlib.util import find_spec

import torch.nn.functional as F
from torch import Tensor, nn

from sightline.bench.workload import PAD, Workload
from sightline.model.positions import sinusoid_table
from sightline.model.transformer import TransformerConfig


def smoothed_loss(logits: Tensor, work: Workload) -> Tensor:
    """Return the usual cross-entropy of padded logits, with label smoothing."""
    return F.cross_entropy(logits.flatten(0, 1), work.labels.flatten(), ignore_index=PAD, label_smoothing=0.1)


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with the embedding and output projection that it leaves to the user."""

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
        code = sinusoid_table(ids.size(1), self.config.d_model)
        embedded: Tensor = self.dropout(self.tokens(ids) * math.sqrt(self.config.d_model) + code)
        return embedded

    def forward(self, work: Workload) -> Tensor:
        """Return the loss."""
        pad = work.source == PAD
        causal = nn.Transformer.generate_square_subsequent_mask(work.target.size(1))
        hidden = self.body(
            self.embed(work.source), self.embed(work.target), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=pad, memory_key_padding_mask=pad,
        )  # fmt: skip
        return smoothed_loss(F.linear(hidden, self.tokens.weight), work)


class HuggingFaceMarian(nn.Module):
    """MarianMTModel of transformers, with its scaled-dot-product attention."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size, d_model=config.d_model,
                encoder_layers=config.n_encoder_layers, decoder_layers=config.n_decoder_layers,
                encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
                encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff, activation_function="relu",
                dropout=config.dropout, attention_dropout=0.0, activation_dropout=0.0, scale_embedding=True,
                max_position_embeddings=512, pad_token_id=PAD, eos_token_id=1, decoder_start_token_id=2,
                forced_eos_token_id=1, attn_implementation="sdpa",
            )
        )  # fmt: skip

    def forward(self, work: Workload) -> Tensor:
        """Return the loss."""
        found = self.model(
            input_ids=work.source,
            attention_mask=(work.source != PAD).long(),
            decoder_input_ids=work.target,
            use_cache=False,
        )
        return smoothed_loss(found.logits, work)


class XTransformers(nn.Module):
    """lucidrains' x-transformers, with its fused attention."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from x_transformers import Decoder, Encoder, TransformerWrapper

        shared = {
            "dim": config.d_model, "heads": config.n_heads, "attn_dim_head": config.d_head, "pre_norm": False,
            "ff_mult": config.d_ff / config.d_model, "attn_flash": True,
            "ff_dropout": config.dropout,  # it has none on sublayer outputs
        }  # fmt: skip
        wrapper = {"num_tokens": config.vocab_size, "max_seq_len": 512, "emb_dropout": config.dropout}
        self.encoder = TransformerWrapper(**wrapper, attn_layers=Encoder(depth=config.n_encoder_layers, **shared))
        self.decoder = TransformerWrapper(
            **wrapper,
            tie_embedding=True,
            attn_layers=Decoder(depth=config.n_decoder_layers, cross_attend=True, **shared),
        )
        self.decoder.token_emb = self.encoder.token_emb

    def forward(self, work: Workload) -> Tensor:
        """Return the loss."""
        real = work.source != PAD
        encoder_output = self.encoder(work.source, mask=real, return_embeddings=True)
        return smoothed_loss(self.decoder(work.target, context=encoder_output, context_mask=real), work)


PEERS: dict[str, tuple[str, Callable[[TransformerConfig], nn.Module]]] = {
    "torch.nn.Transformer": ("torch", TorchTransformer),
    "HF Marian": ("transformers", HuggingFaceMarian),
    "x-transformers": ("x_transformers", XTransformers),
}
"""Name → required package and model class."""


def installed_peers() -> dict[str, Callable[[TransformerConfig], nn.Module]]:
    """Return the peers whose packages are installed."""
    return {name: build for name, (package, build) in PEERS.items() if find_spec(package) is not None}


def missing_peers() -> list[str]:
    """Return the names of the peers whose packages are not installed."""
    return [name for name in PEERS if name not in installed_peers()]
