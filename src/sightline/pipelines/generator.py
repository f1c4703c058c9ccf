"""Go on with a text."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, overload

from jaxtyping import Float
from torch import Tensor

from sightline.decoding import BeamHistory, DecodingSettings, Finish, Hypothesis, Request, Step, search, search_for
from sightline.decoding import stream as stream_ids
from sightline.errors import InputError, SettingsError
from sightline.model import GPT
from sightline.model.cache import FIRST_CAPACITY, Cache
from sightline.pipelines.batches import BATCH_TOKENS, batches
from sightline.pipelines.foresight import foreseen
from sightline.pipelines.passages import NOTHING, framed, one_after_another, written
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.rows import grid
from sightline.pipelines.spelling import Speller
from sightline.pipelines.steps import Interventions, probe_for, step_of
from sightline.pipelines.stream import Unfolding, pieces
from sightline.pipelines.task import Task
from sightline.pipelines.writing import Writing, finished
from sightline.tracing import Choice, GPTPass, Passage, Trace, Wishes, interventions_of, look, remembered_search


class Generator(Pipeline):
    """Writes what could follow a prompt."""

    takes = (GPT,)
    model: GPT

    @overload
    def generate(self, prompt: str = ..., *, n: Literal[1] = 1, **overrides: object) -> str: ...
    @overload
    def generate(self, prompt: str = ..., *, n: int, **overrides: object) -> str | list[str]: ...
    def generate(self, prompt: str = "", *, n: int = 1, **overrides: object) -> str | list[str]:
        """Return the text after the prompt, or a list of `n` of them; `overrides` are decoding settings."""
        settings = self.settings_for(n, overrides)
        [written] = self.continuations([prompt], settings=settings)
        return written[0].text if n == 1 else [one.text for one in written]

    def stream(self, prompt: str = "", **overrides: object) -> Iterator[str]:
        """Yield what `generate` returns, in pieces, as it is written: never half a character, nor of a stop string.

        A beam knows its text only when it is done: then there is one piece.
        """
        settings = self.settings_for(1, overrides)
        if settings.beam > 1:
            text = self.continuations([prompt], settings=settings)[0][0].text
            return iter([text] if text else [])
        [context] = self.contexts([prompt])
        request = self.request([context], settings)
        with self.at_work():
            strides = stream_ids(step_of(self.model), self.prefilled([context]), request)
        return pieces(strides, Unfolding(Speller(self.tokenizer, context), settings), at_work=self.at_work)

    def continuations(
        self,
        prompts: Sequence[str],
        *,
        settings: DecodingSettings | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> list[list[Writing]]:
        """Return what may follow each prompt, best first (or as drawn), with all there is to say of it."""
        settings = settings or self.generation
        contexts = self.contexts(prompts)
        results: list[list[Writing]] = [[] for _ in contexts]
        n_rows = max(settings.beam, settings.n_best)
        for chosen in batches([len(context) for context in contexts], batch_tokens=batch_tokens, rows=n_rows):
            own = [contexts[number] for number in chosen]
            with self.at_work():
                found = search(step_of(self.model), self.prefilled(own), self.request(own, settings))
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = [self.writing(one, contexts[number], settings) for one in hypotheses]
        return results

    def log_likelihoods(self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS) -> list[float]:
        """Return the log-probability of each text as a document: from its beginning to its end.

        A text longer than the model is foreseen in blocks, each without knowledge of those before it.
        """
        ends = [] if self.tokenizer.end_id is None else [self.tokenizer.end_id]
        documents = [[*ends, *ids, *ends] for ids in self.encoded(texts)]
        return [float(likely.double().sum()) for likely in self.foresee(documents, batch_tokens=batch_tokens)]

    def foresee(
        self, documents: Sequence[Sequence[int]], *, context: int = 0, batch_tokens: int = BATCH_TOKENS
    ) -> list[Float[Tensor, "..."]]:
        """Return, for each list of ids, the log-probability of every id but the first, given those before it.

        What is longer than the model comes in blocks; each reads `context` ids of the one before it again.
        """
        with self.at_work():
            return foreseen(self.model, documents, context=context, batch_tokens=batch_tokens)

    def trace(self, text: str = "", *, target: str | None = None, **options: object) -> Trace:
        """Return what the model does while it goes on with a text: every value, every step, every choice.

        With a `target` it is shown how it would write that one; an empty one shows how the text itself is read.
        `options` are those of `tracing.Wishes` and decoding settings (`beam=4`).
        """
        wishes, overrides = Wishes.of(options, writes=True)
        settings = self.settings(**overrides)
        [context] = self.contexts([text])
        source = framed(text, self.tokenizer, before=context[: len(context) - len(self.tokenizer.encode(text))])
        with self.at_work():
            if target is None:
                goal, finish, history = self.watched(context, settings, wishes)
            else:
                goal, finish, history = (framed(target, self.tokenizer) if target else NOTHING), None, None
            whole = one_after_another(source, goal)
            inputs = Passage(whole.text, whole.tokens[:-1] if goal.tokens else whole.tokens)
            self.check_lengths([inputs.tokens], what="prompt and target")
            seen = look(
                GPTPass(self.model, [token.id for token in inputs.tokens]),
                wishes,
                [Choice(len(context) - 1 + step, token.id) for step, token in enumerate(goal.tokens)],
                name=self.tokenizer.token_text,
                history=history,
                context=context,
            )
        return self.traced(seen, source, target=goal, inputs=inputs, forced=target is not None, finish=finish)

    def watched(
        self, context: Sequence[int], settings: DecodingSettings, wishes: Wishes
    ) -> tuple[Passage, Finish, BeamHistory | None]:
        """Return what the model writes, why it ended, and what a beam looked at on the way."""
        interventions = interventions_of(GPTPass(self.model, context), wishes)
        state = self.prefilled([context], interventions=interventions)
        step = step_of(self.model, interventions)
        hypothesis, history = remembered_search(step, state, self.request([context], settings))
        text = self.writing(hypothesis, context, settings).text
        ended = hypothesis.finish == "end"
        goal = written(text, hypothesis.ids, self.tokenizer, ended=ended, context=context)
        return goal, hypothesis.finish, history

    def settings_for(self, n: int, overrides: dict[str, object]) -> DecodingSettings:
        """Return the settings for `n` texts from one prompt."""
        settings = self.settings(**overrides)
        if n > 1 and not settings.sample and settings.beam < n:
            raise SettingsError(f"{n} different texts must be drawn, or be those of a beam: sample=True, or beam={n}")
        return replace(settings, n_best=n)

    @property
    def opening(self) -> list[int]:
        """What a prompt stands behind: the end of another document, as every document does that our models learn from.

        Without it a model takes the prompt for the middle of something. Models from elsewhere have their own ways.
        """
        end_id = self.tokenizer.end_id
        return [] if self.purpose is None or end_id is None else [end_id]

    def contexts(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the ids each text follows."""
        rows = [[*self.opening, *row] for row in self.encoded(prompts)]
        self.check_lengths(rows, what="prompt")
        if all(rows):
            return rows
        before = self.tokenizer.start_id if self.tokenizer.end_id is None else self.tokenizer.end_id
        if before is None:
            raise InputError("this model's tokenizer has no end token to begin a text with: give a prompt")
        return [row or [before] for row in rows]

    def request(self, contexts: Sequence[Sequence[int]], settings: DecodingSettings) -> Request:
        """Return what the search is asked."""
        end_id = self.tokenizer.end_id
        return Request(
            contexts,
            settings,
            end_ids=[] if end_id is None else [end_id],
            # The last token needs no place of its own: nothing is asked of it any more.
            max_lengths=[self.max_length + 1 - len(context) for context in contexts] if self.max_length else None,
            to_text=Speller(self.tokenizer),
            device=self.weight.device,
        )

    def prefilled(self, contexts: Sequence[Sequence[int]], *, interventions: Interventions | None = None) -> Cache:
        """Return the model's memory of all but the last id of each context."""
        longest = max(len(context) for context in contexts)
        cache = self.model.start(len(contexts), capacity=longest + FIRST_CAPACITY)
        if longest > 1:
            ids, lengths = grid([context[:-1] for context in contexts], like=self.weight)
            _, cache = self.model.step(ids, cache, lengths=lengths, probe=probe_for(interventions))
        return cache

    @property
    def step(self) -> Step:
        """What takes a step of the model."""
        return step_of(self.model)

    def task(self, prompt: str, settings: DecodingSettings) -> Task:
        """Return the task to go on with a prompt."""
        [context] = self.contexts([prompt])
        return Task(
            ids=context,
            search=search_for(self.request([context], settings)),
            settings=settings,
            spell=lambda: Speller(self.tokenizer, context),
            write=lambda hypothesis: self.writing(hypothesis, context, settings),
        )

    def writing(self, hypothesis: Hypothesis, context: Sequence[int], settings: DecodingSettings) -> Writing:
        """Return a result of the search as text."""
        text = Speller(self.tokenizer, context).whole(hypothesis.content)
        return Writing.of(hypothesis, finished(text, hypothesis, settings), self.tokenizer)
