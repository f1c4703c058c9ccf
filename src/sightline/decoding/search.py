"""One entry for every way of decoding."""

from collections.abc import Collection, Generator

from sightline.decoding.beam import search_beams
from sightline.decoding.greedy import likeliest, search_greedily
from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.sampling import Sampler, search_by_chance
from sightline.decoding.step import State, Step
from sightline.decoding.walk import Stride, walk
from sightline.errors import SettingsError


def search(step: Step, state: State, request: Request) -> list[list[Hypothesis]]:
    """Return up to `n_best` hypotheses for each sentence, by the search that the settings ask for.

    `state` has one row per sentence and has seen all of its context but the last id. No result depends on which
    sentences are searched together.
    """
    settings = request.settings
    if settings.sample:
        return search_by_chance(step, state, request)
    if settings.beam == 1 and not settings.coverage_penalty:
        return search_greedily(step, state, request)
    return search_beams(step, state, request).hypotheses


def stream(step: Step, state: State, request: Request) -> Generator[Stride, Collection[int] | None, None]:
    """Yield the new tokens of every step while they are chosen, greedily or by chance.

    Row `sentence * n_best + i` is the i-th sample of a sentence; `send` the numbers of rows that shall leave.
    """
    if request.settings.beam > 1:
        raise SettingsError(f"a beam of {request.settings.beam} has no text before it is done: stream with beam = 1")
    if request.settings.sample:
        return walk(step, state, request, Sampler(request), copies=request.settings.n_best)
    return walk(step, state, request, likeliest)
