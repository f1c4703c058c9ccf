"""What a model did with a text: plain numbers and texts, to be drawn, saved, and looked at by anyone.

A trace knows no model and no tensor. The names of its probes are those of docs/shapes.md, without the batch: the
weights of an attention are H T S, most others T E. Rows are real tokens, never padding.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from sightline import __version__
from sightline.bundle.purpose import Task
from sightline.decoding.hypothesis import Finish
from sightline.errors import InputError
from sightline.tracing.alignment import Alignment
from sightline.tracing.files import read_files, write_files
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.passage import Passage, Token
from sightline.tracing.plain import as_json, from_plain, to_plain
from sightline.tracing.readout import Readout
from sightline.tracing.soundness import (
    alignment_problems,
    knockout_problems,
    passage_problems,
    probe_problems,
    readout_problems,
    step_problems,
    tree_problems,
)
from sightline.tracing.step import Step
from sightline.tracing.tree import Tree
from sightline.tracing.word_attention import WordAttention, joined

Family: TypeAlias = Literal["transformer", "gpt", "bert"]
Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Trace:
    """One text on its way through one model.

    *Rows.* The encoder's rows are the tokens of `source`. The decoder's rows are those of `inputs`, what it read; row t
    of a Transformer chose `target.tokens[t]`. A GPT reads its prompt (`source`) and what it has written so far, so
    that its row `len(source.tokens) - 1 + t` chose `target.tokens[t]`: `steps[t].row` says so for every family.
    """

    family: Family
    task: Task | None
    """What the model was made for, where that is known."""
    model: dict[str, Scalar]
    """Its sizes and choices (d_model, n_heads, norm_order, …), as in config.json."""
    source: Passage
    """What was given: the sentence, the prompt, the text with gaps."""
    target: Passage
    """What was written, its end token included; empty for a Bert, which writes nothing."""
    inputs: Passage
    """What the decoder read, one token a row: the start and the target but its last token, or in a GPT the prompt and
    that; empty for a Bert."""
    steps: tuple[Step, ...]
    """One for each token of `target`; in a Bert one for each gap, class or classified word."""
    probes: dict[str, Float[np.ndarray, "..."]]
    """Every value that was asked for, by its name, in the order in which the model computed them."""
    heads: tuple[int, ...] | None = None
    """Which heads the arrays hold, where some were chosen; None: all of them."""
    forced: bool = False
    """Whether the target was given (teacher forcing), not written by the model."""
    finish: Finish | None = None
    """Why the target ended; None where it was given, or there is none."""
    knocked_out: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Heads that were silenced during all of this, by attention: {"decoder.1.cross_attention": (0, 3)}."""
    tree: Tree | None = None
    """What the beam looked at; None without a beam."""
    alignment: Alignment | None = None
    """Which words looked at which; None where there is no cross-attention."""
    readout: Readout | None = None
    knockouts: Knockouts | None = None
    sightline: str = __version__
    """The version that wrote it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all probes that are here."""
        return tuple(self.probes)

    @property
    def attentions(self) -> tuple[str, ...]:
        """The attention layers whose weights are here, as `decoder.1.cross_attention`."""
        return tuple(name.removesuffix(".weights") for name in self.probes if name.endswith(".weights"))

    @property
    def log_probability(self) -> float:
        """Of the whole output."""
        return sum(step.log_probability for step in self.steps)

    @property
    def size(self) -> int:
        """Bytes of the probes."""
        return sum(array.nbytes for array in self.probes.values())

    @property
    def outputs(self) -> tuple[Token | None, ...]:
        """For each row of the decoder the token it chose; None for the rows of a prompt, which chose nothing."""
        chosen = {step.row: token for step, token in zip(self.steps, self.target.tokens, strict=False)}
        return tuple(chosen.get(row) for row in range(len(self.inputs.tokens)))

    def __getitem__(self, name: str) -> Float[np.ndarray, "..."]:
        if name not in self.probes:
            near = ", ".join(difflib.get_close_matches(name, self.probes, n=3)) or "none"
            raise InputError(f"this trace holds no probe {name[:80]!r}; nearest: {near}")
        return self.probes[name]

    def attention(self, name: str) -> Float[np.ndarray, "H T S"]:
        """Return the weights of an attention, `decoder.1.cross_attention` (with or without `.weights`)."""
        return self[f"{name.removesuffix('.weights')}.weights"]

    def axes(self, name: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Return the tokens that stand at the rows and at the columns of an attention: who looks, and at what.

        In cross-attention the rows are the tokens that were chosen there (`target`), in a decoder's self-attention
        those that were read (`inputs`).
        """
        if "cross_attention" in name:
            return self.target.tokens, self.source.tokens
        tokens = self.source.tokens if name.startswith("encoder") else self.inputs.tokens
        return tokens, tokens

    def words(self) -> WordAttention:
        """Return the tokens grouped to words, with every attention between words instead of tokens."""
        words = WordAttention(self.source.words(), self.target.words(), self.inputs.words(), {})
        for name in self.attentions:
            words.attention[name] = joined(self.attention(name), *words.axes(name))
        return words

    def to_json(self, *, digits: int | None = 4, packed: bool = False, probes: tuple[str, ...] | None = None) -> str:
        """Return all of it as compact JSON, for a browser.

        An array is `{"shape": […], "data": […]}`, flat, its last axis first to change, rounded to `digits` significant
        digits; −∞ is null. With `packed` the data is base64 of little-endian numbers of the `dtype` that stands beside
        it, which is less than half as long. `probes` names those to take along; None takes all.
        """
        kept = self.probes if probes is None else {name: self[name] for name in probes}
        return as_json({**to_plain(self), "probes": to_plain(kept)}, digits=digits, packed=packed)

    def _repr_html_(self) -> str:
        from sightline.tracing import drawing

        return drawing.repr_html(self)

    def save(self, folder: Path | str, *, half: bool = False) -> None:
        """Save as a folder: trace.json, and trace.safetensors with the arrays (with `half` as 16-bit floats)."""
        write_files(Path(folder), to_plain(self), half=half)

    @classmethod
    def load(cls, folder: Path | str) -> "Trace":
        """Load a saved trace; whatever is wrong with it is a `ModelFileError` of one line."""
        return read_files(Path(folder), lambda entries: from_plain(cls, entries), cls.problems)

    def problems(self) -> Iterator[str]:
        """Yield what does not fit together, as it may in files of any origin; nothing, in a trace that was made."""
        n_source, n_inputs, n_steps = len(self.source.tokens), len(self.inputs.tokens), len(self.steps)
        n_rows = n_source if self.family == "bert" else n_inputs
        for name in ("source", "target", "inputs"):
            yield from passage_problems(getattr(self, name), name)
        yield from step_problems(self.steps, n_rows=n_rows)
        yield from probe_problems(self.probes, n_source=n_source, n_inputs=n_inputs, heads=self.heads)
        if self.family != "bert" and len(self.target.tokens) != n_steps:
            yield f"there are {n_steps:,} steps for the {len(self.target.tokens):,} tokens of the target"
        if self.family == "transformer" and n_inputs != n_steps:
            yield f"there are {n_inputs:,} rows for {n_steps:,} steps"
        if self.tree is not None:
            yield from tree_problems(self.tree, n_heads=len(self.heads) if self.heads is not None else None)
        if self.alignment is not None:
            yield from alignment_problems(self.alignment, self.source.text, self.target.text)
        if self.readout is not None:
            yield from readout_problems(self.readout, n_rows=n_rows, n_steps=n_steps)
        if self.knockouts is not None:
            yield from knockout_problems(self.knockouts, n_steps=n_steps)
