"""Ways of running a model that must only save work: every family, every variation, forward and backward."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline import runtime
from sightline.model import ActivationCache, Bert, Hooks, Transformer

CLOSE = {"atol": 1e-5, "rtol": 0.0}
GRADIENTS = {"atol": 1e-5, "rtol": 1e-5}

LENGTHS = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)


def explicit():
    """Hooks that force every attention off the fused kernel and change nothing."""
    return Hooks({"*.weights": lambda *_: None})


def test_fused_forward_equals_explicit(subject, batch):
    """The kernel must compute the explicit formula."""
    assert_close(subject.real(batch), subject.real(batch, hooks=explicit()), **CLOSE)


def test_fused_gradients_equal_explicit(subject, batch):
    """Training by the kernel is training by the formula."""
    fused, by_formula = (subject.gradients(subject.real(batch, **options)) for options in ({}, {"hooks": explicit()}))
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
    """Packing works with hooks."""
    assert_close(decoder.real(batch, packed=True, hooks=explicit()), decoder.real(batch), **CLOSE)


@pytest.fixture
def few_sizes(monkeypatch):
    """Round the rows of packed batches up to powers of two, and choose nothing else."""
    monkeypatch.setattr(runtime, "MIN_ROWS", 1)
    monkeypatch.setattr(runtime, "SIZES_PER_OCTAVE", 1)
    with runtime.multiply_by(runtime.Products({"1x1": "onednn"})):
        yield


def test_packed_rows_without_a_token_have_no_effect(subject, batch, few_sizes):
    """Rows are repeated to fill up a size that a library knows; nothing reads them, and they get no gradient."""
    packed, padded = (subject.real(batch, packed=packed) for packed in (True, False))
    assert packed.size(0) not in (1, 2, 4, 8, 16, 32)
    assert_close(packed, padded, **CLOSE)
    assert_close(subject.gradients(packed), subject.gradients(padded), **GRADIENTS)


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
            scores = model.mlm(model(batch.ids, segments=batch.segments))
        else:
            scores = model(*([batch.source] if isinstance(model, Transformer) else []), batch.ids)
        assert torch.equal(scores, subject.run(batch))


def test_batched_equals_each_sentence_alone(subject, batch):
    """Other sentences and padding must have no effect."""
    with torch.no_grad():
        together = subject.real(batch)
        alone = torch.cat([subject.real(batch.row(index)) for index in range(3)])
    assert_close(together, alone, **CLOSE)


def test_padding_ids_do_not_matter(subject, batch):
    """Whatever stands in the padding, real tokens get the same scores, bit for bit."""
    other = batch.with_ids(torch.where(batch.real, batch.ids, 19 - batch.ids))
    with torch.no_grad():
        assert torch.equal(subject.real(batch), subject.real(other))


def test_hooked_equals_unhooked(subject, batch):
    """Reading activations changes nothing."""
    with torch.no_grad():
        assert_close(
            subject.run(batch, hooks=ActivationCache("*"))[batch.real], subject.run(batch)[batch.real], **CLOSE
        )


def test_hooked_outside_the_kernel_is_bit_for_bit_unhooked(subject, batch):
    """Where the kernel is kept, hooks do not even change the rounding."""
    with torch.no_grad():
        watched = subject.run(batch, hooks=ActivationCache("*.residual", "*.output", "*.head_outputs", "*.query"))
        assert torch.equal(watched, subject.run(batch))


def test_hooked_gradients_equal_unhooked(decoder, batch):
    """Activations may be cached during training."""
    watched, plain = (
        decoder.gradients(decoder.real(batch, **options)) for options in ({"hooks": ActivationCache("*")}, {})
    )
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
    still = [name for name in still if not name.endswith(("attention.key.bias", "attention.key_norm.bias"))]
    assert still == []


@pytest.mark.parametrize(
    "name",
    [
        "transformer-paper",
        "transformer-modern",
        "gpt-gpt2",
        "gpt-llama",
        "gpt-rope",
        "gpt-qwen3",
        "bert-bert",
        "bert-modern",
    ],
)
@pytest.mark.parametrize("watched", [False, True], ids=["fused", "explicit"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_model_runs_in_another_precision(make_subject, batch, name, watched, dtype):
    """Weights may be cast as a whole, whatever the positions; the scores are then of that precision."""
    subject = make_subject(name)
    expected = subject.real(batch)
    subject.model.to(dtype)
    scores = subject.real(batch, **({"hooks": explicit()} if watched else {}))
    assert scores.dtype == dtype
    assert_close(scores.float(), expected, atol=0.3 if dtype == torch.bfloat16 else 1e-5, rtol=0.0)
