"""Tiny models of every family and variation, and one way to run them all."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from sightline.model import GPT, Bert, BertConfig, GPTConfig, Model, Transformer, TransformerConfig
from sightline.model.cache import DecoderState, KVCache
from sightline.model.hooks import NO_HOOKS, NoHooks

VOCAB = 20
SIZES = {"vocab_size": VOCAB, "d_model": 16, "n_heads": 4, "d_ff": 24, "dropout": 0.1}

BLOCKS: dict[str, dict[str, object]] = {
    "pre_norm": {"pre_norm": True},
    "post_norm": {"pre_norm": False},
    "rms_norm": {"norm": "rms"},
    "no_bias": {"bias": False},
    "relu": {"activation": "relu"},
    "gelu": {"activation": "gelu"},
    "gelu_tanh": {"activation": "gelu_tanh"},
    "silu": {"activation": "silu"},
    "swiglu": {"activation": "swiglu"},
    "sinusoidal": {"positions": "sinusoidal", "max_length": None},
    "sinusoidal_halves": {"positions": "sinusoidal_halves", "max_length": None},
    "learned": {"positions": "learned", "max_length": 64},
    "rope": {"positions": "rope", "max_length": None},
    "no_positions": {"positions": "none", "max_length": None},
    "rope_linear": {"positions": "rope", "max_length": None, "rope_scaling": "linear", "rope_factor": 3.0},
    "rope_llama3": {
        "positions": "rope", "max_length": None, "rope_scaling": "llama3", "rope_factor": 4.0,
        "rope_original_max_length": 8,
    },
    "rope_yarn": {
        "positions": "rope", "max_length": None, "rope_scaling": "yarn", "rope_factor": 4.0,
        "rope_original_max_length": 256,
    },
    "grouped": {"n_kv_heads": 2},
    "one_kv_head": {"n_kv_heads": 1},
    "one_head": {"n_heads": 1},
    "wide_heads": {"d_head": 6},
    "narrow_heads": {"n_heads": 3, "d_head": 2},
    "qk_norm": {"qk_norm": True},
    "qkv_bias": {"bias": False, "qkv_bias": True},
    "output_and_norm_bias": {"bias": False, "attention_output_bias": True, "norm_bias": True},
    "no_feed_forward_bias": {"feed_forward_bias": False},
    "untied": {"tie_embeddings": False},
    "output_bias": {"output_bias": True},
    "scaled": {"scale_embeddings": True},
    "unscaled": {"scale_embeddings": False},
    "attention_dropout": {"attention_dropout": 0.2},
}  # fmt: skip
LLAMA = {
    "pre_norm": True, "norm": "rms", "activation": "swiglu", "positions": "rope", "max_length": None,
    "n_kv_heads": 2, "bias": False, "tie_embeddings": False,
}  # fmt: skip

QWEN3 = {**LLAMA, "d_head": 6, "qk_norm": True}

TRANSFORMERS = {
    "paper": {},
    **{name: BLOCKS[name] for name in BLOCKS if name not in ("post_norm", "relu", "sinusoidal", "scaled")},
    "modern": LLAMA,
    "qwen3": QWEN3,
    "separate_target": {"target_vocab_size": 23},
    "separate_untied": {"target_vocab_size": 23, "tie_embeddings": False},
}
GPTS = {
    "gpt2": {},
    **{name: BLOCKS[name] for name in BLOCKS if name not in ("pre_norm", "gelu_tanh", "learned", "unscaled")},
    "llama": LLAMA,
    "qwen3": QWEN3,
}
BERTS = {
    "bert": {},
    **{name: BLOCKS[name] for name in BLOCKS if name not in ("post_norm", "gelu", "learned", "unscaled")},
    "modern": LLAMA,
    "qwen3": QWEN3,
    "one_segment_kind": {"n_segments": 0},
}
NAMES = {
    "transformer": [f"transformer-{name}" for name in TRANSFORMERS],
    "gpt": [f"gpt-{name}" for name in GPTS],
    "bert": [f"bert-{name}" for name in BERTS],
}
CAUSAL = [*NAMES["transformer"], *NAMES["gpt"]]
FEW_CAUSAL = ["transformer-paper", "transformer-modern", "transformer-qwen3", "gpt-gpt2", "gpt-llama"]


@dataclass(frozen=True)
class Batch:
    """Ids for any family: `ids` are the target, or the only text; each family uses the fields it needs."""

    ids: Tensor  # B T
    lengths: Tensor  # B
    source: Tensor  # B S
    source_lengths: Tensor  # B
    segments: Tensor  # B T

    @property
    def real(self) -> Tensor:
        """Where the real tokens stand, B T."""
        return torch.arange(self.ids.size(1)) < self.lengths[:, None]

    def row(self, index: int) -> "Batch":
        """One sentence alone, without padding."""
        end, source_end = int(self.lengths[index]), int(self.source_lengths[index])
        here = slice(index, index + 1)
        return Batch(
            self.ids[here, :end],
            self.lengths[here],
            self.source[here, :source_end],
            self.source_lengths[here],
            self.segments[here, :end],
        )

    def with_ids(self, ids: Tensor) -> "Batch":
        """Other ids of the same shape."""
        return replace(self, ids=ids)


@dataclass(frozen=True)
class Subject:
    """A model under test, run the same way whatever its family."""

    name: str
    model: Model

    def run(self, batch: Batch, *, packed: bool = False, hooks: NoHooks = NO_HOOKS) -> Tensor:
        """Logits of every token: B T V, or N V when packed."""
        model = self.model
        if isinstance(model, Transformer):
            return model(
                batch.source,
                batch.ids,
                source_lengths=batch.source_lengths,
                target_lengths=batch.lengths,
                packed=packed,
                hooks=hooks,
            )
        if isinstance(model, GPT):
            return model(batch.ids, lengths=batch.lengths, packed=packed, hooks=hooks)
        hidden = model(batch.ids, segments=batch.segments, lengths=batch.lengths, packed=packed, hooks=hooks)
        return model.mlm(hidden, hooks=hooks)

    def real(self, batch: Batch, *, packed: bool = False, hooks: NoHooks = NO_HOOKS) -> Tensor:
        """Logits of the real tokens only, N V."""
        scores = self.run(batch, packed=packed, hooks=hooks)
        return scores if scores.ndim == 2 else scores[batch.real]

    def start(self, batch: Batch, *, capacity: int = 4) -> DecoderState | KVCache:
        """Start decoding every sentence of a batch."""
        if isinstance(self.model, Transformer):
            encoder_output = self.model.encode(batch.source, lengths=batch.source_lengths)
            return self.model.start(encoder_output, capacity=capacity)
        assert isinstance(self.model, GPT)
        return self.model.start(batch.ids.size(0), capacity=capacity)

    def gradients(self, scores: Tensor) -> dict[str, Tensor]:
        """Gradients of every parameter for one fixed loss of the scores of N real tokens."""
        direction = torch.randn(scores.shape, generator=torch.Generator().manual_seed(5))
        names, parameters = zip(*self.model.named_parameters(), strict=True)
        found = torch.autograd.grad((scores * direction).sum() / len(scores), parameters, materialize_grads=True)
        return dict(zip(names, found, strict=True))


def randomize(model: nn.Module) -> nn.Module:
    """Redraw all parameters, so that no bias is zero, no norm the identity and no score small."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 2:
            parameter.data = noise * parameter.size(1) ** -0.5
        else:
            parameter.data = 0.2 * noise + (1.0 if name.endswith("norm.weight") else 0.0)
    model.tie_weights()
    return model


def make_model(name: str, **settings: object) -> Model:
    """A tiny model of a named variation, in evaluation mode."""
    family, variation = name.split("-")
    if family == "transformer":
        chosen = {**SIZES, "n_encoder_layers": 2, "n_decoder_layers": 2, **TRANSFORMERS[variation], **settings}
        model = Transformer(TransformerConfig(**chosen))
    elif family == "gpt":
        model = GPT(GPTConfig(**{**SIZES, "n_layers": 2, "max_length": 64, **GPTS[variation], **settings}))
    else:
        chosen = {"n_layers": 2, "max_length": 64, "heads": ("mlm",), "norm_eps": 1e-5}
        model = Bert(BertConfig(**{**SIZES, **chosen, **BERTS[variation], **settings}))
    return randomize(model).eval()


@pytest.fixture(scope="session")
def make_subject() -> Callable[..., Subject]:
    """Make a model of a named variation, with settings overridden; the test may modify it."""
    return lambda name, **settings: Subject(name, make_model(name, **settings))


@pytest.fixture(scope="session", params=[name for names in NAMES.values() for name in names])
def subject(request: pytest.FixtureRequest) -> Subject:
    """Every variation of every family."""
    return Subject(request.param, make_model(request.param))


@pytest.fixture(scope="session", params=CAUSAL)
def causal(request: pytest.FixtureRequest) -> Subject:
    """Every variation of the families that predict the next token."""
    return Subject(request.param, make_model(request.param))


@pytest.fixture(scope="session", params=FEW_CAUSAL)
def decoder(request: pytest.FixtureRequest) -> Subject:
    """The five most different models that predict the next token, for claims that need many examples."""
    return Subject(request.param, make_model(request.param))


@pytest.fixture(scope="session", params=NAMES["transformer"])
def transformer(request: pytest.FixtureRequest) -> Transformer:
    """Every variation of the encoder–decoder."""
    return make_model(request.param)


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., Batch]:
    """Make random ids of given lengths; the source lengths are the reverse unless given."""

    def make(lengths: list[int], *, source_lengths: list[int] | None = None, seed: int = 0) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        source_lengths = lengths[::-1] if source_lengths is None else source_lengths
        size, source_size = (len(lengths), max(lengths)), (len(lengths), max(source_lengths))
        return Batch(
            ids=torch.randint(VOCAB, size, generator=generator),
            lengths=torch.tensor(lengths),
            source=torch.randint(VOCAB, source_size, generator=generator),
            source_lengths=torch.tensor(source_lengths),
            segments=torch.randint(2, size, generator=generator),
        )

    return make


@pytest.fixture(scope="session")
def batch(make_batch: Callable[..., Batch]) -> Batch:
    """Three sentences of different lengths, the longest neither first nor last."""
    return make_batch([3, 7, 1], source_lengths=[5, 2, 6])
