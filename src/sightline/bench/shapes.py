"""The models and batches that are timed: well-known sizes, drawn at random, the same for every contender."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from sightline.data.datasets.batch import MaskedBatch, PairBatch, TextBatch, token_mask
from sightline.errors import InputError
from sightline.model.config import BertConfig, GPTConfig, TransformerConfig
from sightline.model.interfaces import CausalLM, Seq2Seq, TextEncoder
from sightline.model.registry import build, interface_of, preset

PAD = 0
"""The id of padding. The end token is the one after it."""
END = 1
MAX_POSITIONS = 4_352
"""Positions of peers' tables of sinusoids: more than `--length` may ask for."""
MIXED_LENGTHS = (20, 30)
"""Tokens of a target, if no length is asked for; a sixth of such a batch is padding."""


@dataclass(frozen=True)
class Size:
    """A well-known model, and the batch it is usually trained with."""

    preset: str
    vocab_size: int
    batch: int
    length: int | None = None
    """Tokens of every text; None: mixed."""
    settings: tuple[tuple[str, Any], ...] = ()
    clip: bool = False
    """Whether a training step clips gradients, as that model's usual loop does."""


SIZES = {
    "tiny": Size("transformer-tiny", 10_000, batch=163, settings=(("dropout", 0.1),)),
    "base": Size("paper-base", 32_000, batch=163, settings=(("dropout", 0.1),)),
    "bert-mini": Size("bert-mini", 30_522, batch=32, length=64, settings=(("heads", ["mlm"]),)),
    "bert-base": Size("bert-base", 30_522, batch=32, length=64, settings=(("heads", ["mlm"]),)),
    # nanoGPT's README, "i only have a macbook": 4 layers, 4 heads, 128 wide, blocks of 64 characters
    "nanogpt": Size(
        "gpt2-small", 65, batch=12, length=64, clip=True,
        settings=(
            ("n_layers", 4), ("n_heads", 4), ("d_model", 128), ("d_ff", 512), ("max_length", 64), ("dropout", 0.0),
            ("bias", False), ("activation", "gelu"),
        ),
    ),
    "gpt2": Size("gpt2-small", 50_257, batch=4, length=512, settings=(("dropout", 0.0),)),
}  # fmt: skip
"""Names as on the command line."""


@dataclass(frozen=True)
class Shape:
    """One workload: a size, and what differs from it. None: what is usual for the size."""

    size: str = "tiny"
    batch: int | None = None
    length: int | None = None
    vocabulary: int | None = None
    layers: int | None = None
    beam: int = 1

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Shape":
        """Return the shape that `asdict` wrote."""
        return cls(**values)

    @property
    def known(self) -> Size:
        """The size."""
        if self.size not in SIZES:
            raise InputError(f"no size {self.size}: there are {', '.join(SIZES)}")
        return SIZES[self.size]

    def config(self, **settings: Any) -> TransformerConfig | BertConfig | GPTConfig:
        """Return the config of the model."""
        own: dict[str, Any] = {**dict(self.known.settings), **settings}
        name = self.known.preset
        config = preset(name, vocab_size=self.vocabulary or self.known.vocab_size, **own)
        if self.layers is not None:
            counts = (one.name for one in fields(config) if one.name.endswith("_layers"))
            changed: dict[str, Any] = dict.fromkeys(counts, self.layers)
            config = replace(config, **changed)
        if self.length is not None and config.max_length is not None and self.length >= config.max_length:
            config = replace(config, max_length=2 * self.length)
        assert isinstance(config, TransformerConfig | BertConfig | GPTConfig)  # noqa: S101 - for the type checker
        return config

    @property
    def interface(self) -> type:
        """The Protocol of the model: what it reads and predicts."""
        return interface_of(self.config())

    def as_arguments(self) -> dict[str, Any]:
        """Return what a contender's process is told."""
        return {"shape": asdict(self)}

    def arguments_with(self, name: str, value: int) -> dict[str, Any]:
        """Return the same with one number of the shape changed."""
        changed: dict[str, Any] = {name: value}
        return replace(self, **changed).as_arguments()

    def __str__(self) -> str:
        changed = [f"{name} {value}" for name, value in asdict(self).items() if value and name not in ("size", "beam")]
        return ", ".join([self.size, *changed, *([f"beam {self.beam}"] if self.beam > 1 else [])])


def random_model(shape: Shape) -> Any:
    """Return our model with weights that are the same in every process, in evaluation mode.

    They are drawn wide, so that one word is not repeated forever and engines can be told apart by what they generate;
    in post-norm models feed-forward networks above all, since attention looks nearly the same at every step. The vector
    of the end token is zero, so that no text ends by itself: everybody generates equally many tokens.
    """
    torch.manual_seed(1)
    model = build(shape.config())
    pre_norm = shape.config().pre_norm
    embeddings = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if id(weight) in embeddings:
                weight[END] = 0
            elif weight.ndim == 2:
                scale = 2.0 if "attention" not in name else 1.5 if pre_norm else 0.5
                weight.normal_(std=scale * weight.size(1) ** -0.5, generator=generator)
            else:
                weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
    return model.eval()


def training_batch(shape: Shape) -> PairBatch | MaskedBatch | TextBatch:
    """Return the batch that a model of this shape trains on."""
    config = shape.config()
    count, length = shape.batch or shape.known.batch, shape.length or shape.known.length
    return BATCHES[shape.interface](config.vocab_size, count, length)


def pair_batch(vocab_size: int, n_sentences: int, length: int | None = None, *, shortest: int = 20) -> PairBatch:
    """Draw sentence pairs of one length; without one of 20 to 30 tokens, a sixth of the batch padding."""
    generator = torch.Generator().manual_seed(1)
    low, high = (shortest, MIXED_LENGTHS[1]) if length is None else (length, length)

    def draw(start: int, end: int, *shape: int) -> Int[Tensor, "..."]:
        return torch.randint(start, end, shape, generator=generator)

    lengths = draw(low, high + 1, n_sentences)
    lengths[0] = high
    source_lengths = (lengths + draw(-3, 4, n_sentences)).clamp(1, high) if length is None else lengths.clone()
    text = draw(END + 1, vocab_size, n_sentences, high + 1)
    source = draw(END + 1, vocab_size, n_sentences, int(source_lengths.max()))
    inputs, targets = text[:, :-1], text[:, 1:]
    real, real_source = token_mask(inputs, lengths), token_mask(source, source_lengths)
    return PairBatch(
        source.masked_fill(~real_source, PAD),
        source_lengths,
        inputs.masked_fill(~real, PAD),
        targets.masked_fill(~real, PAD),
        lengths,
    )


def masked_batch(vocab_size: int, n_texts: int, length: int | None = None) -> MaskedBatch:
    """Draw texts of one length, 15 % of their tokens masked (Devlin et al. 2019)."""
    length = length or MIXED_LENGTHS[1]
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(END + 2, vocab_size, (n_texts, length), generator=generator)
    selected = torch.rand(n_texts, length, generator=generator) < 0.15
    return MaskedBatch(
        text.masked_fill(selected, END + 1),
        torch.full((n_texts,), length),
        torch.zeros_like(text),
        selected,
        text[selected],
    )


def text_batch(vocab_size: int, n_texts: int, length: int | None = None) -> TextBatch:
    """Draw blocks of running text."""
    length = length or MIXED_LENGTHS[1]
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(END + 1, vocab_size, (n_texts, length + 1), generator=generator)
    return TextBatch(text[:, :-1].contiguous(), text[:, 1:].contiguous(), torch.full((n_texts,), length))


BATCHES: dict[type, Callable[[int, int, int | None], PairBatch | MaskedBatch | TextBatch]] = {
    Seq2Seq: pair_batch,
    TextEncoder: masked_batch,
    CausalLM: text_batch,
}
"""What models of an interface train on: drawn from vocabulary size, number of texts, and their length."""


def prompts(shape: Shape, *, length: int) -> list[list[int]]:
    """Draw one prompt or source for each row of the batch, all of one length."""
    generator = torch.Generator().manual_seed(2)
    size = (shape.batch or 1, length)
    ids: list[list[int]] = torch.randint(END + 1, shape.config().vocab_size, size, generator=generator).tolist()
    return ids


def padding_share(batch: PairBatch | MaskedBatch | TextBatch) -> float:
    """Return the share of padding in what the model predicts."""
    return 1 - int(batch.lengths.sum()) / batch.inputs.numel()
