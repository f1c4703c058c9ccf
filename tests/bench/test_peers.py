"""A benchmark is only worth its name if everybody does the same work, with the same weights where they are compared."""

import math
from dataclasses import asdict, replace
from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch.testing import assert_close

from sightline.bench import decode, embed, levers, train
from sightline.bench.shapes import PAD, SIZES, Shape, Size, padding_share, pair_batch, random_model, training_batch
from sightline.model import attention, packing
from sightline.model.registry import resolve
from sightline.training import objective

pytestmark = pytest.mark.filterwarnings("ignore")  # other libraries' own

SMALL = (("d_model", 16), ("d_ff", 32), ("n_heads", 2))
SMALL_SIZES = {
    "tiny": Size("transformer-tiny", 50, 6, settings=(*SMALL, ("n_encoder_layers", 1), ("n_decoder_layers", 2))),
    "nanogpt": Size("gpt2-small", 50, 3, 7, settings=(*SMALL, ("n_layers", 2), ("dropout", 0.0)), clip=True),
    "bert-mini": Size("bert-mini", 50, 4, 9, settings=(*SMALL, ("n_layers", 2), ("heads", ["mlm"]))),
}
TRAINING = [(size, name) for size in SMALL_SIZES for name in train.PEERS[Shape(size).interface]]


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    for name, size in SMALL_SIZES.items():
        monkeypatch.setitem(SIZES, name, size)


def needs(*packages):
    """Skip where a peer is not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_batch_is_mixed_and_padded():
    """Lengths as in real batches: a sixth of the grid is padding."""
    batch = pair_batch(1000, 163)
    assert 0.1 < padding_share(batch) < 0.25
    assert 4_000 < batch.n_tokens < 4_300
    assert ((batch.inputs != PAD).sum(dim=1) == batch.lengths).all()
    assert ((batch.targets != PAD) == (batch.inputs != PAD)).all()


@pytest.mark.parametrize("size", SMALL_SIZES)
@pytest.mark.parametrize("numbers", [{"length": 12}, {"batch": 2}, {"vocabulary": 70}, {"layers": 3}])
def test_numbers_of_a_shape_reach_batch_and_model(size, numbers):
    shape = Shape(size, **numbers)
    batch, config = training_batch(shape), shape.config()
    [(name, value)] = numbers.items()
    found = {
        "length": batch.inputs.size(1),
        "batch": len(batch),
        "vocabulary": config.vocab_size,
        "layers": config.depth,
    }
    assert found[name] == value
    assert Shape.of(asdict(shape)) == shape


@pytest.mark.parametrize(("size", "name"), TRAINING)
def test_contenders_have_the_same_size(size, name):
    """Nobody wins by being smaller: all within a tenth of ours, tables of positions aside."""

    def n_weights(model):
        return sum(p.numel() for name, p in model.named_parameters() if "pos" not in name and "wpe" not in name)

    package, made = train.PEERS[Shape(size).interface][name]
    needs(package)
    config = Shape(size).config()
    assert n_weights(resolve(made)(config)) == pytest.approx(n_weights(train.Sightline(config)), rel=0.1)


@pytest.mark.parametrize(
    ("size", "made"),
    [
        *((size, None) for size in SMALL_SIZES),
        *((size, train.PEERS[Shape(size).interface][name][1]) for size, name in TRAINING),
    ],
)
@pytest.mark.parametrize("autocast", [False, True])
def test_contender_learns_the_batch(size, made, autocast):
    """A contender whose step changes nothing would be the fastest of all."""
    if made is None and autocast:
        pytest.skip("ours runs as our runs do")
    shape = Shape(size)
    torch.manual_seed(0)
    model = train.Sightline(shape.config()) if made is None else resolve(made)(shape.config())
    batch = training_batch(shape)
    step = train.training_step(model, batch, clip=shape.known.clip, autocast=autocast)
    before = float(model.eval()(batch))  # without dropout
    model.train()
    for _ in range(10):
        assert math.isfinite(step())
    assert float(model.eval()(batch)) < before


@pytest.fixture
def undone(monkeypatch):
    """Undo a lever for one test."""

    def undo(name):
        for owner, attribute in ((attention, "keep_factors"), (attention, "MIN_ROWS_TO_FUSE")):
            monkeypatch.setattr(owner, attribute, getattr(owner, attribute))
        monkeypatch.setattr(objective, "projected_cross_entropy", objective.projected_cross_entropy)
        for attribute in ("of", "trim"):
            monkeypatch.setattr(packing.Layout, attribute, vars(packing.Layout)[attribute])
        levers.CHANGES[name]()

    return undo


@pytest.mark.parametrize("lever", levers.CHANGES)
@pytest.mark.parametrize("size", SMALL_SIZES)
def test_step_without_a_lever_has_the_same_loss(size, lever, undone):
    """A lever saves time and changes no result."""
    shape = Shape(size)
    torch.manual_seed(0)
    model, batch = train.Sightline(shape.config(), smoothing=0.1).eval(), training_batch(shape)
    expected = model(batch)
    gradients = torch.autograd.grad(expected, list(model.parameters()), allow_unused=True)
    undone(lever)
    found = model(batch)
    assert_close(found, expected)
    for mine, theirs in zip(
        torch.autograd.grad(found, list(model.parameters()), allow_unused=True), gradients, strict=True
    ):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_dropout_by_torch_drops_as_many(undone):
    undone("cheap random bits for dropout")
    kept = attention.keep_factors(torch.zeros(10_000), 0.25)
    assert set(kept.tolist()) == {0.0, float(torch.tensor(1 / 0.75))}
    assert 0.7 < float((kept > 0).float().mean()) < 0.8


@pytest.mark.parametrize("lever", [None, *levers.LEVERS])
def test_ablation_builds_a_step_without_each_lever(lever, undone, monkeypatch):
    """The process of a contender undoes it; here it is undone for the test only."""
    monkeypatch.setattr(train, "CHANGES", {name: partial(undone, name) for name in levers.CHANGES})
    monkeypatch.setattr(train, "keep_freed_memory", lambda: None)
    job = train.our_job(Shape("tiny").as_arguments()["shape"], without=lever)
    assert math.isfinite(job.run())
    assert job.facts["products"].startswith("matrix products")


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("size", ["tiny", "nanogpt"])
def test_engines_generate_our_tokens(size, beam):
    """The same weights in every format: engines that multiply in 32 bits generate the same."""
    needs("transformers", "ctranslate2", "onnxruntime", "onnx")
    shape = Shape(size, batch=1, length=6, beam=beam)
    contenders = {one.name: one for one in decode.contenders(shape)}
    ours = resolve(contenders.pop("sightline").build)(asdict(shape)).run()
    assert [len(row) for row in ours] == [decode.N_NEW]
    assert len(set(ours[0])) > 1, "a model that repeats one word would tell nothing"
    for name, one in contenders.items():
        if "int8" in name or "llama" in name:  # llama.cpp rounds activations and caches to 16 bits in any format
            continue
        job = resolve(one.build)(asdict(shape), **one.settings[0].arguments)
        same, of = decode.same_tokens(ours, job.run())
        assert same == of == decode.N_NEW, name


def test_engines_that_round_begin_as_ours(monkeypatch):
    needs("ctranslate2", "onnxruntime", "onnx", "xllamacpp", "gguf")
    wide = (("d_model", 32), ("d_ff", 64))  # llama.cpp quantizes 32 weights at a time
    monkeypatch.setitem(SIZES, "nanogpt", replace(SIZES["nanogpt"], settings=(*SIZES["nanogpt"].settings, *wide)))
    shape = Shape("nanogpt", batch=1, length=6)
    contenders = {one.name: one for one in decode.contenders(shape)}
    ours = resolve(contenders.pop("sightline").build)(asdict(shape)).run()
    rounding = {name: one for name, one in contenders.items() if "int8" in name or "llama" in name}
    assert len(rounding) == 5
    for name, one in rounding.items():
        rows = resolve(one.build)(asdict(shape), **one.settings[0].arguments).run()
        assert [len(row) for row in rows] == [decode.N_NEW], name
        assert rows[0][0] == ours[0][0], name


def test_encoders_give_our_vectors():
    needs("transformers", "ctranslate2", "onnxruntime", "onnx")
    shape = Shape("bert-mini")
    ours = resolve(embed.contenders()[0].build)(asdict(shape)).run()
    assert len(ours) == 4
    for one in embed.contenders()[1:]:
        job = resolve(one.build)(asdict(shape), **one.settings[0].arguments)
        limit = 0.5 if "int8" in one.name else 1e-4
        assert embed.largest_difference(ours, job.run()) < limit, one.name


def test_no_text_ends_by_itself():
    """The end token's vector is zero, whatever the model."""
    for size in ("tiny", "nanogpt"):
        assert not random_model(Shape(size)).output.weight[1].any()
