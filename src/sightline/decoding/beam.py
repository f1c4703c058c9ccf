"""Beam search: the best few hypotheses of each sentence, continued together.

**Order.** Live hypotheses of one sentence are equally long, so they are pruned by log-probability alone; length and
coverage penalty (Wu et al. 2016, eq. 14) decide between complete ones. A text that reaches the length limit without
its end counts as complete, by the same score.

**Ends.** A candidate that ends is a result only if it is among the best K candidates; the beam is then filled up to K
from those that do not end, so that results never take a place from what could become better.

**Early stopping** changes no result. Let r ≤ 0 be the ranking log-probability of a live hypothesis, L the limit of its
sentence, lp(n) = ((5 + n) / 6)^α with α ≥ 0. Every token adds something ≤ 0, so whatever it grows into, n ≤ L tokens
long, has r' ≤ r ≤ 0. As lp never falls, r' / lp(n) ≤ r' / lp(L) ≤ r / lp(L) (α = 0: lp = 1 and this is r' ≤ r). The
coverage term is ≤ 0. So no descendant scores above r / lp(L), and the likeliest live hypothesis has the largest such
bound. Rounding is monotone, so it holds for floating-point numbers as well. Once the n_best-th result is at least that
bound, no later one can score higher, and in a tie the earlier result stays before the later.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sightline.decoding.candidates import Candidates, propose, propose_fairly
from sightline.decoding.history import BeamHistory
from sightline.decoding.history_writer import HistoryWriter
from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.move import Move, drive, unchanged
from sightline.decoding.request import Request
from sightline.decoding.results import Results
from sightline.decoding.rules import Rules
from sightline.decoding.scores import coverage_penalty, length_penalty, log_probabilities
from sightline.decoding.step import State, Step
from sightline.decoding.turn import Turn
from sightline.decoding.walk import dead_end
from sightline.errors import SettingsError


@dataclass(frozen=True)
class BeamResult:
    """The results of each sentence, best first, and how they were found."""

    hypotheses: list[list[Hypothesis]]
    histories: list[BeamHistory]
    """One per sentence with `keep_history`, else none."""


def search_beams(
    step: Step, state: State, request: Request, *, keep_history: bool = False, stop_early: bool = True
) -> BeamResult:
    """Return the `n_best` hypotheses of each sentence; a sentence that is decided leaves the batch.

    The first step has one row per sentence, all others K rows beside each other: row `sentence * K + beam`.
    `stop_early=False` goes on to the length limit; it is there to show that the results are the same.
    """
    search = Beams(request, keep_history=keep_history, stop_early=stop_early)
    drive(search, step, state)
    return BeamResult(search.hypotheses, search.histories)


class Beams:
    """The live hypotheses of all open sentences, and the results of all sentences.

    Shapes: B open sentences, K live hypotheses of each (1 before the first step), R = B K rows.
    """

    def __init__(self, request: Request, *, keep_history: bool = False, stop_early: bool = True) -> None:
        count, device = len(request.contexts), torch.device(request.device)
        self.request = request
        self.settings = request.settings
        self.stop_early = stop_early
        self.limits = request.limits
        self.rules = Rules(request)
        self.results = [Results(request.settings.n_best) for _ in range(count)]
        self.writers = [HistoryWriter() for _ in range(count)] if keep_history else []
        self.open = list(range(count))
        self.owners = torch.arange(count, device=device)  # R: the sentence of each row
        self.totals = torch.zeros(count, 1, dtype=torch.float64, device=device)  # B K
        self.generated = self.owners.new_empty(count, 0)  # R T
        self.token_log_probabilities = torch.empty(count, 0, device=device)  # R T
        self.attention: Tensor | None = None  # R S: what each source position received so far

    def begin(self) -> Move:
        """Return the first move."""
        return Move(None, self.owners.new_tensor([context[-1] for context in self.request.contexts]))

    def take(self, logits: Float[Tensor, "R V"], attention: Float[Tensor, "R S"] | None = None) -> None:
        """Take one step's output: whatever is likeliest now may be given up later, so that nothing is certain yet."""
        length = self.generated.size(1)
        if length == 0:
            self.request.check_vocabulary(logits.size(1))
        likely = log_probabilities(logits, sentences=self.owners, length=length)
        preference = self.rules.preference(logits, likely, generated=self.generated, sentences=self.owners)
        self._look(attention)
        turn = self._turn(self._propose(preference), likely)
        self._finish_survivors(turn)
        self._collect(turn)
        for group, sentence in enumerate(self.open if self.writers else ()):
            self.writers[sentence].add(turn, group)
        self.turn = turn

    @property
    def hypotheses(self) -> list[list[Hypothesis]]:
        """The results of each sentence, best first."""
        return [results.hypotheses for results in self.results]

    @property
    def histories(self) -> list[BeamHistory]:
        """How the results were found, if that was to be kept."""
        return [writer.history(self.results[i].endings) for i, writer in enumerate(self.writers)]

    def _look(self, attention: Float[Tensor, "R S"] | None) -> None:
        """Add where this step looked, if the coverage penalty asks for it."""
        if not self.settings.coverage_penalty:
            return
        if attention is None:
            raise SettingsError("coverage_penalty needs a model that tells where it looks in the source; set it to 0")
        self.attention = attention.double() if self.attention is None else self.attention + attention

    def _coverage(self) -> Float[Tensor, "R"]:
        """Return the coverage penalty of each row's continuations."""
        if self.attention is None:
            return self.totals.new_zeros(len(self.owners))
        mask = None if self.request.source_mask is None else self.request.source_mask[self.owners]
        return coverage_penalty(self.attention, mask, self.settings.coverage_penalty)

    def _propose(self, preference: Float[Tensor, "R V"]) -> Candidates:
        width = self.settings.beam
        per_row = width + len(self.rules.end_ids)  # so that each row alone could fill the beam with what goes on
        if self.rules.requirements is None:
            return propose(preference, self.totals, per_row=per_row, at_least=width)
        return propose_fairly(
            preference,
            self.totals,
            per_row=per_row,
            at_least=width,
            requirements=self.rules.requirements,
            generated=self.generated,
        )

    def _turn(self, candidates: Candidates, likely: Float[Tensor, "R V"]) -> Turn:
        """Part the candidates that end from those that form the next beam."""
        width = self.settings.beam
        ends = torch.isin(candidates.tokens, self.rules.end_ids) & candidates.alive()
        survivors, places = candidates.survivors(ends, width)
        turn = Turn(
            candidates=candidates,
            survivors=survivors,
            places=places,
            log_probabilities=likely,
            coverage=self._coverage(),
            length=self.generated.size(1) + 1,
            alpha=self.settings.length_penalty,
        )
        for group, place in ends[:, :width].nonzero().tolist():
            turn.finished[group, place] = "end"
        return turn

    def _finish_survivors(self, turn: Turn) -> None:
        """Finish the survivors that contain a stop string, and all of a sentence that has reached its limit."""
        for group, sentence in enumerate(self.open):
            full = turn.length >= self.limits[sentence]
            if not full and not self.settings.stop:
                continue
            for beam in turn.survivors.alive()[group].nonzero()[:, 0].tolist():
                place = int(turn.places[group, beam])
                if self.settings.stop and self.request.stops(self._ids(turn, group, place)):
                    turn.finished[group, place] = "stop"
                    turn.survivors.totals[group, beam] = -math.inf  # its place in the beam stays empty
                elif full:
                    turn.finished[group, place] = "length"

    def _ids(self, turn: Turn, group: int, place: int) -> list[int]:
        ids: list[int] = self.generated[turn.parent(group, place)].tolist()
        return [*ids, turn.token(group, place)]

    def _collect(self, turn: Turn) -> None:
        """Add what is finished to the results of its sentence."""
        for (group, place), finish in turn.finished.items():
            results, score = self.results[self.open[group]], turn.score(group, place)
            if score <= results.worst:
                continue
            before: list[float] = self.token_log_probabilities[turn.parent(group, place)].tolist()
            token_log_probabilities = (*before, turn.log_probability(group, place))
            hypothesis = Hypothesis(
                ids=tuple(self._ids(turn, group, place)),
                log_probability=sum(token_log_probabilities),
                score=score,
                token_log_probabilities=token_log_probabilities,
                finish=finish,
            )
            results.add(hypothesis, (turn.length - 1, place))

    def go_on(self, leaving: Collection[int] = ()) -> Move:
        """Close the sentences that are decided (or `leaving`), and move all others to their survivors."""
        turn, n_rows = self.turn, len(self.owners)
        best = turn.survivors.totals.amax(dim=1).tolist()
        groups = []
        for group, sentence in enumerate(self.open):
            if sentence in leaving:
                continue
            if not self._decided(sentence, best[group], turn.length):
                groups.append(group)
            elif not self.results[sentence].hypotheses:
                raise dead_end(sentence, turn.length - 1)
        survivors = turn.survivors if len(groups) == len(self.open) else turn.survivors.of(groups)
        self.open = [self.open[group] for group in groups]
        self.totals = survivors.totals
        rows, tokens = survivors.parents.flatten(), survivors.tokens.flatten()
        self.owners = self.owners.index_select(0, rows)
        self.generated = torch.cat([self.generated.index_select(0, rows), tokens[:, None]], dim=1)
        before, newest = self.token_log_probabilities.index_select(0, rows), turn.log_probabilities[rows, tokens]
        self.token_log_probabilities = torch.cat([before, newest[:, None]], dim=1)
        if self.attention is not None:
            self.attention = self.attention.index_select(0, rows)
        return Move(None if unchanged(rows, n_rows) else rows, tokens)

    def _decided(self, sentence: int, best: float, length: int) -> bool:
        """Say whether nothing that is still alive can change the results of a sentence."""
        results, limit = self.results[sentence], self.limits[sentence]
        if best == -math.inf or length >= limit:
            return True
        if self.settings.beam == 1:  # there is no other hypothesis to wait for: the first end decides, as in greedy
            return bool(results.hypotheses)
        bound = best / length_penalty(limit, self.settings.length_penalty)
        return self.stop_early and results.worst >= bound
