"""Generated text: the result, text that grows while it is generated, the job of generating it, and who generates."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sightline.bundle import Bundle
from sightline.data.tokenizers import Tokenizer
from sightline.decoding import (
    BeamHistory,
    Cancellation,
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Request,
    Search,
    SharedState,
    Step,
    StepResult,
    search,
    search_for,
)
from sightline.engine import open_engine
from sightline.engine.interfaces import Engine, SearchEngine
from sightline.engine.torch_engine import TorchEngine
from sightline.model import CausalLM, Seq2Seq
from sightline.pipelines.detokenizer import IncrementalDetokenizer
from sightline.pipelines.pipeline import Pipeline, batch_by_tokens
from sightline.pipelines.stop_strings import StopStrings
from sightline.tracing import TraceOptions, build_interventions, search_with_history
from sightline.tracing.passes import Pass

GenerationType = TypeVar("GenerationType", bound="Generation")


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


class TextStreamer:
    """Turns the tokens of one text into pieces, each as soon as it is final."""

    def __init__(self, detokenizer: IncrementalDetokenizer, settings: DecodingSettings) -> None:
        self.detokenizer, self.stops = detokenizer, StopStrings(settings.stop)
        self.ids: list[int] = []
        self.n_shown = 0

    def put(self, token: int) -> str:
        """Add a token and return the new piece, which may be empty."""
        self.ids.append(token)
        return self._new(self.stops.stable(self.detokenizer(self.ids)))

    def end(self, hypothesis: Hypothesis) -> str:
        """Return the last piece of a complete text."""
        text = self.detokenizer.decode_all(hypothesis.content)
        return self._new(self.stops.trim(text, hypothesis.finish_reason))

    def _new(self, text: str) -> str:
        piece = text[self.n_shown :]
        self.n_shown = max(self.n_shown, len(text))
        return piece


def stream_pieces(results: Iterator[StepResult], streamer: TextStreamer) -> Iterator[str]:
    """Yield the pieces of one text, each as soon as a step has made it final."""
    for result in results:
        hypothesis = next(iter(result.finished.values()), None)
        piece = streamer.put(result.tokens[0]) if hypothesis is None else streamer.end(hypothesis)
        if piece:
            yield piece


@dataclass(frozen=True)
class GenerationJob:
    """One text to generate, or several alternatives of it.

    A pipeline's own calls prefill, search and decode at once. The server, where many clients share a model, takes these
    apart: jobs that arrive at any time are prefilled together (`Engine.prefill`) and searched together
    (`decoding.ContinuousBatch`).
    """

    ids: Sequence[int]
    """Source or prompt ids."""
    prompt: Sequence[int]
    """Those of them that the engine reads before the search begins."""
    search: Search
    """The search that chooses the tokens, not started."""
    settings: DecodingSettings
    make_detokenizer: Callable[[], IncrementalDetokenizer]
    """Creates the detokenizer of one result."""
    build_generation: Callable[[Hypothesis], Generation]

    @property
    def n_rows(self) -> int:
        """Maximum number of batch rows it needs."""
        return count_rows(self.settings)

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


@dataclass(frozen=True)
class JobGroup:
    """The jobs of one input, and how their results become its own."""

    jobs: Sequence[GenerationJob]
    build: Callable[[], list[Generation]]
    """Returns the results, best first, when all jobs are done."""
    uses_model: bool = False
    """Whether `build` runs the model, so that it must be called where the model runs."""


def count_rows(settings: DecodingSettings) -> int:
    """Return the batch rows that one text needs."""
    return max(settings.beam_size, settings.n_best)


class GenerativePipeline(Pipeline, ABC):
    """A pipeline that generates text, through an engine.

    A *row* is what is given for one text: the ids of a source, or of a prompt. Each kind says which of them the engine
    reads first (`prompt_of`), what a search is asked for (`build_request`), and how its result becomes text.
    """

    generates = True
    interfaces: ClassVar[tuple[type, ...]] = (Seq2Seq, CausalLM)
    model: Seq2Seq | CausalLM

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.engine: Engine = open_engine(self.model)

    def use_engine(self, name: str) -> None:
        """Generate with another engine from now on, which may hold a copy of the weights as they are now."""
        self.engine = open_engine(self.model, name)

    def resolve_settings(self, n: int, overrides: Mapping[str, object]) -> DecodingSettings:
        """Return the decoding settings for `n` texts from one input."""
        return self.settings(**{**overrides, "n_best": n})

    @abstractmethod
    def create_job(self, given: Any, settings: DecodingSettings, /, *args: Any, **options: Any) -> GenerationJob | None:
        """Create the job of generating text from one input; None if there is nothing to generate."""

    def create_job_group(self, given: Any, settings: DecodingSettings, **options: Any) -> JobGroup:
        """Create the jobs of one input: one, where texts are not split; none if there is nothing to generate."""
        job = self.create_job(given, settings, **options)
        return JobGroup([], list) if job is None else JobGroup([job], job.results)

    @abstractmethod
    def prompt_of(self, row: Sequence[int]) -> Sequence[int]:
        """Return the ids of a row that the engine reads before the search begins."""

    @abstractmethod
    def build_request(
        self,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        cancellation: Cancellation | None = None,
    ) -> Request:
        """Build the search request; `prefixes` are ids that the texts must begin with, if any."""

    @abstractmethod
    def create_detokenizer(self, row: Sequence[int]) -> IncrementalDetokenizer:
        """Return the detokenizer of a text that follows a row."""

    @abstractmethod
    def build_generation(self, hypothesis: Hypothesis, row: Sequence[int], settings: DecodingSettings) -> Generation:
        """Decode a search result."""

    def prepare_search(
        self,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        engine: Engine | None = None,
        cancellation: Cancellation | None = None,
    ) -> tuple[Step, SharedState, Request]:
        """Let the engine read the rows, and return what a search needs."""
        engine = engine or self.engine
        request = self.build_request(rows, settings, prefixes, cancellation=cancellation or engine.cancellation)
        return engine.step, engine.prefill([self.prompt_of(row) for row in rows]), request

    def search_rows(
        self,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """Return up to `n_best` results for each row, best first; none for an empty one.

        Results do not depend on the other rows of a batch. `engine.cancel()` ends the call with an error.
        """
        cancellation = self.engine.cancellation
        results: list[list[Hypothesis]] = [[] for _ in rows]
        lengths = [len(row) for row in rows]
        if isinstance(self.engine, SearchEngine):
            present = [number for number, length in enumerate(lengths) if length]
            found = self.search_whole(
                self.engine, [rows[n] for n in present], settings, [prefixes[n] for n in present if prefixes]
            )
            if found is not None:
                for number, hypotheses in zip(present, found, strict=True):
                    results[number] = hypotheses
                return results
        for chosen in batch_by_tokens(lengths, batch_tokens=batch_tokens, rows=count_rows(settings)):
            own, beginnings = [rows[number] for number in chosen], [prefixes[number] for number in chosen if prefixes]
            with self.inference_mode():  # once for all steps, not before and after each
                found = search(*self.prepare_search(own, settings, beginnings, cancellation=cancellation))
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = hypotheses
        return results

    def search_whole(
        self,
        engine: SearchEngine,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]],
    ) -> list[list[Hypothesis]] | None:
        """Let the engine search for all rows at once; None if it does not know what the request asks for."""
        if not rows:
            return []
        request = self.build_request(rows, settings, prefixes, cancellation=engine.cancellation)
        return engine.search([self.prompt_of(row) for row in rows], request)

    def search_for_trace(
        self, row: Sequence[int], settings: DecodingSettings, forward_pass: Pass, options: TraceOptions
    ) -> tuple[Hypothesis, BeamHistory | None]:
        """Return the best result for a row under the interventions of a trace and, for a beam, its history."""
        engine = TorchEngine(self.model, interventions=build_interventions(forward_pass, options))
        return search_with_history(*self.prepare_search([row], settings, engine=engine))

    def create_row_job(
        self, row: Sequence[int], settings: DecodingSettings, prefix: Sequence[int] = ()
    ) -> GenerationJob:
        """Create the job of generating the text after a row."""
        return GenerationJob(
            ids=row,
            prompt=self.prompt_of(row),
            search=search_for(self.build_request([row], settings, [prefix])),
            settings=settings,
            make_detokenizer=lambda: self.create_detokenizer(row),
            build_generation=lambda hypothesis: self.build_generation(hypothesis, row, settings),
        )
