"""What is read out after the last layer is what the model says."""

import numpy as np
import pytest
import torch

from sightline.model import Transformer

from .models import BUNDLES, SENTENCE, asked, pipeline, text_for


@pytest.mark.parametrize("name", BUNDLES)
def test_last_layer_says_what_the_model_says(name):
    trace = pipeline(name).trace(text_for(name), probes="logits", candidates=5, **asked(name))
    likely = torch.from_numpy(trace["logits"]).log_softmax(dim=-1).exp().numpy()
    readout = trace.readout
    k = readout.ids.shape[2]
    best = np.sort(likely, axis=1)[:, ::-1][:, :k]
    np.testing.assert_allclose(readout.probabilities[-1], best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(likely, readout.ids[-1], axis=1), best, atol=1e-5)
    for number, step in enumerate(trace.steps):
        assert readout.chosen[-1, number] == pytest.approx(step.choice.probability, abs=1e-5)
        if name != "filler":  # whose candidates are words only
            shown = [candidate.probability for candidate in step.candidates[:k]]
            assert shown == pytest.approx(readout.probabilities[-1, readout.rows.index(step.row)].tolist(), abs=1e-5)


@pytest.mark.parametrize("name", ["transformer", "pre-norm", "gpt", "llama"])
def test_first_layer_is_read_through_final_norm_and_output_matrix(name):
    work = pipeline(name)
    point = "residual" if work.model.config.norm_order == "pre" else "norm"
    trace = work.trace(SENTENCE, probes=f"decoder.0.feed_forward.{point}", candidates=3)
    hidden = torch.from_numpy(trace[f"decoder.0.feed_forward.{point}"])
    with torch.inference_mode():
        norm = work.model.decoder.final_norm
        logits = work.model.output(hidden if norm is None else norm(hidden))
    expected = logits.softmax(dim=-1).topk(3, dim=-1)
    np.testing.assert_allclose(trace.readout.probabilities[0], expected.values.numpy(), atol=1e-5)
    assert trace.readout.text(int(trace.readout.ids[0, 0, 0])) == work.tokenizer.token_text(int(expected.indices[0, 0]))


@pytest.mark.parametrize("name", BUNDLES)
def test_one_layer_after_another_is_read_out_on_every_row(name):
    work = pipeline(name)
    trace = work.trace(text_for(name), **asked(name))
    config = work.model.config
    n_layers = config.n_decoder_layers if isinstance(work.model, Transformer) else config.n_layers
    tower = trace.source if trace.family == "bert" else trace.inputs
    assert len(trace.readout.ids) == n_layers
    assert trace.readout.rows == ((0,) if name == "classifier" else tuple(range(len(tower.tokens))))
    assert work.trace(text_for(name), readout=False, **asked(name)).readout is None
