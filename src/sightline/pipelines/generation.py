"""Generated text: the result, text that grows while it is generated, the job of generating it, and decoding steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from sightline.data.tokenizers import Tokenizer
from sightline.decoding import (
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Search,
    SharedState,
    State,
    Step,
    StepOutput,
    StepResult,
)
from sightline.errors import InputError
from sightline.model import ActivationCache, CausalLM, Hooks, Seq2Seq
from sightline.model.hooks import NO_HOOKS, Action, NoHooks

GenerationType = TypeVar("GenerationType", bound="Generation")

REPLACEMENT = "�"
"""The replacement character U+FFFD: bytes that are not a character, or not yet."""


@dataclass(frozen=True)
class Generation:
    """A generated text with its scores."""

    text: str
    score: float
    """Log-probability under the length penalty, by which the results for one input are ranked."""
    log_probability: float
    tokens: tuple[str, ...]
    """The generated tokens in readable form."""
    finish_reason: FinishReason
    """Why generation ended: end token, length limit, or stop string."""

    @classmethod
    def from_hypothesis(
        cls: type[GenerationType], hypothesis: Hypothesis, text: str, tokenizer: Tokenizer
    ) -> GenerationType:
        """Return a search result with its text."""
        tokens = tuple(tokenizer.token_text(id_) for id_ in hypothesis.content)
        return cls(text, hypothesis.score, hypothesis.log_probability, tokens, hypothesis.finish_reason)


def trim_text(text: str, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
    """Remove the stop string, and a last character that the length limit cut in two."""
    cut = cut_at_stop(text, settings.stop)
    return cut.rstrip(REPLACEMENT) if cut == text and hypothesis.finish_reason == "length" else cut


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """Return the text before the first stop string."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=len(text))]


@dataclass(frozen=True)
class DetokenizerState:
    """How many ids of a sequence have become text."""

    text: str = ""
    prefix_offset: int = 0
    """Ids before this one are no longer decoded."""
    read_offset: int = 0
    """Ids before this one have become text."""


MAX_CACHED = 4_096
"""States kept for sequences that may be extended."""


class IncrementalDetokenizer:
    """Decodes the ids after a context; the context itself is not part of the text.

    The text only grows, whatever ids follow. Each step decodes only the newest ids, together with a few before them,
    because some tokenizers decode a token differently at the beginning of a text.
    """

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        self.context = trim_context(tokenizer, context)
        self._states: dict[tuple[int, ...], DetokenizerState] = {}

    def __call__(self, ids: Sequence[int]) -> str:
        """Return the stable text of a sequence and cache it: the next call usually adds one id."""
        ids = tuple(ids)
        state = self._states.get(ids[:-1])
        for end in range(len(ids) if state else 1, len(ids) + 1):
            state = self.extend(state or DetokenizerState(), ids[:end])
        if len(self._states) >= MAX_CACHED:
            self._states.clear()
        self._states[ids] = state or DetokenizerState()
        return self._states[ids].text

    def extend(self, state: DetokenizerState, ids: Sequence[int], *, last: bool = False) -> DetokenizerState:
        """Advance a state to these ids; with `last`, incomplete characters are decoded too."""
        context = self.context if state.prefix_offset == 0 else ()
        prefix = self.tokenizer.decode([*context, *ids[state.prefix_offset : state.read_offset]])
        whole = self.tokenizer.decode([*context, *ids[state.prefix_offset :]])
        new = whole[len(prefix) :] if whole.startswith(prefix) else self.tokenizer.decode(ids[state.read_offset :])
        if not last and (not new or new.endswith(REPLACEMENT)):
            return state
        return DetokenizerState(state.text + new, state.read_offset, len(ids))

    def decode_all(self, ids: Sequence[int]) -> str:
        """Return the text of a complete sequence."""
        self(ids)
        return self.extend(self._states[tuple(ids)], ids, last=True).text


MAX_CONTEXT = 8
"""Context ids that are decoded: those further away do not change how a token is decoded."""
MAX_CHARACTER_BYTES = 4


def trim_context(tokenizer: Tokenizer, context: Sequence[int]) -> tuple[int, ...]:
    """Return the last ids of a context, a few more where the cut would fall between the bytes of a character.

    A tokenizer that falls back to bytes decodes a run of them as a whole: half a character would spoil what follows.
    """
    sizes = range(MAX_CONTEXT, MAX_CONTEXT + MAX_CHARACTER_BYTES)
    trimmed = [tuple(context[-size:]) for size in sizes]
    return next((ids for ids in trimmed if not tokenizer.decode(ids).startswith(REPLACEMENT)), trimmed[0])


class TextStreamer:
    """Turns the tokens of one text into pieces, each as soon as it is final."""

    def __init__(self, detokenizer: IncrementalDetokenizer, settings: DecodingSettings) -> None:
        self.detokenizer, self.settings = detokenizer, settings
        self.ids: list[int] = []
        self.n_shown = 0

    def put(self, token: int) -> str:
        """Add a token and return the new piece, which may be empty."""
        self.ids.append(token)
        return self._new(stable_text(self.detokenizer(self.ids), self.settings.stop))

    def end(self, hypothesis: Hypothesis) -> str:
        """Return the last piece of a complete text."""
        return self._new(trim_text(self.detokenizer.decode_all(hypothesis.content), hypothesis, self.settings))

    def _new(self, text: str) -> str:
        piece = text[self.n_shown :]
        self.n_shown = max(self.n_shown, len(text))
        return piece


def stable_text(text: str, stops: Sequence[str]) -> str:
    """Return the part of a text that stays, whatever follows: no partial stop string, no incomplete character."""
    text = cut_at_stop(text, stops)
    partial = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return text[: len(text) - max(partial, default=0)].rstrip(REPLACEMENT)


def stream_pieces(
    results: Iterator[StepResult], streamer: TextStreamer, *, inference_mode: Callable[[], AbstractContextManager[None]]
) -> Iterator[str]:
    """Yield the pieces of one text; the model is in inference mode only during a step, not between pieces."""
    while True:
        with inference_mode():
            result = next(results)
        hypothesis = next(iter(result.finished.values()), None)
        piece = streamer.put(result.tokens[0]) if hypothesis is None else streamer.end(hypothesis)
        if piece:
            yield piece
        if hypothesis is not None:
            return


@dataclass(frozen=True)
class GenerationJob:
    """One text to generate, or several alternatives of it.

    A pipeline's own calls prefill, search and decode at once. The server, where many clients share a model, takes these
    apart: jobs that arrive at any time are prefilled together (`GenerativePipeline.prefill`) and searched together
    (`decoding.ContinuousBatch`).
    """

    ids: Sequence[int]
    """Source or prompt ids, to be prefilled."""
    search: Search
    """The search that chooses the tokens, not started."""
    settings: DecodingSettings
    make_detokenizer: Callable[[], IncrementalDetokenizer]
    """Creates the detokenizer of one result."""
    build_generation: Callable[[Hypothesis], Generation]

    @property
    def n_rows(self) -> int:
        """Maximum number of batch rows it needs."""
        return max(self.settings.beam_size, self.settings.n_best)

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens it generates."""
        return self.settings.max_new_tokens * self.settings.n_best

    def create_streamer(self) -> TextStreamer:
        """Return a streamer for one result, before its first token."""
        return TextStreamer(self.make_detokenizer(), self.settings)

    def results(self) -> list[Generation]:
        """Return the generated texts, best first (in order, when sampled)."""
        return [self.build_generation(hypothesis) for hypothesis in self.search.hypotheses[0]]


@runtime_checkable
class GenerativePipeline(Protocol):
    """A pipeline that generates text."""

    def inference_mode(self) -> AbstractContextManager[None]:
        """Switch the model to evaluation mode without gradients, and back afterwards."""
        ...

    @property
    def step(self) -> Step:
        """The model's decoding step."""
        ...

    @property
    def generation(self) -> DecodingSettings:
        """The model's own decoding settings."""
        ...

    def resolve_settings(self, n: int, overrides: Mapping[str, object], /) -> DecodingSettings:
        """Return the decoding settings for `n` texts from one input."""
        ...

    def prefill(self, ids: Sequence[Sequence[int]], /) -> SharedState:
        """Return the model's state after it has read these ids, one row each."""
        ...


Interventions = Mapping[str, Sequence[Action]]
"""Changes to activations during the forward pass, by hook point."""


def make_hooks(interventions: Interventions | None) -> NoHooks:
    """Return hooks that apply the interventions, or none."""
    return Hooks(interventions) if interventions else NO_HOOKS


def make_step(model: Seq2Seq | CausalLM, interventions: Interventions | None = None) -> Step:
    """Return the decoding step of an autoregressive model."""
    hooks = make_hooks(interventions)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        return StepOutput(*model.step(ids[:, None], cache, hooks=hooks))

    return step


def make_step_with_attention(model: Seq2Seq, interventions: Interventions | None = None) -> Step:
    """Return a slower decoding step that also returns the last layer's cross-attention."""
    point = require_cross_attention(model)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        activations = ActivationCache(point, interventions=interventions)
        logits, after = model.step(ids[:, None], cache, hooks=activations)
        return StepOutput(logits, after, activations[point].mean(dim=1)[:, 0])  # R H 1 S -> R S

    return step


def require_cross_attention(model: Seq2Seq) -> str:
    """Return the hook point of the attention that aligns target and source."""
    if model.cross_attention_point is None:
        raise InputError(f"a {type(model).__name__} has no cross-attention, which alignment and coverage are read from")
    return model.cross_attention_point
