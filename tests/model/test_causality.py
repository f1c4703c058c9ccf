"""Changing any future target token changes no earlier output (spec 4.2), on every causal architecture."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.model import ActivationCache

CAUSAL = {"atol": 1e-6, "rtol": 0.0}
WIDTH = 6


@st.composite
def futures(draw):
    """Lengths of two sentences, the position from which the first one's future changes, and by how much."""
    lengths = [draw(st.integers(2, WIDTH)), draw(st.integers(1, WIDTH))]
    position = draw(st.integers(1, lengths[0] - 1))
    shifts = draw(st.lists(st.integers(1, 19), min_size=lengths[0] - position, max_size=lengths[0] - position))
    return lengths, position, shifts


def changed_from(batch, position, shifts):
    """The batch with other tokens in the first sentence from `position` on."""
    ids = batch.ids.clone()
    ids[0, position : position + len(shifts)] = (ids[0, position : position + len(shifts)] + torch.tensor(shifts)) % 20
    return batch.with_ids(ids)


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@settings(max_examples=3)
@given(future=futures(), seed=st.integers(0, 99))
def test_outputs_do_not_depend_on_the_future(causal, make_batch, packed, future, seed):
    """Else training would be cheating: the answer would be seen."""
    lengths, position, shifts = future
    batch = make_batch(lengths, seed=seed)
    with torch.no_grad():
        before = causal.real(batch, packed=packed)
        after = causal.real(changed_from(batch, position, shifts), packed=packed)
    assert_close(before[:position], after[:position], **CAUSAL)
    assert_close(before[lengths[0] :], after[lengths[0] :], **CAUSAL)


@settings(max_examples=3)
@given(n_before=st.integers(0, 4), position=st.integers(1, 4), seed=st.integers(0, 99))
def test_cached_outputs_do_not_depend_on_the_future(causal, make_batch, n_before, position, seed):
    """A chunk of new tokens taken at once must be as blind to its own future as one token at a time."""
    batch = make_batch([n_before + 5] * 2, seed=seed)
    other = changed_from(batch, n_before + position, [7] * (5 - position))
    last = "decoder.final_norm" if causal.model.config.pre_norm else "decoder.1.feed_forward.norm"
    seen = []
    with torch.no_grad():
        for ids in (batch.ids, other.ids):
            state = causal.start(batch)
            if n_before:
                _, state = causal.model.step(ids[:, :n_before], state)
            activations = ActivationCache(last)
            causal.model.step(ids[:, n_before:], state, hooks=activations)
            seen.append(activations[last])
    assert_close(seen[0][0, :position], seen[1][0, :position], **CAUSAL)


def test_outputs_do_depend_on_the_past(causal, make_batch):
    """A model that saw nothing at all would pass the tests above."""
    batch = make_batch([WIDTH, WIDTH])
    with torch.no_grad():
        before, after = causal.run(batch), causal.run(changed_from(batch, 0, [3]))
    assert ((before - after)[0].abs().amax(-1) > 1e-4).all()


def test_future_tokens_get_exactly_no_weight(causal, batch):
    """The weights shown are zero above the diagonal, not small (spec 1.4)."""
    activations = ActivationCache("decoder.*.self_attention.weights")
    causal.run(batch, hooks=activations)
    assert all((weights.triu(1) == 0).all() for weights in activations.seen.values())


@pytest.mark.parametrize("name", ["bert-bert", "bert-modern", "bert-rope"])
def test_bert_sees_both_sides(make_subject, batch, name):
    """An encoder is not causal: its first token knows the last (spec 6)."""
    subject = make_subject(name)
    ids = batch.ids.clone()
    ids[1, 6] = (ids[1, 6] + 1) % 20
    assert not torch.allclose(subject.run(batch)[1, 0], subject.run(batch.with_ids(ids))[1, 0], atol=1e-4)
