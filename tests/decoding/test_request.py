import pytest
import torch

from sightline.decoding import DecodingSettings, Request, search
from sightline.errors import InputError

from .toy import END, START, Toy


@pytest.mark.parametrize(
    ("settings", "more", "sentence"),
    [
        ({}, {"contexts": [[START], []]}, "sentence 2 has no context"),
        ({}, {"max_lengths": [3, 0]}, "sentence 2 has a max_length of 0"),
        ({}, {"max_lengths": [3]}, "max_lengths are for 1 sentences, contexts for 2"),
        ({}, {"prefixes": [[1]] * 3}, "prefixes are for 3 sentences, contexts for 2"),
        ({}, {"seeds": [1]}, "seeds are for 1 sentences"),
        ({}, {"source_mask": torch.ones(3, 2, dtype=torch.bool)}, "source_mask are for 3 sentences"),
        ({}, {"prefixes": [[], [2, END]]}, "the prefix of sentence 2 holds an end token"),
        ({"max_length": 2}, {"prefixes": [[], [2, 3, 4]]}, "sentence 2 has a prefix of 3 tokens and a max_length of 2"),
        ({"banned": ((2, 3),)}, {"prefixes": [[], [4, 2, 3]]}, r"prefix of sentence 2 contains banned \(2, 3\)"),
        ({"stop": ("3",)}, {"prefixes": [[3], []], "to_text": str}, "prefix of sentence 1 already contains a stop"),
        ({"stop": ("3",)}, {}, "stop strings need to_text"),
        ({"required": ((2, END),)}, {}, r"required \(2, 0\) holds an end token"),
        (
            {"required": ((2, 3, 4),), "max_length": 2},
            {},
            "required needs 3 tokens, but for sentence 1 2 of max_length 2",
        ),
        (
            {"required": ((2, 3, 4),), "max_length": 4},
            {"prefixes": [[2, 3], [2, 5]]},
            "required needs 3 tokens, but for sentence 2 2 of max_length 4 are left",
        ),
    ],
)
def test_request_that_cannot_be_met_is_refused(settings, more, sentence):
    more = {"contexts": [[START], [START]], **more}
    with pytest.raises(InputError, match=sentence):
        Request(settings=DecodingSettings(**settings), end_ids=[END], **more)


def test_request_lists_all_problems_at_once():
    with pytest.raises(InputError, match=r"sentence 1 has no context.*; sentence 2 has no context"):
        Request([[], []], DecodingSettings(), [END])


@pytest.mark.parametrize("settings", [DecodingSettings(), DecodingSettings(beam=2), DecodingSettings(sample=True)])
def test_ids_outside_the_vocabulary_are_refused(settings):
    with pytest.raises(InputError, match=r"outside the vocabulary of 4 tokens: end_ids: 7; prefixes: 4; prefixes: 9"):
        search(Toy(4), Toy(4).start([0]), Request([[START]], settings, end_ids=[0, 7], prefixes=[[9, 4]]))


def test_request_limits_are_the_smaller_of_both():
    request = Request([[START]] * 2, DecodingSettings(max_length=5), [END], max_lengths=[3, 8])
    assert request.limits == [3, 5]


def test_request_met_in_the_prefix_needs_no_room():
    toy = Toy(6)
    settings = DecodingSettings(required=((2, 3),), max_length=2)
    result = search(toy, toy.start([0]), Request([[START]], settings, end_ids=[END], prefixes=[[2, 3]]))[0][0]
    assert result.ids == (2, 3)
