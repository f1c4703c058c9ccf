"""The decoder-only model (spec 7)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.model import GPT, ActivationCache, GPTConfig

TINY = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}


def test_gpt_scores_the_next_token_at_every_position(make_subject, batch):
    """Training uses all positions at once (spec 4.1)."""
    assert make_subject("gpt-gpt2").run(batch).shape == (3, 7, 20)


def test_gpt_packed_gives_the_real_tokens_only(make_subject, batch):
    """N rows instead of B T."""
    assert make_subject("gpt-gpt2").run(batch, packed=True).shape == (3 + 7 + 1, 20)


def test_gpt_has_no_cross_attention(make_subject):
    """Causal self-attention only (spec 7.1)."""
    assert all(layer.cross_attention is None for layer in make_subject("gpt-gpt2").model.decoder.layers)


def test_gpt_shares_its_table_with_the_output_projection():
    """GPT-2's weights are tied."""
    model = GPT(GPTConfig(**TINY))
    assert model.output.weight is model.embedding.tokens.weight


def test_gpt_untied_has_an_output_projection_of_its_own():
    """Llama's are not."""
    model = GPT(GPTConfig(**TINY, tie_embeddings=False))
    assert model.output.weight is not model.embedding.tokens.weight


def test_gpt_logits_of_decode_are_its_forward(make_subject, batch):
    """The two halves can be run apart: a loss may project in chunks."""
    model = make_subject("gpt-gpt2").model
    assert torch.equal(model.logits(model.decode(batch.ids)), model(batch.ids))


@given(n_before=st.integers(1, 8))
def test_rope_gpt_scores_depend_on_distance_only(make_subject, n_before):
    """In its first layer, the score between two words is the same wherever the pair stands."""
    model = make_subject("gpt-rope").model
    words, before = torch.tensor([[3, 1, 4]]), torch.full((1, n_before), 7)
    alone, behind = ActivationCache("*.0.*.scores"), ActivationCache("*.0.*.scores")
    with torch.no_grad():
        model(words, hooks=alone)
        model(torch.cat((before, words), dim=1), hooks=behind)
    point = "decoder.0.self_attention.scores"
    assert_close(behind[point][..., n_before:, n_before:], alone[point], atol=1e-5, rtol=0.0)


def test_gpt_refuses_prompts_beyond_its_positions():
    """Learned positions end somewhere."""
    model = GPT(GPTConfig(**TINY, max_length=4))
    with pytest.raises(InputError, match=r"5 tokens are more than this model can take \(4\)"):
        model.step(torch.zeros(1, 5, dtype=torch.long), model.start(1))
