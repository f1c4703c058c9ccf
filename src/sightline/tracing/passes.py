"""One text's way through a model of each family, run as often and with as many copies as someone wants to look.

A pass knows ids, no text. Copies are the same text several times in one batch, so that a probe may change each in
another way. What has been written is read as a whole: row t sees what step t saw, and the tests hold it to that.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sightline.model import GPT, Bert, Model, Transformer
from sightline.model.bert import Head
from sightline.model.packing import Layout
from sightline.model.probe import IDLE, Idle
from sightline.model.transformer import Memory
from sightline.tracing.points import Points, tower_points


class Pass(ABC):
    """What is asked of every family."""

    model: Model
    tower: str
    """The one whose rows decide: the decoder, in a Bert the encoder."""
    n_rows: int
    """Its tokens."""
    n_layers: int

    @abstractmethod
    def points(self) -> Points:
        """Return every point of the pass and the shape of its value, in the order in which they are computed."""

    @abstractmethod
    def run(self, probe: Idle = IDLE, *, copies: int = 1, changed: str = "encoder") -> Float[Tensor, "copies T E"]:
        """Return the last layer's output; `changed` is the first tower in which the copies differ."""

    @abstractmethod
    def logits(self, hidden: Float[Tensor, "copies n E"], *, probe: Idle = IDLE) -> Float[Tensor, "copies m V"]:
        """Return the scores of all tokens, or classes, at some rows: at each, or one for the first of all."""

    @property
    def decides(self) -> bool:
        """Whether the model says something: a Bert without a head does not."""
        return True

    @property
    def readable(self) -> tuple[int, ...]:
        """The rows at which something can be read out."""
        return tuple(range(self.n_rows))

    @property
    def final_norm(self) -> nn.Module | None:
        """The norm after the last layer, in models that have one."""
        stack: nn.Module = getattr(self.model, self.tower)
        found: nn.Module | None = getattr(stack, "final_norm", None)
        return found

    @property
    def layer_outputs(self) -> list[str]:
        """The points at which the layers of the deciding tower hand on what they made."""
        last = "residual" if self.model.config.norm_order == "pre" else "norm"
        return [f"{self.tower}.{layer}.feed_forward.{last}" for layer in range(self.n_layers)]

    def padded(self, rows: Sequence[Sequence[int]]) -> Int[Tensor, "B T"]:
        """Return rows of ids as a batch; nothing looks ahead at what fills the shorter ones."""
        longest = max(map(len, rows))
        return torch.cat([self.ids([*row, *[0] * (longest - len(row))], 1) for row in rows])

    def ids(self, row: Sequence[int], copies: int) -> Int[Tensor, "copies T"]:
        """Return ids as a batch of copies, where the model is."""
        device = next(self.model.parameters()).device
        return torch.tensor([list(row)], dtype=torch.long, device=device).expand(copies, -1)


class DecoderPass(Pass):
    """What is asked of the families that write."""

    tower = "decoder"

    @abstractmethod
    def read(self, rows: Sequence[Sequence[int]], probe: Idle) -> None:
        """Read other inputs of the decoder, right-padded side by side, for the sake of a probe."""


class TransformerPass(DecoderPass):
    """A source is read, and beneath it what has been written."""

    def __init__(self, model: Transformer, source: Sequence[int], inputs: Sequence[int]) -> None:
        self.model: Transformer = model
        self.source, self.inputs = list(source), list(inputs)
        self.n_rows, self.n_layers = len(self.inputs), model.config.n_decoder_layers

    def points(self) -> Points:
        """Return the points of both towers."""
        config, n_source = self.model.config, len(self.source)
        encoder = tower_points("encoder", config, n_layers=config.n_encoder_layers, n_rows=n_source)
        decoder = tower_points("decoder", config, n_layers=self.n_layers, n_rows=self.n_rows, n_memory=n_source)
        vocabulary = config.target_vocab_size or config.vocab_size
        return {**encoder, **decoder, "logits": (self.n_rows, vocabulary)}

    def run(self, probe: Idle = IDLE, *, copies: int = 1, changed: str = "encoder") -> Float[Tensor, "copies T E"]:
        """Read the source, once where no copy of it differs, and decode."""
        if changed == "encoder":
            memory = self.model.encode(self.ids(self.source, copies), probe=probe)
        else:
            memory = copied(self.model.encode(self.ids(self.source, 1), probe=probe), copies)
        return self.model.decode(self.ids(self.inputs, copies), memory, probe=probe)

    def read(self, rows: Sequence[Sequence[int]], probe: Idle) -> None:
        """Decode other inputs for the same source."""
        memory = copied(self.model.encode(self.ids(self.source, 1), probe=probe), len(rows))
        self.model.decode(self.padded(rows), memory, probe=probe)

    def logits(self, hidden: Float[Tensor, "copies n E"], *, probe: Idle = IDLE) -> Float[Tensor, "copies n V"]:
        """Return the scores of the tokens that follow each row."""
        return self.model.logits(hidden, probe=probe)


class GPTPass(DecoderPass):
    """A prompt and what has been written after it."""

    def __init__(self, model: GPT, inputs: Sequence[int]) -> None:
        self.model: GPT = model
        self.inputs = list(inputs)
        self.n_rows, self.n_layers = len(self.inputs), model.config.n_layers

    def points(self) -> Points:
        """Return the points of the decoder."""
        config = self.model.config
        decoder = tower_points("decoder", config, n_layers=self.n_layers, n_rows=self.n_rows)
        return {**decoder, "logits": (self.n_rows, config.vocab_size)}

    def run(self, probe: Idle = IDLE, *, copies: int = 1, changed: str = "encoder") -> Float[Tensor, "copies T E"]:  # noqa: ARG002 - there is one tower
        """Decode all of it at once."""
        return self.model.decode(self.ids(self.inputs, copies), probe=probe)

    def read(self, rows: Sequence[Sequence[int]], probe: Idle) -> None:
        """Decode other inputs."""
        self.model.decode(self.padded(rows), probe=probe)

    def logits(self, hidden: Float[Tensor, "copies n E"], *, probe: Idle = IDLE) -> Float[Tensor, "copies n V"]:
        """Return the scores of the tokens that follow each row."""
        return self.model.logits(hidden, probe=probe)


class BertPass(Pass):
    """A text, or a pair, that is looked at from both sides, and the head that is asked about it."""

    tower = "encoder"

    def __init__(
        self, model: Bert, ids: Sequence[int], *, head: Head | None, segments: Sequence[int] | None = None
    ) -> None:
        self.model: Bert = model
        self.source, self.segments, self.head = list(ids), segments, head
        self.n_rows, self.n_layers = len(self.source), model.config.n_layers

    @property
    def decides(self) -> bool:
        """Whether there is a head."""
        return self.head is not None

    @property
    def readable(self) -> tuple[int, ...]:
        """All rows, but where the class of the whole text stands at [CLS]."""
        return (0,) if self.head == "sequence_classes" else tuple(range(self.n_rows))

    def points(self) -> Points:
        """Return the points of the encoder, and of the head if there is one."""
        config = self.model.config
        points = tower_points(
            "encoder", config, n_layers=self.n_layers, n_rows=self.n_rows, n_segments=config.n_segments
        )
        if self.head is None:
            return points
        width = config.vocab_size if self.head == "masked_words" else config.n_classes
        return {**points, "logits": (len(self.readable), width)}

    def run(self, probe: Idle = IDLE, *, copies: int = 1, changed: str = "encoder") -> Float[Tensor, "copies T E"]:  # noqa: ARG002 - there is one tower
        """Look at the text."""
        segments = None if self.segments is None else self.ids(self.segments, copies)
        hidden: Tensor = self.model(self.ids(self.source, copies), segments=segments, probe=probe)
        return hidden

    def logits(self, hidden: Float[Tensor, "copies n E"], *, probe: Idle = IDLE) -> Float[Tensor, "copies m V"]:
        """Return the scores of words, or of classes, at each row or for the whole text."""
        if self.head == "sequence_classes":
            return self.model.sequence_classes(self.model.pool(hidden), probe=probe)[:, None]
        if self.head == "token_classes":
            return self.model.token_classes(hidden, probe=probe)
        return self.model.masked_words(hidden, probe=probe)


def copied(memory: Memory, copies: int) -> Memory:
    """Return the encoder's output of one sentence as that of several equal ones."""
    hidden = memory.hidden.expand(copies, -1, -1)
    return Memory(hidden, Layout.of(hidden[:, :, 0].long()), None)
