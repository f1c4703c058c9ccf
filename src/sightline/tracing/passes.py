"""A forward pass of one text through each model family, with hooks, and the activations captured from it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.data.datasets.batch import pad
from sightline.model import CausalLM, Hooks, Model, Seq2Seq, TextEncoder
from sightline.model.config import BertConfig, BlockConfig, GPTConfig, Head, ModelConfig, TransformerConfig
from sightline.model.hooks import NO_HOOKS, Action, NoHooks
from sightline.tracing.plan import Plan, Points, has_heads, tower_points

Predicts: TypeAlias = Literal["tokens", "masks", "classes"]
"""What the steps of a trace predict: generated text token by token, masked tokens, or classes."""


class Pass(ABC):
    """The interface of every family: a pass knows ids, no text.

    Copies are the same text repeated in one batch, so that hooks can change each one differently.
    """

    model: Model
    tower: str
    """The output tower, whose rows give logits: the decoder, or the encoder in a Bert."""
    n_rows: int
    """Tokens of the output tower."""
    n_layers: int
    predicts: Predicts | None
    """None if the model gives no logits."""

    def points(self) -> Points:
        """Return every hook point and the shape of its value, in the order they are computed."""
        inside = POINTS.get(type(self.model.config))
        points = {} if inside is None else inside(self)
        return {**points, "logits": self.logits_shape} if self.has_logits else points

    @property
    @abstractmethod
    def logits_shape(self) -> tuple[int, int]:
        """The rows that have logits, and the number of tokens or classes."""

    @abstractmethod
    def run(
        self, hooks: NoHooks = NO_HOOKS, *, copies: int = 1, changed: str = "encoder"
    ) -> Float[Tensor, "copies T E"]:
        """Return the output of the last layer; `changed` is the first tower in which the copies differ."""

    @abstractmethod
    def logits(self, hidden: Float[Tensor, "copies n E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "copies m V"]:
        """Return the logits of tokens or classes: one row for each given, or one for the whole text."""

    @property
    def has_logits(self) -> bool:
        """Whether the model gives logits: a Bert without a head does not."""
        return True

    @property
    def logit_rows(self) -> tuple[int, ...]:
        """The rows that have logits."""
        return tuple(range(self.n_rows))

    @property
    def final_norm(self) -> nn.Module | None:
        """The norm after the last layer, if the model has one."""
        stack: nn.Module | None = getattr(self.model, self.tower, None)
        found: nn.Module | None = getattr(stack, "final_norm", None)
        return found

    @property
    def layer_outputs(self) -> list[str]:
        """The hook points of the layer outputs of the output tower."""
        config = self.model.config
        if not isinstance(config, BlockConfig):
            return []
        last = "residual" if config.pre_norm else "norm"
        return [f"{self.tower}.{layer}.feed_forward.{last}" for layer in range(self.n_layers)]

    def ids(self, row: Sequence[int], copies: int) -> Int[Tensor, "copies T"]:
        """Return ids as a batch of copies on the model's device."""
        return torch.tensor([list(row)], dtype=torch.long, device=self.device).expand(copies, -1)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device


class DecoderPass(Pass):
    """The interface of the families with a decoder.

    The target is run in one go (teacher forcing): row t sees what decoding step t saw.
    """

    tower = "decoder"
    predicts = "tokens"

    @abstractmethod
    def run_inputs(self, rows: Sequence[Sequence[int]], hooks: NoHooks) -> None:
        """Run the decoder on other inputs, as one batch, for the sake of the hooks.

        Under a causal mask no row sees the padding on its right.
        """


class Seq2SeqPass(DecoderPass):
    """A source through the encoder, and a target through the decoder."""

    def __init__(self, model: Seq2Seq, source: Sequence[int], inputs: Sequence[int]) -> None:
        self.model: Seq2Seq = model
        self.source, self.inputs = list(source), list(inputs)
        self.n_rows, self.n_layers = len(self.inputs), getattr(model.config, "n_decoder_layers", model.config.depth)

    @property
    def logits_shape(self) -> tuple[int, int]:
        """The next token at each row."""
        return self.n_rows, self.model.config.output_vocab_size

    def run(
        self, hooks: NoHooks = NO_HOOKS, *, copies: int = 1, changed: str = "encoder"
    ) -> Float[Tensor, "copies T E"]:
        """Encode the source, once if all copies share it, and decode."""
        if changed == "encoder":
            encoder_output = self.model.encode(self.ids(self.source, copies), hooks=hooks)
        else:
            encoder_output = self.model.encode(self.ids(self.source, 1), hooks=hooks).repeat(copies)
        return self.model.decode(self.ids(self.inputs, copies), encoder_output, hooks=hooks)

    def run_inputs(self, rows: Sequence[Sequence[int]], hooks: NoHooks) -> None:
        """Decode other inputs for the same source."""
        encoder_output = self.model.encode(self.ids(self.source, 1), hooks=hooks).repeat(len(rows))
        ids, _ = pad(rows, device=self.device)
        self.model.decode(ids, encoder_output, hooks=hooks)

    def logits(self, hidden: Float[Tensor, "copies n E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "copies n V"]:
        """Return the logits of the next token at each row."""
        return self.model.logits(hidden, hooks=hooks)


class CausalLMPass(DecoderPass):
    """A prompt and its continuation through the decoder."""

    def __init__(self, model: CausalLM, inputs: Sequence[int]) -> None:
        self.model: CausalLM = model
        self.inputs = list(inputs)
        self.n_rows, self.n_layers = len(self.inputs), model.config.depth

    @property
    def logits_shape(self) -> tuple[int, int]:
        """The next token at each row."""
        return self.n_rows, self.model.config.output_vocab_size

    def run(
        self,
        hooks: NoHooks = NO_HOOKS,
        *,
        copies: int = 1,
        changed: str = "encoder",  # noqa: ARG002 - there is one tower
    ) -> Float[Tensor, "copies T E"]:
        """Run the decoder on all tokens at once."""
        return self.model.decode(self.ids(self.inputs, copies), hooks=hooks)

    def run_inputs(self, rows: Sequence[Sequence[int]], hooks: NoHooks) -> None:
        """Run the decoder on other inputs."""
        ids, _ = pad(rows, device=self.device)
        self.model.decode(ids, hooks=hooks)

    def logits(self, hidden: Float[Tensor, "copies n E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "copies n V"]:
        """Return the logits of the next token at each row."""
        return self.model.logits(hidden, hooks=hooks)


class TextEncoderPass(Pass):
    """A text, or a pair, through the bidirectional encoder and one of its heads."""

    tower = "encoder"

    def __init__(
        self, model: TextEncoder, ids: Sequence[int], *, head: Head | None, segments: Sequence[int] | None = None
    ) -> None:
        self.model: TextEncoder = model
        self.source, self.segments, self.head = list(ids), segments, head
        self.n_rows, self.n_layers = len(self.source), model.config.depth
        self.predicts = None if head is None else "masks" if head == "mlm" else "classes"

    @property
    def has_logits(self) -> bool:
        """Whether a head was chosen."""
        return self.head is not None

    @property
    def logit_rows(self) -> tuple[int, ...]:
        """All rows; for sequence classification only the first, for the whole text."""
        return (0,) if self.head == "sequence_classification" else tuple(range(self.n_rows))

    @property
    def logits_shape(self) -> tuple[int, int]:
        """The tokens or the classes at each row, or the classes of the whole text."""
        config: Any = self.model.config
        return len(self.logit_rows), config.vocab_size if self.head == "mlm" else config.n_classes

    def run(
        self,
        hooks: NoHooks = NO_HOOKS,
        *,
        copies: int = 1,
        changed: str = "encoder",  # noqa: ARG002 - there is one tower
    ) -> Float[Tensor, "copies T E"]:
        """Encode the text."""
        segments = None if self.segments is None else self.ids(self.segments, copies)
        hidden: Tensor = self.model(self.ids(self.source, copies), segments=segments, hooks=hooks)
        return hidden

    def logits(self, hidden: Float[Tensor, "copies n E"], *, hooks: NoHooks = NO_HOOKS) -> Float[Tensor, "copies m V"]:
        """Return the logits of tokens or classes, at each row or for the whole text."""
        if self.head == "sequence_classification":
            return self.model.sequence_classification(self.model.pool(hidden), hooks=hooks)[:, None]
        if self.head == "token_classification":
            return self.model.token_classification(hidden, hooks=hooks)
        return self.model.mlm(hidden, hooks=hooks)


def transformer_points(forward_pass: Seq2SeqPass) -> Points:
    """Return the hook points of both towers."""
    config: Any = forward_pass.model.config
    n_source, n_rows = len(forward_pass.source), forward_pass.n_rows
    encoder = tower_points("encoder", config, n_layers=config.n_encoder_layers, n_rows=n_source)
    decoder = tower_points("decoder", config, n_layers=config.n_decoder_layers, n_rows=n_rows, n_source=n_source)
    return {**encoder, **decoder}


def gpt_points(forward_pass: CausalLMPass) -> Points:
    """Return the hook points of the decoder."""
    config: Any = forward_pass.model.config
    return tower_points("decoder", config, n_layers=config.n_layers, n_rows=forward_pass.n_rows)


def bert_points(forward_pass: TextEncoderPass) -> Points:
    """Return the hook points of the encoder."""
    config: Any = forward_pass.model.config
    return tower_points(
        "encoder", config, n_layers=config.n_layers, n_rows=forward_pass.n_rows, n_segments=config.n_segments
    )


POINTS: dict[type[ModelConfig], Callable[[Any], Points]] = {
    TransformerConfig: transformer_points,
    GPTConfig: gpt_points,
    BertConfig: bert_points,
}


def register_points(config: type[ModelConfig], points: Callable[[Any], Points]) -> None:
    """Name the hook points inside the models of a family; without them, a trace has its logits only."""
    POINTS[config] = points


Actions = dict[str, tuple[Action, ...]]
"""What hooks do, by the name of the hook point."""


@dataclass(frozen=True)
class CapturedActivations:
    """What one forward pass gave."""

    hidden: Float[Tensor, "1 T E"]
    """Output of the last layer."""
    arrays: dict[str, Float[np.ndarray, "..."]]
    """The planned activations, in the order the model computed them."""
    layers: list[Float[Tensor, "T E"]]
    """Output of every layer of the output tower; empty unless the logit lens was asked for."""
    mean_attention: Float[np.ndarray, "T S"] | None
    """The attention named by `mean_of`, averaged over its heads."""


def capture(
    forward_pass: Pass, plan: Plan, *, interventions: Actions, layers: bool, mean_of: str | None = None
) -> CapturedActivations:
    """Run a forward pass once and keep what the plan lists; with `layers` also every layer's output."""
    arrays: dict[str, Any] = {}
    outputs: list[Tensor] = []
    means: list[Any] = []
    n_heads = forward_pass.model.config.n_heads

    def keep(name: str, value: Tensor) -> None:
        arrays[name] = to_array(value, plan, name, n_heads)

    def keep_layer(_: str, value: Tensor) -> None:
        outputs.append(value[0].clone())

    def keep_mean(_: str, value: Tensor) -> None:
        means.append(value[0].mean(dim=0).float().cpu().numpy())

    wanted: list[Mapping[str, Sequence[Action]]] = [interventions, dict.fromkeys(plan.shapes, (keep,))]
    if layers:
        wanted.append(dict.fromkeys(forward_pass.layer_outputs, (keep_layer,)))
    if mean_of is not None:
        wanted.append({mean_of: (keep_mean,)})
    hooks = make_hooks(*wanted)
    hidden = forward_pass.run(hooks)
    if "logits" in plan.shapes:
        forward_pass.logits(hidden, hooks=hooks)
    return CapturedActivations(hidden, arrays, outputs, means[0] if means else None)


def to_array(value: Tensor, plan: Plan, name: str, n_heads: int) -> Float[np.ndarray, "..."]:
    """Return the value of a hook point as an array without the batch axis."""
    shape = plan.points[name]
    value = value.reshape(shape)
    if plan.heads is not None and has_heads(name, shape, n_heads):
        value = value[list(plan.heads)]
    array: Any = value.float().cpu().numpy()
    return np.array(array, dtype=np.float32)  # a copy: the model may reuse the tensor's memory


def make_hooks(*several: Mapping[str, Sequence[Action]]) -> Hooks:
    """Return hooks with actions by exact name, those of the first mapping first; no patterns are matched."""
    hooks = Hooks({})
    for actions in several:
        for name, own in actions.items():
            hooks.matches[name] = (*hooks.matches.get(name, ()), *own)
    return hooks
