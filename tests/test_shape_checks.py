"""The shapes in signatures are promises only while somebody checks them."""

import random

import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from sightline.data.corpora.corpus import format_context
from sightline.model.attention import attend
from type_checks import checked


def test_signatures_are_checked_in_the_test_run():
    """Keys narrower than queries must be caught at the call, by the shape in the signature."""
    query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 5)
    with pytest.raises(TypeCheckError, match="attend"):
        attend(query, key, key)


def test_letter_stands_for_one_size_from_the_arguments_to_the_result():
    def half(x: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        return x[:, : x.size(1) // 2]

    with pytest.raises(TypeCheckError, match="half"):
        checked(half, typechecker=None)(torch.zeros(2, 4))
    assert checked(half, typechecker=None)(torch.zeros(2, 0)).shape == (2, 0)


def test_checks_draw_nothing_from_random():
    """They run in threads too, beside others that draw."""
    before = random.getstate()
    for _ in range(5):
        format_context(["one", "two", "three"], context_turns=2)
    assert random.getstate() == before
