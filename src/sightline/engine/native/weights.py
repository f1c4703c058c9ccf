"""A config and its tensors as what the C file takes: one order of tensors for all families, each checked by its shape.

Tensors are NumPy arrays under the names of our weights, from a torch model or from a model folder. C quantizes them.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped
from numpy import ndarray

from sightline.bundle.folder import find_model_folder, open_files
from sightline.bundle.manifest import MAX_CONFIG_BYTES, Manifest, read_manifest
from sightline.bundle.tensor_header import TensorInfo, read_header
from sightline.engine.native import library
from sightline.errors import ModelFileError
from sightline.model.config import (
    BertConfig,
    BlockConfig,
    GPTConfig,
    ModelConfig,
    Rope,
    RopeScaling,
    TransformerConfig,
)
from sightline.storage import read_limited

Arrays = Mapping[str, Shaped[ndarray, "..."]]
"""Weights by name."""

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu")
POSITIONS = ("none", "sinusoidal", "sinusoidal_halves", "learned", "rope")
"""Choices in the order of their numbers in C."""


@dataclass(frozen=True)
class Family:
    """How the models of a config are made of what the C file knows: names of weights, and numbers of layers."""

    encoder: str | None = None
    """Prefix of the encoder's layers, and the field that counts them."""
    n_encoder_layers: str = ""
    source: str | None = None
    """Prefix of the embedding that the encoder reads."""
    decoder: str | None = None
    n_decoder_layers: str = ""
    target: str | None = None
    has_cross: bool = False
    has_embedding_norm: str = ""
    """The field that says whether embeddings are normalized."""


FAMILIES: dict[type[ModelConfig], Family] = {
    TransformerConfig: Family(
        "encoder", "n_encoder_layers", "source_embedding", "decoder", "n_decoder_layers", "target_embedding", True
    ),
    GPTConfig: Family(decoder="decoder", n_decoder_layers="n_layers", target="embedding"),
    BertConfig: Family("encoder", "n_layers", "embedding", has_embedding_norm="embedding_norm"),
}


def find_unsupported(config: ModelConfig) -> str | None:
    """Return why models of a config cannot run natively, or None if they can."""
    if type(config) not in FAMILIES or not isinstance(config, BlockConfig):
        return f"the native engine does not know models of a {type(config).__name__}"
    return None


def describe(config: BlockConfig, *, bits: int) -> library.Config:
    """Return the config for C."""
    family = FAMILIES[type(config)]
    return library.Config(
        n_encoder_layers=getattr(config, family.n_encoder_layers) if family.encoder else 0,
        n_decoder_layers=getattr(config, family.n_decoder_layers) if family.decoder else 0,
        d_model=config.d_model,
        n_heads=config.n_heads,
        n_groups=config.n_kv_heads or config.n_heads,
        d_head=config.head_width,
        d_ff=config.d_ff,
        source_vocab_size=config.vocab_size,
        target_vocab_size=config.output_vocab_size,
        n_segments=getattr(config, "n_segments", 0),
        activation=ACTIVATIONS.index(config.activation),
        positions=POSITIONS.index(config.positions),
        max_length=config.max_length or 0,
        rms_norm=config.norm == "rms",
        pre_norm=config.pre_norm,
        bits=bits,
        norm_eps=config.norm_eps,
        embedding_scale=math.sqrt(config.d_model) if config.scale_embeddings else 1.0,
        rope_amplitude=rope_amplitude(config.rope) if config.positions == "rope" else 1.0,
    )


# --- Tensors in the order of C


@dataclass(frozen=True)
class Slot:
    """A tensor in the order of C: its name and shape; no name where the model has none such."""

    name: str | None
    shape: tuple[int, ...] = ()


NOTHING = Slot(None)


def list_slots(config: BlockConfig) -> Iterator[Slot]:
    """Yield every tensor that the C file takes, in its order."""
    family = FAMILIES[type(config)]
    segments = getattr(config, "n_segments", 0)
    is_normed = bool(family.has_embedding_norm and getattr(config, family.has_embedding_norm))
    yield from embedding_slots(config, family.source, config.vocab_size, n_segments=segments, is_normed=is_normed)
    shares = family.source is not None and config.output_vocab_size == config.vocab_size
    tokens = family.source if shares and getattr(config, "target_vocab_size", None) is None else family.target
    yield from embedding_slots(config, family.target, config.output_vocab_size, tokens=tokens)
    for prefix, field, has_cross in (
        (family.encoder, family.n_encoder_layers, False),
        (family.decoder, family.n_decoder_layers, family.has_cross),
    ):
        for index in range(getattr(config, field) if prefix else 0):
            yield from layer_slots(config, f"{prefix}.layers.{index}", has_cross=has_cross)
        yield from norm_slots(config, f"{prefix}.final_norm" if prefix and config.pre_norm else None)
    if family.decoder is None:
        yield from (NOTHING, NOTHING)
        return
    shape = (config.output_vocab_size, config.d_model)
    yield Slot(f"{tokens}.tokens.weight" if config.tie_embeddings else "output.weight", shape)
    yield Slot("output.bias", shape[:1]) if config.output_bias else NOTHING


def embedding_slots(
    config: BlockConfig,
    prefix: str | None,
    vocab_size: int,
    *,
    tokens: str | None = None,
    n_segments: int = 0,
    is_normed: bool = False,
) -> Iterator[Slot]:
    """Yield tokens, positions, segments and the norm of an embedding."""
    width = config.d_model
    if prefix is None:
        yield from (NOTHING,) * 5
        return
    yield Slot(f"{tokens or prefix}.tokens.weight", (vocab_size, width))
    is_learned = config.positions == "learned"
    yield Slot(f"{prefix}.positions.weight", (config.max_length or 0, width)) if is_learned else NOTHING
    yield Slot(f"{prefix}.segments.weight", (n_segments, width)) if n_segments else NOTHING
    yield Slot(f"{prefix}.norm.weight", (width,)) if is_normed else NOTHING
    yield Slot(f"{prefix}.norm.bias", (width,)) if is_normed else NOTHING


def layer_slots(config: BlockConfig, prefix: str, *, has_cross: bool) -> Iterator[Slot]:
    """Yield self-attention, cross-attention and feed-forward network of a layer."""
    yield from attention_slots(config, f"{prefix}.self_attention")
    yield from attention_slots(config, f"{prefix}.cross_attention" if has_cross else None)
    has_bias = config.resolve_bias(config.feed_forward_bias)
    names = ("up_proj", "gate_proj" if config.activation == "swiglu" else None, "down_proj")
    for name in names:
        shape = (config.d_model, config.d_ff) if name == "down_proj" else (config.d_ff, config.d_model)
        yield from linear_slots(name and f"{prefix}.feed_forward.{name}", shape, has_bias=has_bias)
    yield from norm_slots(config, f"{prefix}.feed_forward_norm")


def attention_slots(config: BlockConfig, prefix: str | None) -> Iterator[Slot]:
    """Yield the four projections of an attention, its norms of queries and keys, and the norm of its sublayer."""
    heads, groups = config.n_heads * config.head_width, (config.n_kv_heads or config.n_heads) * config.head_width
    has_bias = config.resolve_bias(config.qkv_bias)
    for name, n_outputs in (("query", heads), ("key", groups), ("value", groups)):
        yield from linear_slots(prefix and f"{prefix}.{name}", (n_outputs, config.d_model), has_bias=has_bias)
    has_output_bias = config.resolve_bias(config.attention_output_bias)
    yield from linear_slots(prefix and f"{prefix}.output", (config.d_model, heads), has_bias=has_output_bias)
    for name in ("query_norm", "key_norm"):
        has_norm = prefix is not None and config.qk_norm
        yield from norm_slots(config, f"{prefix}.{name}" if has_norm else None, config.head_width)
    yield from norm_slots(config, prefix and f"{prefix}_norm")


def linear_slots(name: str | None, shape: tuple[int, int], *, has_bias: bool) -> Iterator[Slot]:
    """Yield weight and bias of a linear map."""
    yield NOTHING if name is None else Slot(f"{name}.weight", shape)
    yield Slot(f"{name}.bias", shape[:1]) if name is not None and has_bias else NOTHING


def norm_slots(config: BlockConfig, name: str | None, width: int | None = None) -> Iterator[Slot]:
    """Yield weight and bias of a norm."""
    shape = (width or config.d_model,)
    has_bias = name is not None and config.norm == "layer" and config.resolve_bias(config.norm_bias)
    yield NOTHING if name is None else Slot(f"{name}.weight", shape)
    yield Slot(f"{name}.bias", shape) if has_bias else NOTHING


def arrange(config: BlockConfig, arrays: Arrays) -> list[Shaped[ndarray, "..."] | None]:
    """Return the tensors in the order of C, as 32-bit floats; raise if one is missing or of another shape."""
    found: dict[str, ndarray] = {}
    result: list[ndarray | None] = []
    for slot in list_slots(config):
        if slot.name is None:
            result.append(None)
            continue
        if slot.name not in found:
            if slot.name not in arrays:
                raise ValueError(f"the weight {slot.name} is missing")
            # Aligned, too: in a file, one weight may begin where another of an odd size ends.
            array = np.require(arrays[slot.name], dtype=np.float32, requirements=["C", "A"])
            if array.shape != slot.shape:
                raise ValueError(f"the weight {slot.name} has the shape {array.shape} instead of {slot.shape}")
            found[slot.name] = array
        result.append(found[slot.name])
    return result


# --- Rotary positions, in double precision as `model/positions.py` computes them


def rope_frequencies(rope: Rope) -> Float64[ndarray, "half"]:
    """Return the frequency at which each pair of dimensions rotates, scaled."""
    return SCALINGS[rope.scaling](rope.theta ** (-np.arange(0, rope.d_head, 2, dtype=np.float64) / rope.d_head), rope)


def rope_amplitude(rope: Rope) -> float:
    """Return the factor of rotated queries and keys."""
    if rope.scaling != "yarn":
        return 1.0
    return 0.1 * math.log(rope.factor) + 1.0 if rope.attention_factor is None else rope.attention_factor


def interpolate_llama3(unscaled: Float64[ndarray, "half"], rope: Rope) -> Float64[ndarray, "half"]:
    """Divide the low frequencies, keep the high ones, and blend between them (Llama 3.1)."""
    n_turns = (rope.original_max_length or 0) * unscaled / (2 * math.pi)
    kept = (n_turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    return blend(unscaled, rope, kept)


def interpolate_yarn(unscaled: Float64[ndarray, "half"], rope: Rope) -> Float64[ndarray, "half"]:
    """Blend by the index of the dimension, over a range of indices (Peng et al. 2023, 3.2)."""

    def dimension_of(n_turns: float) -> float:
        length = rope.original_max_length or 1
        return rope.d_head * math.log(length / (n_turns * 2 * math.pi)) / (2 * math.log(rope.theta))

    first, last = dimension_of(rope.beta_fast), dimension_of(rope.beta_slow)
    if rope.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, rope.d_head - 1)
    divided = (np.arange(len(unscaled), dtype=np.float64) - first) / (last - first or 0.001)
    return blend(unscaled, rope, 1 - divided)


def blend(unscaled: Float64[ndarray, "half"], rope: Rope, kept: Float64[ndarray, "half"]) -> Float64[ndarray, "half"]:
    """Return a mixture of each frequency and itself divided by the factor; `kept` is the share of the first."""
    kept = kept.clip(0, 1)
    return np.asarray(kept * unscaled + (1 - kept) * unscaled / rope.factor)


SCALINGS: dict[RopeScaling, Callable[[ndarray, Rope], ndarray]] = {
    "none": lambda unscaled, _: unscaled,
    "linear": lambda unscaled, rope: unscaled / rope.factor,
    "llama3": interpolate_llama3,
    "yarn": interpolate_yarn,
}


# --- Model folders


def read_folder(folder: Path) -> tuple[Manifest, dict[str, Shaped[ndarray, "..."]]]:
    """Return what a model folder says of its model, and its weights, without torch."""
    folder = find_model_folder(folder)
    with open_files(folder) as files:
        for name in ("config.json", "model.safetensors"):
            if name not in files:
                raise ModelFileError(folder / name, "is missing: the model folder is incomplete")
        config_path, path = folder / "config.json", folder / "model.safetensors"
        data = read_limited(files["config.json"], config_path, max_bytes=MAX_CONFIG_BYTES)
        manifest = read_manifest(data, config_path)
        header = read_header(files["model.safetensors"], path)
        weights = np.empty(max((info.end for info in header.tensors.values()), default=0), dtype=np.uint8)
        view, file = memoryview(weights.data), files["model.safetensors"]
        file.seek(header.start)
        while view:
            if not (count := file.readinto(view)):
                raise ModelFileError(path, "became shorter while being read")
            view = view[count:]
    arrays = {name: as_floats(weights[info.begin : info.end], info) for name, info in header.tensors.items()}
    for name, array in arrays.items():
        if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise ModelFileError(path, f"{name} holds NaN or infinity: its training diverged")
    return manifest, arrays


def as_floats(data: Shaped[ndarray, "bytes"], info: TensorInfo) -> Shaped[ndarray, "..."]:
    """Return stored bytes as 32-bit floats; bf16 are the upper halves of them."""
    if info.dtype == "F32":
        return data.view(np.float32).reshape(info.shape)
    if info.dtype == "F16":
        return data.view(np.float16).astype(np.float32).reshape(info.shape)
    return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(info.shape)
