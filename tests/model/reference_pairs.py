"""Tiny random reference models, built from a config, each with ours beside it from the same weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from sightline.model import GPT, ActivationCache, Bert, BertConfig, GPTConfig, Transformer, TransformerConfig
from sightline.pretrained.weight_names import (
    BERT_PRETRAINING,
    GPT2,
    LLAMA,
    MARIAN,
    QWEN3,
    TORCH,
    Row,
    Table,
    fill,
)

from .reference_taps import (
    BERT_TAPS,
    DECODER_LAYERS,
    ENCODER_LAYERS,
    GPT2_TAPS,
    LLAMA_TAPS,
    MARIAN_TAPS,
    MAX_LENGTH,
    SEGMENTS,
    SOURCE,
    TARGET,
    TARGET_VOCAB_SIZE,
    TORCH_PRE_NORM_TAPS,
    TORCH_TAPS,
    VOCAB_SIZE,
    Batch,
    Tap,
)


@dataclass(frozen=True)
class Pair:
    """A reference, our model with the same weights, and one way to run each on the same batch, up to the logits."""

    theirs: nn.Module
    ours: nn.Module
    table: Table
    taps: tuple[Tap, ...]
    run_theirs: Callable[[], Tensor]
    run_ours: Callable[..., Tensor]
    predicts: Batch = TARGET
    """The batch at whose tokens the logits stand."""

    def __post_init__(self) -> None:
        give_weights(self.theirs, self.ours, self.table)


def give_weights(theirs: nn.Module, ours: nn.Module, table: Table) -> None:
    """Make the two models one; dropout off.

    In double precision, where rounding, which differs from processor to processor, is far below any difference that
    matters, and no two words are so nearly alike that it could choose between them.
    """
    spread_out(theirs)
    fill(ours, table, theirs.state_dict())
    ours.double().eval()
    theirs.double().eval()


def spread_out(model: nn.Module) -> None:
    """Draw every weight, bias and norm far from its usual beginning, so that no two could be exchanged unseen."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in trainable(model):
            weight.normal_(std=0.2, generator=generator)  # about √(1 / d_model): values keep their size, layer by layer
            if weight.ndim == 1 and name.endswith("weight"):  # a norm's, which should not flip signs
                weight.add_(1.0)


def trainable(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the weights training would change (not Marian's sinusoids), and Marian's output bias, to it a buffer."""
    weights = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    return weights + [(name, bias) for name, bias in model.named_buffers() if name == "final_logits_bias"]


SIZES = {"vocab_size": VOCAB_SIZE, "d_model": 32, "n_heads": 4, "d_ff": 48}


def bert_config(**settings: Any) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        num_hidden_layers=ENCODER_LAYERS,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=MAX_LENGTH,
        layer_norm_eps=1e-3,  # great enough to matter, here and below
        attn_implementation="eager",  # the others never form the weights
        **settings,
    )


def our_bert(**settings: Any) -> Bert:
    return Bert(BertConfig(**SIZES, n_layers=ENCODER_LAYERS, max_length=MAX_LENGTH, norm_eps=1e-3, **settings))


SOURCE_FOR_BERT = {"input_ids": SOURCE.ids, "token_type_ids": SEGMENTS, "attention_mask": SOURCE.real.long()}


def bert() -> Pair:
    theirs = transformers.BertForPreTraining(bert_config())
    ours = our_bert()

    def run_ours(hooks: ActivationCache, **how: Any) -> Tensor:
        hidden = ours(SOURCE.ids, segments=SEGMENTS, lengths=SOURCE.lengths, hooks=hooks, **how)
        pooled = ours.pool(hidden, lengths=SOURCE.lengths)
        ours.nsp(pooled, hooks=hooks.within("nsp"))
        return ours.mlm(hidden, hooks=hooks.within("mlm"))

    def run_theirs() -> Tensor:
        return theirs(**SOURCE_FOR_BERT).prediction_logits

    return Pair(theirs, ours, BERT_PRETRAINING, BERT_TAPS, run_theirs, run_ours, predicts=SOURCE)


def decoder_only(theirs: nn.Module, ours: GPT, table: Table, taps: tuple[Tap, ...]) -> Pair:
    return Pair(
        theirs,
        ours,
        table,
        taps,
        run_theirs=lambda: theirs(input_ids=TARGET.ids, attention_mask=TARGET.real.long()).logits,
        run_ours=lambda **how: ours(TARGET.ids, lengths=TARGET.lengths, **how),
    )


def gpt2() -> Pair:
    config = transformers.GPT2Config(
        vocab_size=VOCAB_SIZE,
        n_embd=32,
        n_layer=ENCODER_LAYERS,
        n_head=4,
        n_inner=48,
        n_positions=MAX_LENGTH,
        layer_norm_epsilon=1e-3,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    ours = GPT(GPTConfig(**SIZES, n_layers=ENCODER_LAYERS, max_length=MAX_LENGTH, norm_eps=1e-3))
    return decoder_only(transformers.GPT2LMHeadModel(config), ours, GPT2, GPT2_TAPS)


LLAMA_SHAPE = {
    "vocab_size": VOCAB_SIZE, "hidden_size": 32, "num_hidden_layers": ENCODER_LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": MAX_LENGTH, "rms_norm_eps": 1e-3,
    "bos_token_id": None, "eos_token_id": None, "attn_implementation": "eager",
}  # fmt: skip
OUR_LLAMA_SHAPE = SIZES | {
    "n_layers": ENCODER_LAYERS, "n_kv_heads": 2, "activation": "swiglu", "norm": "rms", "norm_eps": 1e-3,
    "positions": "rope", "rope_theta": 500.0, "max_length": MAX_LENGTH, "bias": False,
}  # fmt: skip


def llama(
    *, tied: bool = False, scaling: dict[str, Any] | None = None, our_scaling: dict[str, Any] | None = None
) -> Pair:
    config = transformers.LlamaConfig(
        **LLAMA_SHAPE,
        rope_parameters={"rope_theta": 500.0, **(scaling or {"rope_type": "default"})},
        tie_word_embeddings=tied,
    )
    ours = GPT(GPTConfig(**OUR_LLAMA_SHAPE, tie_embeddings=tied, **(our_scaling or {})))
    return decoder_only(transformers.LlamaForCausalLM(config), ours, LLAMA, LLAMA_TAPS)


def llama3() -> Pair:
    """Of the four frequencies the first is kept, the second blended, the others divided by the factor."""
    return llama(
        scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        our_scaling={"rope_scaling": "llama3", "rope_factor": 8.0, "rope_original_max_length": 64},
    )  # fmt: skip


def llama_yarn() -> Pair:
    """Of the four frequencies the first is kept, the second and third are blended, the last is divided."""
    return llama(
        scaling={
            "rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 0.2,
            "original_max_position_embeddings": 64,
        },
        our_scaling={
            "rope_scaling": "yarn", "rope_factor": 8.0, "rope_original_max_length": 64, "rope_beta_fast": 16.0,
            "rope_beta_slow": 0.2,
        },
    )  # fmt: skip


def llama_linear() -> Pair:
    return llama(
        scaling={"rope_type": "linear", "factor": 8.0}, our_scaling={"rope_scaling": "linear", "rope_factor": 8.0}
    )


ROPE_THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}


def qwen2() -> Pair:
    """Biases in queries, keys and values only."""
    config = transformers.Qwen2Config(**LLAMA_SHAPE, **ROPE_THETA, tie_word_embeddings=True)
    ours = GPT(GPTConfig(**OUR_LLAMA_SHAPE, qkv_bias=True))
    return decoder_only(transformers.Qwen2ForCausalLM(config), ours, LLAMA, LLAMA_TAPS)


def qwen3() -> Pair:
    """Heads wider than d_model / n_heads, with a norm for their queries and one for their keys."""
    config = transformers.Qwen3Config(**LLAMA_SHAPE, **ROPE_THETA, head_dim=12, tie_word_embeddings=False)
    ours = GPT(GPTConfig(**OUR_LLAMA_SHAPE, d_head=12, qk_norm=True, tie_embeddings=False))
    return decoder_only(transformers.Qwen3ForCausalLM(config), ours, QWEN3, LLAMA_TAPS)


def marian(*, theirs_activation: str, our_activation: str, target_vocab_size: int | None = None) -> Pair:
    config = transformers.MarianConfig(
        vocab_size=VOCAB_SIZE,
        decoder_vocab_size=target_vocab_size or VOCAB_SIZE,
        share_encoder_decoder_embeddings=target_vocab_size is None,
        d_model=32,
        encoder_layers=ENCODER_LAYERS,
        decoder_layers=DECODER_LAYERS,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        activation_function=theirs_activation,
        max_position_embeddings=MAX_LENGTH,
        scale_embedding=True,
        pad_token_id=0,
        eos_token_id=0,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    theirs = transformers.MarianMTModel(config)
    ours = our_transformer(
        activation=our_activation,
        positions="sinusoidal_halves",
        output_bias=True,
        target_vocab_size=target_vocab_size,
    )
    return Pair(
        theirs,
        ours,
        MARIAN,
        MARIAN_TAPS,
        run_theirs=lambda: (
            theirs(
                input_ids=SOURCE.ids,
                attention_mask=SOURCE.real.long(),
                decoder_input_ids=TARGET.ids,
                decoder_attention_mask=TARGET.real.long(),
            ).logits
        ),
        run_ours=partial(run_transformer, ours),
    )


def our_transformer(**settings: Any) -> Transformer:
    return Transformer(
        TransformerConfig(**SIZES, n_encoder_layers=ENCODER_LAYERS, n_decoder_layers=DECODER_LAYERS, **settings)
    )


def run_transformer(model: Transformer, **how: Any) -> Tensor:
    return model(SOURCE.ids, TARGET.ids, source_lengths=SOURCE.lengths, target_lengths=TARGET.lengths, **how)


class TorchTranslator(nn.Transformer):
    """torch's own encoder–decoder, given the embeddings and the output projection it lacks."""

    def __init__(self, *, norm_first: bool, activation: str) -> None:
        super().__init__(
            d_model=32,
            nhead=4,
            num_encoder_layers=ENCODER_LAYERS,
            num_decoder_layers=DECODER_LAYERS,
            dim_feedforward=48,
            dropout=0.0,
            activation=activation,
            norm_first=norm_first,
            layer_norm_eps=1e-3,
            batch_first=True,
        )
        if not norm_first:  # layers that end in a norm are followed by one more, which the paper does not have
            self.encoder.norm = self.decoder.norm = None
        self.source_tokens = nn.Embedding(VOCAB_SIZE, 32)
        self.target_tokens = nn.Embedding(TARGET_VOCAB_SIZE, 32)
        self.output = nn.Linear(32, TARGET_VOCAB_SIZE)

    def forward(self, source: Batch, target: Batch) -> Tensor:
        """Return the logits; torch's masks are True where attention is forbidden."""
        hidden = super().forward(
            self.source_tokens(source.ids),
            self.target_tokens(target.ids),
            tgt_mask=torch.ones(target.ids.size(1), target.ids.size(1), dtype=torch.bool).triu(1),
            src_key_padding_mask=~source.real,
            tgt_key_padding_mask=~target.real,
            memory_key_padding_mask=~source.real,
        )
        return self.output(hidden)


TORCH_TRANSLATOR = TORCH.with_rows(
    Row("source_tokens.weight", "source_embedding.tokens.weight"),
    Row("target_tokens.weight", "target_embedding.tokens.weight"),
    Row("output.*", "output.*"),
)


def torch_transformer(*, pre_norm: bool, activation: str) -> Pair:
    theirs = TorchTranslator(norm_first=pre_norm, activation=activation)
    ours = our_transformer(
        pre_norm=pre_norm,
        activation=activation,
        norm_eps=1e-3,
        dropout=0.0,
        positions="none",
        scale_embeddings=False,
        tie_embeddings=False,
        output_bias=True,
        target_vocab_size=TARGET_VOCAB_SIZE,
    )
    return Pair(
        theirs,
        ours,
        TORCH_TRANSLATOR,
        TORCH_PRE_NORM_TAPS if pre_norm else TORCH_TAPS,
        run_theirs=lambda: theirs(SOURCE, TARGET),
        run_ours=partial(run_transformer, ours),
    )


PAIRS: dict[str, Callable[[], Pair]] = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "llama-tied": partial(llama, tied=True),
    "llama-linear": llama_linear,
    "llama3": llama3,
    "llama-yarn": llama_yarn,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "marian-swish": partial(marian, theirs_activation="swish", our_activation="silu"),
    "marian-relu": partial(marian, theirs_activation="relu", our_activation="relu"),
    "marian-two-vocabularies": partial(
        marian, theirs_activation="swish", our_activation="silu", target_vocab_size=TARGET_VOCAB_SIZE
    ),
    "torch-post-norm-relu": partial(torch_transformer, pre_norm=False, activation="relu"),
    "torch-pre-norm-gelu": partial(torch_transformer, pre_norm=True, activation="gelu"),
}

every_pair = pytest.mark.parametrize("make_pair", PAIRS.values(), ids=PAIRS)
