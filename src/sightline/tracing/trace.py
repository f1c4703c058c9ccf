"""A trace: what a model computed for one text, as plain numbers and texts to draw, save and inspect.

A trace knows no model and no tensor. Its activations have the names and shapes of docs/shapes.md, without the batch
axis: attention weights are H T S, most others T E. Rows are real tokens, never padding.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from sightline import __version__
from sightline.bundle.contents import TaskName
from sightline.decoding.interfaces import FinishReason
from sightline.errors import InputError
from sightline.tracing.ablation import HeadAblation
from sightline.tracing.beam_tree import Tree
from sightline.tracing.likelihood import Step
from sightline.tracing.logit_lens import LogitLens
from sightline.tracing.serialization import deserialize, read_files, serialize, to_json, write_files
from sightline.tracing.tokenized_text import Alignment, Token, TokenizedText, WordAttention, aggregate_by_word

NAME = re.compile(r"[a-z][a-z_.0-9]{0,99}")
SQUARE = ("weights", "scores", "scaled", "masked")
TOKEN_AXIS = {"query": 0, "head_outputs": 0, "key": 1, "value": 1}
"""Whether the tokens of these arrays are the queries (0) or the keys (1) of the attention."""


def text_problems(text: TokenizedText, where: str) -> Iterator[str]:
    """Yield tokens whose spans are outside their text."""
    for index, token in enumerate(text.tokens):
        if not 0 <= token.start <= token.end <= len(text.text) or token.id < 0:
            yield f"{where}.tokens[{index}] is outside its text"


def step_problems(steps: Sequence[Step], *, n_rows: int) -> Iterator[str]:
    """Yield invalid steps."""
    for index, step in enumerate(steps):
        is_valid = 0 <= step.row < n_rows and 0 <= step.chosen < len(step.candidates) and step.rank >= 0
        if not is_valid or not all(0 <= candidate.probability <= 1 for candidate in step.candidates):
            yield f"steps[{index}] has an invalid row, candidate or probability"


def tree_problems(tree: Tree, *, n_heads: int | None) -> Iterator[str]:
    """Yield invalid nodes and attention of a beam tree."""
    for index, node in enumerate(tree.nodes):
        before = None if node.parent is None else node.parent
        if (before is None) != (node.step == 0) or not (before is None or 0 <= before < index):
            yield f"tree.nodes[{index}] does not continue a node before it"
        elif before is not None and tree.nodes[before].step != node.step - 1:
            yield f"tree.nodes[{index}] does not continue a node of the step before it"
        elif node.row < 0:
            yield f"tree.nodes[{index}] has no row"
    n_rows = max((node.row for node in tree.nodes), default=-1) + 1
    for name, array in tree.attention.items():
        if not NAME.fullmatch(name) or array.shape[1] != n_rows or array.shape[0] != (n_heads or array.shape[0]):
            yield f"tree.attention {name[:80]!r} does not fit its nodes"


def alignment_problems(alignment: Alignment, source: str, target: str) -> Iterator[str]:
    """Yield links outside their texts."""
    for index, link in enumerate(alignment.links):
        inside = link.source_start <= link.source_end <= len(source) and link.target_start <= link.target_end <= len(
            target
        )
        if not inside or min(link.source_start, link.target_start) < 0:
            yield f"alignment.links[{index}] is outside its texts"


def logit_lens_problems(logit_lens: LogitLens, *, n_rows: int, n_steps: int) -> Iterator[str]:
    """Yield what does not fit in a logit lens."""
    layers, rows, _ = logit_lens.ids.shape
    if not all(0 <= row < n_rows for row in logit_lens.rows) or rows != len(logit_lens.rows):
        yield "logit_lens.rows has a row that does not exist"
    if logit_lens.probabilities.shape != logit_lens.ids.shape or logit_lens.chosen.shape != (layers, n_steps):
        yield "the arrays of logit_lens do not fit each other"
    missing = {str(id_) for id_ in np.unique(logit_lens.ids).tolist()} - set(logit_lens.texts)
    if missing:
        yield f"logit_lens.texts has no text for the id {min(missing)}"


def ablation_problems(head_ablation: HeadAblation, *, n_steps: int) -> Iterator[str]:
    """Yield what does not fit in a head ablation."""
    if head_ablation.steps.shape[0] != len(head_ablation.attentions) or head_ablation.steps.shape[2] != n_steps:
        yield "head_ablation.steps does not fit its attentions or the steps"


def activation_problems(
    activations: Mapping[str, Any], *, n_source: int, n_inputs: int, heads: Sequence[int] | None
) -> Iterator[str]:
    """Yield activations with invalid names or shapes."""
    for name, array in activations.items():
        if not NAME.fullmatch(name):
            yield f"{name[:80]!r} is not the name of a hook point"
        elif not shape_fits(name, array.shape, n_source=n_source, n_inputs=n_inputs, heads=heads):
            yield f"the shape {list(array.shape)} of {name} does not fit the tokens"


def shape_fits(name: str, shape: tuple[int, ...], *, n_source: int, n_inputs: int, heads: Sequence[int] | None) -> bool:
    """Tell whether an array has a shape that its name allows."""
    rows = n_source if name.startswith("encoder") else n_inputs
    columns = n_source if "cross_attention" in name else rows
    point = name.rpartition(".")[2]
    if point in SQUARE:
        return len(shape) == 3 and shape[1:] == (rows, columns) and (heads is None or shape[0] == len(heads))
    if point in TOKEN_AXIS:
        return len(shape) == 3 and shape[1] == (rows, columns)[TOKEN_AXIS[point]]
    if point == "logits":
        return len(shape) == 2 and shape[0] in (n_source, n_inputs, 1)
    return len(shape) == 2 and shape[0] == rows


Family: TypeAlias = Literal["transformer", "gpt", "bert"]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Trace:
    """One text through one model.

    *Rows.* The rows of the encoder are the tokens of `source`, those of the decoder the tokens of `inputs`. Row t of a
    Transformer's decoder predicts `target.tokens[t]`. A GPT's inputs are the prompt (`source`) and the target so far:
    its row `len(source.tokens) - 1 + t` predicts `target.tokens[t]`. `steps[t].row` holds the row for every family.
    """

    family: Family
    task: TaskName | None
    """The task the model was trained for, if known."""
    model: dict[str, Scalar]
    """The model settings (d_model, n_heads, pre_norm, …), as in config.json."""
    source: TokenizedText
    """The input: the source sentence, the prompt, the text with masks."""
    target: TokenizedText
    """The output, its end token included; empty for a Bert."""
    inputs: TokenizedText
    """The inputs of the decoder, one token per row: the start token (in a GPT the prompt), then the target without its
    last token; empty for a Bert."""
    steps: tuple[Step, ...]
    """One for each token of `target`; in a Bert one for each mask, class or classified word."""
    activations: dict[str, Float[np.ndarray, "..."]]
    """The captured activations by name, in the order the model computed them."""
    heads: tuple[int, ...] | None = None
    """The heads that the arrays hold; None: all of them."""
    forced: bool = False
    """Whether the target was given (teacher forcing), not generated by the model."""
    finish_reason: FinishReason | None = None
    """Why generation ended; None if the target was given, or there is none."""
    ablated_heads: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Heads that were ablated throughout, by attention: {"decoder.1.cross_attention": (0, 3)}."""
    tree: Tree | None = None
    """All hypotheses of the beam search; None without one."""
    alignment: Alignment | None = None
    """Links between source and target words; None without cross-attention."""
    logit_lens: LogitLens | None = None
    head_ablation: HeadAblation | None = None
    sightline: str = __version__
    """The version of Sightline that wrote it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all captured activations."""
        return tuple(self.activations)

    @property
    def attentions(self) -> tuple[str, ...]:
        """The attention layers whose weights were captured: `decoder.1.cross_attention`."""
        return tuple(name.removesuffix(".weights") for name in self.activations if name.endswith(".weights"))

    @property
    def log_probability(self) -> float:
        """Log-probability of the whole output."""
        return sum(step.log_probability for step in self.steps)

    @property
    def size(self) -> int:
        """Bytes of the activations."""
        return sum(array.nbytes for array in self.activations.values())

    @property
    def outputs(self) -> tuple[Token | None, ...]:
        """For each row of the decoder the token chosen there; None for the rows of a prompt."""
        chosen = {step.row: token for step, token in zip(self.steps, self.target.tokens, strict=False)}
        return tuple(chosen.get(row) for row in range(len(self.inputs.tokens)))

    def __getitem__(self, name: str) -> Float[np.ndarray, "..."]:
        if name not in self.activations:
            near = ", ".join(difflib.get_close_matches(name, self.activations, n=3)) or "none"
            raise InputError(f"this trace has no activation {name[:80]!r}; nearest: {near}")
        return self.activations[name]

    def attention(self, name: str) -> Float[np.ndarray, "H T S"]:
        """Return the weights of an attention: `decoder.1.cross_attention`, with or without `.weights`."""
        return self[f"{name.removesuffix('.weights')}.weights"]

    def axes(self, name: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Return the tokens of the rows (queries) and of the columns (keys) of an attention.

        In cross-attention the rows are the tokens predicted there (`target`), in the decoder's self-attention its
        inputs (`inputs`).
        """
        if "cross_attention" in name:
            return self.target.tokens, self.source.tokens
        tokens = self.source.tokens if name.startswith("encoder") else self.inputs.tokens
        return tokens, tokens

    def words(self) -> WordAttention:
        """Return the tokens grouped into words, and every attention between words instead of tokens."""
        words = WordAttention(self.source.words(), self.target.words(), self.inputs.words(), {})
        for name in self.attentions:
            words.attention[name] = aggregate_by_word(self.attention(name), *words.axes(name))
        return words

    def to_json(
        self, *, digits: int | None = 4, packed: bool = False, activations: tuple[str, ...] | None = None
    ) -> str:
        """Return the trace as compact JSON, for a browser.

        An array is `{"shape": […], "data": […]}`, flat in row-major order, rounded to `digits` significant digits; −∞
        is null. With `packed` the data is base64 of little-endian numbers of the given `dtype`, less than half as
        long. `activations` names those to include; None includes all.
        """
        kept = self.activations if activations is None else {name: self[name] for name in activations}
        return to_json({**serialize(self), "activations": serialize(kept)}, digits=digits, packed=packed)

    def _repr_html_(self) -> str:
        from sightline.tracing import page

        return page.repr_html(self)

    def save(self, folder: Path | str, *, half: bool = False) -> None:
        """Save as a folder: trace.json, and trace.safetensors with the arrays (with `half`, as 16-bit floats)."""
        write_files(Path(folder), serialize(self), half=half)

    @classmethod
    def load(cls, folder: Path | str) -> "Trace":
        """Load a saved trace; raise `ModelFileError`, with a one-line reason, if it is invalid."""
        return read_files(Path(folder), lambda entries: deserialize(cls, entries), cls.problems)

    def problems(self) -> Iterator[str]:
        """Yield the inconsistencies that an untrusted file may hold; a trace made by a pipeline has none."""
        n_source, n_inputs, n_steps = len(self.source.tokens), len(self.inputs.tokens), len(self.steps)
        n_rows = n_source if self.family == "bert" else n_inputs
        for name in ("source", "target", "inputs"):
            yield from text_problems(getattr(self, name), name)
        yield from step_problems(self.steps, n_rows=n_rows)
        yield from activation_problems(self.activations, n_source=n_source, n_inputs=n_inputs, heads=self.heads)
        if self.family != "bert" and len(self.target.tokens) != n_steps:
            yield f"there are {n_steps:,} steps for {len(self.target.tokens):,} target tokens"
        if self.family == "transformer" and n_inputs != n_steps:
            yield f"there are {n_inputs:,} rows for {n_steps:,} steps"
        if self.tree is not None:
            yield from tree_problems(self.tree, n_heads=len(self.heads) if self.heads is not None else None)
        if self.alignment is not None:
            yield from alignment_problems(self.alignment, self.source.text, self.target.text)
        if self.logit_lens is not None:
            yield from logit_lens_problems(self.logit_lens, n_rows=n_rows, n_steps=n_steps)
        if self.head_ablation is not None:
            yield from ablation_problems(self.head_ablation, n_steps=n_steps)
