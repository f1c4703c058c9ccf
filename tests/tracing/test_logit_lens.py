"""The logit lens after the last layer is the prediction of the model."""

import numpy as np
import pytest
import torch

from sightline.model import Transformer

from .models import BUNDLES, SENTENCE, pipeline, text_for, trace_options


@pytest.mark.parametrize("name", BUNDLES)
def test_last_layer_gives_the_prediction_of_the_model(name):
    trace = pipeline(name).trace(text_for(name), activations="logits", candidates=5, **trace_options(name))
    likely = torch.from_numpy(trace["logits"]).log_softmax(dim=-1).exp().numpy()
    logit_lens = trace.logit_lens
    k = logit_lens.ids.shape[2]
    best = np.sort(likely, axis=1)[:, ::-1][:, :k]
    np.testing.assert_allclose(logit_lens.probabilities[-1], best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(likely, logit_lens.ids[-1], axis=1), best, atol=1e-5)
    for number, step in enumerate(trace.steps):
        assert logit_lens.chosen[-1, number] == pytest.approx(step.choice.probability, abs=1e-5)
        if name != "filler":  # its candidates are words only
            shown = [candidate.probability for candidate in step.candidates[:k]]
            assert shown == pytest.approx(
                logit_lens.probabilities[-1, logit_lens.rows.index(step.row)].tolist(), abs=1e-5
            )


@pytest.mark.parametrize("name", ["transformer", "pre-norm", "gpt", "llama"])
def test_first_layer_is_decoded_by_final_norm_and_output_matrix(name):
    work = pipeline(name)
    point = "residual" if work.model.config.pre_norm else "norm"
    trace = work.trace(SENTENCE, activations=f"decoder.0.feed_forward.{point}", candidates=3)
    hidden = torch.from_numpy(trace[f"decoder.0.feed_forward.{point}"])
    with torch.inference_mode():
        norm = work.model.decoder.final_norm
        logits = work.model.output(hidden if norm is None else norm(hidden))
    expected = logits.softmax(dim=-1).topk(3, dim=-1)
    np.testing.assert_allclose(trace.logit_lens.probabilities[0], expected.values.numpy(), atol=1e-5)
    assert trace.logit_lens.text(int(trace.logit_lens.ids[0, 0, 0])) == work.tokenizer.token_text(
        int(expected.indices[0, 0])
    )


@pytest.mark.parametrize("name", BUNDLES)
def test_every_layer_is_decoded_on_every_row(name):
    work = pipeline(name)
    trace = work.trace(text_for(name), **trace_options(name))
    config = work.model.config
    n_layers = config.n_decoder_layers if isinstance(work.model, Transformer) else config.n_layers
    tower = trace.source if trace.interface == "TextEncoder" else trace.inputs
    assert len(trace.logit_lens.ids) == n_layers
    assert trace.logit_lens.rows == ((0,) if name == "classifier" else tuple(range(len(tower.tokens))))
    assert work.trace(text_for(name), logit_lens=False, **trace_options(name)).logit_lens is None
