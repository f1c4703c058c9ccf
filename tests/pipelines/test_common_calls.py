"""What other layers ask of any pipeline, without knowing its kind."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sightline.decoding.interfaces import run_search
from sightline.errors import InputError, SettingsError
from sightline.model import CausalLM, Model, Seq2Seq, TextEncoder
from sightline.pipelines import Chat, Classifier, Filler, GenerativePipeline, Generator, Pipeline, Translator
from sightline.pipelines.pipeline import PASSES, register_pass
from sightline.tracing import CausalLMPass

from .tiny import (
    BPE,
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    translator_bundle,
)

PIPELINES = {
    "translator": lambda: Translator(translator_bundle()),
    "chat": lambda: Chat(chat_bundle()),
    "generator": lambda: Generator(generator_bundle()),
    "filler": lambda: Filler(filler_bundle()),
    "classifier": lambda: Classifier(classifier_bundle()),
    "tagger": lambda: Classifier(classifier_bundle(per_word=True)),
    "encoder": lambda: Pipeline(filler_bundle()),
}
GENERATIVE = ("translator", "chat", "generator")
EVERY = pytest.mark.parametrize("name", PIPELINES)


@EVERY
def test_generating_pipelines_are_known_by_an_attribute(name):
    pipeline = PIPELINES[name]()
    assert pipeline.generates == isinstance(pipeline, GenerativePipeline) == (name in GENERATIVE)


@EVERY
def test_only_multilingual_translators_have_languages(name):
    assert PIPELINES[name]().languages == ()
    assert Translator(many_languages_bundle()).languages == ("en", "de", "fr")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Pipeline, {Seq2Seq, CausalLM, TextEncoder}),
        (Translator, {Seq2Seq, CausalLM}),
        (Chat, {Seq2Seq, CausalLM}),
        (Generator, {CausalLM}),
        (Filler, {TextEncoder}),
        (Classifier, {TextEncoder}),
    ],
)
def test_pipeline_supports_models_of_its_interfaces(kind, expected):
    bundles = {Seq2Seq: translator_bundle(), CausalLM: generator_bundle(), TextEncoder: filler_bundle()}
    assert {interface for interface, bundle in bundles.items() if kind.supports(bundle.model)} == expected
    assert expected == set(kind.interfaces) or kind.interfaces == (Model,)


INPUTS = {
    "translator": ["the cat", None, None],
    "generator": ["the cat", None, None],
    "filler": ["the cat", None, None],
    "encoder": ["the cat", None, None],
    "classifier": ["the cat", ("the cat", "a dog"), None],
    "tagger": [["the", "cat"], ["the", "cat", "a", "dog"], ["x", "y", "z"]],
    "chat": ["the cat", ["the cat", "a dog"], ["y", "z"]],
}


@EVERY
def test_input_is_parsed_to_what_a_trace_takes(name):
    pipeline = PIPELINES[name]()
    for given, expected in zip(["the cat", ["the cat", "a dog"], ["x", "y", "z"]], INPUTS[name], strict=True):
        if expected is None:
            with pytest.raises(InputError, match="`input`: this model takes one text"):
                pipeline.parse_input(given)
        else:
            assert pipeline.parse_input(given) == expected
            assert pipeline.trace(pipeline.parse_input(given)).source.tokens


def test_old_turns_are_dropped_before_their_length_counts():
    chat = PIPELINES["chat"]()
    assert chat.parse_input(["x" * 1_000, "z" * 30, "y" * 30]) == ["y" * 30]


@EVERY
def test_forward_pass_of_the_ids_of_a_trace_is_the_traced_one(name):
    pipeline = PIPELINES[name]()
    activations = ("*.output",) if name == "encoder" else ("logits",)
    trace = pipeline.trace(pipeline.parse_input("the cat sat"), activations=activations)
    source, inputs = ([token.id for token in text.tokens] for text in (trace.source, trace.inputs))
    segments = [token.segment for token in trace.source.tokens]
    forward_pass = pipeline.forward_pass(source, inputs, segments=segments)
    with pipeline.inference_mode():
        hidden = forward_pass.run()
        if forward_pass.has_logits:
            logits = forward_pass.logits(hidden)[0]
            assert_close(logits, torch.from_numpy(np.array(trace["logits"])))
    assert forward_pass.n_rows == len(inputs or source)
    assert forward_pass.has_logits == (name != "encoder")


@pytest.mark.parametrize(
    ("name", "ids", "option"),
    [
        ("translator", ([], [1]), "source"),
        ("translator", ([5], []), "inputs"),
        ("generator", ([5], []), "inputs"),
        ("filler", ([], []), "source"),
    ],
)
def test_forward_pass_without_ids_is_refused(name, ids, option):
    with pytest.raises(InputError, match="it is empty") as refused:
        PIPELINES[name]().forward_pass(*ids)
    assert refused.value.option == option


@pytest.mark.parametrize("segments", [[0], [0, 2], [0, -1]])
def test_segments_that_do_not_fit_are_refused(segments):
    with pytest.raises(InputError, match="one of 2 segments"):
        PIPELINES["classifier"]().forward_pass([5, 6], segments=segments)


def test_interface_from_outside_has_its_own_pass(monkeypatch):
    monkeypatch.setattr("sightline.pipelines.pipeline.PASSES", dict(PASSES))
    register_pass(CausalLM, lambda model, ids: CausalLMPass(model, [*ids.source, *ids.inputs]))
    assert PIPELINES["generator"]().forward_pass([1], [2]).inputs == [1, 2]


@pytest.mark.parametrize("name", GENERATIVE)
def test_job_of_any_generating_pipeline_gives_what_its_own_call_gives(name):
    pipeline = PIPELINES[name]()
    settings = pipeline.resolve_settings(2, {"beam_size": 3, "max_new_tokens": 6})
    assert (settings.n_best, settings.beam_size, settings.max_new_tokens) == (2, 3, 6)
    given = ["the cat"] if name == "chat" else "the cat"
    job = pipeline.create_job(given, settings)
    assert isinstance(pipeline, GenerativePipeline)
    run_search(job.search, pipeline.engine.step, pipeline.engine.prefill([job.prompt]))
    [expected] = pipeline.search_rows([job.ids], job.settings, batch_tokens=100)
    assert [one.tokens for one in job.results()] == [
        tuple(BPE.token_text(id_) for id_ in one.content) for one in expected
    ]
    assert len(job.results()) == 2


def test_several_texts_need_something_to_differ_by():
    """A wider beam is implied for a translation; the continuations of a prompt are sampled, or searched by request."""
    for name in ("translator", "chat"):
        settings = PIPELINES[name]().resolve_settings(3, {})
        assert (settings.n_best, settings.beam_size) == (3, 3)
    with pytest.raises(SettingsError, match="3 different texts need sampling or a beam"):
        PIPELINES["generator"]().resolve_settings(3, {})
    assert PIPELINES["generator"]().resolve_settings(3, {"temperature": 0.5}).n_best == 3
