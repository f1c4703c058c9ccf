"""A benchmark is only worth its name if everybody does the same work."""

import pytest
import torch

from sightline.bench import trace
from sightline.bench.measure import Timing, time_interleaved
from sightline.bench.train import PAD, PEERS, Sightline, Workload, installed_peers, training_step
from sightline.model import preset

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def config():
    return preset(
        "transformer-tiny",
        vocab_size=50,
        d_model=16,
        d_ff=32,
        n_heads=2,
        n_encoder_layers=1,
        n_decoder_layers=1,
        dropout=0.1,
    )


@pytest.fixture(scope="module")
def work():
    return Workload.mixed(vocab_size=50, n_sentences=6, min_length=3, max_length=7)


def test_workload_is_mixed_and_padded():
    """Lengths as in real batches: a sixth of the grid is padding."""
    work = Workload.mixed(vocab_size=1000)
    assert 0.1 < work.padding < 0.25
    assert 4_000 < work.n_target_tokens < 4_300
    assert ((work.target != PAD).sum(dim=1) == work.target_lengths).all()
    assert ((work.labels != PAD) == (work.target != PAD)).all()


def test_contenders_have_the_same_size(config):
    """Nobody wins by being smaller: all within a tenth of ours, fixed or learned position tables aside."""

    def n_weights(model: torch.nn.Module) -> int:
        return sum(p.numel() for name, p in model.named_parameters() if "pos" not in name)

    ours = n_weights(Sightline(config))
    assert set(PEERS) == set(installed_peers()), "the test environment has all peers"
    for name, make in installed_peers().items():
        assert n_weights(make(config)) == pytest.approx(ours, rel=0.1), name


@pytest.mark.parametrize("name", ["sightline", *PEERS])
def test_contender_learns_the_batch(config, work, name):
    """A contender whose step changes nothing would be the fastest of all."""
    torch.manual_seed(0)
    model = {"sightline": Sightline, **installed_peers()}[name](config)
    before = model.eval()(work).item()
    step = training_step(model.train(), work)
    for _ in range(10):
        step()
    assert model.eval()(work).item() < before


def test_timings_compare_round_by_round():
    slow, fast = Timing("slow", (2.0, 20.0, 4.0)), Timing("fast", (1.0, 10.0, 1.0))
    assert fast.speed_against(slow) == 2.0


def test_time_interleaved_interleaves_and_leaves_warm_up_out():
    calls = []
    timings = time_interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, warm_up=1)
    assert "".join(calls) == "abababab"
    assert [len(timing.seconds) for timing in timings] == [3, 3]


def test_every_variant_of_tracing_generates_thirty_tokens():
    """Who looks less must not have less to look at."""
    work = trace.translator("tiny")
    assert len(work.tokenizer.encode(trace.SENTENCE)) == trace.N_TOKENS
    [[translation]] = work.translations([trace.SENTENCE])
    assert len(translation.tokens) in (trace.N_TOKENS - 1, trace.N_TOKENS)
    sizes = {}
    for variant, options in trace.VARIANTS.items():
        if options is not None:
            seen = work.trace(trace.SENTENCE, **options)
            assert len(seen.steps) == trace.N_TOKENS
            sizes[variant] = seen.size
    assert sizes["all activations, logit lens"] > sizes["attention"] == sizes["attention, logit lens"] > 0


def test_memory_is_that_of_the_process():
    resident = trace.read_memory("VmRSS")
    assert resident == 0 or trace.read_memory("VmHWM") >= resident > 50_000_000
