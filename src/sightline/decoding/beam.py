"""Beam search: the best few hypotheses of each sentence, extended together.

**Pruning.** Live hypotheses of one sentence are equally long, so they are pruned by log-probability alone; length and
coverage penalty (Wu et al. 2016, eq. 14) rank the complete ones. A hypothesis that reaches the length limit without an
end token counts as complete, with the same score.

**Finishing.** A candidate that ends is a result only if it is among the best K candidates; the beam is then filled up
to K with candidates that do not end, so that results never take a slot from a hypothesis that could become better.

**Early stopping** changes no result. Let r ≤ 0 be the ranking log-probability of a live hypothesis, L the limit of its
sentence, lp(n) = ((5 + n) / 6)^α with α ≥ 0. Every token adds a term ≤ 0, so any extension of n ≤ L tokens has
r' ≤ r ≤ 0. As lp never decreases, r' / lp(n) ≤ r' / lp(L) ≤ r / lp(L) (α = 0: lp = 1 and this is r' ≤ r). The coverage
term is ≤ 0. So no descendant scores above r / lp(L), and the likeliest live hypothesis has the largest such bound.
Rounding is monotone, so it holds for floating-point numbers as well. Once the n_best-th result reaches that bound, no
later one can score higher, and in a tie the earlier result ranks first.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.beam_step import BeamStep
from sightline.decoding.candidates import Candidates, propose, propose_constrained
from sightline.decoding.finished import FinishedHypotheses
from sightline.decoding.history import BeamHistory
from sightline.decoding.history_writer import HistoryWriter
from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.logits_processors import LogitsProcessors
from sightline.decoding.request import Request
from sightline.decoding.scores import coverage_penalty, length_penalty, log_probabilities
from sightline.decoding.search_protocol import NextInputs, is_identity, run_search
from sightline.decoding.sequential import no_token_allowed
from sightline.decoding.step import State, Step
from sightline.errors import SettingsError


@dataclass(frozen=True)
class BeamResult:
    """The results of each sentence, best first, and the history of the search."""

    hypotheses: list[list[Hypothesis]]
    histories: list[BeamHistory]
    """One per sentence with `keep_history`, else empty."""


def search_beams(
    step: Step, state: State, request: Request, *, keep_history: bool = False, stop_early: bool = True
) -> BeamResult:
    """Return the `n_best` hypotheses of each sentence; decided sentences are dropped from the batch.

    The first step has one row per sentence, all others K adjacent rows: row `sentence * K + beam`.
    `stop_early=False` continues to the length limit; it exists to show that the results are the same.
    """
    search = BeamSearch(request, keep_history=keep_history, stop_early=stop_early)
    run_search(search, step, state)
    return BeamResult(search.hypotheses, search.histories)


class BeamSearch:
    """Beam search over the sentences of a request: live hypotheses of the open ones, results of all.

    Shapes: B open sentences, K live hypotheses of each (1 before the first step), R = B K rows.
    """

    def __init__(self, request: Request, *, keep_history: bool = False, stop_early: bool = True) -> None:
        count, device = len(request.contexts), torch.device(request.device)
        self.request = request
        self.settings = request.settings
        self.stop_early = stop_early
        self.limits = request.limits
        self.processors = LogitsProcessors(request)
        self.results = [FinishedHypotheses(request.settings.n_best) for _ in range(count)]
        self.writers = [HistoryWriter() for _ in range(count)] if keep_history else []
        self.open_sentences = list(range(count))
        self.sentences = torch.arange(count, device=device)  # R: the sentence of each row
        self.totals = torch.zeros(count, 1, dtype=torch.float64, device=device)  # B K
        self.generated = self.sentences.new_empty(count, 0)  # R T
        self.token_log_probabilities = torch.empty(count, 0, device=device)  # R T
        self.attention: Tensor | None = None  # R S: total attention to each source position so far

    def begin(self) -> NextInputs:
        """Return the first inputs: the last context id of each sentence."""
        return NextInputs(None, self.sentences.new_tensor([context[-1] for context in self.request.contexts]))

    def observe(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> None:
        """Process the output of one step; no token is final yet, since any hypothesis may still be pruned."""
        length = self.generated.size(1)
        if length == 0:
            self.request.check_vocabulary(logits.size(1))
        log_probs = log_probabilities(logits, sentences=self.sentences, length=length)
        scores = self.processors.process(logits, log_probs, generated=self.generated, sentences=self.sentences)
        self._accumulate_attention(attention)
        step = self._make_step(self._propose(scores), log_probs)
        self._finish_survivors(step)
        self._collect(step)
        for group, sentence in enumerate(self.open_sentences if self.writers else ()):
            self.writers[sentence].add(step, group)
        self.step = step

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence, best first."""
        return [results.hypotheses for results in self.results]

    @property
    def histories(self) -> list[BeamHistory]:
        """The history of each sentence, if kept."""
        return [writer.history(self.results[i].endings) for i, writer in enumerate(self.writers)]

    def _accumulate_attention(self, attention: Float[Tensor, "R S"] | None) -> None:
        """Add the attention of this step, if the coverage penalty needs it."""
        if not self.settings.coverage_penalty:
            return
        if attention is None:
            raise SettingsError("coverage_penalty needs a model with attention to the source; set it to 0")
        self.attention = attention.double() if self.attention is None else self.attention + attention

    def _coverage(self) -> Float[Tensor, "R"]:
        """Return the coverage penalty of each row's continuations."""
        if self.attention is None:
            return self.totals.new_zeros(len(self.sentences))
        mask = None if self.request.source_mask is None else self.request.source_mask[self.sentences]
        return coverage_penalty(self.attention, mask, self.settings.coverage_penalty)

    def _propose(self, scores: Float[Tensor, "R V"]) -> Candidates:
        width = self.settings.beam_size
        per_row = width + len(self.processors.end_ids)  # so that each row alone could fill the beam without ends
        if self.processors.constraints is None:
            return propose(scores, self.totals, per_row=per_row, at_least=width)
        return propose_constrained(
            scores,
            self.totals,
            per_row=per_row,
            at_least=width,
            constraints=self.processors.constraints,
            generated=self.generated,
        )

    def _make_step(self, candidates: Candidates, log_probs: Float[Tensor, "R V"]) -> BeamStep:
        """Split the candidates into those that end and those that form the next beam."""
        width = self.settings.beam_size
        ends = torch.isin(candidates.tokens, self.processors.end_ids) & candidates.alive()
        survivors, ranks = candidates.survivors(ends, width)
        step = BeamStep(
            candidates=candidates,
            survivors=survivors,
            survivor_ranks=ranks,
            log_probabilities=log_probs,
            coverage=self._coverage(),
            length=self.generated.size(1) + 1,
            alpha=self.settings.length_penalty,
        )
        for group, rank in ends[:, :width].nonzero().tolist():
            step.finished[group, rank] = "eos"
        return step

    def _finish_survivors(self, step: BeamStep) -> None:
        """Finish the survivors that contain a stop string, and all of a sentence that reached its length limit."""
        for group, sentence in enumerate(self.open_sentences):
            at_limit = step.length >= self.limits[sentence]
            if not at_limit and not self.settings.stop:
                continue
            for beam in step.survivors.alive()[group].nonzero()[:, 0].tolist():
                rank = int(step.survivor_ranks[group, beam])
                if self.settings.stop and self.request.contains_stop(self._ids(step, group, rank)):
                    step.finished[group, rank] = "stop"
                    step.survivors.totals[group, beam] = -math.inf  # its slot in the beam stays empty
                elif at_limit:
                    step.finished[group, rank] = "length"

    def _ids(self, step: BeamStep, group: int, rank: int) -> list[int]:
        ids: list[int] = self.generated[step.parent(group, rank)].tolist()
        return [*ids, step.token(group, rank)]

    def _collect(self, step: BeamStep) -> None:
        """Add the finished candidates to the results of their sentences."""
        for (group, rank), finish_reason in step.finished.items():
            results, score = self.results[self.open_sentences[group]], step.score(group, rank)
            if score <= results.worst:
                continue
            before: list[float] = self.token_log_probabilities[step.parent(group, rank)].tolist()
            token_log_probabilities = (*before, step.log_probability(group, rank))
            hypothesis = Hypothesis(
                ids=tuple(self._ids(step, group, rank)),
                log_probability=sum(token_log_probabilities),
                score=score,
                token_log_probabilities=token_log_probabilities,
                finish_reason=finish_reason,
            )
            results.add(hypothesis, (step.length - 1, rank))

    def advance(self) -> NextInputs:
        """Close the decided sentences; continue all others with their survivors."""
        step, n_rows = self.step, len(self.sentences)
        best = step.survivors.totals.amax(dim=1).tolist()
        groups = []
        for group, sentence in enumerate(self.open_sentences):
            if not self._is_decided(sentence, best[group], step.length):
                groups.append(group)
            elif not self.results[sentence].hypotheses:
                raise no_token_allowed(sentence, step.length - 1)
        survivors = step.survivors if len(groups) == len(self.open_sentences) else step.survivors.of(groups)
        self.open_sentences = [self.open_sentences[group] for group in groups]
        self.totals = survivors.totals
        rows, tokens = survivors.parents.flatten(), survivors.tokens.flatten()
        self.sentences = self.sentences.index_select(0, rows)
        self.generated = torch.cat([self.generated.index_select(0, rows), tokens[:, None]], dim=1)
        before, newest = self.token_log_probabilities.index_select(0, rows), step.log_probabilities[rows, tokens]
        self.token_log_probabilities = torch.cat([before, newest[:, None]], dim=1)
        if self.attention is not None:
            self.attention = self.attention.index_select(0, rows)
        return NextInputs(None if is_identity(rows, n_rows) else rows, tokens)

    def _is_decided(self, sentence: int, best: float, length: int) -> bool:
        """Tell whether no live hypothesis can change the results of a sentence any more."""
        results, limit = self.results[sentence], self.limits[sentence]
        if best == -math.inf or length >= limit:
            return True
        if self.settings.beam_size == 1:  # the first end decides, as in greedy search: no other hypothesis is left
            return bool(results.hypotheses)
        bound = best / length_penalty(limit, self.settings.length_penalty)
        return self.stop_early and results.worst >= bound
