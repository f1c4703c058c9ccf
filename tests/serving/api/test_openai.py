"""OpenAI's official client, against small models of every kind."""

import openai
import pytest
import torch

from pipelines.tiny import BPE, record_encoded_texts
from sightline.serving.http import Limits, ServingSettings
from sightline.serving.service import service

from ..standing import standing
from ..wire import asking


def test_models_are_listed_and_described(client, models):
    assert [model.id for model in client.models.list()] == list(models)
    assert client.models.retrieve("gpt").id == "gpt"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_completions_equal_the_pipelines(client, models):
    prompts = ["the cat", "a dog ran", ""]
    answer = client.completions.create(model="gpt", prompt=prompts, max_tokens=6, temperature=0)
    alone = [models["gpt"].generate(prompt, max_new_tokens=6, do_sample=False) for prompt in prompts]
    assert [choice.text for choice in answer.choices] == alone
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert {choice.finish_reason for choice in answer.choices} <= {"stop", "length"}
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 18


def test_streamed_completion_equals_the_whole_one(client):
    options = {"model": "gpt", "prompt": ["the cat", "gare"], "max_tokens": 12, "temperature": 0.9, "seed": 4, "n": 2}
    whole = client.completions.create(**options)
    texts = dict.fromkeys(range(4), "")
    reasons = {}
    usage = None
    for chunk in client.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons[choice.index] = choice.finish_reason or reasons.get(choice.index)
    assert list(texts.values()) == [choice.text for choice in whole.choices]
    assert reasons == {choice.index: choice.finish_reason for choice in whole.choices}
    assert usage == whole.usage


def test_stop_sequences_and_beams(client, models):
    text = client.completions.create(model="gpt", prompt="the", max_tokens=20, temperature=0).choices[0].text
    stop = text[3:5]
    cut = client.completions.create(model="gpt", prompt="the", max_tokens=20, temperature=0, stop=[stop])
    assert cut.choices[0].text == text[: text.index(stop)]
    assert cut.choices[0].finish_reason == "stop"
    best = client.completions.create(model="gpt", prompt="the", max_tokens=5, n=2, extra_body={"beam_size": 3})
    settings = models["gpt"].resolve_settings(2, {"beam_size": 3, "max_new_tokens": 5})
    assert [c.text for c in best.choices] == [
        w.text for w in models["gpt"].continuations(["the"], settings=settings)[0]
    ]


def test_a_chat_replies_with_history(client, models):
    turns = ["the cat", "a dog", "où est la gare ?"]
    messages = [
        {"role": role, "content": text} for role, text in zip(["user", "assistant", "user"], turns, strict=True)
    ]
    answer = client.chat.completions.create(model="talk", messages=messages)
    assert answer.choices[0].message.content == models["talk"].reply(turns)
    assert answer.choices[0].message.role == "assistant"
    pieces = [
        choice.delta.content or ""
        for chunk in client.chat.completions.create(model="talk", messages=messages, stream=True)
        for choice in chunk.choices
    ]
    assert "".join(pieces) == answer.choices[0].message.content
    parts = [{"role": "user", "content": [{"type": "text", "text": "the "}, {"type": "text", "text": "cat"}]}]
    said = client.chat.completions.create(model="talk", messages=parts, max_completion_tokens=4)
    assert said.choices[0].message.content == models["talk"].reply(["the cat"], max_new_tokens=4)


@pytest.mark.parametrize("name", ["bert", "gpt", "phrases", "classes"])
def test_embeddings_equal_the_models(client, models, name):
    texts = ["the cat sat", "漢字"]
    answer = client.embeddings.create(model=name, input=texts)  # the client asks for base64 by itself
    numbers = client.embeddings.create(model=name, input=texts, encoding_format="float")
    assert torch.equal(torch.tensor([e.embedding for e in answer.data]), models[name].embed(texts))
    assert [e.embedding for e in answer.data] == [e.embedding for e in numbers.data]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"logprobs": 2}, "logprobs is not supported"),
        ({"suffix": "x"}, "suffix is not supported"),
        ({"best_of": 2}, "best_of is not supported"),
        ({"user": "me"}, "user is not supported"),
        ({"n": 5}, "--max-choices"),
        ({"max_tokens": 99_999}, "--max-new-tokens"),
        ({"stop": ["a"] * 9}, "--max-stop-sequences"),
        ({"extra_body": {"beam_size": 17}}, "--max-beams"),
        ({"temperature": 3}, "temperature"),
        ({"prompt": ["a"] * 65}, "--max-inputs"),
        ({"prompt": []}, "empty"),
        ({"prompt": "cat " * 200}, "more than the 48 this model can take"),
        ({"model": "phrases"}, "POST /translate"),
    ],
)
def test_unsupported_request_is_refused_with_the_reason(client, more, said):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": "gpt", "prompt": "a", **more})
    assert said in refused.value.message
    assert refused.value.body["type"] == "invalid_request_error"


@pytest.mark.parametrize("role", ["system", "developer", "tool"])
def test_roles_other_than_user_and_assistant_are_refused(client, role):
    messages = [{"role": role, "content": "be kind"}, {"role": "user", "content": "the cat"}]
    with pytest.raises(openai.BadRequestError, match=r"messages\.0\.role: must be 'user' or 'assistant'"):
        client.chat.completions.create(model="talk", messages=messages)


def test_consecutive_messages_of_one_role_are_one_turn(client, models):
    """Chat models tell speakers apart by alternation alone, so a turn must not be split."""
    roles = ("assistant", "user", "user", "assistant", "assistant", "user")
    texts = ("a mat", "the cat", "sat", "a dog", "ran", "to the house")
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    turns = ["a mat", "the cat sat", "a dog ran", "to the house"]
    merged = client.chat.completions.create(model="talk", messages=messages)
    assert merged.choices[0].message.content == models["talk"].reply(turns)
    assert merged.usage.prompt_tokens == len(models["talk"].encode_source(turns))
    last = client.chat.completions.create(model="talk", messages=messages[1:3])
    assert last.usage.prompt_tokens == len(models["talk"].encode_source(["the cat sat"]))


@pytest.mark.parametrize("stream", [False, True])
def test_chat_request_is_tokenized_once(client, stream, monkeypatch):
    """Trimming, checking the length, charging, prefilling and counting usage share the ids."""
    texts = record_encoded_texts(monkeypatch)
    turns = [("user", "the cat"), ("assistant", "a dog"), ("user", "ran")]
    messages = [{"role": role, "content": text} for role, text in turns]
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer = client.chat.completions.create(model="talk", messages=messages, **options)
    usage = list(answer)[-1].usage if stream else answer.usage
    assert texts == ["a dog\nran"]
    assert usage.prompt_tokens == len(BPE.encode(texts[0]))


def test_completion_request_is_tokenized_once(client, monkeypatch):
    texts = record_encoded_texts(monkeypatch)
    client.completions.create(model="gpt", prompt=["the cat", "a dog"], max_tokens=3)
    assert texts == ["the cat", "a dog"]


def test_the_last_message_must_be_from_the_user(client):
    for last in ({"role": "assistant", "content": "hi"}, {"role": "user", "content": "  "}):
        with pytest.raises(openai.BadRequestError, match="the last message must be from the user"):
            client.chat.completions.create(model="talk", messages=[last])


def test_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError, match="GET /v1/models"):
        client.completions.create(model="../../etc/passwd", prompt="a")


def test_limits_hold_exactly(client):
    """Requests at the limit pass: inputs, choices, stop sequences and beams."""
    assert client.completions.create(model="gpt", prompt=[""] * 64, max_tokens=1).choices[63].index == 63
    client.completions.create(model="gpt", prompt="a", n=4, max_tokens=2, temperature=1)
    client.completions.create(model="gpt", prompt="a", stop=["zzz"] * 8, max_tokens=2)
    client.completions.create(model="gpt", prompt="a", max_tokens=2, extra_body={"beam_size": 16})


def test_prompts_can_be_limited_below_the_models_maximum(models):
    prompt = "the cat sat"
    n_tokens = len(models["gpt"].encode_prompts([prompt])[0])
    for most, works in ((n_tokens, True), (n_tokens - 1, False)):
        settings = ServingSettings(port=0, limits=Limits(prompt_tokens=most))
        with standing(service({"gpt": models["gpt"]}, settings)) as server, asking(server.url) as client:
            answer = client.post("/v1/completions", json={"model": "gpt", "prompt": prompt, "max_tokens": 1})
        assert answer.status_code == (200 if works else 400)
        assert works or "--max-prompt-tokens" in answer.json()["error"]["message"]


def test_tokens_are_charged_before_generation(models):
    settings = ServingSettings(port=0, limits=Limits(tokens_per_minute=100))
    ask = {"model": "gpt", "prompt": "the", "max_tokens": 30}
    with standing(service({"gpt": models["gpt"]}, settings)) as server, asking(server.url) as client:
        answers = [client.post("/v1/completions", json=ask) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "--max-tokens-per-minute" in answers[-1].json()["error"]["message"]
