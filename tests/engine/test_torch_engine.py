"""The torch engine gives what its model gives, in evaluation mode and without gradients, during its calls only."""

import threading

import pytest
import torch
from torch.testing import assert_close

from pipelines.tiny import BPE, generator_bundle, precise, tiny_model, translator_bundle
from sightline.decoding import DecodingSettings, Request, SearchCancelledError, StepNeeds, search
from sightline.engine.torch_engine import PREFILLS, TorchEngine, register_prefill
from sightline.errors import InputError
from sightline.model import ActivationCache, CausalLM, Seq2Seq, ablate_heads
from sightline.model.registry import interface_of
from sightline.pipelines import Generator, Translator

PROMPTS = [[7, 8, 9], [10], [], [11, 12]]
NEWEST = torch.tensor([20, 21, 22, 23])
ALL = StepNeeds()


def make_engine(family, **options):
    return TorchEngine(tiny_model(family, BPE, dropout=0.5).double(), **options)


@torch.inference_mode()
def whole_logits(model, prompt, target):
    """Return the logits after a target, computed at once."""
    model.eval()
    if interface_of(model.config) is Seq2Seq:
        return model(torch.tensor([prompt]), torch.tensor([target]))[0, -1]
    return model(torch.tensor([[*prompt, *target]]))[0, -1]


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_prefilled_state_gives_the_logits_of_the_whole_sequence(family):
    engine = make_engine(family)
    prompts = PROMPTS if family == "gpt" else [prompt or [5] for prompt in PROMPTS]
    engine.model.train()
    output = engine.step(NEWEST, engine.prefill(prompts), ALL)
    output = engine.step(NEWEST + 1, output.state, ALL)
    for row, prompt in enumerate(prompts):
        target = [int(NEWEST[row]), int(NEWEST[row]) + 1]
        assert_close(output.logits[row], whole_logits(engine.model, prompt, target))


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_model_trains_on_after_a_call(family):
    engine = make_engine(family)
    engine.model.train()
    first = next(iter(engine.model.children()))
    first.eval()
    output = engine.step(NEWEST[:1], engine.prefill([[5, 6]]), ALL)
    assert output.logits.is_inference()
    assert not torch.is_inference_mode_enabled()
    assert engine.model.training
    assert not first.training


@pytest.mark.parametrize("family", ["gpt", "transformer"])
def test_candidates_are_the_best_of_the_logits(family):
    engine = make_engine(family)
    prompts = [[7, 8, 9], [10], [5], [11, 12]]
    logits = engine.step(NEWEST, engine.prefill(prompts), ALL).logits
    expected = logits.float().log_softmax(dim=1).sort(dim=1, descending=True, stable=True)
    for count in (1, 4):
        output = engine.step(NEWEST, engine.prefill(prompts), StepNeeds(candidates=count))
        assert output.logits is None
        assert torch.equal(output.candidates.ids, expected.indices[:, :count])
        assert torch.equal(output.candidates.log_probabilities, expected.values[:, :count])
        assert output.candidates.vocab_size == logits.size(1)


@pytest.mark.parametrize(
    "settings", [DecodingSettings(max_new_tokens=8), DecodingSettings(beam_size=4, n_best=3, max_new_tokens=8)]
)
@pytest.mark.parametrize("make", [lambda: Generator(generator_bundle()), lambda: Translator(translator_bundle())])
def test_search_finds_with_candidates_what_it_finds_with_logits(make, settings):
    pipeline = make()
    rows = pipeline.tokenizer.encode_batch(["the cat sat", "a dog", "x"])
    step, state, request = pipeline.prepare_search(rows, settings)
    expected = search(lambda ids, state, needs: step(ids, state, ALL), state, request)
    assert search(*pipeline.prepare_search(rows, settings)) == expected


def test_attention_is_the_mean_of_the_last_cross_attention():
    engine = make_engine("transformer")
    output = engine.step(NEWEST[:1], engine.prefill([[7, 8, 9]]), StepNeeds(attention=True))
    activations = ActivationCache(engine.model.cross_attention_point)
    with torch.inference_mode():
        engine.model.eval()(torch.tensor([[7, 8, 9]]), NEWEST[None, :1], hooks=activations)
    assert_close(output.attention, activations[engine.model.cross_attention_point].mean(dim=1)[:, 0])
    assert engine.step(NEWEST[:1], engine.prefill([[7]]), ALL).attention is None
    alone = make_engine("gpt")
    assert alone.step(NEWEST[:1], alone.prefill([[7]]), StepNeeds(attention=True)).attention is None


@pytest.mark.parametrize("attention", [False, True])
def test_interventions_change_prefill_and_steps(attention):
    interventions = {
        name: (ablate_heads(0),) for name in ("encoder.0.self_attention.head_outputs", "decoder.1.*.head_outputs")
    }
    plain, changed = make_engine("transformer"), make_engine("transformer", interventions=interventions)
    needs = StepNeeds(attention=attention)
    first, second = (engine.step(NEWEST[:1], engine.prefill([[7, 8]]), needs).logits for engine in (plain, changed))
    assert not torch.allclose(first, second)


def test_interface_from_outside_reads_prompts_in_its_own_way(monkeypatch):
    monkeypatch.setattr("sightline.engine.torch_engine.PREFILLS", dict(PREFILLS))
    register_prefill(CausalLM, lambda model, prompts, hooks: (_ for _ in ()).throw(InputError("cannot read")))
    with pytest.raises(InputError, match="cannot read"):
        make_engine("gpt").prefill([[1]])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_cancel_ends_what_is_in_progress_and_nothing_later(beam_size):
    """Another thread cancels while a call of the pipeline is in a step; the next batch of the call is not begun."""
    pipeline = Translator(precise(translator_bundle()))
    settings = pipeline.settings(beam_size=beam_size)
    texts = ["the cat", "a dog ran"]
    expected = pipeline.translations(texts, settings=settings)
    reached, go_on, errors, steps = threading.Event(), threading.Event(), [], []
    step = pipeline.model.step

    def held(*args, **options):
        steps.append(len(args[0]))
        reached.set()
        assert go_on.wait(30)
        return step(*args, **options)

    def run():
        try:
            pipeline.translations(texts, settings=settings, batch_tokens=1)
        except SearchCancelledError as error:
            errors.append(error)

    pipeline.model.step = held
    thread = threading.Thread(target=run)
    thread.start()
    assert reached.wait(30)
    pipeline.engine.cancel()
    go_on.set()
    thread.join(30)
    assert (len(errors), steps) == (1, [1])
    del pipeline.model.step
    assert pipeline.translations(texts, settings=settings) == expected


def test_request_without_cancellation_runs_to_its_end():
    engine = make_engine("gpt")
    request = Request([[5]], DecodingSettings(max_new_tokens=3), end_ids=[])
    [[found]] = search(engine.step, engine.prefill([[]]), request)
    assert len(found.ids) == 3
