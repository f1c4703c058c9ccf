"""What a user gets with `engine="native"`: the texts of the torch engine, from every verb that generates."""

import pytest
import torch

import sightline
from sightline.cli.main import main
from sightline.decoding import Request, SearchCancelledError
from sightline.decoding.settings import DecodingSettings
from sightline.engine.interfaces import SearchEngine
from sightline.engine.native import native_engine
from sightline.engine.native.native_engine import NativeEngine
from sightline.engine.torch_engine import TorchEngine
from sightline.errors import InputError, SettingsError

from .small import draw_texts, make_model

TEXTS = ["good morning", "March 14, 2026", "", "three red apples", "half past seven"]
CLOSE = 1e-3
"""Sums of floats in another order."""


def assert_same(found, expected):
    """Compare generated texts; two that differ must be as likely as one another."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.log_probability == pytest.approx(theirs.log_probability, abs=CLOSE * max(1, len(theirs.tokens)))
    assert sum(mine.text == theirs.text for mine, theirs in zip(found, expected, strict=True)) >= len(found) - 1


@pytest.fixture(scope="module")
def translators(trained):
    """The demo's translator on both engines."""
    return [sightline.load(trained("phrases"), engine=engine) for engine in ("torch", "native")]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_those_of_torch(translators, beam_size):
    """Many at once, blank ones among them, in whole searches of C."""
    reference, native = (
        [found[0] for found in one.translations(TEXTS, to="fr", settings=one.settings(beam_size=beam_size))]
        for one in translators
    )
    assert_same(native, reference)


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "seed": 3, "temperature": 0.8},
        {"repetition_penalty": 1.2},
        {"beam_size": 3, "coverage_penalty": 0.2},
        {"no_repeat_ngram_size": 2},
    ],
    ids=str,
)
def test_what_the_search_in_c_does_not_know_runs_step_by_step(settings):
    """Rules, sampling and coverage: the same searches as on torch."""
    model, texts = make_model("transformer"), draw_texts(3, shortest=5, longest=5)
    engine = NativeEngine(model, precision="fp32", threads=1)
    request = Request([[1]] * 3, DecodingSettings(max_new_tokens=6, **settings), end_ids=[2])
    assert engine.search(texts, request) is None


def test_search_of_c_and_that_of_python_agree():
    model, texts = make_model("transformer"), draw_texts(5)
    engine = NativeEngine(model, precision="fp32", threads=1)
    assert isinstance(engine, SearchEngine)
    assert not isinstance(TorchEngine(model), SearchEngine)
    for beam_size in (1, 3):
        settings = DecodingSettings(max_new_tokens=9, beam_size=beam_size, n_best=beam_size)
        request = Request([[1]] * 5, settings, end_ids=[1, 2, 3], max_new_tokens=[3, 9, 5, 7, 1])
        found = engine.search(texts, request)
        expected = [
            sightline.decoding.search(engine.step, engine.prefill([text]), one_of(request, number))[0]
            for number, text in enumerate(texts)
        ]
        assert [[one.ids for one in several] for several in found] == [
            [one.ids for one in several] for several in expected
        ]


def one_of(request, number):
    """Return the request of one of its texts."""
    limits = [request.max_new_tokens[number]]
    return Request([request.contexts[number]], request.settings, end_ids=request.end_ids, max_new_tokens=limits)


def test_cancelling_ends_a_whole_search(monkeypatch):
    """Before it, and while it runs: C is told by a flag."""
    engine = NativeEngine(make_model("transformer"), precision="fp32", threads=1)
    texts, settings = draw_texts(2), DecodingSettings(max_new_tokens=5)
    cancelled = Request([[1]] * 2, settings, end_ids=[2], cancellation=engine.cancellation)
    engine.cancel()
    with pytest.raises(SearchCancelledError):
        engine.search(texts, cancelled)
    flags = []

    def search_for_long(*args, cancel, **options):
        engine.cancel()
        flags.append(cancel.is_cancelled)
        return [[], []]

    monkeypatch.setattr(native_engine, "search", search_for_long)
    with pytest.raises(SearchCancelledError):
        engine.search(texts, Request([[1]] * 2, settings, end_ids=[2], cancellation=engine.cancellation))
    assert flags == [True]


def test_ids_outside_the_vocabulary_are_refused():
    engine = NativeEngine(make_model("transformer"), precision="fp32", threads=1)
    with pytest.raises(InputError, match=r"outside the vocabulary of 77 tokens: end_ids: 500"):
        engine.search([[5]], Request([[1]], DecodingSettings(max_new_tokens=5), end_ids=[500]))


def test_writing_and_chatting_run_natively(trained):
    writers = [sightline.load(trained("gpt"), engine=engine) for engine in ("torch", "native", "native-int8")]
    greedy = {"do_sample": False, "beam_size": 1, "max_new_tokens": 12}
    reference, native, int8 = (
        one.continuations(["This License"], settings=one.settings(**greedy))[0] for one in writers
    )
    assert_same(native, reference)
    assert len(int8[0].tokens) == len(reference[0].tokens)
    sampled = ["".join(one.stream("Work", do_sample=True, seed=1, max_new_tokens=8)) for one in writers[:2]]
    assert all(sampled)


def test_weights_are_those_at_the_time(trained):
    """A copy: a model that is trained further does not change it."""
    translator = sightline.load(trained("phrases"), engine="native")
    before = translator.translate("good morning", to="fr")
    with torch.no_grad():
        for weight in translator.model.parameters():
            weight.zero_()
    assert translator.translate("good morning", to="fr") == before


def test_commands_take_an_engine(trained, capsys):
    found = []
    for engine in ("torch", "native", "native-int8"):
        assert main(["translate", str(trained("phrases")), "good morning", "--to", "fr", "--engine", engine]) == 0
        found.append(capsys.readouterr().out)
    assert all(text.strip() for text in found)
    assert main(["translate", str(trained("phrases")), "x", "--to", "fr", "--engine", "nativ"]) == 2
    assert "unknown engine 'nativ' (did you mean 'native'?)" in capsys.readouterr().err


def test_model_that_generates_nothing_takes_no_engine(trained):
    with pytest.raises(InputError, match="this model generates no text: leave native out"):
        sightline.load(trained("classes"), engine="native")


def test_reason_is_told_where_there_is_no_native_engine(trained, capsys, monkeypatch):
    monkeypatch.setattr(native_engine, "find_obstacle", lambda model: "the native engine cannot be used: no compiler")
    with pytest.raises(SettingsError, match="no compiler"):
        sightline.load(trained("phrases"), engine="native")
    assert main(["translate", str(trained("phrases")), "x", "--to", "fr", "--engine", "native"]) == 2
    assert "the native engine cannot be used: no compiler" in capsys.readouterr().err
