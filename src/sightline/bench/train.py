"""`sightline bench train`: one training step against the same model in other libraries, on the same batch.

The other models (`PEERS`) are used as their documentation says. All have the paper's shape, tied embeddings, and
dropout where ours has it (embeddings and sublayer outputs), so that each can use its fastest attention kernel; all
compute logits for padding too, and leave it out of the loss.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.bench.measure import Timing, time_interleaved
from sightline.model.config import TransformerConfig
from sightline.model.positions import sinusoid_table
from sightline.model.registry import preset
from sightline.model.transformer import Transformer
from sightline.runtime import choose_device
from sightline.training.estimate import synchronize
from sightline.training.loss import projected_cross_entropy

PAD = 0


@dataclass(frozen=True)
class Workload:
    """One padded translation batch, the same for all contenders."""

    vocab_size: int
    source: Tensor  # B S
    source_lengths: Tensor  # B
    target: Tensor  # B T, the decoder's input
    target_lengths: Tensor  # B
    labels: Tensor  # B T, its targets

    @classmethod
    def mixed(
        cls, *, vocab_size: int, n_sentences: int = 163, min_length: int = 20, max_length: int = 30, seed: int = 1
    ) -> "Workload":
        """Draw sentences of 20 to 30 tokens: some 4,100 target tokens, a sixth of the batch padding."""
        generator = torch.Generator().manual_seed(seed)

        def draw(low: int, high: int, *shape: int) -> Tensor:
            return torch.randint(low, high, shape, generator=generator)

        lengths = draw(min_length, max_length + 1, n_sentences)
        lengths[0] = max_length
        source_lengths = (lengths + draw(-3, 4, n_sentences)).clamp(1, max_length)
        real = torch.arange(max_length) < lengths[:, None]
        text = draw(1, vocab_size, n_sentences, max_length + 1)
        source_real = torch.arange(int(source_lengths.max())) < source_lengths[:, None]
        source = draw(1, vocab_size, *source_real.shape).masked_fill(~source_real, PAD)
        return cls(
            vocab_size,
            source,
            source_lengths,
            text[:, :-1].masked_fill(~real, PAD),
            lengths,
            text[:, 1:].masked_fill(~real, PAD),
        )

    def to(self, device: torch.device) -> "Workload":
        """Return the batch on a device."""
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)

    @property
    def n_target_tokens(self) -> int:
        """Target tokens without padding."""
        return int(self.target_lengths.sum())

    @property
    def padding(self) -> float:
        """Share of padding in the targets."""
        return 1 - self.n_target_tokens / self.target.numel()


class Sightline(nn.Module):
    """Our model with packed batches and the chunked loss."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.model = Transformer(config)

    def forward(self, work: Workload) -> Tensor:
        """Return the loss."""
        encoder_output = self.model.encode(work.source, lengths=work.source_lengths, packed=True)
        hidden = self.model.decode(work.target, encoder_output, lengths=work.target_lengths, packed=True)
        labels = work.labels[work.target != PAD]
        return projected_cross_entropy(hidden, self.model.output.weight, labels, smoothing=0.1) / labels.numel()


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
            "dim": config.d_model, "heads": config.n_heads, "attn_dim_head": config.head_width, "pre_norm": False,
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
"""The same model in other libraries: name → required package and model class."""


def installed_peers() -> dict[str, Callable[[TransformerConfig], nn.Module]]:
    """Return the peers whose packages are installed."""
    return {name: build for name, (package, build) in PEERS.items() if find_spec(package) is not None}


def missing_peers() -> list[str]:
    """Return the names of the peers whose packages are not installed."""
    return [name for name in PEERS if name not in installed_peers()]


def training_step(model: nn.Module, work: Workload) -> Callable[[], None]:
    """Return a function that does one training step; all contenders use torch's fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(work).backward()
        optimizer.step()
        synchronize(work.source.device)

    return step


SIZES = {"tiny": ("transformer-tiny", 10_000), "base": ("paper-base", 32_000)}
"""Size → preset and vocabulary size."""


def bench_train(
    size: str, *, rounds: int, after_round: Callable[[int], object] = lambda _: None
) -> tuple[Workload, list[Timing]]:
    """Time a training step of ours and of every installed peer, interleaved."""
    name, vocab_size = SIZES[size]
    config = preset(name, vocab_size=vocab_size, dropout=0.1)
    assert isinstance(config, TransformerConfig)  # noqa: S101 - both presets are; this tells the type checker
    device = choose_device()
    work = Workload.mixed(vocab_size=vocab_size).to(device)
    contenders = {"sightline": Sightline, **installed_peers()}
    steps = {name: training_step(make(config).to(device).train(), work) for name, make in contenders.items()}
    return work, time_interleaved(steps, rounds=rounds, after_round=after_round)
