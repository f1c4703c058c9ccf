"""Entry points: search and stream, by the settings of a request."""

from collections.abc import Collection, Generator

from sightline.decoding.beam import BeamSearch
from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.interfaces import Search, State, Step, StepResult, run_search
from sightline.decoding.request import Request
from sightline.decoding.sequential import Sampler, SequentialSearch, greedy_tokens, run_steps
from sightline.errors import SettingsError


def search_for(request: Request) -> Search:
    """Build the search that the settings of a request ask for, not yet started."""
    settings = request.settings
    if settings.do_sample or (settings.beam_size == 1 and not settings.coverage_penalty):
        return sequential_search_for(request)
    return BeamSearch(request)


def sequential_search_for(request: Request) -> SequentialSearch:
    """Build a greedy search, or one that draws `n_best` independent samples per sentence."""
    if request.settings.do_sample:
        return SequentialSearch(request, Sampler(request), n_samples=request.settings.n_best)
    return SequentialSearch(request, greedy_tokens)


def search(step: Step, state: State, request: Request) -> list[list[Hypothesis]]:
    """Return up to `n_best` hypotheses for each sentence, by the search that the settings ask for.

    `state` has one row per sentence and has seen its context except the last id. No result depends on the other
    sentences of the batch.
    """
    return run_search(search_for(request), step, state)


def stream(step: Step, state: State, request: Request) -> Generator[StepResult, Collection[int] | None, None]:
    """Yield the new tokens of every step as they are chosen, greedily or by sampling.

    Row `sentence * n_best + i` is the i-th sample of a sentence; `send` the numbers of rows to drop.
    """
    if request.settings.beam_size > 1:
        raise SettingsError(
            "beam search cannot stream, since its tokens are final only at the end: "
            f"set beam_size = 1, not {request.settings.beam_size}"
        )
    return run_steps(step, state, sequential_search_for(request))
