"""Trained models over HTTP: each response equals the pipeline's own result."""

from collections.abc import Iterator

import httpx
import openai
import pytest
import torch

from sightline.pipelines import Pipeline
from sightline.serving.http import ServingSettings
from sightline.serving.service import service
from sightline.tasks import load

from ..standing import standing
from ..wire import PATIENCE, asking

NAMES = ("phrases", "gpt", "bert", "classes", "talk")


@pytest.fixture(scope="module")
def models(trained) -> dict[str, Pipeline]:
    return {name: load(trained(name)) for name in NAMES}


@pytest.fixture(scope="module")
def url(models) -> Iterator[str]:
    with standing(service(models, ServingSettings(port=0))) as server:
        yield server.url


@pytest.fixture(scope="module")
def http(url) -> Iterator[httpx.Client]:
    with asking(url) as client:
        yield client


@pytest.fixture(scope="module")
def client(url) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="not-needed", max_retries=0, timeout=PATIENCE) as client:
        yield client


def test_all_five_models_are_listed(client):
    assert [model.id for model in client.models.list()] == list(NAMES)


@pytest.mark.parametrize(
    ("asked", "own"),
    [
        ({"temperature": 0}, {"do_sample": False}),
        ({"temperature": 0.7, "seed": 5}, {"do_sample": True, "temperature": 0.7, "seed": 5}),
        ({"extra_body": {"beam_size": 4}}, {"beam_size": 4}),
        ({"temperature": 0, "stop": ["."]}, {"do_sample": False, "stop": (".",)}),
    ],
)
def test_completion_equals_stream_equals_pipeline(client, models, asked, own):
    prompts = ["The model", "| T13 malformed"]
    options = {"model": "gpt", "prompt": prompts, "max_tokens": 24, **asked}
    whole = [choice.text for choice in client.completions.create(**options).choices]
    streamed = ["", ""]
    for chunk in client.completions.create(**options, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.text
    alone = [models["gpt"].generate(prompt, max_new_tokens=24, **own) for prompt in prompts]
    assert whole == streamed == alone


def test_chat_replies_as_trained(client, models):
    turns = ["Hello", "Hi!", "What is your name?"]
    roles = ("user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    for said in (messages[:1], messages):
        whole = client.chat.completions.create(model="talk", messages=said).choices[0].message.content
        chunks = client.chat.completions.create(model="talk", messages=said, stream=True)
        streamed = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert whole == streamed == models["talk"].reply([message["content"] for message in said])
    assert client.chat.completions.create(model="talk", messages=messages[:1]).choices[0].message.content == "Hi!"


@pytest.mark.parametrize("name", NAMES)
def test_embeddings_equal_the_pipelines(client, models, name):
    texts = ["Hello", "the old cat never sleeps here ."]
    answer = client.embeddings.create(model=name, input=texts)
    assert torch.equal(torch.tensor([one.embedding for one in answer.data]), models[name].embed(texts))


@pytest.mark.parametrize("target", ["de", "fr"])
def test_translations_equal_the_pipelines(http, models, target):
    texts = ["Where is the station?", "Good morning!"]
    wanted = models["phrases"].translate(texts, to=target)
    ask = {"q": texts, "source": "en", "target": target, "format": "text", "api_key": ""}
    assert http.post("/translate", json=ask).json() == {"translatedText": wanted}
    assert http.post("/translate", data={**ask, "q": texts[0]}).json() == {"translatedText": wanted[0]}
    assert all(text.strip() for text in wanted)


def test_translations_differ_by_target_language(http):
    ask = {"q": "Good morning!", "source": "en"}
    found = [http.post("/translate", json={**ask, "target": code}).json()["translatedText"] for code in ("de", "fr")]
    assert found[0] != found[1]


def test_languages_are_those_of_the_model(http, models):
    codes = models["phrases"].languages
    found = {one["code"]: one for one in http.get("/languages").json()}
    assert set(found) == set(codes)
    assert found["de"]["name"] == "German"
    assert set(found["de"]["targets"]) == set(codes) - {"de"}


def test_masks_are_filled_as_by_the_pipeline(http, models):
    text = "the old cat never [MASK] here ."
    gaps = http.post("/tasks/masked-language-model", json={"input": text, "n": 3}).json()["data"][0]
    wanted = models["bert"].fill(text, n=3)
    assert [[one["text"] for one in gap] for gap in gaps] == [[one.text for one in gap.candidates] for gap in wanted]
    probabilities = [one.probability for one in wanted[0].candidates]
    assert [one["probability"] for one in gaps[0]] == pytest.approx(probabilities, abs=1e-6)


def test_classes_are_predicted_as_trained(http, models):
    texts = ["the old cat never sleeps here .", "the gray dogs often bark outside ."]
    found = http.post("/tasks/classification", json={"input": texts}).json()["data"]
    wanted = models["classes"].classify(texts)
    assert [one["label"] for one in found] == [one.label for one in wanted] == ["one", "many"]
    assert found[0]["probabilities"] == pytest.approx(wanted[0].probabilities, abs=1e-6)
