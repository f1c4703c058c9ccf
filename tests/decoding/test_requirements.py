import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding.requirements import Requirements, fair_order
from sightline.decoding.sequences import contains, independent

V = 4
sequences = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=3)


def test_outstanding_counts_what_is_missing_less_what_is_begun():
    requirements = Requirements([(1, 2, 3), (0,)])
    history = torch.tensor([[3, 3, 3], [3, 3, 1], [3, 1, 2], [0, 1, 2], [1, 2, 3], [1, 2, 0]])
    assert requirements.outstanding(history).tolist() == [4, 3, 2, 1, 1, 3]


def test_a_sequence_inside_another_is_not_asked_for_twice():
    assert independent([(1, 2), (1, 2, 3), (2,), (1, 2)]) == [(1, 2, 3)]


@given(sequences, st.integers(0, 4), st.integers(0, 2**32))
def test_any_choice_among_allowed_tokens_meets_every_requirement(wanted, spare, seed):
    """A blind walk through whatever is allowed: there is always a token, and at the limit all is there."""
    requirements = Requirements(wanted)
    chance = torch.Generator().manual_seed(seed)
    history = torch.zeros(1, 0, dtype=torch.long)
    limit = int(requirements.outstanding(history)) + spare
    for length in range(limit):
        scores = requirements.keep_room(
            torch.zeros(1, V + 1),
            history,
            remaining=torch.tensor([limit - length]),
            end_ids=torch.tensor([V]),
        )
        token = torch.multinomial(scores.exp(), 1, generator=chance)
        if int(token) == V:
            break
        history = torch.cat([history, token], dim=1)
    assert all(contains(history[0].tolist(), sequence) for sequence in wanted)


@given(sequences, st.lists(st.integers(0, V - 1), max_size=6))
def test_the_end_is_allowed_exactly_when_nothing_is_missing(wanted, ids):
    history = torch.tensor([ids], dtype=torch.long).view(1, -1)
    scores = Requirements(wanted).keep_room(
        torch.zeros(1, V + 1), history, remaining=torch.tensor([99]), end_ids=torch.tensor([V])
    )
    assert (scores[0, V] == 0) == all(contains(ids, sequence) for sequence in wanted)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_seats_are_shared_as_evenly_as_the_banks_allow(banks, count):
    order = fair_order(banks)
    assert sorted(order) == list(range(len(banks)))
    assert order[0] == 0
    seats = {bank: sum(banks[place] == bank for place in order[:count]) for bank in set(banks)}
    unserved = [bank for bank in seats if seats[bank] < banks.count(bank)]
    for bank in unserved:
        assert seats[bank] >= max(seats.values()) - 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_a_bank_seats_its_best_first(banks):
    order = fair_order(banks)
    for bank in set(banks):
        places = [place for place in order if banks[place] == bank]
        assert places == sorted(places)
