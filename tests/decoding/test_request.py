"""Requests that cannot be fulfilled are refused before the first step, and forced words always find room."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings, Request, search
from sightline.decoding.logits_processors import keep_room
from sightline.decoding.request import LexicalConstraints, drop_contained
from sightline.decoding.settings import contains
from sightline.errors import InputError

from .toy import END, START, Toy, contains_any


@pytest.mark.parametrize(
    ("settings", "more", "message"),
    [
        ({}, {"contexts": [[START], []]}, "sentence 2 has no context"),
        ({}, {"max_new_tokens": [3, 0]}, "sentence 2 has a max_new_tokens of 0"),
        ({}, {"max_new_tokens": [3]}, "max_new_tokens are for 1 sentences, contexts for 2"),
        ({}, {"prefixes": [[1]] * 3}, "prefixes are for 3 sentences, contexts for 2"),
        ({}, {"seeds": [1]}, "seeds are for 1 sentences"),
        ({}, {"source_mask": torch.ones(3, 2, dtype=torch.bool)}, "source_mask are for 3 sentences"),
        ({}, {"prefixes": [[], [2, END]]}, "the prefix of sentence 2 holds an end token"),
        (
            {"max_new_tokens": 2},
            {"prefixes": [[], [2, 3, 4]]},
            "sentence 2 has a prefix of 3 tokens and a max_new_tokens of 2",
        ),
        ({"bad_words": ((2, 3),)}, {"prefixes": [[], [4, 2, 3]]}, r"prefix of sentence 2 contains bad_words \(2, 3\)"),
        (
            {"stop": ("3",)},
            {"prefixes": [[3], []], "is_complete": contains_any(["3"], str)},
            "prefix of sentence 1 is complete already",
        ),
        ({"stop": ("3",)}, {}, "stop strings need is_complete"),
        ({"forced_words": ((2, END),)}, {}, r"forced_words \(2, 0\) holds an end token"),
        (
            {"forced_words": ((2, 3, 4),), "max_new_tokens": 2},
            {},
            "forced_words need 3 more tokens, but for sentence 1 2 of max_new_tokens 2",
        ),
        (
            {"forced_words": ((2, 3, 4),), "max_new_tokens": 4},
            {"prefixes": [[2, 3], [2, 5]]},
            "forced_words need 3 more tokens, but for sentence 2 2 of max_new_tokens 4 are left",
        ),
    ],
)
def test_impossible_request_is_refused(settings, more, message):
    more = {"contexts": [[START], [START]], **more}
    with pytest.raises(InputError, match=message):
        Request(settings=DecodingSettings(**settings), end_ids=[END], **more)


def test_request_lists_all_problems_at_once():
    with pytest.raises(InputError, match=r"sentence 1 has no context.*; sentence 2 has no context"):
        Request([[], []], DecodingSettings(), [END])


@pytest.mark.parametrize(
    "settings", [DecodingSettings(), DecodingSettings(beam_size=2), DecodingSettings(do_sample=True)]
)
def test_ids_outside_the_vocabulary_are_refused(settings):
    with pytest.raises(InputError, match=r"outside the vocabulary of 4 tokens: end_ids: 7; prefixes: 4; prefixes: 9"):
        search(Toy(4), Toy(4).start([0]), Request([[START]], settings, end_ids=[0, 7], prefixes=[[9, 4]]))


def test_request_limits_are_the_smaller_of_both():
    request = Request([[START]] * 2, DecodingSettings(max_new_tokens=5), [END], max_new_tokens=[3, 8])
    assert request.limits == [3, 5]


def test_forced_words_in_the_prefix_need_no_room():
    toy = Toy(6)
    settings = DecodingSettings(forced_words=((2, 3),), max_new_tokens=2)
    result = search(toy, toy.start([0]), Request([[START]], settings, end_ids=[END], prefixes=[[2, 3]]))[0][0]
    assert result.ids == (2, 3)


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
