"""A search in progress ends between two steps when another thread cancels it, alone or in a batch."""

import threading

import pytest
import torch

from sightline.decoding import (
    Cancellation,
    ContinuousBatch,
    DecodingSettings,
    Request,
    SearchCancelledError,
    search,
    search_for,
    stream,
)

from .toy import END, START, Toy


def make_request(cancellation, **settings):
    settings = DecodingSettings(max_new_tokens=9, min_new_tokens=9, **settings)
    return Request([[START]], settings, [END], cancellation=cancellation)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_search_is_cancelled_from_another_thread_between_two_steps(beam_size):
    toy, cancellation = Toy(), Cancellation()
    reached, go_on = threading.Event(), threading.Event()
    errors = []

    def step(newest, state, needs):
        if len(toy.rows_of_calls) == 2:
            reached.set()
            assert go_on.wait(30)
        return toy(newest, state, needs)

    def run():
        try:
            search(step, toy.start([0]), make_request(cancellation, beam_size=beam_size))
        except SearchCancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(30)
    cancellation.cancel()
    go_on.set()
    thread.join(30)
    assert [str(error) for error in errors] == ["the search was cancelled"]
    assert len(toy.rows_of_calls) == 3  # the step in progress was completed, and no other taken


def test_stream_is_cancelled_between_two_tokens():
    toy, cancellation = Toy(), Cancellation()
    results = stream(toy, toy.start([0]), make_request(cancellation))
    next(results)
    assert not torch.is_inference_mode_enabled()
    cancellation.cancel()
    with pytest.raises(SearchCancelledError):
        next(results)
    assert not torch.is_inference_mode_enabled()
    assert len(toy.rows_of_calls) == 1


def test_cancelled_search_leaves_a_batch_and_the_others_stay():
    toy, cancellation = Toy(), Cancellation()
    cancelled, other = search_for(make_request(cancellation)), search_for(make_request(Cancellation()))
    batch = ContinuousBatch(toy)
    batch.add([cancelled, other], toy.start([0, 1]))
    batch.advance()
    cancellation.cancel()
    first, second = batch.advance()
    assert first.is_done
    assert isinstance(first.error, SearchCancelledError)
    assert not second.is_done
    while batch.n_rows:
        batch.advance()
    alone = Toy()
    assert other.hypotheses == search(alone, alone.start([1]), make_request(None))
