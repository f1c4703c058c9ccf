"""A trace shows what the model computes without hooks: whole or step by step, cached, in a beam, padded."""

import copy
import itertools

import numpy as np
import pytest
import torch

from sightline.decoding import StepOutput, search, search_beams
from sightline.model import ActivationCache, Bert, Transformer
from sightline.model.hooks import NO_HOOKS
from sightline.tracing import EVERYTHING

from .models import BUNDLES, ENCODERS, GENERATORS, SENTENCE, TRANSFORMERS, pipeline, text_for, trace_options

CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def ids(text) -> list[int]:
    return [token.id for token in text.tokens]


def started(model, trace, hooks=NO_HOOKS):
    """Return a fresh decoding state that has seen all but the last token before the first step, and that token."""
    source = torch.tensor([ids(trace.source)])
    if isinstance(model, Transformer):
        return model.start(model.encode(source)), ids(trace.inputs)[:1]
    cache = model.start(1)
    if source.size(1) > 1:
        _, cache = model.step(source[:, :-1], cache)
    return cache, ids(trace.source)[-1:]


def stepped(model, trace, *patterns: str) -> list[dict[str, torch.Tensor]]:
    """Decode the trace's target one token a step, with the cache, and return what was seen at every step."""
    seen = []
    with torch.inference_mode():
        state, [token] = started(model, trace)
        for chosen in ids(trace.target):
            cache = ActivationCache(*patterns)
            _, state = model.step(torch.tensor([[token]]), state, hooks=cache)
            seen.append(cache.seen)
            token = chosen
    return seen


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("beam", [1, 3])
def test_attention_of_every_step_is_that_of_cached_decoding(name, beam):
    work = pipeline(name)
    trace = work.trace(SENTENCE, beam_size=beam, **trace_options(name))
    for step, seen in zip(trace.steps, stepped(work.model.eval(), trace, "*.weights"), strict=True):
        assert set(seen) == {point for point in trace.names if point.startswith("decoder")}
        for point, weights in seen.items():
            now = weights[0, :, 0].numpy()  # H S, so far
            whole = trace[point][:, step.row]
            np.testing.assert_allclose(whole[:, : now.shape[1]], now, **CLOSE)
            assert not whole[:, now.shape[1] :].any()


@pytest.mark.parametrize("name", GENERATORS)
def test_attention_mixes_values_as_the_fused_kernel_does_at_every_cached_step(name):
    """Watching `head_outputs` alone leaves the kernel in its place: this is the fast path itself."""
    work = pipeline(name)
    trace = work.trace(SENTENCE, activations=EVERYTHING, **trace_options(name))
    for step, seen in zip(trace.steps, stepped(work.model.eval(), trace, "decoder.*.head_outputs"), strict=True):
        for point, mixed in seen.items():
            attention = point.removesuffix(".head_outputs")
            weights, values = trace.attention(attention), trace[f"{attention}.value"]
            values = values.repeat(len(weights) // len(values), axis=0)
            np.testing.assert_allclose((weights @ values)[:, step.row], mixed[0, :, 0].numpy(), **CLOSE)


@pytest.mark.parametrize("name", ENCODERS)
def test_attention_mixes_values_as_the_fused_kernel_does_in_a_reader(name):
    work = pipeline(name)
    trace = work.trace(text_for(name), activations=EVERYTHING)
    cache = ActivationCache("*.head_outputs")
    with torch.inference_mode():
        work.model.eval()(torch.tensor([ids(trace.source)]), hooks=cache)
    for point, mixed in cache.seen.items():
        attention = point.removesuffix(".head_outputs")
        weights = trace.attention(attention) @ trace[f"{attention}.value"]
        np.testing.assert_allclose(weights, mixed[0].numpy(), **CLOSE)


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("beam", [1, 3])
def test_trace_writes_and_weighs_what_the_untraced_search_does(name, beam):
    work = pipeline(name)
    trace = work.trace(SENTENCE, beam_size=beam, **trace_options(name))
    settings = work.settings(beam_size=beam)
    with work.inference_mode():
        untraced = search(*work.prepare_search([ids(trace.source)], settings))[0][0]
    assert tuple(ids(trace.target)) == untraced.ids
    assert trace.finish_reason == untraced.finish_reason
    found = [step.log_probability for step in trace.steps]
    assert found == pytest.approx(untraced.token_log_probabilities, abs=1e-5)
    assert [step.choice.id for step in trace.steps] == list(untraced.ids)
    assert trace.log_probability == pytest.approx(untraced.log_probability, abs=1e-4)


class Followed:
    """A decoding state that knows what each of its rows has written."""

    def __init__(self, state, prefixes):
        self.state, self.prefixes = state, prefixes

    def reorder(self, rows):
        return Followed(self.state.reorder(rows), [self.prefixes[row] for row in rows.tolist()])


@pytest.mark.parametrize("name", GENERATORS)
def test_attention_of_every_hypothesis_is_what_the_beam_saw(name):
    work = pipeline(name)
    trace = work.trace(SENTENCE, beam_size=3, hypotheses=True, **trace_options(name))
    settings, source, weights_by_prefix = work.settings(beam_size=3), ids(trace.source), {}

    def step(newest, followed, needs):
        cache = ActivationCache("decoder.*.weights")
        logits, state = work.model.step(newest[:, None], followed.state, hooks=cache)
        prefixes = [(*prefix, int(token)) for prefix, token in zip(followed.prefixes, newest, strict=True)]
        for row, prefix in enumerate(prefixes):
            weights_by_prefix[prefix[1:]] = {point: weights[row, :, 0].numpy() for point, weights in cache.seen.items()}
        return StepOutput(logits, Followed(state, prefixes))

    with work.inference_mode():
        _, state, request = work.prepare_search([source], settings)
        result = search_beams(step, Followed(state, [()]), request)
    assert result.hypotheses[0][0].ids == tuple(ids(trace.target))
    tree = trace.tree
    assert tree.attention
    for place, node in enumerate(tree.nodes):
        written = tuple(tree.nodes[at].id for at in tree.path(place)[:-1])
        for point, shown in tree.attention.items():
            seen = weights_by_prefix[written][point]
            np.testing.assert_allclose(shown[:, node.row, : seen.shape[1]], seen, **CLOSE)
            assert not shown[:, node.row, seen.shape[1] :].any()


@pytest.mark.parametrize("name", BUNDLES)
def test_every_hook_point_is_listed_with_its_shape(name):
    """What an activation cache records is exactly what a trace of everything holds."""
    work = pipeline(name)
    trace = work.trace(text_for(name), activations=EVERYTHING, **trace_options(name))
    cache = ActivationCache("*")
    source = torch.tensor([ids(trace.source)])
    with torch.inference_mode():
        model = work.model.eval()
        if isinstance(model, Transformer):
            model(source, torch.tensor([ids(trace.inputs)]), hooks=cache)
        elif isinstance(model, Bert):
            hidden = model(source, hooks=cache)
            head = {"filler": model.mlm, "tagger": model.token_classification}.get(name)
            if head is None:
                model.sequence_classification(model.pool(hidden), hooks=cache)
            else:
                head(hidden, hooks=cache)
        else:
            model(torch.tensor([ids(trace.inputs)]), hooks=cache)
    assert list(trace.names) == list(cache.seen)
    for point, value in cache.seen.items():
        expected = value.numpy().reshape(trace[point].shape)
        assert np.isneginf(trace[point]).sum() == 0 or point.endswith(".masked")
        np.testing.assert_allclose(trace[point], expected, **CLOSE)


@pytest.mark.parametrize("name", ["transformer", "gpt", "filler"])
def test_trace_shows_what_a_padded_batch_computes_without_its_padding(name):
    work = pipeline(name)
    trace = work.trace(text_for(name), **trace_options(name))
    rows = ids(trace.source) if name == "filler" else ids(trace.inputs)
    padded = torch.tensor([[*rows, 1, 1, 1], [*rows, 2, 3, 4]])
    lengths = torch.tensor([len(rows), len(rows) + 3])
    cache = ActivationCache("*.weights")
    with torch.inference_mode():
        model = work.model.eval()
        if isinstance(model, Transformer):
            source = torch.tensor([[*ids(trace.source), 1], [*ids(trace.source), 2]])
            n_source = source.size(1)
            encoder_output = model.encode(
                source, lengths=torch.tensor([n_source - 1, n_source]), packed=True, hooks=cache
            )
            model.decode(padded, encoder_output, lengths=lengths, packed=True, hooks=cache)
        else:
            run = model if isinstance(model, Bert) else model.decode
            run(padded, lengths=lengths, packed=True, hooks=cache)
    for point, weights in trace.activations.items():
        _, n_rows, n_keys = weights.shape
        np.testing.assert_allclose(weights, cache[point][0, :, :n_rows, :n_keys].numpy(), **CLOSE)


@pytest.mark.parametrize("name", ["transformer", "gpt", "llama", "filler"])
def test_chosen_layers_and_heads_are_parts_of_the_whole(name):
    work = pipeline(name)
    whole = work.trace(text_for(name), activations=EVERYTHING)
    part = work.trace(text_for(name), activations=EVERYTHING, layers=[1], heads=[1])
    assert part.heads == (1,)
    assert whole.heads is None
    assert all(".0." not in point for point in part.names)
    for point, array in part.activations.items():
        expected = whole[point]
        if len(array) == 1 < len(expected):
            expected = expected[1:2]
        np.testing.assert_allclose(array, expected, **CLOSE)  # elsewhere the kernel has computed


@pytest.mark.parametrize("name", GENERATORS)
def test_target_that_is_given_is_shown_as_if_it_had_been_written(name):
    work = pipeline(name)
    forced = work.trace(SENTENCE, target="a dog ran", **trace_options(name))
    assert forced.forced
    assert forced.finish_reason is None
    assert forced.target.text == "a dog ran"
    assert forced.target.tokens[-1].special == (name in TRANSFORMERS)
    for step, seen in zip(forced.steps, stepped(work.model.eval(), forced, "*.weights"), strict=True):
        for point, weights in seen.items():
            now = weights[0, :, 0].numpy()
            np.testing.assert_allclose(forced[point][:, step.row, : now.shape[1]], now, **CLOSE)


def test_tracing_leaves_the_model_unchanged():
    work = copy.deepcopy(pipeline("transformer"))
    work.model.train()
    before = {name: weight.clone() for name, weight in work.model.state_dict().items()}
    work.trace(SENTENCE, activations=EVERYTHING, head_ablation=True)
    assert work.model.training
    assert all(torch.equal(weight, before[name]) for name, weight in work.model.state_dict().items())


def test_prompt_alone_can_be_traced():
    trace = pipeline("gpt").trace(SENTENCE, target="")
    assert trace.steps == ()
    assert trace.inputs.tokens == trace.source.tokens
    assert trace.outputs == (None,) * len(trace.source.tokens)
    assert trace.logit_lens.ids.shape[1] == len(trace.inputs.tokens)


def test_rows_of_attention_sum_to_one_and_are_causal():
    trace = pipeline("gpt").trace(SENTENCE)
    for name in trace.attentions:
        weights = trace.attention(name)
        np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-5)
        for row, column in itertools.product(range(weights.shape[1]), repeat=2):
            assert column <= row or not weights[:, row, column].any()
