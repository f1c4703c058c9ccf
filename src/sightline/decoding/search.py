"""One entry for every way of decoding."""

from collections.abc import Collection, Generator

from sightline.decoding.beam import Beams
from sightline.decoding.greedy import likeliest
from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.move import Search, Stride, drive
from sightline.decoding.request import Request
from sightline.decoding.sampling import Sampler
from sightline.decoding.step import State, Step
from sightline.decoding.walk import Walk, walk
from sightline.errors import SettingsError


def search_for(request: Request) -> Search:
    """Return the search that the settings of a request ask for, not begun."""
    settings = request.settings
    if settings.sample or (settings.beam == 1 and not settings.coverage_penalty):
        return walk_for(request)
    return Beams(request)


def walk_for(request: Request) -> Walk:
    """Return the greedy search, or `n_best` independent samples per sentence in the order of their drawing."""
    if request.settings.sample:
        return Walk(request, Sampler(request), copies=request.settings.n_best)
    return Walk(request, likeliest)


def search(step: Step, state: State, request: Request) -> list[list[Hypothesis]]:
    """Return up to `n_best` hypotheses for each sentence, by the search that the settings ask for.

    `state` has one row per sentence and has seen all of its context but the last id. No result depends on which
    sentences are searched together.
    """
    return drive(search_for(request), step, state)


def stream(step: Step, state: State, request: Request) -> Generator[Stride, Collection[int] | None, None]:
    """Yield the new tokens of every step while they are chosen, greedily or by chance.

    Row `sentence * n_best + i` is the i-th sample of a sentence; `send` the numbers of rows that shall leave.
    """
    if request.settings.beam > 1:
        raise SettingsError(f"a beam of {request.settings.beam} has no text before it is done: stream with beam = 1")
    return walk(step, state, walk_for(request))
