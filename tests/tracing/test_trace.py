"""A trace of any pipeline: texts, tokens, words, steps, and the rows they stand at."""

import json
import math

import numpy as np
import pytest
import torch

from pipelines.tiny import MASKING, tiny_model
from sightline import tracing
from sightline.bundle import Bundle
from sightline.errors import InputError
from sightline.pipelines import Pipeline
from sightline.pipelines.pipeline import tokenize_input
from sightline.tasks import pipeline_for
from sightline.tracing import CausalLMPass, Choice, Token, TokenizedText, Trace, TraceOptions, figures, run_trace

from .models import BUNDLES, ENCODERS, GENERATORS, SENTENCE, pipeline, text_for, trace_options

EVERY = pytest.mark.parametrize("name", BUNDLES)


@EVERY
def test_trace_is_consistent_and_holds_plain_values(name):
    trace = pipeline(name).trace(text_for(name), activations="*", head_ablation=True, **trace_options(name))
    assert list(trace.problems()) == []
    assert all(type(array) is np.ndarray and array.dtype == np.float32 for array in trace.activations.values())
    assert all(type(value) in (str, int, float, bool, type(None)) for value in trace.model.values())


@EVERY
def test_tokens_stand_where_their_text_is(name):
    trace = pipeline(name).trace(text_for(name), **trace_options(name))
    assert trace.source.text == text_for(name)
    for token in trace.source.tokens:
        if not token.special:
            assert trace.source.text[token.start : token.end].strip() == token.text.strip()


@pytest.mark.parametrize("name", GENERATORS)
def test_rows_of_the_decoder_read_one_token_and_choose_the_next(name):
    trace = pipeline(name).trace(SENTENCE, **trace_options(name))
    read, chosen = trace.inputs.tokens, trace.outputs
    assert len(trace.steps) == len(trace.target.tokens)
    assert [token for token in chosen if token is not None] == list(trace.target.tokens)
    for row, token in enumerate(chosen[:-1]):
        assert token is None or token.id == read[row + 1].id
    for step, token in zip(trace.steps, trace.target.tokens, strict=True):
        assert step.choice.id == token.id
        assert step.choice.text == token.text


@pytest.mark.parametrize("name", [*GENERATORS, "chat", "languages"])
def test_trace_has_the_text_that_is_generated_without_it(name):
    work = pipeline(name)
    written = {"chat": lambda: work.reply([SENTENCE]), "gpt": lambda: work.generate(SENTENCE)}
    written["llama"] = written["gpt"]
    plain = written.get(name, lambda: work.translate(SENTENCE, **trace_options(name)))()
    assert work.trace(SENTENCE, **trace_options(name)).target.text == plain


def test_filler_finds_what_fill_finds():
    work = pipeline("filler")
    trace = work.trace(text_for("filler"), candidates=5)
    fillings = work.fill(text_for("filler"), n=5)
    for step, filling in zip(trace.steps, fillings, strict=True):
        shown = [(one.text.strip() or one.text, one.probability) for one in step.candidates]
        assert [text for text, _ in shown] == [one.token for one in filling.candidates]
        assert [value for _, value in shown] == pytest.approx([one.probability for one in filling.candidates], abs=1e-5)
        assert trace.source.tokens[step.row].special
        assert trace.source.text[trace.source.tokens[step.row].start :].startswith("[MASK]")


def test_classifier_finds_what_classify_finds():
    work = pipeline("classifier")
    for text in (SENTENCE, ("the cat", "a dog")):
        [found] = work.classify([text])
        [step] = work.trace(text).steps
        assert (step.row, step.choice.text) == (0, found.label)
        assert {one.text: one.probability for one in step.candidates} == pytest.approx(found.probabilities)


def test_tokens_of_a_pair_know_their_text():
    source = pipeline("classifier").trace(("the cat", "a dog")).source
    assert source.text == "the cat\na dog"
    for segment, text in enumerate(("the cat", "a dog")):
        own = [token for token in source.tokens if token.segment == segment and not token.special]
        assert source.text[own[0].start : own[-1].end] == text


def test_tagger_finds_what_tag_finds():
    work = pipeline("tagger")
    words = ["the", "naïve", "cat"]
    for trace in (work.trace(words), work.trace(" ".join(words))):
        found = work.tag(words)
        assert [step.choice.text for step in trace.steps] == [one.label for one in found]
        first = [trace.source.tokens[step.row] for step in trace.steps]
        assert [token.start for token in first] == [0, 3, 9]


def test_turns_of_a_conversation_are_one_source():
    trace = pipeline("chat").trace(["forgotten", "hello", "the cat"])
    assert trace.source.text == "hello\nthe cat"


def test_model_without_a_head_can_be_traced():
    trace = pipeline_for(Bundle(tiny_model("bert", MASKING, heads=[]), MASKING)).trace(SENTENCE, head_ablation=True)
    assert (trace.steps, trace.logit_lens, trace.head_ablation) == ((), None, None)
    assert trace.attentions == ("encoder.0.self_attention", "encoder.1.self_attention")


@pytest.mark.parametrize("name", ["transformer", "languages", "chat"])
@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_cannot_be_traced(name, text):
    with pytest.raises(InputError, match="the text is empty: there is nothing to trace"):
        pipeline(name).trace(text, **trace_options(name))


def test_empty_prompt_is_where_a_document_begins():
    trace = pipeline("gpt").trace("")
    assert [(token.text, token.special) for token in trace.source.tokens] == [("</s>", True)]
    assert trace.steps[0].row == 0


@pytest.mark.parametrize("name", ["transformer", "chat", "gpt", "filler", "classifier", "tagger"])
def test_text_that_is_too_long_is_refused(name):
    with pytest.raises(InputError, match=r"tokens, more than the 48 this model can take"):
        pipeline(name).trace("z" * 60)


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_target_that_is_too_long_is_refused(name):
    with pytest.raises(InputError, match=r"target has \d\d tokens, more than the 48"):
        pipeline(name).trace("z", target="z" * 60)


def test_model_that_is_asked_for_too_little_is_said_plainly():
    """The plain pipeline has no words to write."""
    from sightline.pipelines import Pipeline

    with pytest.raises(InputError, match="a GPT is traced while it generates: use a Translator, a Chat or a Generator"):
        Pipeline(BUNDLES["gpt"]()).trace(SENTENCE)


@EVERY
def test_candidates_are_the_likeliest_and_what_was_chosen(name):
    trace = pipeline(name).trace(text_for(name), candidates=2, **trace_options(name))
    for step in trace.steps:
        values = [one.probability for one in step.candidates]
        assert values == sorted(values, reverse=True)
        assert len(values) == (2 if step.rank < 2 else 3)
        assert step.log_probability == pytest.approx(math.log(step.choice.probability), abs=1e-4)


@pytest.mark.parametrize("name", ["transformer", "gpt"])
def test_what_was_chosen_is_shown_however_unlikely(name):
    trace = pipeline(name).trace(SENTENCE, target="漢字 x", candidates=1)
    outside = [step for step in trace.steps if step.rank > 0]
    assert outside
    for step in outside:
        assert len(step.candidates) == 2
        assert step.chosen == 1


@EVERY
def test_axes_of_an_attention_are_its_tokens(name):
    trace = pipeline(name).trace(text_for(name), **trace_options(name))
    for attention in trace.attentions:
        rows, columns = trace.axes(attention)
        assert trace.attention(attention).shape[1:] == (len(rows), len(columns))
        assert trace.attention(f"{attention}.weights") is trace.attention(attention)


@EVERY
def test_attention_between_words_is_still_a_share(name):
    trace = pipeline(name).trace(text_for(name), **trace_options(name))
    words = trace.words()
    for attention, weights in words.attention.items():
        rows, columns = words.axes(attention)
        assert weights.shape[1:] == (len(rows), len(columns))
        np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-5)
    assert {"the", "on"} <= {word.text for word in words.source}


def test_attention_between_words_is_summed_over_columns_and_averaged_over_rows():
    trace = pipeline("transformer").trace("x gares", target="a x")
    words = trace.words()
    name = "decoder.0.cross_attention"
    gares = words.source[-1]
    assert gares.text == "gares"
    assert len(gares.tokens) > 1
    rows = list(words.target[1].tokens)
    expected = trace.attention(name)[:, rows][:, :, list(gares.tokens)].sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(words.attention[name][:, 1, -1], expected, atol=1e-6)


def test_missing_activation_is_reported_with_the_nearest_name():
    trace = pipeline("transformer").trace(SENTENCE)
    with pytest.raises(InputError, match=r"no activation 'decoder.0.cross_atention.weights'; nearest: decoder.0.cross"):
        trace.attention("decoder.0.cross_atention")


@pytest.mark.parametrize("name", ["transformer", *ENCODERS])
def test_json_for_browsers_holds_the_same_numbers(name):
    trace = pipeline(name).trace(text_for(name), activations=("*.masked", "*.weights"), **trace_options(name))
    entries = json.loads(trace.to_json(digits=4))
    for point, array in trace.activations.items():
        shown = entries["activations"][point]
        data = np.array([-np.inf if number is None else number for number in shown["data"]]).reshape(shown["shape"])
        np.testing.assert_allclose(data, array, rtol=1e-3)
    assert entries["source"]["tokens"][0]["text"] == trace.source.tokens[0].text
    assert list(json.loads(trace.to_json(activations=("encoder.0.self_attention.weights",)))["activations"]) == [
        "encoder.0.self_attention.weights"
    ]


def test_packed_json_is_shorter_and_right_to_three_digits():
    import base64

    trace = pipeline("transformer").trace(SENTENCE, activations=("*.masked", "*.weights"))
    packed, plain = trace.to_json(packed=True), trace.to_json()
    entries = json.loads(packed)
    for point, array in trace.activations.items():
        shown = entries["activations"][point]
        data = np.frombuffer(base64.b64decode(shown["data"]), dtype=np.dtype(shown["dtype"]).newbyteorder("<"))
        np.testing.assert_allclose(data.reshape(shown["shape"]), array, rtol=1e-3, atol=1e-7)
    assert len(packed) < len(plain)


def test_packed_numbers_too_large_for_half_precision_stay_whole():
    from sightline.tracing.serialization import encode_base64

    shown = encode_base64(np.array([1e6, -np.inf], dtype=np.float32))
    assert shown["dtype"] == "float32"


def test_public_names_are_there():
    assert all(hasattr(tracing, name) for name in tracing.__all__)


PREDICTED = {"filler": "masks", "classifier": "classes", "tagger": "classes"}
INTERFACES = {"transformer": "Seq2Seq", "gpt": "CausalLM", "bert": "TextEncoder"}


@EVERY
def test_trace_tells_the_kind_of_model_and_what_it_predicts(name):
    trace = pipeline(name).trace(text_for(name), **trace_options(name))
    assert (trace.interface, trace.predicts) == (INTERFACES[trace.family], PREDICTED.get(name, "tokens"))


def test_trace_without_a_head_predicts_nothing():
    encoder = Pipeline(BUNDLES["filler"]())
    trace = encoder.trace(SENTENCE)
    assert (trace.interface, trace.predicts, trace.steps) == ("TextEncoder", None, ())
    assert list(trace.problems()) == []


SIDES = ("the cat sat", " on the mat")


@pytest.fixture
def answer():
    """A GPT that was trained on pairs: a special token stands between the source and the target."""
    work = pipeline("gpt")
    model, tokenizer = work.model.eval(), work.tokenizer
    source, target = (tokenize_input(text, tokenizer) for text in SIDES)
    start = Token(tokenizer.start_id, tokenizer.token_text(tokenizer.start_id), 0, 0, special=True)
    inputs = TokenizedText(source.text + target.text, (*source.tokens, start, *target.tokens[:-1]))
    choices = [Choice(len(source.tokens) + step, token.id) for step, token in enumerate(target.tokens)]
    forward_pass = CausalLMPass(model, [token.id for token in inputs.tokens])
    texts = {"source": source, "target": target, "inputs": inputs}
    with torch.inference_mode():
        return run_trace(forward_pass, TraceOptions(), choices, **texts, forced=True, name=tokenizer.token_text)


def test_source_and_target_of_a_causal_language_model_may_be_apart(answer, tmp_path):
    ids = [token.id for token in answer.inputs.tokens]
    model = pipeline("gpt").model
    with torch.inference_mode():
        scores = model.logits(model.decode(torch.tensor([ids])))[0].log_softmax(dim=-1)
    for step, token in zip(answer.steps, answer.target.tokens, strict=True):
        assert step.log_probability == pytest.approx(float(scores[step.row, token.id]), abs=1e-5)
    assert answer.steps[0].row == len(answer.source.tokens)
    assert answer.outputs[: answer.steps[0].row] == (None,) * len(answer.source.tokens)
    answer.save(tmp_path / "trace")
    assert Trace.load(tmp_path / "trace").steps == answer.steps


@pytest.mark.parametrize("kind", ["heads", "attention", "matrix", "lines"])
def test_figures_draw_a_source_and_a_target_that_are_apart(answer, kind, tmp_path):
    figures.save(figures.draw(kind, answer), tmp_path / "figure.svg")
