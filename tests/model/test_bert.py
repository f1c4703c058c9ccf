"""The encoder-only model and its heads (spec 6)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.errors import InputError, SettingsError
from sightline.model import ActivationCache
from sightline.model.bert import mean_of_tokens, select_first

CLOSE = {"atol": 1e-5, "rtol": 0.0}
ALL_HEADS = ("mlm", "nsp", "sequence_classification", "token_classification")


@pytest.fixture(scope="module")
def bert(make_subject):
    return make_subject("bert-bert", heads=ALL_HEADS, n_classes=5).model


@pytest.fixture(scope="module")
def averaging(make_subject):
    return make_subject("bert-bert", heads=ALL_HEADS, n_classes=5, pooling="mean").model


@pytest.fixture
def hidden(bert, batch):
    return bert(batch.ids, segments=batch.segments, lengths=batch.lengths)


def test_bert_gives_every_token_a_vector(hidden):
    """Contextual embeddings are the model's own output (spec 6.4)."""
    assert hidden.shape == (3, 7, 16)


@pytest.mark.parametrize(
    ("head", "shape"),
    [
        ("mlm", (3, 7, 20)),
        ("token_classification", (3, 7, 5)),
        ("sequence_classification", (3, 5)),
        ("nsp", (3, 2)),
    ],
)
def test_head_gives_scores_of_its_shape(bert, hidden, head, shape):
    """Vocabulary and classes at each token, classes and order for each text."""
    given = hidden if head in ("mlm", "token_classification") else bert.pool(hidden)
    assert getattr(bert, head)(given).shape == shape


@pytest.mark.parametrize("head", ALL_HEADS)
def test_head_passes_its_logits_to_the_hooks(bert, hidden, head):
    """The output of every head can be hooked."""
    activations = ActivationCache("logits")
    given = hidden if head in ("mlm", "token_classification") else bert.pool(hidden)
    scores = getattr(bert, head)(given, hooks=activations)
    assert torch.equal(activations["logits"], scores)


def test_mlm_is_a_layer_a_norm_and_the_tied_projection(bert, hidden):
    """BERT's head transforms before it compares with the word vectors."""
    head = bert.heads["mlm"]
    features = head.norm(torch.nn.functional.gelu(head.transform(hidden)))
    expected = features @ bert.embedding.tokens.weight.T + head.output.bias
    assert_close(bert.mlm(hidden), expected, **CLOSE)


def test_mlm_shares_the_word_vectors(bert):
    """One table in and out."""
    assert bert.heads["mlm"].output.weight is bert.embedding.tokens.weight


def test_mlm_untied_has_a_projection_of_its_own(make_subject):
    """The switch works."""
    bert = make_subject("bert-untied").model
    assert bert.heads["mlm"].output.weight is not bert.embedding.tokens.weight


def test_tie_weights_shares_replaced_weights_again(make_subject):
    """Loading weights replaces parameters."""
    bert = make_subject("bert-bert").model
    bert.embedding.tokens.weight = torch.nn.Parameter(torch.randn(20, 16))
    bert.tie_weights()
    assert bert.heads["mlm"].output.weight is bert.embedding.tokens.weight


def test_embedding_is_normalized_or_not(make_subject, batch):
    """Without the norm, its output is the sum of the parts."""
    for embedding_norm in (True, False):
        model = make_subject("bert-bert", embedding_norm=embedding_norm).model
        record = ActivationCache("encoder.embedding.*")
        with torch.no_grad():
            model(batch.ids, segments=batch.segments, lengths=batch.lengths, hooks=record)
        total = sum(record[f"encoder.embedding.{name}"] for name in ("tokens", "positions", "segments"))
        expected = model.embedding.norm(total) if embedding_norm else total
        assert_close(record["encoder.embedding.output"], expected, **CLOSE)


def test_pool_is_the_tanh_of_a_map_of_the_first_token(bert, hidden):
    """[CLS] represents the text (spec 6.3)."""
    assert_close(bert.pool(hidden), torch.tanh(bert.pooler(hidden[:, 0])), **CLOSE)


def test_pool_of_the_mean_is_the_tanh_of_a_map_of_the_mean_over_tokens(averaging, batch):
    """Padding does not count."""
    hidden = averaging(batch.ids, lengths=batch.lengths)
    means = torch.stack([row[:length].mean(0) for row, length in zip(hidden, batch.lengths, strict=True)])
    assert_close(averaging.pool(hidden, batch.lengths), torch.tanh(averaging.pooler(means)), **CLOSE)
    assert_close(averaging.pool(hidden), torch.tanh(averaging.pooler(hidden.mean(1))), **CLOSE)


@pytest.mark.parametrize("pooling", ["first", "mean"])
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_pool_of_packed_rows_equals_that_of_the_grid(bert, averaging, make_batch, pooling, lengths):
    """Tokens of a text are found without the grid."""
    bert, batch = averaging if pooling == "mean" else bert, make_batch(lengths)
    with torch.no_grad():
        packed, padded = (
            bert.pool(bert(batch.ids, segments=batch.segments, lengths=batch.lengths, packed=p), batch.lengths)
            for p in (True, False)
        )
    assert_close(packed, padded, **CLOSE)


@pytest.mark.parametrize("select", [select_first, mean_of_tokens])
def test_pool_of_packed_rows_needs_their_lengths(select):
    """Without them the starts of the texts are unknown."""
    with pytest.raises(InputError, match="packed rows need the lengths of their texts"):
        select(torch.zeros(4, 8), None)


@pytest.mark.parametrize("head", [h for h in ALL_HEADS if h != "mlm"])
def test_missing_head_is_refused_by_name(make_subject, head):
    """The error lists the heads there are."""
    bert = make_subject("bert-bert").model
    with pytest.raises(SettingsError, match=f"this model has no head '{head}', only mlm"):
        getattr(bert, head)(torch.zeros(2, 16))


def test_missing_pooler_is_refused(make_subject):
    """A model with token-level heads only has no pooler."""
    with pytest.raises(SettingsError, match="this model has no head for whole texts, only mlm"):
        make_subject("bert-bert").model.pool(torch.zeros(2, 3, 16))


def test_model_without_heads_says_none(make_subject):
    """An empty list reads as a mistake."""
    with pytest.raises(SettingsError, match="no head 'mlm', only none"):
        make_subject("bert-bert", heads=()).model.mlm(torch.zeros(2, 16))


@pytest.mark.parametrize(("heads", "has_pooler"), [
    (("mlm",), False), (("token_classification",), False), (("nsp",), True), (("sequence_classification",), True),
])  # fmt: skip
def test_pooler_exists_only_for_heads_that_need_it(make_subject, heads, has_pooler):
    """No weights without training signal."""
    assert (make_subject("bert-bert", heads=heads).model.pooler is not None) == has_pooler


@pytest.mark.parametrize("head", ["token_classification", "sequence_classification"])
def test_class_heads_drop_in_training(make_subject, head):
    """Fine-tuning on few examples needs it (spec 6.4)."""
    bert = make_subject("bert-bert", heads=(head,), dropout=0.5).model.train()
    given = torch.randn(4, 16)
    assert not torch.equal(getattr(bert, head)(given), getattr(bert, head)(given))


def test_segments_tell_the_two_texts_apart(bert, batch):
    """The same words as A or as B give different vectors (spec 6.1)."""
    first, second = (bert(batch.ids, segments=torch.full_like(batch.ids, kind)) for kind in (0, 1))
    assert not torch.allclose(first, second, atol=1e-3)


@given(order=st.permutations(range(6)))
def test_bert_without_positions_permutes_its_output_with_its_input(make_subject, order):
    """Only positions know the order (spec 2.4)."""
    bert = make_subject("bert-no_positions").model
    ids = torch.randint(20, (2, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert_close(bert(ids[:, order]), bert(ids)[:, order], **CLOSE)


def test_bert_with_positions_knows_the_order(bert):
    """The claim above fails with positions, as it must (spec 2.4)."""
    ids, order = torch.arange(6)[None], [2, 1, 0, 5, 3, 4]
    assert not torch.allclose(bert(ids[:, order]), bert(ids)[:, order], atol=1e-3)


def test_bert_refuses_texts_beyond_its_positions(bert):
    """Learned positions end somewhere."""
    with pytest.raises(InputError, match=r"65 tokens are more than this model can take \(64\)"):
        bert(torch.zeros(1, 65, dtype=torch.long))
