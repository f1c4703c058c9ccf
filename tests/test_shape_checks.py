"""The shapes in signatures are promises only while somebody checks them."""

import random

import pytest
import torch
from jaxtyping import TypeCheckError

from sightline.model.attention import attend
from sightline.text.dialogue import source_of


def test_signatures_are_checked_in_the_test_run():
    """Keys narrower than queries must be caught at the call, by the shape in the signature."""
    query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 5)
    with pytest.raises(TypeCheckError, match="attend"):
        attend(query, key, key)


def test_checks_draw_nothing_from_random():
    """They run in threads, too, beside whoever else draws."""
    before = random.getstate()
    for _ in range(5):
        source_of(["one", "two", "three"], history=2)
    assert random.getstate() == before
