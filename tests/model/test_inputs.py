"""Inputs that are not token ids: vectors in their place, and a family that reads the patches of pictures."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from sightline.model import GPT, ActivationCache, Bert, BlockConfig, Transformer
from sightline.model.context import AttentionContext
from sightline.model.embedding import Embedding
from sightline.model.hooks import NO_HOOKS
from sightline.model.layers import Stack, glorot, initialize
from sightline.model.packing import Layout
from sightline.model.transformer import EncoderOutput

from .conftest import randomize

CLOSE = {"atol": 1e-5, "rtol": 0.0}


def with_vectors(subject, batch):
    """The batch with the vectors of its tokens in place of their ids."""
    model = subject.model
    target = model.target_embedding if isinstance(model, Transformer) else model.embedding
    return replace(batch, ids=target.embed(batch.ids), source=model.input_embedding.embed(batch.source))


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_vectors_of_tokens_equal_their_ids(subject, batch, packed):
    """Embedding is one step, encoding the next: positions, segments, norm and dropout belong to the second."""
    with torch.no_grad():
        given = subject.run(with_vectors(subject, batch), packed=packed)
        assert torch.equal(given, subject.run(batch, packed=packed))


def test_vectors_of_tokens_equal_their_ids_step_by_step(causal, batch):
    """A decoder continues from vectors as from tokens, and from tokens after vectors."""
    vectors = with_vectors(causal, batch)
    by_ids, by_vectors = causal.start(batch), causal.start(vectors)
    with torch.no_grad():
        expected, by_ids = causal.model.step(batch.ids[:, :4], by_ids, lengths=torch.tensor([3, 4, 1]))
        found, by_vectors = causal.model.step(vectors.ids[:, :4], by_vectors, lengths=torch.tensor([3, 4, 1]))
        assert torch.equal(found, expected)
        newest = batch.ids[:, -1:]
        assert torch.equal(causal.model.step(newest, by_vectors)[0], causal.model.step(newest, by_ids)[0])


@pytest.mark.parametrize("name", ["transformer-paper", "bert-bert", "gpt-gpt2"])
def test_vectors_pass_the_points_of_the_embedding(make_subject, batch, name):
    """The same names, whatever is read."""
    subject, seen = make_subject(name), []
    for one in (batch, with_vectors(subject, batch)):
        activations = ActivationCache("*.embedding.*")
        subject.run(one, hooks=activations)
        seen.append(activations.seen)
    assert seen[0].keys() == seen[1].keys()
    assert all(torch.equal(seen[0][point], seen[1][point]) for point in seen[0])


@pytest.mark.parametrize("name", ["transformer-paper", "bert-bert", "gpt-gpt2"])
def test_vectors_have_gradients_where_tokens_are_real(make_subject, batch, name):
    """Saliency, soft prompts, and any module in front of a model rest on them."""
    subject = make_subject(name)
    vectors = with_vectors(subject, batch)
    given = vectors.ids.detach().requires_grad_()
    scores = subject.real(vectors.with_ids(given))
    direction = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1))
    (gradient,) = torch.autograd.grad((scores * direction).sum(), given)
    assert torch.equal(gradient.any(-1), batch.real)


def test_text_after_a_prefix_of_vectors_is_cached_as_uncached(make_subject):
    """A picture before a text: vectors first, then the embedded ids, in one sequence."""
    model: GPT = make_subject("gpt-llama").model
    prefix, ids = (
        torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(1)),
        torch.tensor([[1, 2, 3], [4, 5, 6]]),
    )
    with torch.no_grad():
        whole = model(torch.cat((prefix, model.embedding.embed(ids)), dim=1))[:, -1]
        _, cache = model.step(prefix, model.start(2))
        stepped, _ = model.step(ids, cache)
    assert_close(stepped, whole, **CLOSE)


def test_bert_takes_vectors_for_the_first_segment_when_not_told(make_subject, batch):
    """As it does ids."""
    model: Bert = make_subject("bert-bert").model
    with torch.no_grad():
        assert torch.equal(model(model.embedding.embed(batch.ids)), model(batch.ids))


# A family that reads patches


@dataclass(frozen=True, kw_only=True)
class PatchConfig(BlockConfig):
    """An encoder of pictures."""

    vocab_size: int = 1
    d_patch: int = 5
    n_layers: int = 2


class PatchEncoder(nn.Module):
    """Gives a vector for every patch of a picture: a linear map, positions, and the layers of all other models."""

    def __init__(self, config: PatchConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config, nn.Linear(config.d_patch, config.d_model))
        self.encoder = Stack(config, n_layers=config.n_layers)
        initialize(self, embedding_std=0.02, linear=glorot)

    def tie_weights(self):
        """Nothing is tied."""

    def forward(self, patches, *, lengths=None, packed=False, hooks=NO_HOOKS):
        return self.encode(patches, lengths=lengths, packed=packed, hooks=hooks).hidden

    def encode(self, patches, *, lengths=None, packed=False, hooks=NO_HOOKS):
        hooks = hooks.within("encoder")
        layout = Layout.of(patches, lengths, packed=packed)
        context = AttentionContext.bidirectional(layout, self.config, patches.dtype)
        x = self.embedding(layout.pack(patches), context, hooks=hooks.within("embedding"))
        return EncoderOutput(self.encoder(x, context, hooks=hooks), layout, context.mask)


POSITIONS = {
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned", "max_length": 8},
    "rope": {"positions": "rope"},
}


def make_patch_encoder(**settings):
    config = PatchConfig(d_model=16, n_heads=4, d_ff=24, scale_embeddings=False, **settings)
    return randomize(PatchEncoder(config)).eval()


@pytest.fixture(params=POSITIONS.values(), ids=POSITIONS)
def patch_encoder(request):
    return make_patch_encoder(**request.param)


LENGTHS = torch.tensor([3, 7, 1])
REAL = torch.arange(7) < LENGTHS[:, None]


@pytest.fixture
def patches():
    return torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(2))


def test_patches_packed_equal_padded(patch_encoder, patches):
    """Pictures of different sizes, without computing their padding."""
    padded, packed = (patch_encoder(patches, lengths=LENGTHS, packed=packed) for packed in (False, True))
    assert packed.shape == (11, 16)
    assert_close(packed, padded[REAL], **CLOSE)


def test_patches_packed_have_the_gradients_of_padded(patch_encoder, patches):
    """And are trained without it."""
    direction = torch.randn(11, 16, generator=torch.Generator().manual_seed(3))
    gradients = []
    for packed in (False, True):
        hidden = patch_encoder(patches, lengths=LENGTHS, packed=packed)
        hidden = hidden if packed else hidden[REAL]
        gradients.append(
            torch.autograd.grad((hidden * direction).sum(), [*patch_encoder.parameters()], allow_unused=True)
        )
    assert_close(gradients[0], gradients[1], atol=1e-4, rtol=1e-4)
    assert gradients[0][0].any()  # the map of the patches


def test_patches_are_mapped_then_placed(patches):
    """What the first layer reads: the linear map of each patch, plus the row of its position."""
    model, activations = make_patch_encoder(**POSITIONS["learned"]), ActivationCache("encoder.embedding.*")
    with torch.no_grad():
        model(patches, hooks=activations)
        mapped = model.embedding.tokens(patches)
        assert torch.equal(activations["encoder.embedding.tokens"], mapped)
        assert_close(activations["encoder.embedding.output"], mapped + model.embedding.positions.weight[:7])


def test_patches_know_their_order(patch_encoder, patches):
    """Turned around, a picture is another one."""
    with torch.no_grad():
        forward, backward = patch_encoder(patches), patch_encoder(patches.flip(1)).flip(1)
    assert not torch.allclose(forward, backward, atol=1e-2)


def test_decoder_attends_to_patches_cached_as_uncached(make_subject, patches, batch):
    """An encoder of pictures before the decoder of texts: what it gives goes to `decode` and `start`."""
    encoder, decoder = make_patch_encoder(**POSITIONS["learned"]), make_subject("transformer-paper").model
    with torch.no_grad():
        seen = encoder.encode(patches, lengths=LENGTHS)
        whole = decoder.logits(decoder.decode(batch.ids, seen))
        state, steps = decoder.start(seen), []
        for ids in batch.ids.split(1, dim=1):
            logits, state = decoder.step(ids, state)
            steps.append(logits)
    assert_close(torch.stack(steps, dim=1), whole, **CLOSE)
