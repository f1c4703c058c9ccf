"""Decode one sentence and keep the history of a beam search."""

from sightline.decoding import BeamHistory, Hypothesis, Request, State, Step, search, search_beams


def search_with_history(step: Step, state: State, request: Request) -> tuple[Hypothesis, BeamHistory | None]:
    """Return the best hypothesis for the one sentence of a request, and the history of the beam search, if any."""
    settings = request.settings
    if settings.do_sample or settings.beam_size == 1:
        return search(step, state, request)[0][0], None
    result = search_beams(step, state, request, keep_history=True)
    return result.hypotheses[0][0], result.histories[0]
