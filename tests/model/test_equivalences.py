"""Ways of running a model that must only save work: every family, every variation, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.model import Bert, Probe, Recorder, Transformer

CLOSE = {"atol": 1e-5, "rtol": 0.0}
GRADIENTS = {"atol": 1e-5, "rtol": 1e-5}

LENGTHS = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


def explicit():
    """A probe that forces every attention off the fused kernel and changes nothing."""
    return Probe({"*.weights": lambda *_: None})


def test_fused_forward_equals_explicit(subject, batch):
    """The kernel must compute the formula we show."""
    assert_close(subject.real(batch), subject.real(batch, probe=explicit()), **CLOSE)


def test_fused_gradients_equal_explicit(subject, batch):
    """Training by the kernel is training by the formula."""
    fused, by_formula = (subject.gradients(subject.real(batch, **options)) for options in ({}, {"probe": explicit()}))
    assert_close(fused, by_formula, **GRADIENTS)


@settings(max_examples=3)
@given(lengths=LENGTHS, source_lengths=LENGTHS, seed=st.integers(0, 99))
def test_packed_forward_equals_padded(subject, make_batch, lengths, source_lengths, seed):
    """Leaving the padding out must leave the answer; empty sentences included."""
    batch = make_batch(lengths, source_lengths=source_lengths, seed=seed)
    with torch.no_grad():
        assert_close(subject.real(batch, packed=True), subject.real(batch), **CLOSE)


def test_packed_gradients_equal_padded(subject, batch):
    """The gradients of packing are written by hand."""
    packed, padded = (subject.gradients(subject.real(batch, packed=packed)) for packed in (True, False))
    assert_close(packed, padded, **GRADIENTS)


def test_packed_explicit_equals_padded_fused(decoder, batch):
    """Packing and watching go together."""
    assert_close(decoder.real(batch, packed=True, probe=explicit()), decoder.real(batch), **CLOSE)


def test_packed_full_batch_equals_padded(subject, make_batch):
    """With nothing to leave out, packing changes nothing at all."""
    batch = make_batch([4, 4, 4])
    with torch.no_grad():
        assert torch.equal(subject.real(batch, packed=True), subject.real(batch))


def test_lengths_of_a_full_batch_equal_no_lengths(subject, make_batch):
    """Lengths that say "all of it" are the default."""
    batch = make_batch([4, 4])
    model = subject.model
    with torch.no_grad():
        if isinstance(model, Bert):
            scores = model.masked_words(model(batch.ids, segments=batch.segments))
        else:
            scores = model(*([batch.source] if isinstance(model, Transformer) else []), batch.ids)
        assert torch.equal(scores, subject.run(batch))


def test_batched_equals_each_sentence_alone(subject, batch):
    """Neighbours and padding must not be seen."""
    with torch.no_grad():
        together = subject.real(batch)
        alone = torch.cat([subject.real(batch.row(index)) for index in range(3)])
    assert_close(together, alone, **CLOSE)


def test_padding_ids_do_not_matter(subject, batch):
    """Whatever stands in the padding, real tokens get the same scores, bit for bit."""
    other = batch.with_ids(torch.where(batch.real, batch.ids, 19 - batch.ids))
    with torch.no_grad():
        assert torch.equal(subject.real(batch), subject.real(other))


def test_probed_equals_unprobed(subject, batch):
    """Looking changes nothing."""
    with torch.no_grad():
        assert_close(subject.run(batch, probe=Recorder("*"))[batch.real], subject.run(batch)[batch.real], **CLOSE)


def test_probed_outside_the_kernel_is_bit_for_bit_unprobed(subject, batch):
    """Where the kernel is kept, looking does not even change the rounding."""
    with torch.no_grad():
        watched = subject.run(batch, probe=Recorder("*.residual", "*.output", "*.mixed", "*.query"))
        assert torch.equal(watched, subject.run(batch))


def test_probed_gradients_equal_unprobed(decoder, batch):
    """A recorder may stay on while training."""
    watched, plain = (decoder.gradients(decoder.real(batch, **options)) for options in ({"probe": Recorder("*")}, {}))
    assert_close(watched, plain, **GRADIENTS)


def test_attention_dropout_in_evaluation_equals_none(make_subject, batch):
    """Only training knows the difference."""
    plain, dropping = make_subject("transformer-paper"), make_subject("transformer-attention_dropout")
    assert torch.equal(plain.run(batch), dropping.run(batch))


def test_every_parameter_has_a_gradient(subject, batch):
    """A weight that takes no part is a bug in the wiring."""
    found = subject.gradients(subject.real(batch))
    still = [name for name, gradient in found.items() if not gradient.any()]
    # A bias of the keys adds the same to all scores of a query, and the softmax takes it away; rotated keys differ.
    still = [name for name in still if not name.endswith("attention.key.bias")]
    assert still == []


@pytest.mark.parametrize(
    "name",
    ["transformer-paper", "transformer-modern", "gpt-gpt2", "gpt-llama", "gpt-rotary", "bert-bert", "bert-modern"],
)
@pytest.mark.parametrize("watched", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_model_runs_in_another_precision(make_subject, batch, name, watched, dtype):
    """Weights may be cast as a whole, whatever the positions; the scores are then of that precision."""
    subject = make_subject(name)
    expected = subject.real(batch)
    subject.model.to(dtype)
    scores = subject.real(batch, **({"probe": explicit()} if watched else {}))
    assert scores.dtype == dtype
    assert_close(scores.float(), expected, atol=0.3 if dtype == torch.bfloat16 else 1e-5, rtol=0.0)
