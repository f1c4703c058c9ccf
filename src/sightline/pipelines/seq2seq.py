"""Sequence-to-sequence pipelines, the base of translation and chat: a model reads a source and generates a target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.bundle import Bundle
from sightline.data.tokenizers import Tokenizer
from sightline.decoding import (
    BeamHistory,
    Cancellation,
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Request,
)
from sightline.engine.torch_engine import require_cross_attention
from sightline.errors import InputError
from sightline.model.masks import padding_mask
from sightline.pipelines.detokenizer import IncrementalDetokenizer
from sightline.pipelines.generation import Generation, GenerationJob, GenerativePipeline
from sightline.pipelines.pipeline import BATCH_TOKENS, build_tokenized_text, tokenize_input, tokenize_output
from sightline.pipelines.scoring import pair_reader, target_token_log_probs
from sightline.pipelines.stop_strings import StopStrings
from sightline.tracing import Choice, TokenizedText, Trace, TraceOptions, run_trace
from sightline.tracing.tokenized_text import concatenate


class Seq2SeqPipeline(GenerativePipeline):
    """Generates target ids from source ids. Sources have no start or end token; targets begin with the start token.

    An encoder–decoder encodes the source; a decoder-only model reads source, start token and target as one sequence,
    so their lengths count together. Everything else is the same for both.
    """

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.target_tokenizer: Tokenizer = bundle.target_tokenizer or self.tokenizer
        """The tokenizer of generated text."""
        self.start_id, self.end_id = (
            self.require_special_id("start", self.target_tokenizer),
            self.require_special_id("end", self.target_tokenizer),
        )
        self.in_sequence = pair_reader(self.model).in_sequence
        """Whether source, start token and target are one sequence."""
        self.max_positions: int | None = self.max_length
        """Positions of the decoder; None for no limit."""
        if self.in_sequence and self.max_length is not None:
            self.max_length -= 1  # the start token follows the source

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
        settings = self.check_sources(sources, prefixes, settings)
        return self.search_rows(sources, settings, prefixes, batch_tokens=batch_tokens)

    def check_sources(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        name: str | None = None,
    ) -> DecodingSettings:
        """Refuse what the model cannot do; return the settings within its limits.

        `name` is what errors call a single source; without it, sources are numbered.
        """
        if settings.coverage_penalty:
            require_cross_attention(self.model)
        self.check_lengths(sources, name=name)
        settings = self.limit_new_tokens(settings)
        self.check_prefixes(sources, prefixes, settings, name=name)
        return settings

    def prompt_of(self, row: Sequence[int]) -> Sequence[int]:
        """Return the whole source: the search begins at the start token."""
        return row

    def build_request(
        self,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        cancellation: Cancellation | None = None,
    ) -> Request:
        """Build the request of generating the targets of sources."""
        device = self.engine.device
        lengths = torch.tensor([len(row) for row in rows], device=device)
        return Request(
            [[self.start_id]] * len(rows),
            settings,
            end_ids=[self.end_id],
            prefixes=prefixes if any(prefixes) else None,
            max_new_tokens=[self.count_room(row, settings) for row in rows] if self.in_sequence else None,
            is_complete=StopStrings(settings.stop).predicate(self.target_tokenizer.decode),
            source_mask=padding_mask(lengths, int(lengths.max()))[:, 0, 0] if settings.coverage_penalty else None,
            device=device,
            cancellation=cancellation or self.engine.cancellation,
        )

    def token_log_probs(
        self, sources: Sequence[Sequence[int]], targets: Sequence[str], *, batch_tokens: int = BATCH_TOKENS
    ) -> list[Float[Tensor, "..."]]:
        """Return, for each target, the log-probability of every token and of the end token."""
        target_ids = [[*ids, self.end_id] for ids in self.target_tokenizer.encode_batch(list(targets))]
        self.check_lengths(sources)
        self.check_targets(sources, target_ids)
        with self.inference_mode():
            return target_token_log_probs(
                self.model, sources, target_ids, start_id=self.start_id, batch_tokens=batch_tokens
            )

    def create_source_job(
        self, source: Sequence[int], settings: DecodingSettings, prefix: Sequence[int] = ()
    ) -> GenerationJob:
        """Create the job of generating the target of a source."""
        return self.create_row_job(source, self.check_sources([source], [prefix], settings), prefix)

    def limit_new_tokens(self, settings: DecodingSettings) -> DecodingSettings:
        """Limit the number of new tokens to the decoder's positions."""
        limit = min(settings.max_new_tokens, self.max_positions or settings.max_new_tokens)
        return replace(settings, max_new_tokens=limit, min_new_tokens=min(settings.min_new_tokens, limit))

    def count_room(self, source: Sequence[int], settings: DecodingSettings) -> int:
        """Return how many tokens can be generated after a source.

        The last one needs no position, since nothing is predicted from it; the start token needs one.
        """
        if not self.in_sequence or self.max_positions is None:
            return settings.max_new_tokens
        return min(settings.max_new_tokens, self.max_positions - len(source))

    def check_prefixes(
        self,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        settings: DecodingSettings,
        *,
        name: str | None = None,
    ) -> None:
        """Refuse a prefix longer than the output may be."""
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True), start=1):
            room = self.count_room(source, settings)
            which = name or f"text {number}"
            if len(prefix) > settings.max_new_tokens:
                raise InputError(
                    f"the prefix of {which} has {len(prefix):,} tokens, more than max_new_tokens "
                    f"({settings.max_new_tokens:,}): shorten it, or raise max_new_tokens"
                )
            if len(prefix) > room:
                raise InputError(
                    f"the prefix of {which} has {len(prefix):,} tokens, but after the text only {room:,} fit "
                    f"into the {self.max_positions:,} this model can take: shorten one of them"
                )

    def check_targets(self, sources: Sequence[Sequence[object]], targets: Sequence[Sequence[object]]) -> None:
        """Refuse targets, which include their end tokens, that are too long for the model."""
        if not self.in_sequence:
            self.check_lengths(targets, what="target")
            return
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1):
            n_tokens = len(source) + len(target)  # with the start token, and without the end token
            if self.max_positions is not None and n_tokens > self.max_positions:
                which = f"text {number} and its target have" if len(targets) > 1 else "the text and its target have"
                raise InputError(
                    f"{which} {n_tokens:,} tokens with the start token, more than the {self.max_positions:,} "
                    "this model can take: shorten them"
                )

    def create_detokenizer(self, row: Sequence[int]) -> IncrementalDetokenizer:  # noqa: ARG002 - a target has no context
        """Return the detokenizer of a target."""
        return IncrementalDetokenizer(self.target_tokenizer)

    def build_generation(
        self,
        hypothesis: Hypothesis,
        row: Sequence[int],  # noqa: ARG002
        settings: DecodingSettings,
    ) -> Generation:
        """Decode a target."""
        text = self.decode_hypothesis(hypothesis, settings)
        return Generation.from_hypothesis(hypothesis, text, self.target_tokenizer)

    def decode_hypothesis(self, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
        """Return the text of a search result."""
        text = self.target_tokenizer.decode(hypothesis.content)
        return StopStrings(settings.stop).trim(text, hypothesis.finish_reason)

    def trace_source(self, source: TokenizedText, target: str | None, options: Mapping[str, object]) -> Trace:
        """Trace the model on a source, with the target it generates or a given one."""
        trace_options, overrides = TraceOptions.of(options, generates=True)
        if not source.tokens:
            raise InputError("the text is empty: there is nothing to trace")
        ids = [token.id for token in source.tokens]
        settings = self.check_sources([ids], [()], self.settings(**overrides))
        start = build_tokenized_text("", [self.start_id], [(0, 0)], self.target_tokenizer)
        before = concatenate(source, start) if self.in_sequence else start
        context = [token.id for token in before.tokens]
        with self.inference_mode():
            if target is None:
                output, finish_reason, history = self.generate_target(ids, context, settings, trace_options)
            else:
                output, finish_reason, history = (
                    tokenize_input(target, self.target_tokenizer, after=[self.end_id]),
                    None,
                    None,
                )
                self.check_targets([ids], [output.tokens])
            whole = concatenate(before, output)
            inputs = TokenizedText(whole.text, whole.tokens[:-1])
            return run_trace(
                self.forward_pass(ids, [token.id for token in inputs.tokens]),
                trace_options,
                [Choice(len(context) - 1 + step, token.id) for step, token in enumerate(output.tokens)],
                source=before if self.in_sequence else source,
                target=output,
                inputs=inputs,
                task=self.task,
                forced=target is not None,
                finish_reason=finish_reason,
                name=self.target_tokenizer.token_text,
                history=history,
                context=context,
            )

    def generate_target(
        self,
        source: Sequence[int],
        context: Sequence[int],
        settings: DecodingSettings,
        trace_options: TraceOptions,
    ) -> tuple[TokenizedText, FinishReason, BeamHistory | None]:
        """Generate a target; return it with its finish reason and, for a beam, the history of the search."""
        forward_pass = self.forward_pass(source, context)
        hypothesis, history = self.search_for_trace(source, settings, forward_pass, trace_options)
        text = self.decode_hypothesis(hypothesis, settings)
        output = tokenize_output(text, hypothesis.ids, self.target_tokenizer, ended=hypothesis.finish_reason == "eos")
        return output, hypothesis.finish_reason, history
