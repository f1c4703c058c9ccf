import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding.constraints import LexicalConstraints, allocate_beam
from sightline.decoding.logits_processors import keep_room
from sightline.decoding.sequences import contains, drop_contained

V = 4
sequences = st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=3)


def test_outstanding_counts_what_is_missing_less_what_is_begun():
    constraints = LexicalConstraints([(1, 2, 3), (0,)])
    history = torch.tensor([[3, 3, 3], [3, 3, 1], [3, 1, 2], [0, 1, 2], [1, 2, 3], [1, 2, 0]])
    assert constraints.outstanding(history).tolist() == [4, 3, 2, 1, 1, 3]


def test_sequences_inside_another_are_dropped():
    assert drop_contained([(1, 2), (1, 2, 3), (2,), (1, 2)]) == [(1, 2, 3)]


@given(sequences, st.integers(0, 4), st.integers(0, 2**32))
def test_any_choice_of_allowed_tokens_satisfies_every_constraint(wanted, spare, seed):
    """Random choices among the allowed tokens: there is always one, and at the limit nothing is missing."""
    constraints = LexicalConstraints(wanted)
    generator = torch.Generator().manual_seed(seed)
    history = torch.zeros(1, 0, dtype=torch.long)
    limit = int(constraints.outstanding(history)) + spare
    for length in range(limit):
        scores = keep_room(
            torch.zeros(1, V + 1),
            history,
            constraints,
            remaining=torch.tensor([limit - length]),
            end_ids=torch.tensor([V]),
        )
        token = torch.multinomial(scores.exp(), 1, generator=generator)
        if int(token) == V:
            break
        history = torch.cat([history, token], dim=1)
    assert all(contains(history[0].tolist(), sequence) for sequence in wanted)


@given(sequences, st.lists(st.integers(0, V - 1), max_size=6))
def test_the_end_is_allowed_exactly_when_nothing_is_missing(wanted, ids):
    history = torch.tensor([ids], dtype=torch.long).view(1, -1)
    constraints = LexicalConstraints(wanted)
    scores = keep_room(
        torch.zeros(1, V + 1), history, constraints, remaining=torch.tensor([99]), end_ids=torch.tensor([V])
    )
    assert (scores[0, V] == 0) == all(contains(ids, sequence) for sequence in wanted)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(1, 12))
def test_beam_slots_are_shared_as_evenly_as_the_banks_allow(banks, count):
    order = allocate_beam(banks)
    assert sorted(order) == list(range(len(banks)))
    assert order[0] == 0
    slots = {bank: sum(banks[rank] == bank for rank in order[:count]) for bank in set(banks)}
    waiting = [bank for bank in slots if slots[bank] < banks.count(bank)]
    for bank in waiting:
        assert slots[bank] >= max(slots.values()) - 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_bank_places_its_best_first(banks):
    order = allocate_beam(banks)
    for bank in set(banks):
        ranks = [rank for rank in order if banks[rank] == bank]
        assert ranks == sorted(ranks)
