"""What translation and chat have in common: a text is read by an encoder, another one written by a decoder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sightline.bundle import Bundle
from sightline.decoding import (
    BeamHistory,
    DecodingSettings,
    Finish,
    Hypothesis,
    Request,
    State,
    Step,
    search,
    search_for,
)
from sightline.errors import InputError
from sightline.model import Transformer
from sightline.model.cache import DecoderState
from sightline.model.masks import padding_mask
from sightline.pipelines.batches import BATCH_TOKENS, batches
from sightline.pipelines.foresight import foreseen_targets
from sightline.pipelines.passages import framed, passage, written
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.rows import grid
from sightline.pipelines.spelling import Speller
from sightline.pipelines.steps import Interventions, attentive_step_of, last_cross_attention, probe_for, step_of
from sightline.pipelines.task import Task
from sightline.pipelines.writing import Writing, finished
from sightline.text import Tokenizer
from sightline.tracing import (
    Alignment,
    Choice,
    Passage,
    Sighting,
    Trace,
    TransformerPass,
    Wishes,
    interventions_of,
    look,
    remembered_search,
)
from sightline.tracing.alignment import links


class Rewriter(Pipeline):
    """Reads ids and writes others. Sources have no start or end; what is written begins after the start token."""

    takes = (Transformer,)
    model: Transformer

    def __init__(self, bundle: Bundle, *, folder: Path | None = None) -> None:
        super().__init__(bundle, folder=folder)
        self.writer: Tokenizer = bundle.target_tokenizer or self.tokenizer
        """What turns ids into the text that is written."""
        self.start_id, self.end_id = self.role_id("start", self.writer), self.role_id("end", self.writer)

    def rewrite(
        self,
        sources: Sequence[Sequence[int]],
        *,
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]],
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """Return up to `n_best` results for each source, best first; none for an empty one.

        No result depends on which other sources there are.
        """
        self.check_lengths(sources)
        settings = self.within_limit(settings)
        self.check_prefixes(prefixes, settings)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        n_rows = max(settings.beam, settings.n_best)
        for chosen in batches([len(source) for source in sources], batch_tokens=batch_tokens, rows=n_rows):
            with self.at_work():
                found = self.rewrite_batch(
                    [sources[number] for number in chosen], settings, [prefixes[number] for number in chosen]
                )
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = hypotheses
        return results

    def rewrite_batch(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings, prefixes: Sequence[Sequence[int]]
    ) -> list[list[Hypothesis]]:
        """Return the results of sources that are read together."""
        return search(*self.begin(sources, settings, prefixes))

    def begin(
        self,
        sources: Sequence[Sequence[int]],
        settings: DecodingSettings,
        prefixes: Sequence[Sequence[int]] = (),
        *,
        interventions: Interventions | None = None,
    ) -> tuple[Step, State, Request]:
        """Return what a search needs, the sources having been read."""
        make = attentive_step_of if settings.coverage_penalty else step_of
        state = self.prefilled(sources, interventions=interventions)
        return make(self.model, interventions), state, self.request(sources, settings, prefixes)

    def prefilled(
        self, sources: Sequence[Sequence[int]], *, interventions: Interventions | None = None
    ) -> DecoderState:
        """Return the state of a model that has read the sources and written nothing."""
        ids, lengths = grid(sources, like=self.weight)
        memory = self.model.encode(ids, lengths=lengths, packed=True, probe=probe_for(interventions))
        return self.model.start(memory)

    def request(
        self, sources: Sequence[Sequence[int]], settings: DecodingSettings, prefixes: Sequence[Sequence[int]] = ()
    ) -> Request:
        """Return what the search is asked."""
        lengths = torch.tensor([len(source) for source in sources], device=self.weight.device)
        return Request(
            [[self.start_id]] * len(sources),
            settings,
            end_ids=[self.end_id],
            prefixes=prefixes if any(prefixes) else None,
            to_text=self.writer.decode,
            source_mask=padding_mask(lengths, int(lengths.max()))[:, 0, 0],
            device=lengths.device,
        )

    def foresee(
        self, sources: Sequence[Sequence[int]], targets: Sequence[str], *, batch_tokens: int = BATCH_TOKENS
    ) -> list[Float[Tensor, "..."]]:
        """Return, for each target, the log-probability of every token of it and of its end."""
        goals = [[*ids, self.end_id] for ids in self.writer.encode_batch(list(targets))]
        self.check_lengths(sources)
        self.check_lengths(goals, what="target")
        with self.at_work():
            return foreseen_targets(self.model, sources, goals, start_id=self.start_id, batch_tokens=batch_tokens)

    @property
    def step(self) -> Step:
        """What takes a step of the model, telling where it looks if the model's own settings want that."""
        return (attentive_step_of if self.generation.coverage_penalty else step_of)(self.model)

    def task_for(self, source: Sequence[int], settings: DecodingSettings, prefix: Sequence[int] = ()) -> Task:
        """Return the task to write what belongs to a source."""
        self.check_lengths([source])
        settings = self.within_limit(settings)
        self.check_prefixes([prefix], settings)
        return Task(
            ids=source,
            search=search_for(self.request([source], settings, [prefix])),
            settings=settings,
            spell=lambda: Speller(self.writer),
            write=lambda hypothesis: Writing.of(hypothesis, self.written(hypothesis, settings), self.writer),
        )

    def within_limit(self, settings: DecodingSettings) -> DecodingSettings:
        """Return settings that ask for no more tokens than the decoder has places."""
        most = min(settings.max_length, self.max_length or settings.max_length)
        return replace(settings, max_length=most, min_length=min(settings.min_length, most))

    def check_prefixes(self, prefixes: Sequence[Sequence[int]], settings: DecodingSettings) -> None:
        """Refuse a beginning that is longer than the whole may be."""
        for number, prefix in enumerate(prefixes, start=1):
            if len(prefix) > settings.max_length:
                raise InputError(
                    f"the prefix of text {number} has {len(prefix):,} tokens, but at most {settings.max_length:,} are "
                    "written: shorten it, or raise max_length"
                )

    def written(self, hypothesis: Hypothesis, settings: DecodingSettings) -> str:
        """Return the text of a result."""
        return finished(self.writer.decode(hypothesis.content), hypothesis, settings)

    def trace_source(self, source: Passage, target: str | None, options: Mapping[str, object]) -> Trace:
        """Return what the model does with a source, writing its own target or given one."""
        wishes, overrides = Wishes.of(options, writes=True)
        settings = self.within_limit(self.settings(**overrides))
        self.check_lengths([source.tokens])
        if not source.tokens:
            raise InputError("the text is empty: there is nothing to trace")
        with self.at_work():
            if target is None:
                goal, finish, history = self.watched(source, settings, wishes)
            else:
                goal, finish, history = framed(target, self.writer, after=[self.end_id]), None, None
                self.check_lengths([goal.tokens], what="target")
            start = passage(goal.text, [self.start_id], [(0, 0)], self.writer)
            inputs = Passage(goal.text, (*start.tokens, *goal.tokens[:-1]))
            seen = look(
                self.way(source, [token.id for token in inputs.tokens]),
                wishes,
                [Choice(row, token.id) for row, token in enumerate(goal.tokens)],
                name=self.writer.token_text,
                history=history,
                context=[self.start_id],
            )
        return self.traced(
            seen,
            source,
            target=goal,
            inputs=inputs,
            forced=target is not None,
            finish=finish,
            alignment=self.alignment_of(seen, source, goal),
        )

    def watched(
        self, source: Passage, settings: DecodingSettings, wishes: Wishes
    ) -> tuple[Passage, Finish, BeamHistory | None]:
        """Return what the model writes, why it ended, and what a beam looked at on the way."""
        interventions = interventions_of(self.way(source, [self.start_id]), wishes)
        ids = [token.id for token in source.tokens]
        hypothesis, history = remembered_search(*self.begin([ids], settings, interventions=interventions))
        text = self.written(hypothesis, settings)
        goal = written(text, hypothesis.ids, self.writer, ended=hypothesis.finish == "end")
        return goal, hypothesis.finish, history

    def way(self, source: Passage, inputs: Sequence[int]) -> TransformerPass:
        """Return the way of a source through the model."""
        return TransformerPass(self.model, [token.id for token in source.tokens], inputs)

    def alignment_of(self, seen: Sighting, source: Passage, target: Passage) -> Alignment:
        """Return which words looked at which, from the last layer's mean over heads."""
        found = links(
            np.zeros((0, 0)) if seen.mean_attention is None else seen.mean_attention,
            source=source.text,
            source_spans=[(token.start, token.end) for token in source.tokens],
            target=target.text,
            target_spans=[(token.start, token.end) for token in target.tokens],
        )
        return Alignment(found, last_cross_attention(self.model).removesuffix(".weights"))
