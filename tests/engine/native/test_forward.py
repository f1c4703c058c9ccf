"""The forward pass in C is that of the torch models, for every family and setting, cached and in any batch."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.testing import assert_close

from engine.native.small import SETTINGS, VOCAB_SIZE, draw_texts, make_model, make_native, require
from sightline.decoding import StepNeeds
from sightline.engine.native.native_engine import NativeEngine
from sightline.engine.torch_engine import TorchEngine
from sightline.errors import InputError, SettingsError

PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13]]
ALL = StepNeeds()
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@torch.inference_mode()
def compare_steps(native, reference, *, n_steps=4, attention=False):
    """Step both engines side by side, with rows that are repeated, dropped and permuted."""
    own, theirs = native.prefill(PROMPTS), reference.prefill(PROMPTS)
    ids, needs = torch.tensor([3, 4, 5]), StepNeeds(attention=attention)
    for step in range(n_steps):
        found, expected = native.step(ids, own, needs), reference.step(ids, theirs, needs)
        assert_close(found.logits, expected.logits.float(), **CLOSE)
        if attention:
            assert_close(found.attention, expected.attention.float(), **CLOSE)
        rows = torch.tensor([1, 0, 0, 2] if step % 2 else [2, 1, 0])
        ids = expected.logits.argmax(dim=1)[rows]
        own, theirs = found.state.reorder(rows), expected.state.reorder(rows)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_steps_are_those_of_the_torch_model(family, settings):
    model = make_model(family, **settings)
    compare_steps(NativeEngine(model, precision="fp32", threads=1), TorchEngine(model))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_encoder_is_that_of_the_torch_model(settings):
    model = make_model("bert", **settings)
    texts = draw_texts(4)
    native = make_native(model, precision="fp32")
    segments = [[index % 2 for index in range(len(text))] for text in texts]
    found = torch.from_numpy(native.encode(texts, segments=segments))
    with torch.inference_mode():
        expected = [
            model(torch.tensor([text]), segments=torch.tensor([own]))[0]
            for text, own in zip(texts, segments, strict=True)
        ]
    assert_close(found, torch.cat(expected), **CLOSE)


def test_embedding_without_norm_and_segments():
    model = make_model("bert", embedding_norm=False, n_segments=0)
    with torch.inference_mode():
        expected = model(torch.tensor([[5, 6, 7]]))[0]
    assert_close(torch.from_numpy(make_native(model, precision="fp32").encode([[5, 6, 7]])), expected, **CLOSE)


def test_two_vocabularies():
    model = make_model("transformer", target_vocab_size=50)
    compare_steps(NativeEngine(model, precision="fp32", threads=1), TorchEngine(model))


def test_attention_is_the_mean_of_the_last_cross_attention():
    model = make_model("transformer")
    compare_steps(NativeEngine(model, precision="fp32", threads=2), TorchEngine(model), attention=True)
    alone = NativeEngine(make_model("gpt"), threads=1)
    assert alone.step(torch.tensor([3]), alone.prefill([[5]]), StepNeeds(attention=True)).attention is None


@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_int8_is_near(family):
    """A thousandth of the weights' range is lost, not the sense."""
    model = make_model(family)
    native, reference = NativeEngine(model, threads=1), TorchEngine(model)
    ids = torch.tensor([3, 4, 5])
    found = native.step(ids, native.prefill(PROMPTS), ALL).logits
    expected = reference.step(ids, reference.prefill(PROMPTS), ALL).logits
    assert float((found - expected).abs().max()) < 0.1 * float(expected.abs().max())


@pytest.mark.parametrize("name", ["avx2", "avxvnni", "avx512", "vnni"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_int8_models_give_the_same_bits_on_every_instruction_set(family, settings, name):
    require(name)
    model = make_model(family, **settings)
    states = [make_native(model, instruction_set=one).read(PROMPTS) for one in ("plain", name)]
    for ids in ([3, 4, 5], [6, 7, 8]):
        first, second = (state.step(np.array(ids, dtype=np.int32)).logits for state in states)
        assert_array_equal(first, second)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("family", ["transformer", "gpt"])
def test_row_has_the_same_bits_alone_and_in_a_batch(family, precision, threads):
    native = make_native(make_model(family), precision=precision, threads=threads)
    texts = draw_texts(9)
    newest = np.arange(3, 12, dtype=np.int32)
    state = native.read(texts)
    together = [state.step(newest + step).logits for step in range(3)]
    for row, text in enumerate(texts):
        alone = native.read([text])
        for step in range(3):
            assert_array_equal(alone.step(newest[row : row + 1] + step).logits[0], together[step][row])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_encoded_text_has_the_same_bits_alone_and_in_a_batch(precision, threads):
    native = make_native(make_model("bert"), precision=precision, threads=threads)
    texts = draw_texts(40, longest=48)
    alone = np.concatenate([native.encode([text]) for text in texts])
    assert_array_equal(native.encode(texts), alone)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_tokens_one_by_one_are_the_prompt_at_once(precision):
    """A prompt longer than a piece, read at once or token by token."""
    native = make_native(make_model("gpt", max_length=400), precision=precision)
    [text] = draw_texts(1, shortest=300, longest=300)
    last = np.array([7], dtype=np.int32)
    whole = native.read([text]).step(last).logits
    one_by_one = native.read([[]])
    for id_ in text:
        one_by_one.step_best(np.array([id_], dtype=np.int32), 1)
    assert_array_equal(one_by_one.step(last).logits, whole)


def test_joined_rows_continue_as_alone():
    for family in ("transformer", "gpt"):
        native = make_native(make_model(family))
        texts = draw_texts(6, seed=1)
        first, second = native.read(texts[:2]), native.read(texts[2:])
        first.step(np.array([3, 4], dtype=np.int32))
        first.reorder(np.array([1, 0, 1], dtype=np.int32))
        first.join(second)
        rows = [1, 0, 1, 2, 3, 4, 5]
        found = first.step(np.array([9] * 7, dtype=np.int32)).logits
        for row, index in enumerate(rows):
            alone = native.read([texts[index]])
            if row < 3:
                alone.step(np.array([[3, 4][index]], dtype=np.int32))
            assert_array_equal(alone.step(np.array([9], dtype=np.int32)).logits[0], found[row])


def test_rows_that_are_copied_and_dropped_at_random_continue_as_alone():
    """Slots are given away again while others still refer to them."""
    native = make_native(make_model("gpt"))
    generator = np.random.default_rng(0)
    state, histories = native.read([[5], [6, 7]]), [[5], [6, 7]]
    for step in range(30):
        newest = generator.integers(2, VOCAB_SIZE, len(histories)).astype(np.int32)
        found = state.step(newest).logits
        histories = [[*history, int(id_)] for history, id_ in zip(histories, newest, strict=True)]
        row = int(generator.integers(len(histories)))
        alone = native.read([histories[row][:-1]])
        assert_array_equal(alone.step(newest[row : row + 1]).logits[0], found[row])
        rows = generator.integers(0, len(histories), int(generator.integers(1, 7))).astype(np.int32)
        state.reorder(rows)
        histories = [histories[index] for index in rows]
        if step % 10 == 9:
            state.join(native.read([[8]]))
            histories.append([8])


def test_candidates_are_the_best_of_the_logits():
    native = make_native(make_model("transformer"))
    newest = np.array([3, 4, 5], dtype=np.int32)
    logits = torch.from_numpy(native.read(PROMPTS).step(newest).logits)
    expected = logits.log_softmax(dim=1).sort(dim=1, descending=True, stable=True)
    for count in (1, 4, 200):
        ids, log_probs = native.read(PROMPTS).step_best(newest, count)
        assert torch.equal(torch.from_numpy(ids).long(), expected.indices[:, :count])
        assert_close(torch.from_numpy(log_probs), expected.values[:, :count])


def test_tied_candidates_come_in_the_order_of_their_ids():
    model = make_model("gpt")
    with torch.no_grad():
        model.output.weight.zero_()
    ids, log_probs = make_native(model).read([[5]]).step_best(np.array([3], dtype=np.int32), 40)
    assert ids.tolist() == [list(range(40))]
    assert len(set(log_probs[0].tolist())) == 1


def test_greedy_steps_in_one_call_are_those_of_many():
    native = make_native(make_model("gpt"))
    first = np.array([3, 4, 5], dtype=np.int32)
    tokens, log_probs = native.read(PROMPTS).greedy(first, 6)
    state, newest = native.read(PROMPTS), first
    for step in range(6):
        best, own = state.step_best(newest, 1)
        newest = np.ascontiguousarray(best[:, 0])
        assert_array_equal(tokens[step], newest)
        assert_array_equal(log_probs[step], own[:, 0])
    end = int(tokens[2, 1])
    stop = next(step for step in range(6) if end in tokens[step]) + 1
    assert len(native.read(PROMPTS).greedy(first, 6, end_ids=[end])[0]) == stop


class TestChecks:
    """What is wrong is refused before C is reached."""

    def test_ids_outside_the_vocabulary(self):
        native = make_native(make_model("transformer"))
        with pytest.raises(InputError, match="ids must lie between 0 and 76"):
            native.read([[77]])
        with pytest.raises(InputError, match="ids must lie between 0 and 76"):
            native.read([[5]]).step(np.array([-1], dtype=np.int32))
        with pytest.raises(InputError, match="ids must be below"):
            native.read([[1 << 40]])

    def test_rows_that_are_not_there(self):
        state = make_native(make_model("gpt")).read([[5]])
        with pytest.raises(InputError, match="2 rows of input cannot continue the 1 rows of this cache"):
            state.step(np.array([1, 2], dtype=np.int32))
        with pytest.raises(ValueError, match="rows must lie between 0 and 0"):
            state.reorder(np.array([1], dtype=np.int32))

    def test_too_long_texts(self):
        native = make_native(make_model("gpt"))
        with pytest.raises(InputError, match=r"49 tokens are more than this model can take \(48\)"):
            native.read([[5] * 49])
        with pytest.raises(InputError, match="49 tokens are more"):
            native.read([[5] * 48]).step(np.array([1], dtype=np.int32))

    def test_segments_of_another_length(self):
        native = make_native(make_model("bert"))
        with pytest.raises(InputError, match="segments must be as many as the tokens"):
            native.encode([[5, 6]], segments=[[0]])
        with pytest.raises(InputError, match="segments must lie between 0 and 1"):
            native.encode([[5, 6]], segments=[[0, 2]])

    def test_what_a_model_cannot_do(self):
        with pytest.raises(SettingsError, match="this model has no encoder"):
            make_native(make_model("gpt")).encode([[5]])
        with pytest.raises(SettingsError, match="this model predicts no tokens"):
            make_native(make_model("bert")).read([[5]])

    def test_states_of_another_model(self):
        first, second = (make_native(make_model("gpt")).read([[5]]) for _ in range(2))
        with pytest.raises(ValueError, match="only another state of the same model"):
            first.join(second)

    def test_weights_that_are_missing_or_of_another_shape(self):
        model = make_model("gpt")
        model.output = torch.nn.Linear(3, 3)
        native_weights = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
        from sightline.engine.native.weights import arrange

        missing = {name: array for name, array in native_weights.items() if "up_proj.bias" not in name}
        with pytest.raises(ValueError, match=r"up_proj\.bias is missing"):
            arrange(model.config, missing)
        wrong = {**native_weights, "decoder.final_norm.weight": np.zeros(3, dtype=np.float32)}
        with pytest.raises(ValueError, match=r"final_norm\.weight has the shape \(3,\) instead of \(24,\)"):
            arrange(model.config, wrong)


def test_empty_source():
    """There is nothing to attend to, and nothing is mixed."""
    native = make_native(make_model("transformer"))
    newest = np.array([3, 4], dtype=np.int32)
    found = native.read([[], [5, 6]]).step(newest).logits
    assert np.isfinite(found).all()
    assert_array_equal(native.read([[5, 6]]).step(newest[1:]).logits[0], found[1])


def test_empty_batches():
    native = make_native(make_model("transformer"))
    state = native.read([])
    assert state.step(np.empty(0, dtype=np.int32)).logits.shape == (0, VOCAB_SIZE)
    assert make_native(make_model("bert")).encode([]).shape == (0, 24)
