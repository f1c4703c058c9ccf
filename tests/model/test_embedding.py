"""Tokens, positions and segments become vectors (spec 2)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.model import ActivationCache, BlockConfig
from sightline.model.context import AttentionContext
from sightline.model.embedding import TokenEmbedding
from sightline.model.packing import Layout

D_MODEL = 8


def embed(ids, *, hooks=None, n_segments=0, normed=False, segments=None, **settings):
    """Embed ids by a fresh embedding; return it and the vectors."""
    config = BlockConfig(vocab_size=20, d_model=D_MODEL, n_heads=2, d_ff=8, **settings)
    embedding = TokenEmbedding(config, vocab_size=20, n_segments=n_segments, normed=normed).eval()
    context = AttentionContext.bidirectional(Layout.of(ids), config, torch.float32)
    return embedding, embedding(ids, context, segments=segments, **({"hooks": hooks} if hooks else {}))


@pytest.fixture
def ids():
    return torch.randint(20, (2, 5))


def test_embedding_multiplies_tokens_by_the_root_of_their_width(ids):
    """Else the positions drown the words (spec 2.1)."""
    activations = ActivationCache("tokens")
    embedding, _ = embed(ids, hooks=activations)
    assert_close(activations["tokens"], embedding.tokens.weight[ids] * math.sqrt(D_MODEL))


def test_embedding_can_leave_tokens_unscaled(ids):
    """BERT and GPT do."""
    activations = ActivationCache("tokens")
    embedding, _ = embed(ids, hooks=activations, scale_embeddings=False)
    assert torch.equal(activations["tokens"], embedding.tokens.weight[ids])


def test_embedding_adds_the_sinusoids(ids):
    """The code of the position is added, not concatenated (spec 2.2)."""
    embedding, x = embed(ids)
    codes = torch.tensor(
        [
            [f(pos / 10_000 ** (2 * i / D_MODEL)) for i in range(D_MODEL // 2) for f in (math.sin, math.cos)]
            for pos in range(5)
        ]
    )
    assert_close(x, embedding.tokens.weight[ids] * math.sqrt(D_MODEL) + codes, atol=1e-5, rtol=0.0)


@given(st.integers(0, 200_000))
def test_embedding_knows_the_sinusoid_of_any_position(position):
    """No table limit: a model trained on short sentences can be asked about long ones (spec 2.2)."""
    config = BlockConfig(vocab_size=2, d_model=2, n_heads=1, d_ff=2)
    ids = torch.zeros(1, 1, dtype=torch.long)
    context = AttentionContext(Layout.of(ids), torch.tensor([position]), position + 1, None, None)
    code = TokenEmbedding(config, vocab_size=2).position_encoding(torch.zeros(1, 2), context)
    assert_close(code, torch.tensor([[math.sin(position), math.cos(position)]]), atol=1e-6, rtol=0.0)


def test_embedding_adds_the_learned_row_of_each_position(ids):
    """Learned positions are a second lookup table (spec 2.5)."""
    embedding, x = embed(ids, positions="learned", max_length=6, scale_embeddings=False)
    assert_close(x, embedding.tokens.weight[ids] + embedding.positions.weight[:5])


@pytest.mark.parametrize("positions", ["rope", "none"])
def test_embedding_adds_nothing_where_positions_are_not_added(ids, positions):
    """Rotary positions act inside attention only."""
    embedding, x = embed(ids, positions=positions, scale_embeddings=False)
    assert torch.equal(x, embedding.tokens.weight[ids])


def test_embedding_adds_the_segment_of_each_token(ids):
    """BERT tells its two sentences apart by it (spec 6.1)."""
    segments = torch.randint(2, ids.shape)
    embedding, x = embed(ids, n_segments=2, segments=segments, positions="none", scale_embeddings=False)
    assert_close(x, embedding.tokens.weight[ids] + embedding.segments.weight[segments])


def test_embedding_takes_everything_for_the_first_segment_when_not_told(ids):
    """A single text needs no segments."""
    embedding, x = embed(ids, n_segments=2, positions="none", scale_embeddings=False)
    assert_close(x, embedding.tokens.weight[ids] + embedding.segments.weight[0])


def test_embedding_norms_the_sum_where_asked(ids):
    """BERT norms before its first layer."""
    _, x = embed(ids, normed=True)
    assert_close(x.mean(-1), torch.zeros(2, 5), atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("positions", ["learned", "rope", "sinusoidal"])
def test_embedding_refuses_more_tokens_than_max_length(positions):
    """The error gives both numbers and the remedy."""
    with pytest.raises(InputError, match=r"1,001 tokens are more than this model can take \(1,000\): shorten the text"):
        embed(torch.zeros(1, 1001, dtype=torch.long), positions=positions, max_length=1000)


def test_embedding_takes_exactly_max_length_tokens():
    """The last learned position is one to use."""
    _, x = embed(torch.zeros(1, 6, dtype=torch.long), positions="learned", max_length=6)
    assert x.shape == (1, 6, D_MODEL)
