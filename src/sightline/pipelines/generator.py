"""Text generation: continue a prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, overload

from jaxtyping import Float
from torch import Tensor

from sightline.data.datasets.batch import pad
from sightline.decoding import (
    BeamHistory,
    DecodingSettings,
    FinishReason,
    Hypothesis,
    Request,
    Step,
    search,
    search_for,
)
from sightline.decoding import stream as stream_ids
from sightline.decoding.continuous_batch import SharedState
from sightline.errors import InputError, SettingsError
from sightline.model import CausalLM
from sightline.model.cache import INITIAL_CAPACITY
from sightline.pipelines.generation import (
    Generation,
    GenerationJob,
    IncrementalDetokenizer,
    Interventions,
    TextStreamer,
    make_hooks,
    make_step,
    stream_pieces,
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
from sightline.pipelines.scoring import text_token_log_probs
from sightline.tracing import (
    CausalLMPass,
    Choice,
    TokenizedText,
    Trace,
    TraceOptions,
    build_interventions,
    run_trace,
    search_with_history,
)
from sightline.tracing.tokenized_text import EMPTY_TEXT, concatenate


class Generator(Pipeline):
    """Continues a prompt."""

    interface = CausalLM
    generates = True
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
        request = self.build_request([context], settings)
        with self.inference_mode():
            results = stream_ids(make_step(self.model), self.prefill([context]), request)
        return stream_pieces(
            results,
            TextStreamer(IncrementalDetokenizer(self.tokenizer, context), settings),
            inference_mode=self.inference_mode,
        )

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
        results: list[list[Generation]] = [[] for _ in contexts]
        n_rows = max(settings.beam_size, settings.n_best)
        for chosen in batch_by_tokens([len(context) for context in contexts], batch_tokens=batch_tokens, rows=n_rows):
            own = [contexts[number] for number in chosen]
            with self.inference_mode():
                found = search(make_step(self.model), self.prefill(own), self.build_request(own, settings))
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = [self.build_generation(one, contexts[number], settings) for one in hypotheses]
        return results

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
                CausalLMPass(self.model, [token.id for token in inputs.tokens]),
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
        interventions = build_interventions(CausalLMPass(self.model, context), trace_options)
        state = self.prefill([context], interventions=interventions)
        step = make_step(self.model, interventions)
        hypothesis, history = search_with_history(step, state, self.build_request([context], settings))
        text = self.build_generation(hypothesis, context, settings).text
        ended = hypothesis.finish_reason == "eos"
        output = tokenize_output(text, hypothesis.ids, self.tokenizer, ended=ended, context=context)
        return output, hypothesis.finish_reason, history

    def resolve_settings(self, n: int, overrides: Mapping[str, object]) -> DecodingSettings:
        """Return the decoding settings for `n` texts from one prompt."""
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

    def build_request(self, contexts: Sequence[Sequence[int]], settings: DecodingSettings) -> Request:
        """Build the search request."""
        end_id = self.tokenizer.end_id
        return Request(
            contexts,
            settings,
            end_ids=[] if end_id is None else [end_id],
            # The last token needs no position: nothing is predicted from it.
            max_new_tokens=[self.max_length + 1 - len(context) for context in contexts] if self.max_length else None,
            to_text=IncrementalDetokenizer(self.tokenizer),
            device=self.embedding_weight.device,
        )

    def prefill(self, contexts: Sequence[Sequence[int]], *, interventions: Interventions | None = None) -> SharedState:
        """Return the state of the model after all but the last id of each context."""
        longest = max(len(context) for context in contexts)
        state: SharedState = self.model.start(len(contexts), capacity=longest + INITIAL_CAPACITY)
        if longest > 1:
            ids, lengths = pad([context[:-1] for context in contexts], device=self.embedding_weight.device)
            _, state = self.model.step(ids, state, lengths=lengths, hooks=make_hooks(interventions))
        return state

    @property
    def step(self) -> Step:
        """The model's decoding step."""
        return make_step(self.model)

    def create_job(self, prompt: str, settings: DecodingSettings) -> GenerationJob:
        """Create the job of continuing a prompt."""
        [context] = self.encode_prompts([prompt])
        return GenerationJob(
            ids=context,
            search=search_for(self.build_request([context], settings)),
            settings=settings,
            make_detokenizer=lambda: IncrementalDetokenizer(self.tokenizer, context),
            build_generation=lambda hypothesis: self.build_generation(hypothesis, context, settings),
        )

    def build_generation(
        self, hypothesis: Hypothesis, context: Sequence[int], settings: DecodingSettings
    ) -> Generation:
        """Decode a search result."""
        text = IncrementalDetokenizer(self.tokenizer, context).decode_all(hypothesis.content)
        return Generation.from_hypothesis(hypothesis, trim_text(text, hypothesis, settings), self.tokenizer)
