"""What a head is worth: silencing it must be the same as cutting its wires."""

import copy

import numpy as np
import pytest
import torch

from sightline.errors import InputError
from sightline.tracing.ablation import knock_out_each
from sightline.tracing.passes import GPTPass, TransformerPass

from .models import BUNDLES, SENTENCE, WRITERS, asked, pipeline, text_for

FAMILIES = ["transformer", "pre-norm", "gpt", "llama", "filler", "classifier", "tagger"]


def cut(work, attention: str, head: int):
    """Return the pipeline with a model in which the output projection of one head is zero."""
    tower, layer, sublayer = attention.split(".")
    other = copy.deepcopy(work)
    module = getattr(getattr(other.model, tower).layers[int(layer)], sublayer)
    with torch.no_grad():
        module.output.weight[:, head * module.d_head : (head + 1) * module.d_head] = 0
    return other


@pytest.mark.parametrize("name", FAMILIES)
def test_knocking_out_a_head_is_setting_its_output_weights_to_zero(name):
    """One by one in copies of the model, against all at once in batches."""
    work = pipeline(name)
    given = {} if name in ("filler", "classifier", "tagger") else {"target": "a dog ran"}
    trace = work.trace(text_for(name), knockouts=True, **given)
    chosen = [step.choice.id for step in trace.steps]
    n_vocabulary = 400
    for number, attention in enumerate(trace.knockouts.attentions):
        for head in range(work.model.config.n_heads):
            without = cut(work, attention, head).trace(text_for(name), candidates=n_vocabulary, **given)
            for step, (before, after) in enumerate(zip(trace.steps, without.steps, strict=True)):
                [same] = [one for one in after.candidates if one.id == chosen[step]]
                change = np.log(same.probability) - before.log_probability
                assert trace.knockouts.steps[number, head, step] == pytest.approx(change, abs=1e-4)
    np.testing.assert_allclose(trace.knockouts.total, trace.knockouts.steps.sum(axis=2))


@pytest.mark.parametrize("name", WRITERS)
def test_text_is_written_without_the_heads_that_are_silenced(name):
    work = pipeline(name)
    attention = "decoder.1.self_attention"
    for beam in (1, 3):
        changed = work.trace(SENTENCE, knock_out={attention: [1]}, beam=beam, **asked(name))
        wired = cut(work, attention, 1).trace(SENTENCE, beam=beam, **asked(name))
        assert changed.knocked_out == {attention: (1,)}
        assert [token.id for token in changed.target.tokens] == [token.id for token in wired.target.tokens]
        for point in wired.names:
            np.testing.assert_allclose(changed[point], wired[point], atol=1e-5)


def test_silencing_the_encoder_reaches_the_decoder_through_the_memory():
    work = pipeline("transformer")
    changed = work.trace(SENTENCE, knock_out={"encoder.0.self_attention": [0, 1]})
    plain = work.trace(SENTENCE, target=changed.target.text)
    key = "decoder.0.cross_attention.weights"
    assert np.abs(changed[key][:, 0] - plain[key][:, 0]).max() > 1e-4


@pytest.mark.parametrize("name", ["transformer", "gpt", "llama"])
def test_many_heads_at_once_are_one_by_one(name):
    work = pipeline(name)
    trace = work.trace(SENTENCE, knockouts=True)
    told = []
    with work.at_work():
        inputs = [token.id for token in trace.inputs.tokens]
        source = [token.id for token in trace.source.tokens]
        way = TransformerPass(work.model, source, inputs) if name == "transformer" else GPTPass(work.model, inputs)
        alone = knock_out_each(
            way, trace.steps, interventions={}, progress=lambda *words: told.append(words), at_once=1
        )
    np.testing.assert_allclose(alone.steps, trace.knockouts.steps, atol=1e-5)
    n_attentions = len(alone.attentions)
    assert told == [("knocking out heads", done, n_attentions) for done in range(1, n_attentions + 1)]


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_effects_are_measured_on_top_of_what_is_silenced_already(name):
    trace = pipeline(name).trace(SENTENCE, knock_out={"decoder.0.self_attention": [0]}, knockouts=True)
    number = trace.knockouts.attentions.index("decoder.0.self_attention")
    np.testing.assert_allclose(trace.knockouts.steps[number, 0], 0, atol=1e-6)
    assert np.abs(trace.knockouts.steps[number, 1]).max() > 1e-4


@pytest.mark.parametrize("name", BUNDLES)
def test_effects_are_only_measured_on_request(name):
    assert pipeline(name).trace(text_for(name), **asked(name)).knockouts is None


@pytest.mark.parametrize(
    ("knock_out", "message"),
    [
        ({"decoder.7.cross_attention": [0]}, "unknown attention 'decoder.7.cross_attention' .did you mean"),
        ({"decoder.0.cross_attention": [5]}, "there is no head 5: heads are numbered from 0 to 1"),
    ],
)
def test_heads_that_are_not_there_are_said_plainly(knock_out, message):
    with pytest.raises(InputError, match=message):
        pipeline("transformer").trace(SENTENCE, knock_out=knock_out)
