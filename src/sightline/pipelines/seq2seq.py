"""Sequence-to-sequence pipelines, the base of translation and chat: an encoder reads a source, a decoder generates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.bundle import Bundle
from sightline.data.datasets.batch import pad
from sightline.data.tokenizers import Tokenizer
from sightline.decoding import (
    BeamHistory,
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Request,
    State,
    Step,
    search,
    search_for,
)
from sightline.decoding.continuous_batch import SharedState
from sightline.errors import InputError
from sightline.model import Seq2Seq
from sightline.model.masks import padding_mask
from sightline.pipelines.generation import (
    Generation,
    GenerationJob,
    IncrementalDetokenizer,
    Interventions,
    make_hooks,
    make_step,
    make_step_with_attention,
    trim_text,
)
from sightline.pipelines.pipeline import (
    BATCH_TOKENS,
    Pipeline,
    batch_by_tokens,
    build_tokenized_text,
    tokenize_input,
    tokenize_output,
)
from sightline.pipelines.scoring import target_token_log_probs
from sightline.tracing import (
    Choice,
    Seq2SeqPass,
    TokenizedText,
    Trace,
    TraceOptions,
    build_interventions,
    run_trace,
    search_with_history,
)


class Seq2SeqPipeline(Pipeline):
    """Generates target ids from source ids. Sources have no start or end token; targets begin with the start token."""

    interface = Seq2Seq
    generates = True
    model: Seq2Seq

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.target_tokenizer: Tokenizer = bundle.target_tokenizer or self.tokenizer
        """The tokenizer of generated text."""
        self.start_id, self.end_id = (
            self.require_special_id("start", self.target_tokenizer),
            self.require_special_id("end", self.target_tokenizer),
        )

    def decode_sources(
        self,
        sources: Sequence[Sequence[int]],
        *,
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]],
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """Return up to `n_best` results for each source, best first; none for an empty one.

        Results do not depend on the other sources of a batch.
        """
        self.check_lengths(sources)
        settings = self.limit_new_tokens(settings)
        self.check_prefixes(prefixes, settings)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        n_rows = max(settings.beam_size, settings.n_best)
        for chosen in batch_by_tokens([len(source) for source in sources], batch_tokens=batch_tokens, rows=n_rows):
            with self.inference_mode():
                found = self.decode_batch(
                    [sources[number] for number in chosen], settings, [prefixes[number] for number in chosen]
                )
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = hypotheses
        return results

    def decode_batch(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings, prefixes: Sequence[Sequence[int]]
    ) -> list[list[Hypothesis]]:
        """Return the results of one batch of sources."""
        return search(*self.prepare_search(sources, settings, prefixes))

    def prepare_search(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        interventions: Interventions | None = None,
    ) -> tuple[Step, State, Request]:
        """Encode the sources and return what a search needs."""
        make = make_step_with_attention if settings.coverage_penalty else make_step
        state = self.prefill(sources, interventions=interventions)
        return make(self.model, interventions), state, self.build_request(sources, settings, prefixes)

    def prefill(self, sources: Sequence[Sequence[int]], *, interventions: Interventions | None = None) -> SharedState:
        """Encode the sources and return the decoder's initial state."""
        ids, lengths = pad(sources, device=self.embedding_weight.device)
        encoder_output = self.model.encode(ids, lengths=lengths, packed=True, hooks=make_hooks(interventions))
        state: SharedState = self.model.start(encoder_output)
        return state

    def build_request(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings, prefixes: Sequence[Sequence[int]] = ()
    ) -> Request:
        """Build the search request."""
        lengths = torch.tensor([len(source) for source in sources], device=self.embedding_weight.device)
        return Request(
            [[self.start_id]] * len(sources),
            settings,
            end_ids=[self.end_id],
            prefixes=prefixes if any(prefixes) else None,
            to_text=self.target_tokenizer.decode,
            source_mask=padding_mask(lengths, int(lengths.max()))[:, 0, 0],
            device=lengths.device,
        )

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[str], *, batch_tokens: int = BATCH_TOKENS
    ) -> list[Float[Tensor, "..."]]:
        """Return, for each target, the log-probability of every token and of the end token."""
        target_ids = [[*ids, self.end_id] for ids in self.target_tokenizer.encode_batch(list(targets))]
        self.check_lengths(sources)
        self.check_lengths(target_ids, what="target")
        with self.inference_mode():
            return target_token_log_probs(
                self.model, sources, target_ids, start_id=self.start_id, batch_tokens=batch_tokens
            )

    @property
    def step(self) -> Step:
        """The model's decoding step, with attention if the model's own settings have a coverage penalty."""
        return (make_step_with_attention if self.generation.coverage_penalty else make_step)(self.model)

    def create_job_for_ids(
        self, source: Sequence[int], settings: DecodingSettings, prefix: Sequence[int] = ()
    ) -> GenerationJob:
        """Create the job of generating the target of a source."""
        self.check_lengths([source])
        settings = self.limit_new_tokens(settings)
        self.check_prefixes([prefix], settings)
        return GenerationJob(
            ids=source,
            search=search_for(self.build_request([source], settings, [prefix])),
            settings=settings,
            make_detokenizer=lambda: IncrementalDetokenizer(self.target_tokenizer),
            build_generation=lambda hypothesis: Generation.from_hypothesis(
                hypothesis, self.decode_hypothesis(hypothesis, settings), self.target_tokenizer
            ),
        )

    def resolve_settings(self, n: int, overrides: Mapping[str, object]) -> DecodingSettings:
        """Return the decoding settings for `n` texts from one input."""
        return self.settings(**{**overrides, "n_best": n})

    def limit_new_tokens(self, settings: DecodingSettings) -> DecodingSettings:
        """Limit the number of new tokens to the decoder's positions."""
        limit = min(settings.max_new_tokens, self.max_length or settings.max_new_tokens)
        return replace(settings, max_new_tokens=limit, min_new_tokens=min(settings.min_new_tokens, limit))

    def check_prefixes(self, prefixes: Sequence[Sequence[int]], settings: DecodingSettings) -> None:
        """Refuse a prefix longer than the output may be."""
        for number, prefix in enumerate(prefixes, start=1):
            if len(prefix) > settings.max_new_tokens:
                raise InputError(
                    f"the prefix of text {number} has {len(prefix):,} tokens, more than max_new_tokens "
                    f"({settings.max_new_tokens:,}): shorten it, or raise max_new_tokens"
                )

    def decode_hypothesis(self, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
        """Return the text of a search result."""
        return trim_text(self.target_tokenizer.decode(hypothesis.content), hypothesis, settings)

    def trace_source(self, source: TokenizedText, target: str | None, options: Mapping[str, object]) -> Trace:
        """Trace the model on a source, with the target it generates or a given one."""
        trace_options, overrides = TraceOptions.of(options, generates=True)
        settings = self.limit_new_tokens(self.settings(**overrides))
        self.check_lengths([source.tokens])
        if not source.tokens:
            raise InputError("the text is empty: there is nothing to trace")
        with self.inference_mode():
            if target is None:
                output, finish_reason, history = self.generate_target(source, settings, trace_options)
            else:
                output, finish_reason, history = (
                    tokenize_input(target, self.target_tokenizer, after=[self.end_id]),
                    None,
                    None,
                )
                self.check_lengths([output.tokens], what="target")
            start = build_tokenized_text(output.text, [self.start_id], [(0, 0)], self.target_tokenizer)
            inputs = TokenizedText(output.text, (*start.tokens, *output.tokens[:-1]))
            return run_trace(
                self.forward_pass(source, [token.id for token in inputs.tokens]),
                trace_options,
                [Choice(row, token.id) for row, token in enumerate(output.tokens)],
                source=source,
                target=output,
                inputs=inputs,
                task=self.task,
                forced=target is not None,
                finish_reason=finish_reason,
                name=self.target_tokenizer.token_text,
                history=history,
                context=[self.start_id],
            )

    def generate_target(
        self, source: TokenizedText, settings: DecodingSettings, trace_options: TraceOptions
    ) -> tuple[TokenizedText, FinishReason, BeamHistory | None]:
        """Generate a target; return it with its finish reason and, for a beam, the history of the search."""
        interventions = build_interventions(self.forward_pass(source, [self.start_id]), trace_options)
        ids = [token.id for token in source.tokens]
        hypothesis, history = search_with_history(*self.prepare_search([ids], settings, interventions=interventions))
        text = self.decode_hypothesis(hypothesis, settings)
        output = tokenize_output(text, hypothesis.ids, self.target_tokenizer, ended=hypothesis.finish_reason == "eos")
        return output, hypothesis.finish_reason, history

    def forward_pass(self, source: TokenizedText, inputs: Sequence[int]) -> Seq2SeqPass:
        """Return the forward pass to trace."""
        return Seq2SeqPass(self.model, [token.id for token in source.tokens], inputs)
