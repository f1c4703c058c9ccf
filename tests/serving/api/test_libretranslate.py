"""Plain requests as LibreTranslate's clients send them."""

from dataclasses import replace

import numpy as np
import pytest

from pipelines.tiny import classifier_bundle, many_languages_bundle, one_direction_bundle
from sightline.bundle.language_statistics import collect_language_statistics
from sightline.pipelines import Classifier, Translator
from sightline.serving.http import ServingSettings
from sightline.serving.service import service

from ..standing import standing
from ..wire import asking


def test_a_text_a_list_and_a_form(http, models):
    texts = ["the cat", "a dog ran to the house"]
    wanted = models["phrases"].translate(texts, to="de")
    ask = {"source": "en", "target": "de", "model": "phrases"}
    assert http.post("/translate", json={**ask, "q": texts[0]}).json() == {"translatedText": wanted[0]}
    assert http.post("/translate", json={**ask, "q": texts, "format": "text"}).json() == {"translatedText": wanted}
    form = http.post("/translate", data={**ask, "q": texts[0], "source": "auto", "api_key": ""})
    assert form.json() == {"translatedText": wanted[0]}


def test_alternatives_are_other_translations(http, models):
    ask = {"q": "the cat", "source": "auto", "target": "fr", "alternatives": 2, "model": "phrases"}
    answer = http.post("/translate", json=ask).json()
    best = models["phrases"].translate("the cat", to="fr", n_best=3)
    assert [answer["translatedText"], *answer["alternatives"]] == best
    assert http.post("/translate", data={**ask, "alternatives": "2"}).json() == answer


def test_a_model_of_one_direction_takes_any_languages(http, models):
    answer = http.post("/translate", json={"q": "the cat", "source": "xx", "target": "yy", "model": "one-way"})
    assert answer.json() == {"translatedText": models["one-way"].translate("the cat")}


def test_blank_text_stays_blank(http):
    answer = http.post("/translate", json={"q": ["", " ", "cat"], "target": "de", "model": "phrases"}).json()
    assert answer["translatedText"][:2] == ["", ""]


def test_languages(http):
    found = {entry["code"]: entry for entry in http.get("/languages").json()}
    assert set(found) == {"en", "de", "fr"}
    assert found["de"] == {"code": "de", "name": "German", "targets": ["en", "fr"]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"target": "tlh"}, "unsupported language"),
        ({"source": "tlh"}, "unsupported language"),
        ({"format": "pdf"}, "format"),
        ({"alternatives": 9}, "--max-choices"),
        ({"api_key": "secret-key"}, "api_key"),
        ({"model": "gpt"}, "POST /v1/completions"),
        ({"model": None}, "several models"),
        ({"glossary": "x"}, "glossary is not supported"),
    ],
)
def test_unsupported_request_is_refused(http, more, said):
    answer = http.post("/translate", json={"q": "the cat", "target": "de", "model": "phrases", **more})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert "secret" not in answer.text


def test_detection_needs_a_model_that_knows_languages(http):
    answer = http.post("/detect", json={"q": "the cat"})
    assert answer.status_code == 404
    assert "or a classifier whose labels are codes" in answer.json()["error"]["message"]


def test_detection_by_a_classifier_of_languages():
    model = Classifier(classifier_bundle())
    model.labels = ("en", "de", "pt-BR")[: len(model.labels)]
    app = service({"languages": model}, ServingSettings(port=0))
    with standing(app) as server, asking(server.url) as client:
        found = client.post("/detect", json={"q": "the cat"}).json()
    assert {one["language"] for one in found} == set(model.labels)
    assert sum(one["confidence"] for one in found) == pytest.approx(100, abs=0.1)
    assert found[0]["confidence"] == max(one["confidence"] for one in found)


def test_detection_by_a_translator_of_several_languages():
    bundle = many_languages_bundle()
    counts = {"en": "the cat", "de": "Katze", "fr": "où est la gare"}
    tokens = {
        name: np.bincount(bundle.tokenizer.encode(text), minlength=bundle.tokenizer.vocab_size)
        for name, text in counts.items()
    }
    training = replace(bundle.training, languages=collect_language_statistics(tokens))
    model = Translator(replace(bundle, training=training))
    with standing(service({"many": model}, ServingSettings(port=0))) as server, asking(server.url) as client:
        found = client.post("/detect", json={"q": "la gare"}).json()
        ask = {"q": "la gare", "target": "de"}
        said = client.post("/translate", json=ask).json()
        both = client.post("/translate", json={**ask, "q": ["la gare", "the cat"]}).json()
        told = client.post("/translate", json={**ask, "source": "fr"}).json()
        page = client.post("/translate", json={**ask, "q": '<p title="the cat the cat">la gare</p>', "format": "html"})
    assert found[0]["language"] == "fr"
    assert sum(one["confidence"] for one in found) == pytest.approx(100, abs=0.1)
    assert said["detectedLanguage"] == found[0]
    assert [one["language"] for one in both["detectedLanguage"]] == ["fr", "en"]
    assert "detectedLanguage" not in told
    assert page.json()["detectedLanguage"] == found[0]


def test_detection_is_that_of_the_translator_whose_languages_suit_the_text():
    """One of few words in more languages, as the demo's, would find some language for anything."""
    bundle = many_languages_bundle()

    def knowing(**texts):
        counts = {
            name: np.bincount(bundle.tokenizer.encode(text), minlength=bundle.tokenizer.vocab_size)
            for name, text in texts.items()
        }
        return Translator(
            replace(bundle, training=replace(bundle.training, languages=collect_language_statistics(counts)))
        )

    dates = knowing(en="12 12 12", de="12. 12. 12.", fr="12/12/12 the cat")
    words = knowing(en=20 * "the cat ", de=20 * "die Katze ")
    app = service({"dates": dates, "words": words}, ServingSettings(port=0))
    with standing(app) as server, asking(server.url) as client:
        assert client.post("/detect", json={"q": "the cat"}).json()[0]["language"] == "en"
        assert client.post("/detect", json={"q": "12/12"}).json()[0]["language"] == "fr"


@pytest.fixture(scope="module")
def both_ways():
    """A server with a model of each direction, which name their languages."""
    models = {
        "en-de": Translator(one_direction_bundle("en", "de")),
        "de-en": Translator(one_direction_bundle("de", "en")),
    }
    with standing(service(models, ServingSettings(port=0))) as server, asking(server.url) as client:
        yield client, models


def test_languages_of_models_of_one_direction_have_their_target(both_ways):
    client, _ = both_ways
    found = {entry["code"]: entry for entry in client.get("/languages").json()}
    assert {code: entry["targets"] for code, entry in found.items()} == {"en": ["de"], "de": ["en"]}
    assert found["en"]["name"] == "English"


def test_the_languages_of_a_request_choose_the_model(both_ways):
    client, models = both_ways
    for source, target in (("en", "de"), ("de", "en"), ("auto", "de")):
        answer = client.post("/translate", json={"q": "the cat", "source": source, "target": target})
        assert answer.json() == {"translatedText": models["de-en" if target == "en" else "en-de"].translate("the cat")}


@pytest.mark.parametrize("wrong", [{"target": "fr"}, {"source": "de", "target": "de"}])
def test_a_wrong_language_is_refused_with_what_the_model_does(both_ways, wrong):
    client, _ = both_ways
    answer = client.post("/translate", json={"q": "the cat", "model": "en-de", **wrong})
    assert answer.status_code == 400
    assert "this model translates en to de" in answer.json()["error"]["message"]


def test_cards_name_the_languages_of_one_direction(both_ways):
    card = both_ways[0].get("/v1/models/en-de").json()
    assert (card["source_language"], card["target_language"], card["languages"]) == ("en", "de", [])


PARAGRAPH = "The cat sat. A dog ran!\n\nWhere is it?"


@pytest.mark.parametrize(
    ("text", "form"), [(PARAGRAPH, "text"), ("<p>The <b>cat</b> sat. A <code>dog</code> ran.</p>", "html")]
)
def test_paragraphs_and_documents_are_translated_as_the_pipeline_does(http, models, text, form):
    ask = {"q": text, "target": "de", "model": "phrases", "format": form}
    wanted = models["phrases"].translations([text], to="de", markup=form)[0][0].text
    assert http.post("/translate", json=ask).json()["translatedText"] == wanted


def test_text_is_read_at_once_if_the_request_says_so(http, models):
    ask = {"q": PARAGRAPH, "target": "de", "model": "phrases", "split": False}
    [[whole]] = models["phrases"].translations([PARAGRAPH], to="de", split=False)
    assert http.post("/translate", json=ask).json() == {"translatedText": whole.text}


def test_too_many_sentences_are_refused_by_their_number(http):
    answer = http.post("/translate", json={"q": "A cat. " * 65, "target": "de", "model": "phrases"})
    assert answer.status_code == 400
    assert "q: 65 sentences exceed the limit of 64 (--max-inputs raises it)" in answer.text
