"""Ablating a head must equal zeroing its output weights."""

import copy

import numpy as np
import pytest
import torch

from sightline.errors import InputError
from sightline.tracing.ablation import ablate_each_head
from sightline.tracing.passes import CausalLMPass, Seq2SeqPass

from .models import BUNDLES, GENERATORS, SENTENCE, pipeline, text_for, trace_options

FAMILIES = ["transformer", "pre-norm", "gpt", "llama", "filler", "classifier", "tagger"]


def cut(work, attention: str, head: int):
    """Return a copy of the pipeline in which the output projection of one head is zero."""
    tower, layer, sublayer = attention.split(".")
    other = copy.deepcopy(work)
    module = getattr(getattr(other.model, tower).layers[int(layer)], sublayer)
    with torch.no_grad():
        module.output.weight[:, head * module.d_head : (head + 1) * module.d_head] = 0
    return other


@pytest.mark.parametrize("name", FAMILIES)
def test_ablating_a_head_equals_zeroing_its_output_weights(name):
    """One by one in copies of the model, against all at once in batches."""
    work = pipeline(name)
    given = {} if name in ("filler", "classifier", "tagger") else {"target": "a dog ran"}
    trace = work.trace(text_for(name), head_ablation=True, **given)
    chosen = [step.choice.id for step in trace.steps]
    n_vocabulary = 400
    for number, attention in enumerate(trace.head_ablation.attentions):
        for head in range(work.model.config.n_heads):
            without = cut(work, attention, head).trace(text_for(name), candidates=n_vocabulary, **given)
            for step, (before, after) in enumerate(zip(trace.steps, without.steps, strict=True)):
                [same] = [one for one in after.candidates if one.id == chosen[step]]
                change = np.log(same.probability) - before.log_probability
                assert trace.head_ablation.steps[number, head, step] == pytest.approx(change, abs=1e-4)
    np.testing.assert_allclose(trace.head_ablation.total, trace.head_ablation.steps.sum(axis=2))


@pytest.mark.parametrize("name", GENERATORS)
def test_text_is_generated_without_the_ablated_heads(name):
    work = pipeline(name)
    attention = "decoder.1.self_attention"
    for beam in (1, 3):
        changed = work.trace(SENTENCE, ablate_heads={attention: [1]}, beam_size=beam, **trace_options(name))
        wired = cut(work, attention, 1).trace(SENTENCE, beam_size=beam, **trace_options(name))
        assert changed.ablated_heads == {attention: (1,)}
        assert [token.id for token in changed.target.tokens] == [token.id for token in wired.target.tokens]
        for point in wired.names:
            np.testing.assert_allclose(changed[point], wired[point], atol=1e-5)


def test_ablating_the_encoder_reaches_the_decoder_through_its_output():
    work = pipeline("transformer")
    changed = work.trace(SENTENCE, ablate_heads={"encoder.0.self_attention": [0, 1]})
    plain = work.trace(SENTENCE, target=changed.target.text)
    key = "decoder.0.cross_attention.weights"
    assert np.abs(changed[key][:, 0] - plain[key][:, 0]).max() > 1e-4


@pytest.mark.parametrize("name", ["transformer", "gpt", "llama"])
def test_many_heads_at_once_are_one_by_one(name):
    work = pipeline(name)
    trace = work.trace(SENTENCE, head_ablation=True)
    told = []
    with work.inference_mode():
        inputs = [token.id for token in trace.inputs.tokens]
        source = [token.id for token in trace.source.tokens]
        way = Seq2SeqPass(work.model, source, inputs) if name == "transformer" else CausalLMPass(work.model, inputs)
        alone = ablate_each_head(
            way, trace.steps, interventions={}, progress=lambda *words: told.append(words), batch_tokens=1
        )
    np.testing.assert_allclose(alone.steps, trace.head_ablation.steps, atol=1e-5)
    n_attentions = len(alone.attentions)
    assert told == [("ablating heads", done, n_attentions) for done in range(1, n_attentions + 1)]


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_effects_are_measured_on_top_of_the_ablated_heads(name):
    trace = pipeline(name).trace(SENTENCE, ablate_heads={"decoder.0.self_attention": [0]}, head_ablation=True)
    number = trace.head_ablation.attentions.index("decoder.0.self_attention")
    np.testing.assert_allclose(trace.head_ablation.steps[number, 0], 0, atol=1e-6)
    assert np.abs(trace.head_ablation.steps[number, 1]).max() > 1e-4


@pytest.mark.parametrize("name", BUNDLES)
def test_effects_are_only_measured_on_request(name):
    assert pipeline(name).trace(text_for(name), **trace_options(name)).head_ablation is None


@pytest.mark.parametrize(
    ("ablate_heads", "message"),
    [
        ({"decoder.7.cross_attention": [0]}, "unknown attention 'decoder.7.cross_attention' .did you mean"),
        ({"decoder.0.cross_attention": [5]}, "there is no head 5: heads are numbered from 0 to 1"),
    ],
)
def test_missing_heads_are_reported(ablate_heads, message):
    with pytest.raises(InputError, match=message):
        pipeline("transformer").trace(SENTENCE, ablate_heads=ablate_heads)
