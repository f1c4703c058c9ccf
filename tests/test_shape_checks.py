"""The shapes in signatures are promises only while somebody checks them."""

import pytest
import torch
from jaxtyping import TypeCheckError

from sightline.model.attention import attend


def test_signatures_are_checked_in_the_test_run():
    """Keys narrower than queries must be caught at the call, by the shape in the signature."""
    query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 5)
    with pytest.raises(TypeCheckError, match="attend"):
        attend(query, key, key)
