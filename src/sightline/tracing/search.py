"""Search as always, but remember how the result was found."""

from sightline.decoding import BeamHistory, Hypothesis, Request, State, Step, search, search_beams


def remembered_search(step: Step, state: State, request: Request) -> tuple[Hypothesis, BeamHistory | None]:
    """Return the best result for the one sentence of a request, and all that a beam looked at for it."""
    settings = request.settings
    if settings.sample or settings.beam == 1:
        return search(step, state, request)[0][0], None
    result = search_beams(step, state, request, keep_history=True)
    return result.hypotheses[0][0], result.histories[0]
