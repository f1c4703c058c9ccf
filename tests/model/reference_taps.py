"""How references are recorded and compared: which of their modules corresponds to which of our hook points."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sightline.pretrained.weight_names import (
    rename,
)

TOLERANCE = 1e-5
VOCAB_SIZE, TARGET_VOCAB_SIZE, N_CLASSES, MAX_LENGTH = 50, 40, 5, 16
ENCODER_LAYERS, DECODER_LAYERS = 3, 2


@dataclass(frozen=True)
class Batch:
    """Right-padded sentences of mixed lengths."""

    ids: Tensor  # B T
    lengths: Tensor  # B

    @property
    def real(self) -> Tensor:
        """True where a token is no padding: B T."""
        return torch.arange(self.ids.size(1)) < self.lengths[:, None]


def random_batch(*lengths: int, seed: int) -> Batch:
    """Draw ids that every vocabulary here has; padding is 0."""
    ids = torch.randint(
        1, TARGET_VOCAB_SIZE, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed)
    )
    batch = Batch(ids, torch.tensor(lengths))
    return Batch(ids * batch.real, batch.lengths)


SOURCE = random_batch(7, 3, 5, seed=1)
TARGET = random_batch(4, 6, 2, seed=2)
SEGMENTS = (torch.arange(SOURCE.ids.size(1)) >= 2).long().expand_as(SOURCE.ids)  # each text: two tokens, then the rest


def its_output(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take what a module returns, or the first of what it returns."""
    return output[0] if isinstance(output, tuple) else output


def its_weights(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take the second result of an attention module."""
    return output[1]


def its_logits(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take the logits from what a whole model returns."""
    return output.logits


def its_input(inputs: tuple[Any, ...], output: Any) -> Tensor:
    """Take what a module is given, where no module returns it."""
    return inputs[0]


@dataclass(frozen=True)
class Tap:
    """Which of their modules computes what our point shows; stars as in the tables of weights."""

    theirs: str
    ours: str
    take: Callable[[tuple[Any, ...], Any], Tensor] = its_output


BERT_TAPS = (
    Tap("bert.embeddings", "encoder.embedding.output"),
    Tap("bert.encoder.layer.*.attention.self", "encoder.*.self_attention.weights", its_weights),
    Tap("bert.encoder.layer.*.attention.self", "encoder.*.self_attention.merged_heads"),
    Tap("bert.encoder.layer.*.attention", "encoder.*.self_attention.norm"),
    Tap("bert.encoder.layer.*.intermediate", "encoder.*.feed_forward.hidden"),
    Tap("bert.encoder.layer.*", "encoder.*.feed_forward.norm"),
    Tap("cls.predictions", "mlm.logits"),
    Tap("cls.seq_relationship", "nsp.logits"),
)

GPT2_TAPS = (
    Tap("transformer.drop", "decoder.embedding.output"),
    Tap("transformer.h.*.ln_1", "decoder.*.self_attention.norm"),
    Tap("transformer.h.*.attn", "decoder.*.self_attention.weights", its_weights),
    Tap("transformer.h.*.attn", "decoder.*.self_attention.output"),
    Tap("transformer.h.*.ln_2", "decoder.*.feed_forward.norm"),
    Tap("transformer.h.*.mlp", "decoder.*.feed_forward.output"),
    Tap("transformer.h.*", "decoder.*.feed_forward.residual"),
    Tap("transformer.ln_f", "decoder.final_norm"),
    Tap("lm_head", "logits"),
)

LLAMA_TAPS = (
    Tap("model.embed_tokens", "decoder.embedding.output"),
    Tap("model.layers.*.input_layernorm", "decoder.*.self_attention.norm"),
    Tap("model.layers.*.self_attn", "decoder.*.self_attention.weights", its_weights),
    Tap("model.layers.*.self_attn", "decoder.*.self_attention.output"),
    Tap("model.layers.*.post_attention_layernorm", "decoder.*.feed_forward.norm"),
    Tap("model.layers.*.mlp", "decoder.*.feed_forward.output"),
    Tap("model.layers.*", "decoder.*.feed_forward.residual"),
    Tap("model.norm", "decoder.final_norm"),
    Tap("lm_head", "logits"),
)

MARIAN_TAPS = (
    Tap("model.*.layers.0", "*.embedding.output", its_input),
    Tap("model.*.layers.*.self_attn", "*.*.self_attention.weights", its_weights),
    Tap("model.*.layers.*.self_attn", "*.*.self_attention.output"),
    Tap("model.*.layers.*.self_attn_layer_norm", "*.*.self_attention.norm"),
    Tap("model.*.layers.*.encoder_attn", "*.*.cross_attention.weights", its_weights),
    Tap("model.*.layers.*.encoder_attn", "*.*.cross_attention.output"),
    Tap("model.*.layers.*.encoder_attn_layer_norm", "*.*.cross_attention.norm"),
    Tap("model.*.layers.*.fc2", "*.*.feed_forward.output"),
    Tap("model.*.layers.*", "*.*.feed_forward.norm"),
    Tap("", "logits", its_logits),  # of the whole model: lm_head's output still lacks the bias
)

# nn.Transformer never asks its attention for the weights; what they mix shows in the output.
TORCH_TAPS = (
    Tap("*.layers.0", "*.embedding.output", its_input),
    Tap("*.layers.*.self_attn", "*.*.self_attention.output"),
    Tap("*.layers.*.norm1", "*.*.self_attention.norm"),
    Tap("*.layers.*.multihead_attn", "*.*.cross_attention.output"),
    Tap("encoder.layers.*.norm2", "encoder.*.feed_forward.norm"),
    Tap("decoder.layers.*.norm2", "decoder.*.cross_attention.norm"),
    Tap("decoder.layers.*.norm3", "decoder.*.feed_forward.norm"),
    Tap("*.layers.*.linear2", "*.*.feed_forward.output"),
    Tap("output", "logits"),
)
TORCH_PRE_NORM_TAPS = (*TORCH_TAPS, Tap("*.layers.*", "*.*.feed_forward.residual"), Tap("*.norm", "*.final_norm"))


def record_taps(reference: nn.Module, taps: tuple[Tap, ...], run: Callable[[], Tensor]) -> dict[str, Tensor]:
    """Run a reference; return what its tapped modules computed, under the names of our points."""
    seen: dict[str, Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[Any, ...], output: Any, *, point: str, take: Callable[..., Tensor]) -> None:
        seen[point] = take(inputs, output).detach()

    hooks = [
        module.register_forward_hook(partial(keep, point=point, take=tap.take))
        for path, module in reference.named_modules()
        for tap in taps
        if (point := rename(path, tap.theirs, tap.ours)) is not None
    ]
    run()  # with gradients on: without them torch's encoder would take a fast path past its own modules
    for hook in hooks:
        hook.remove()
    idle = [tap.theirs for tap in taps if not any(rename(point, tap.ours, "") is not None for point in seen)]
    assert not idle, f"the reference has no such modules any more: {idle}"
    return seen


def real_values(point: str, value: Tensor) -> Tensor:
    """Leave out what padding computed, which no one defines; keys that are padding stay, as their weight must be 0."""
    if point.startswith("nsp"):  # one row a text
        return value
    if point.endswith(".weights"):
        value = value.transpose(1, 2)  # B T H S
    batch = SOURCE if point.startswith(("encoder", "mlm")) else TARGET
    return value[batch.real]


def differences(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the greatest difference at each point the reference was tapped at, in the order ours came by them."""
    missing = set(theirs) - set(ours)
    assert not missing, f"our model never came by {sorted(missing)}"
    return {
        point: (real_values(point, value) - real_values(point, theirs[point])).abs().max().item()
        for point, value in ours.items()
        if point in theirs
    }


def assert_layers_agree(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Name the first layer that differs; all behind it only inherit the difference."""
    for point, difference in differences(ours, theirs).items():
        parts = point.split(".")
        layer, where = ".".join(parts[:2]), ".".join(parts[2:])
        assert difference <= TOLERANCE, f"layer {layer} differs by {difference:.2g}" + (f" at {where}" if where else "")
