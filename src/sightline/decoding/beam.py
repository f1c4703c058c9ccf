"""Beam search: the best few hypotheses of each sentence, extended together.

Shapes: B open sentences, K live hypotheses each (1 before the first step), R = B K rows, N candidates per sentence,
best first. Row `sentence * K + beam`.
"""

import bisect
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sightline.decoding.hypothesis import Hypothesis, length_penalty
from sightline.decoding.interfaces import (
    NextInputs,
    State,
    Step,
    StepNeeds,
    StepOutput,
    coverage_penalty,
    is_identity,
    run_search,
)
from sightline.decoding.logits_processors import (
    LogitsProcessors,
    best_tokens,
    log_probabilities,
    logits_not_finite,
    no_token_allowed,
)
from sightline.decoding.request import LexicalConstraints, Request
from sightline.decoding.settings import FinishReason
from sightline.errors import SettingsError
from sightline.runtime import widest_float

Fate: TypeAlias = Literal["alive", "finished", "pruned"]
"""What became of a candidate: extended further, complete, or pruned for better ones."""


@dataclass(frozen=True)
class BeamNode:
    """A hypothesis at one step: its newest token, and the log-probability and score up to there."""

    token: int
    token_log_probability: float
    log_probability: float
    score: float
    """The score it would be ranked by if it ended here."""
    parent: int | None
    """Index of its parent among the nodes of the previous step; None at the first step."""
    fate: Fate


@dataclass(frozen=True)
class BeamHistory:
    """The tree of all considered hypotheses of one sentence; a node is addressed by its step and its index there."""

    steps: tuple[tuple[BeamNode, ...], ...]
    endings: tuple[tuple[int, int], ...]
    """Step and index of the last node of each result, best first."""

    def path(self, step: int, index: int) -> list[BeamNode]:
        """Return the nodes from the first step to this one."""
        nodes = []
        at: int | None = index
        while at is not None:
            nodes.append(self.steps[step][at])
            at, step = nodes[-1].parent, step - 1
        return nodes[::-1]


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

    `stop_early=False` continues to the length limit; it exists to show that the results are the same.
    """
    search = BeamSearch(request, keep_history=keep_history, stop_early=stop_early)
    run_search(search, step, state)
    return BeamResult(search.hypotheses, search.histories)


@dataclass(frozen=True)
class Proposals:
    """The best next tokens of each row, M of them, best first."""

    tokens: Int[Tensor, "R M"]
    scores: Float[Tensor, "R M"]
    """What they are ranked by."""
    log_probabilities: Float[Tensor, "R M"]
    """The model's own."""


@dataclass(frozen=True)
class Candidates:
    """Hypotheses extended by one token. A total of −∞ marks an empty slot."""

    totals: Float[Tensor, "B N"]
    """Ranking log-probability of the whole hypothesis, in fp64."""
    parents: Int[Tensor, "B N"]
    """The row that is extended."""
    tokens: Int[Tensor, "B N"]
    log_probabilities: Float[Tensor, "B N"]
    """The model's own, of the newest token."""

    def at(self, ranks: Int[Tensor, "B M"]) -> "Candidates":
        """Return the candidates of these ranks, per sentence."""
        own = (self.totals, self.parents, self.tokens, self.log_probabilities)
        return Candidates(*(tensor.gather(1, ranks) for tensor in own))

    def of(self, groups: list[int]) -> "Candidates":
        """Return the candidates of these sentences."""
        own = (self.totals, self.parents, self.tokens, self.log_probabilities)
        return Candidates(*(tensor[groups] for tensor in own))

    def alive(self) -> Bool[Tensor, "B N"]:
        """Return which slots are filled."""
        return self.totals > -math.inf

    def survivors(self, ends: Bool[Tensor, "B N"], width: int) -> tuple["Candidates", Int[Tensor, "B K"]]:
        """Return the first `width` candidates that do not end, and their ranks.

        An empty slot repeats the parent and token of the first one, since the step needs a valid input.
        """
        ranks = ends.int().sort(dim=1, stable=True).indices[:, :width]
        picked = self.at(ranks)
        totals = picked.totals.masked_fill(ends.gather(1, ranks), -math.inf)
        filled = totals > -math.inf
        parents = torch.where(filled, picked.parents, picked.parents[:, :1])
        tokens = torch.where(filled, picked.tokens, picked.tokens[:, :1])
        return Candidates(totals, parents, tokens, picked.log_probabilities), ranks


@dataclass(frozen=True)
class BeamStep:
    """One step of all open sentences: the candidates, and which of them finish or survive.

    A candidate is addressed by group (an open sentence) and rank (among its candidates, best first).
    """

    candidates: Candidates
    survivors: Candidates
    survivor_ranks: Int[Tensor, "B K"]
    """Ranks of the survivors among the candidates."""
    coverage: Float[Tensor, "R"]
    """Coverage penalty of the candidates that extend a row."""
    length: int
    """Number of tokens of each candidate."""
    alpha: float
    finished: dict[tuple[int, int], FinishReason] = field(default_factory=dict)
    """The candidates that are complete, by (group, rank), and why."""

    def parent(self, group: int, rank: int) -> int:
        """Return the row that a candidate extends."""
        return int(self.candidates.parents[group, rank])

    def token(self, group: int, rank: int) -> int:
        """Return the newest token of a candidate."""
        return int(self.candidates.tokens[group, rank])

    def log_probability(self, group: int, rank: int) -> float:
        """Return the model's log-probability of the newest token."""
        return float(self.candidates.log_probabilities[group, rank])

    def score(self, group: int, rank: int) -> float:
        """Return the score by which a candidate is ranked once complete."""
        total = float(self.candidates.totals[group, rank])
        return total / length_penalty(self.length, self.alpha) + float(self.coverage[self.parent(group, rank)])


class BeamSearch:
    """Beam search over the sentences of a request: live hypotheses of the open ones, results of all.

    **Pruning.** Live hypotheses of one sentence are equally long, so they are pruned by log-probability alone; length
    and coverage penalty (Wu et al. 2016, eq. 14) rank the complete ones. A hypothesis that reaches the length limit
    without an end token counts as complete, with the same score.

    **Finishing.** A candidate that ends is a result only if it is among the best K candidates; the beam is then filled
    up to K with candidates that do not end, so that results never take a slot from a hypothesis that could become
    better.

    **Early stopping** changes no result: see `_is_decided`.
    """

    def __init__(self, request: Request, *, keep_history: bool = False, stop_early: bool = True) -> None:
        count, device = len(request.contexts), torch.device(request.device)
        self.request = request
        self.settings = request.settings
        self.stop_early = stop_early
        self.limits = request.limits
        self.processors = LogitsProcessors(request)
        # So many that each row alone could fill the beam without ends.
        self.n_proposals = request.settings.beam_size + len(self.processors.end_ids)
        self.needs = StepNeeds(
            candidates=self.n_proposals if self.processors.is_noop else None,
            attention=bool(request.settings.coverage_penalty),
        )
        self.results = [FinishedHypotheses(request.settings.n_best) for _ in range(count)]
        self.writers = [HistoryWriter() for _ in range(count)] if keep_history else []
        self.open_sentences = list(range(count))
        self.sentences = torch.arange(count, device=device)  # R: the sentence of each row
        self.totals = torch.zeros(count, 1, dtype=widest_float(device), device=device)  # B K
        self.generated = self.sentences.new_empty(count, 0)  # R T
        self.token_log_probabilities = torch.empty(count, 0, device=device)  # R T
        self.attention: Tensor | None = None  # R S: total attention to each source position so far

    def begin(self) -> NextInputs:
        """Return the first inputs: the last context id of each sentence."""
        return NextInputs(None, self.sentences.new_tensor([context[-1] for context in self.request.contexts]))

    def observe(self, output: StepOutput) -> None:
        """Process the output of one step; no token is final yet, since any hypothesis may still be pruned."""
        proposals = self._propose_candidates(output) if output.candidates is not None else self._propose(output)
        self._accumulate_attention(output.attention)
        step = self._make_step(self._extend(proposals))
        self._finish_survivors(step)
        self._collect(step)
        for group, sentence in enumerate(self.open_sentences if self.writers else ()):
            self.writers[sentence].add(step, group)
        self.step = step

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
        before = self.token_log_probabilities.index_select(0, rows)
        self.token_log_probabilities = torch.cat([before, survivors.log_probabilities.view(-1, 1)], dim=1)
        if self.attention is not None:
            self.attention = self.attention.index_select(0, rows)
        return NextInputs(None if is_identity(rows, n_rows) else rows, tokens)

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
        self.attention = attention.to(self.totals.dtype) if self.attention is None else self.attention + attention

    def _propose_candidates(self, output: StepOutput) -> Proposals:
        """Return the step's own candidates: no rule changes what they score."""
        best = output.candidates
        if best is None:
            raise TypeError("the step gave no candidates")
        if self.generated.size(1) == 0:
            self.request.check_vocabulary(best.vocab_size)
        values, tokens = best.log_probabilities, best.ids
        if values.size(1) > self.n_proposals:  # another search of the same batch needed more
            values, tokens = values[:, : self.n_proposals], tokens[:, : self.n_proposals]
        wrong = values[:, 0].isnan()
        if bool(wrong.any()):
            raise logits_not_finite(int(self.sentences[int(wrong.int().argmax())]), self.generated.size(1))
        return Proposals(tokens, values, values)

    def _propose(self, output: StepOutput) -> Proposals:
        """Return the tokens with the best logits that the rules allow."""
        logits, length = output.logits, self.generated.size(1)
        if logits is None:
            raise TypeError("this search needs the logits of all tokens, which the step did not give")
        if length == 0:
            self.request.check_vocabulary(logits.size(1))
        log_probs = log_probabilities(logits, sentences=self.sentences, length=length)
        scores = self.processors.process(logits, log_probs, generated=self.generated, sentences=self.sentences)
        values, tokens = best_tokens(scores, self.n_proposals)  # R M
        if self.processors.constraints is not None:
            values, tokens = add_needed_tokens(values, tokens, scores, self.processors.constraints)
        return Proposals(tokens, values, values if scores is log_probs else log_probs.gather(1, tokens))

    def _extend(self, proposals: Proposals) -> Candidates:
        """Extend every hypothesis by its proposals; with lexical constraints, order them by `allocate_beam`."""
        candidates = extend_hypotheses(proposals, self.totals, at_least=self.settings.beam_size)
        if self.processors.constraints is None:
            return candidates
        return allocate_constrained(candidates, self.processors.constraints, self.generated)

    def _make_step(self, candidates: Candidates) -> BeamStep:
        """Split the candidates into those that end and those that form the next beam."""
        width = self.settings.beam_size
        ends = torch.isin(candidates.tokens, self.processors.end_ids) & candidates.alive()
        survivors, ranks = candidates.survivors(ends, width)
        step = BeamStep(
            candidates=candidates,
            survivors=survivors,
            survivor_ranks=ranks,
            coverage=self._coverage(),
            length=self.generated.size(1) + 1,
            alpha=self.settings.length_penalty,
        )
        for group, rank in ends[:, :width].nonzero().tolist():
            step.finished[group, rank] = "eos"
        return step

    def _coverage(self) -> Float[Tensor, "R"]:
        """Return the coverage penalty of each row's continuations."""
        if self.attention is None:
            return self.totals.new_zeros(len(self.sentences))
        mask = None if self.request.source_mask is None else self.request.source_mask[self.sentences]
        return coverage_penalty(self.attention, mask, self.settings.coverage_penalty)

    def _finish_survivors(self, step: BeamStep) -> None:
        """Finish the survivors that are complete, and all of a sentence that reached its length limit."""
        is_complete = self.request.is_complete
        for group, sentence in enumerate(self.open_sentences):
            at_limit = step.length >= self.limits[sentence]
            if not at_limit and is_complete is None:
                continue
            for beam in step.survivors.alive()[group].nonzero()[:, 0].tolist():
                rank = int(step.survivor_ranks[group, beam])
                if is_complete is not None and is_complete(self._ids(step, group, rank)):
                    step.finished[group, rank] = "stop"
                    step.survivors.totals[group, beam] = -math.inf  # its slot in the beam stays empty
                elif at_limit:
                    step.finished[group, rank] = "length"

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

    def _ids(self, step: BeamStep, group: int, rank: int) -> list[int]:
        ids: list[int] = self.generated[step.parent(group, rank)].tolist()
        return [*ids, step.token(group, rank)]

    def _is_decided(self, sentence: int, best: float, length: int) -> bool:
        """Tell whether no live hypothesis can change the results of a sentence any more.

        Let r ≤ 0 be the ranking log-probability of a live hypothesis, L the limit of its sentence,
        lp(n) = ((5 + n) / 6)^α with α ≥ 0. Every token adds a term ≤ 0, so any extension of n ≤ L tokens has
        r' ≤ r ≤ 0. As lp never decreases, r' / lp(n) ≤ r' / lp(L) ≤ r / lp(L) (α = 0: lp = 1 and this is r' ≤ r). The
        coverage term is ≤ 0. So no descendant scores above r / lp(L), and the likeliest live hypothesis has the largest
        such bound. Rounding is monotone, so it holds for floating-point numbers as well. Once the n_best-th result
        reaches that bound, no later one can score higher, and in a tie the earlier result ranks first.
        """
        results, limit = self.results[sentence], self.limits[sentence]
        if best == -math.inf or length >= limit:
            return True
        if self.settings.beam_size == 1:  # the first end decides, as in greedy search: no other hypothesis is left
            return bool(results.hypotheses)
        bound = best / length_penalty(limit, self.settings.length_penalty)
        return self.stop_early and results.worst >= bound


def add_needed_tokens(
    values: Float[Tensor, "R M"],
    tokens: Int[Tensor, "R M"],
    scores: Float[Tensor, "R V"],
    constraints: LexicalConstraints,
) -> tuple[Float[Tensor, "R M2"], Int[Tensor, "R M2"]]:
    """Return the proposals and each token of a forced sequence, with their scores."""
    needed = constraints.tokens.expand(len(tokens), -1)
    proposed_already = (needed[:, :, None] == tokens[:, None, :]).any(dim=2)
    values = torch.cat([values, scores.gather(1, needed).masked_fill(proposed_already, -math.inf)], dim=1)
    return values, torch.cat([tokens, needed], dim=1)


def extend_hypotheses(proposals: Proposals, totals: Float[Tensor, "B K"], *, at_least: int) -> Candidates:
    """Return each hypothesis extended by its proposals, sorted per sentence; pad with empty slots to `at_least`.

    Equal totals are ordered by the index of their hypothesis in the beam, then by token id.
    """
    sentences, (n_rows, n_each) = len(totals), proposals.tokens.shape
    extended = (totals.reshape(-1, 1) + proposals.scores).view(sentences, -1)  # B K*M
    parents = torch.arange(n_rows, device=totals.device).repeat_interleave(n_each).view(sentences, -1)
    tokens = proposals.tokens.reshape(sentences, -1)
    log_probs = proposals.log_probabilities.reshape(sentences, -1)
    if (missing := at_least - extended.size(1)) > 0:
        extended = F.pad(extended, (0, missing), value=-math.inf)
        parents, tokens, log_probs = (F.pad(one, (0, missing)) for one in (parents, tokens, log_probs))
    ordered = extended.sort(dim=1, descending=True, stable=True)
    return Candidates(ordered.values, *(one.gather(1, ordered.indices) for one in (parents, tokens, log_probs)))


def allocate_constrained(
    candidates: Candidates, constraints: LexicalConstraints, generated: Int[Tensor, "R T"]
) -> Candidates:
    """Return the candidates in the order of `allocate_beam`, by what they have satisfied of the constraints."""
    longer = torch.cat([generated[candidates.parents.flatten()], candidates.tokens.reshape(-1, 1)], dim=1)
    banks = (-constraints.outstanding(longer)).view_as(candidates.tokens)
    # Empty slots come last in both orders, so only the filled ones are allocated.
    filled = candidates.alive().sum(dim=1).tolist()
    ranks = [
        allocate_beam(bank_of[:count]) + list(range(count, len(bank_of)))
        for bank_of, count in zip(banks.tolist(), filled, strict=True)
    ]
    return candidates.at(torch.tensor(ranks, device=banks.device))


def allocate_beam(banks: Sequence[int]) -> list[int]:
    """Return the ranks 0, 1, … of candidates, best first, in the order in which they get a slot in the beam.

    Dynamic beam allocation (Post & Vilar 2018, 3.2): a bank holds the candidates that have satisfied equally much of
    the constraints. Each bank in turn places its best candidate, the most advanced bank first, then its second and so
    on, so that the beam is filled neither by likely candidates that postpone the constraints nor by unlikely ones that
    satisfy them. The first slot goes to the best of all: a beam of one is greedy here too.
    """
    placed: Counter[int] = Counter()
    order = []
    for rank, bank in enumerate(banks):
        order.append((placed[bank], rank != 0, -bank, rank))
        placed[bank] += 1
    return [rank for *_, rank in sorted(order)]


@dataclass
class FinishedHypotheses:
    """The best complete hypotheses of one sentence so far, at most `size`; in a tie the earlier one first."""

    size: int
    hypotheses: list[Hypothesis] = field(default_factory=list)
    endings: list[tuple[int, int]] = field(default_factory=list)
    """For each, the step at which it finished and its rank among the candidates there."""

    @property
    def worst(self) -> float:
        """The score that a new hypothesis must exceed to be added."""
        return self.hypotheses[-1].score if len(self.hypotheses) == self.size else -math.inf

    def add(self, hypothesis: Hypothesis, ending: tuple[int, int]) -> None:
        """Insert a hypothesis by its score and drop the last if there are now too many."""
        index = bisect.bisect_right(self.hypotheses, -hypothesis.score, key=lambda other: -other.score)
        self.hypotheses.insert(index, hypothesis)
        self.endings.insert(index, ending)
        del self.hypotheses[self.size :], self.endings[self.size :]


class HistoryWriter:
    """Records the history of one sentence during its search.

    It tracks the node of each live hypothesis, so that the nodes of the next step find their parents.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[BeamNode, ...]] = []
        self.index_of_rank: list[dict[int, int]] = []
        self.index_of_beam: list[int | None] = [None]

    def add(self, step: BeamStep, group: int) -> None:
        """Add one step: the best 2 K candidates, and all others that survived or finished."""
        survivor_ranks = step.survivor_ranks[group].tolist()
        nodes = {rank: self._node(step, group, rank, fate) for rank, fate in sorted(_fates(step, group).items())}
        indices = {rank: index for index, rank in enumerate(nodes)}
        self.steps.append(tuple(nodes.values()))
        self.index_of_rank.append(indices)
        self.index_of_beam = [indices.get(rank) for rank in survivor_ranks]

    def history(self, endings: list[tuple[int, int]]) -> BeamHistory:
        """Return the recorded history; `endings` are step and rank of the results."""
        found = tuple((step, self.index_of_rank[step][rank]) for step, rank in endings)
        return BeamHistory(tuple(self.steps), found)

    def _node(self, step: BeamStep, group: int, rank: int, fate: Fate) -> BeamNode:
        parent = self.index_of_beam[step.parent(group, rank) - group * len(self.index_of_beam)]
        value = step.log_probability(group, rank)
        return BeamNode(
            token=step.token(group, rank),
            token_log_probability=value,
            log_probability=value + (self.steps[-1][parent].log_probability if parent is not None else 0.0),
            score=step.score(group, rank),
            parent=parent,
            fate=fate,
        )


def _fates(step: BeamStep, group: int) -> dict[int, Fate]:
    """Return the fate of each candidate that gets a node, by rank."""
    survivor_ranks = step.survivor_ranks[group].tolist()
    is_filled = step.candidates.alive()[group, : 2 * len(survivor_ranks)].tolist()
    is_alive = step.survivors.alive()[group].tolist()
    fates: dict[int, Fate] = {rank: "pruned" for rank, filled in enumerate(is_filled) if filled}
    fates |= {rank: "alive" for rank, alive in zip(survivor_ranks, is_alive, strict=True) if alive}
    fates |= {rank: "finished" for other, rank in step.finished if other == group}
    return fates
