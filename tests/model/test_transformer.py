"""The encoder–decoder: tied weights, cross-attention, and the errors it raises."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.model import ActivationCache, Hooks, Transformer, TransformerConfig

CLOSE = {"atol": 1e-5, "rtol": 0.0}
TINY = {"vocab_size": 20, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}


def explicit():
    return Hooks({"*.weights": lambda *_: None})


def test_transformer_shares_one_table_where_the_vocabulary_is_shared():
    """Source embedding, target embedding and output projection are one matrix (spec 2.1, 3.4 of the paper)."""
    model = Transformer(TransformerConfig(**TINY))
    assert model.source_embedding.tokens.weight is model.target_embedding.tokens.weight is model.output.weight


def test_transformer_with_two_vocabularies_shares_the_target_s_table_only():
    """Two languages, two tables; the output still speaks the target's."""
    model = Transformer(TransformerConfig(**TINY, target_vocab_size=23))
    assert model.source_embedding.tokens.weight.shape == (20, 8)
    assert model.target_embedding.tokens.weight.shape == (23, 8)
    assert model.output.weight is model.target_embedding.tokens.weight


def test_transformer_untied_has_an_output_projection_of_its_own():
    """The switch works."""
    model = Transformer(TransformerConfig(**TINY, tie_embeddings=False))
    assert model.output.weight is not model.target_embedding.tokens.weight


def test_tie_weights_shares_replaced_weights_again(make_subject):
    """Loading weights replaces parameters; what was one must be one again."""
    model = make_subject("transformer-paper").model
    model.source_embedding.tokens.weight = torch.nn.Parameter(torch.randn(20, 16))
    model.tie_weights()
    assert model.output.weight is model.target_embedding.tokens.weight is model.source_embedding.tokens.weight


def test_transformer_scores_every_token_of_the_target_vocabulary(make_subject, batch):
    """Not of the source's (spec 3.3)."""
    assert make_subject("transformer-separate_target").run(batch).shape == (3, 7, 23)


def test_transformer_packed_gives_the_real_tokens_only(make_subject, batch):
    """N rows instead of B T."""
    assert make_subject("transformer-paper").run(batch, packed=True).shape == (3 + 7 + 1, 20)


@torch.no_grad()
def test_changing_the_source_changes_keys_and_values_of_cross_attention_only(transformer, batch):
    """Queries come from the decoder (spec 1.6): in its first layer they do not know the source."""
    other = replace(batch, source=(batch.source + 1) % 20)
    seen = []
    for each in (batch, other):
        activations = ActivationCache("decoder.0.*")
        encoder_output = transformer.encode(each.source, lengths=each.source_lengths)
        transformer.decode(each.ids, encoder_output, hooks=activations)
        seen.append(activations)
    changed = {
        point: not torch.equal(
            seen[0][f"decoder.0.cross_attention.{point}"], seen[1][f"decoder.0.cross_attention.{point}"]
        )
        for point in ("query", "key", "value")
    }
    assert changed == {"query": False, "key": True, "value": True}


@torch.no_grad()
def test_changing_the_target_changes_queries_of_cross_attention_only(transformer, batch):
    """Keys and values come from the encoder (spec 1.6): they do not know the target."""
    encoder_output = transformer.encode(batch.source, lengths=batch.source_lengths)
    seen = []
    for ids in (batch.ids, (batch.ids + 1) % 20):
        activations = ActivationCache("decoder.*.cross_attention.*")
        transformer.decode(ids, encoder_output, hooks=activations)
        seen.append(activations)
    changed = {
        point: not torch.equal(
            seen[0][f"decoder.1.cross_attention.{point}"], seen[1][f"decoder.1.cross_attention.{point}"]
        )
        for point in ("query", "key", "value")
    }
    assert changed == {"query": True, "key": False, "value": False}


@torch.no_grad()
def test_cross_attention_gives_source_padding_exactly_no_weight(transformer, batch):
    """The decoder must not read behind a sentence's end (spec 1.4)."""
    activations = ActivationCache("decoder.*.cross_attention.weights")
    transformer.decode(batch.ids, transformer.encode(batch.source, lengths=batch.source_lengths), hooks=activations)
    hidden = torch.arange(6) >= batch.source_lengths[:, None]
    assert all((w.masked_select(hidden[:, None, None]) == 0).all() for w in activations.seen.values())


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("watched", [False, True], ids=["fused", "explicit"])
class TestAnEmptySource:
    """A sentence of length 0 among others: its decoder attends to nothing (spec 1.4)."""

    @staticmethod
    def scores(subject, batch, *, packed, watched):
        return subject.real(batch, packed=packed, **({"hooks": explicit()} if watched else {}))

    @pytest.fixture
    def with_empty(self, make_batch):
        return make_batch([3, 5], source_lengths=[0, 4])

    def test_gives_finite_scores_and_gradients(self, make_subject, with_empty, packed, watched):
        """One empty line in a corpus must not end a training run."""
        subject = make_subject("transformer-paper")
        scores = self.scores(subject, with_empty, packed=packed, watched=watched)
        assert scores.isfinite().all()
        assert all(gradient.isfinite().all() for gradient in subject.gradients(scores).values())

    def test_mixes_nothing(self, make_subject, with_empty, packed, watched):
        """Zeros, not the mean of the padding."""
        activations = ActivationCache("decoder.*.cross_attention.head_outputs", *(["*.weights"] if watched else []))
        make_subject("transformer-paper").run(with_empty, packed=packed, hooks=activations)
        mixed = [value for name, value in activations.seen.items() if name.endswith("head_outputs")]
        assert len(mixed) == 2
        assert all((value[0] == 0).all() for value in mixed)

    def test_leaves_the_others_alone(self, make_subject, with_empty, packed, watched):
        """Its neighbor is translated as if alone."""
        subject = make_subject("transformer-paper")
        scores = self.scores(subject, with_empty, packed=packed, watched=watched)
        assert_close(scores[3:], subject.real(with_empty.row(1)), **CLOSE)

    def test_alone_gives_finite_scores(self, make_subject, make_batch, packed, watched):
        """A batch of nothing but empty sentences, of width 0, is still a batch."""
        batch = make_batch([3, 5], source_lengths=[0, 0])
        assert self.scores(make_subject("transformer-paper"), batch, packed=packed, watched=watched).isfinite().all()


@given(order=st.permutations(range(6)))
def test_encoder_without_positions_permutes_its_output_with_its_input(make_subject, order):
    """And changes nothing else: order is known by positions only (spec 2.4)."""
    model = make_subject("transformer-no_positions").model
    source = torch.randint(20, (2, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert_close(model.encode(source[:, order]).hidden, model.encode(source).hidden[:, order], **CLOSE)


@pytest.mark.parametrize("positions", ["paper", "sinusoidal_halves", "learned", "rope"])
def test_encoder_with_positions_knows_the_order(make_subject, positions):
    """The claim above fails with every kind of positions, as it must (spec 2.4)."""
    model = make_subject(f"transformer-{positions}").model
    source, order = torch.arange(6)[None], [2, 1, 0, 5, 3, 4]
    moved = (model.encode(source[:, order]).hidden - model.encode(source).hidden[:, order]).abs().amax(-1)
    assert (moved > 1e-3).any()


def test_rope_encoder_depends_on_distances_only(make_subject):
    """Relative positions: what stands before a sentence and is hidden from it does not matter, bar its length."""
    model = make_subject("transformer-rope").model
    activations = [ActivationCache("encoder.0.self_attention.scores") for _ in range(2)]
    words = torch.tensor([[3, 1, 4, 1, 5]])
    model.encode(words, hooks=activations[0])
    model.encode(torch.cat((torch.tensor([[9, 2, 6]]), words), dim=1), hooks=activations[1])
    point = "encoder.0.self_attention.scores"
    assert_close(activations[1][point][..., 3:, 3:], activations[0][point], **CLOSE)


def test_transformer_refuses_a_source_beyond_learned_positions():
    """Named in numbers (spec 2.5)."""
    model = Transformer(TransformerConfig(**TINY, positions="learned", max_length=4))
    with pytest.raises(InputError, match=r"5 tokens are more than this model can take \(4\)"):
        model.encode(torch.zeros(1, 5, dtype=torch.long))


def test_transformer_refuses_a_target_beyond_learned_positions():
    """Both sides are checked."""
    model = Transformer(TransformerConfig(**TINY, positions="learned", max_length=4))
    with pytest.raises(InputError, match=r"5 tokens are more than this model can take \(4\)"):
        model(torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, 5, dtype=torch.long))


def test_transformer_refuses_lengths_beyond_the_batch(make_subject, batch):
    """A wrong length is said, not read past."""
    with pytest.raises(InputError, match="lengths must lie between 0 and 6"):
        make_subject("transformer-paper").model.encode(batch.source, lengths=torch.tensor([7, 1, 1]))


def test_transformer_reads_longer_sentences_than_any_table(make_subject):
    """Sinusoids know no limit (spec 2.2): the same model takes 100 and then 300 tokens."""
    model = make_subject("transformer-paper").model
    ids = torch.zeros(1, 300, dtype=torch.long)
    with torch.no_grad():
        assert model.encode(ids[:, :100]).hidden.isfinite().all()
        assert model.encode(ids).hidden.isfinite().all()
