"""Text generation: continue a prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, overload

from jaxtyping import Float
from torch import Tensor

from sightline.decoding import (
    BeamHistory,
    Cancellation,
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Request,
)
from sightline.decoding import stream as stream_ids
from sightline.errors import InputError, SettingsError
from sightline.model import CausalLM
from sightline.pipelines.detokenizer import IncrementalDetokenizer
from sightline.pipelines.generation import (
    Generation,
    GenerationJob,
    GenerativePipeline,
    TextStreamer,
    stream_pieces,
)
from sightline.pipelines.pipeline import BATCH_TOKENS, build_tokenized_text, tokenize_input, tokenize_output
from sightline.pipelines.scoring import text_token_log_probs
from sightline.pipelines.stop_strings import StopStrings
from sightline.tracing import Choice, TokenizedText, Trace, TraceOptions, run_trace
from sightline.tracing.tokenized_text import EMPTY_TEXT, concatenate


class Generator(GenerativePipeline):
    """Continues a prompt."""

    interfaces = (CausalLM,)
    model: CausalLM

    @overload
    def generate(self, prompt: str = ..., *, n: Literal[1] = 1, **overrides: object) -> str: ...
    @overload
    def generate(self, prompt: str = ..., *, n: int, **overrides: object) -> str | list[str]: ...
    def generate(self, prompt: str = "", *, n: int = 1, **overrides: object) -> str | list[str]:
        """Return a continuation of the prompt, or a list of `n`; `overrides` are decoding settings."""
        settings = self.resolve_settings(n, overrides)
        [results] = self.continuations([prompt], settings=settings)
        return results[0].text if n == 1 else [result.text for result in results]

    def stream(self, prompt: str = "", **overrides: object) -> Iterator[str]:
        """Yield what `generate` returns, piece by piece: never half a character or part of a stop string.

        Beam search knows its text only at the end, so it yields one piece.
        """
        settings = self.resolve_settings(1, overrides)
        if settings.beam_size > 1:
            text = self.continuations([prompt], settings=settings)[0][0].text
            return iter([text] if text else [])
        [context] = self.encode_prompts([prompt])
        results = stream_ids(*self.prepare_search([context], settings))
        return stream_pieces(results, TextStreamer(self.create_detokenizer(context), settings))

    def continuations(
        self,
        prompts: Sequence[str],
        *,
        settings: DecodingSettings | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[Generation]]:
        """Return the continuations of each prompt with their scores, best first (in order, when sampled)."""
        settings = settings or self.generation
        contexts = self.encode_prompts(prompts)
        found = self.search_rows(contexts, settings, batch_tokens=batch_tokens)
        return [
            [self.build_generation(one, context, settings) for one in hypotheses]
            for context, hypotheses in zip(contexts, found, strict=True)
        ]

    def log_likelihoods(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> list[float]:
        """Return the log-probability of each text as a document: from its beginning to its end.

        A text longer than the model's limit is scored in blocks, each without the context of those before it.
        """
        ends = [] if self.tokenizer.end_id is None else [self.tokenizer.end_id]
        documents = [[*ends, *ids, *ends] for ids in self.encode_texts(texts)]
        return [float(likely.double().sum()) for likely in self.token_log_probs(documents, batch_tokens=batch_tokens)]

    def token_log_probs(
        self, documents: Sequence[Sequence[int]], *, context: int = 0, batch_tokens: int = BATCH_TOKENS
    ) -> list[Float[Tensor, "..."]]:
        """Return, for each list of ids, the log-probability of every id but the first, given those before it.

        What exceeds the model's limit is scored in blocks; each rereads `context` ids of the one before it.
        """
        with self.inference_mode():
            return text_token_log_probs(self.model, documents, context=context, batch_tokens=batch_tokens)

    def trace(self, text: str = "", *, target: str | None = None, **options: object) -> Trace:
        """Trace the model while it continues a text: every value, every step, every choice.

        With a `target`, trace the model forced to generate it; an empty one traces only the text itself.
        `options` are those of `tracing.TraceOptions` and decoding settings (`beam_size=4`).
        """
        trace_options, overrides = TraceOptions.of(options, generates=True)
        settings = self.settings(**overrides)
        ids, spans = self.tokenizer.encode_with_offsets(text)
        [context] = self.add_bos([ids])
        before = [(0, 0)] * (len(context) - len(spans))
        source = build_tokenized_text(text, context, [*before, *spans], self.tokenizer)
        with self.inference_mode():
            if target is None:
                output, finish_reason, history = self.generate_target(context, settings, trace_options)
            else:
                output, finish_reason, history = (
                    (tokenize_input(target, self.tokenizer) if target else EMPTY_TEXT),
                    None,
                    None,
                )
            whole = concatenate(source, output)
            inputs = TokenizedText(whole.text, whole.tokens[:-1] if output.tokens else whole.tokens)
            self.check_lengths([inputs.tokens], what="prompt and target")
            return run_trace(
                self.forward_pass((), [token.id for token in inputs.tokens]),
                trace_options,
                [Choice(len(context) - 1 + step, token.id) for step, token in enumerate(output.tokens)],
                source=source,
                target=output,
                inputs=inputs,
                task=self.task,
                forced=target is not None,
                finish_reason=finish_reason,
                name=self.tokenizer.token_text,
                history=history,
                context=context,
            )

    def generate_target(
        self, context: Sequence[int], settings: DecodingSettings, trace_options: TraceOptions
    ) -> tuple[TokenizedText, FinishReason, BeamHistory | None]:
        """Generate a continuation; return it with its finish reason and, for a beam, the history of the search."""
        forward_pass = self.forward_pass((), context)
        hypothesis, history = self.search_for_trace(context, settings, forward_pass, trace_options)
        text = self.build_generation(hypothesis, context, settings).text
        ended = hypothesis.finish_reason == "eos"
        output = tokenize_output(text, hypothesis.ids, self.tokenizer, ended=ended, context=context)
        return output, hypothesis.finish_reason, history

    def resolve_settings(self, n: int, overrides: Mapping[str, object]) -> DecodingSettings:
        """Return the decoding settings for `n` texts from one prompt; different ones need sampling or a beam."""
        settings = self.settings(**overrides)
        if n > 1 and not settings.do_sample and settings.beam_size < n:
            raise SettingsError(f"{n} different texts need sampling or a beam: give do_sample=True or beam_size={n}")
        return replace(settings, n_best=n)

    @property
    def bos_ids(self) -> list[int]:
        """Ids before every prompt: the end token of the previous document, as before every document in training.

        Without it, the model takes the prompt for the middle of a text. Models trained elsewhere get none.
        """
        end_id = self.tokenizer.end_id
        return [] if self.task_config is None or end_id is None else [end_id]

    def encode_prompts(self, prompts: Sequence[str]) -> list[list[int]]:
        """Tokenize prompts, as `add_bos` begins them."""
        return self.add_bos(self.encode_texts(prompts))

    def add_bos(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return prompts after their `bos_ids`; an empty one becomes the end token (or the start token)."""
        rows = [[*self.bos_ids, *ids] for ids in prompts]
        self.check_lengths(rows, what="prompt")
        if all(rows):
            return rows
        before = self.tokenizer.start_id if self.tokenizer.end_id is None else self.tokenizer.end_id
        if before is None:
            raise InputError("this model's tokenizer has no end token to start a text with: give a prompt")
        return [row or [before] for row in rows]

    def prompt_of(self, row: Sequence[int]) -> Sequence[int]:
        """Return all of a prompt but its last id, which the search feeds first."""
        return row[:-1]

    def build_request(
        self,
        rows: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        cancellation: Cancellation | None = None,
    ) -> Request:
        """Build the request of continuing prompts."""
        end_id = self.tokenizer.end_id
        return Request(
            rows,
            settings,
            end_ids=[] if end_id is None else [end_id],
            prefixes=prefixes if any(prefixes) else None,
            # The last token needs no position: nothing is predicted from it.
            max_new_tokens=[self.max_length + 1 - len(row) for row in rows] if self.max_length else None,
            is_complete=StopStrings(settings.stop).predicate(IncrementalDetokenizer(self.tokenizer)),
            device=self.engine.device,
            cancellation=cancellation or self.engine.cancellation,
        )

    def create_job(self, prompt: str, settings: DecodingSettings) -> GenerationJob:
        """Create the job of continuing a prompt."""
        [context] = self.encode_prompts([prompt])
        return self.create_row_job(context, settings)

    def create_detokenizer(self, row: Sequence[int]) -> IncrementalDetokenizer:
        """Return the detokenizer of a continuation."""
        return IncrementalDetokenizer(self.tokenizer, row)

    def build_generation(self, hypothesis: Hypothesis, row: Sequence[int], settings: DecodingSettings) -> Generation:
        """Decode a continuation of a prompt."""
        text = self.create_detokenizer(row).decode_all(hypothesis.content)
        text = StopStrings(settings.stop).trim(text, hypothesis.finish_reason)
        return Generation.from_hypothesis(hypothesis, text, self.tokenizer)
