"""/tasks/NAME and /trace, against small models of every kind."""

import base64

import numpy as np
import pytest
from safetensors.numpy import load


def test_texts_and_pairs_are_classified(http, models):
    texts = ["the cat", "a dog ran"]
    answer = http.post("/tasks/classification", json={"input": texts, "model": "classes"}).json()["data"]
    assert [one["label"] for one in answer] == [one.label for one in models["classes"].classify(texts)]
    assert answer[0]["probabilities"] == pytest.approx(models["classes"].classify(texts)[0].probabilities)
    pair = http.post("/tasks/classification", json={"pairs": [texts], "model": "classes"}).json()["data"]
    assert pair[0]["label"] == models["classes"].classify([("the cat", "a dog ran")])[0].label


def test_words_are_classified(http, models):
    answer = http.post("/tasks/classification", json={"input": "the cat sat", "model": "tags"}).json()["data"]
    assert [one["word"] for one in answer[0]] == ["the", "cat", "sat"]
    assert [one["label"] for one in answer[0]] == [one.label for one in models["tags"].tag(["the", "cat", "sat"])]
    refused = http.post("/tasks/classification", json={"pairs": [["a", "b"]], "model": "tags"})
    assert refused.status_code == 400


def test_refusals_name_the_field_that_was_given(http):
    def refuse(path, **body):
        return http.post(path, json=body).json()["error"]

    assert refuse("/tasks/classification", pairs=[], model="classes")["param"] == "pairs"
    assert refuse("/tasks/classification", input=[], model="classes")["param"] == "input"
    assert refuse("/tasks/classification", pairs=[["a"]], model="classes")["param"] == "pairs"
    assert refuse("/tasks/translation", input="the cat", to="xx", model="phrases")["param"] == "to"
    assert refuse("/tasks/translation", input="the cat", prefix="x" * 3000, model="one-way")["param"] == "prefix"


def test_texts_are_generated_with_scores(http, models):
    answer = http.post("/tasks/translation", json={"input": ["the cat", "a dog"], "to": "de", "model": "phrases"})
    wanted = models["phrases"].translations(["the cat", "a dog"], to="de")
    assert [[one["text"] for one in several] for several in answer.json()["data"]] == [
        [w.text for w in s] for s in wanted
    ]
    [[reply]] = http.post("/tasks/chat", json={"input": ["hi", "ho", "the cat"]}).json()["data"]
    assert reply["text"] == models["talk"].reply(["hi", "ho", "the cat"])
    [[text]] = http.post("/tasks/language-model", json={"input": "the", "max_tokens": 4, "temperature": 0}).json()[
        "data"
    ]
    assert text["text"] == models["gpt"].generate("the", max_new_tokens=4, do_sample=False)


def test_masks_are_filled(http, models):
    text = "the [MASK] sat on the [MASK]"
    answer = http.post("/tasks/masked-language-model", json={"input": text, "n": 3}).json()["data"]
    wanted = models["bert"].fill(text, n=3)
    assert [[c["text"] for c in mask] for mask in answer[0]] == [[c.text for c in mask.candidates] for mask in wanted]
    assert "no mask" in http.post("/tasks/masked-language-model", json={"input": "the cat"}).json()["error"]["message"]


@pytest.mark.parametrize("name", ["phrases", "talk", "gpt", "bert", "classes", "tags"])
def test_trace_equals_the_pipelines(http, models, name):
    text = "the [MASK] sat" if name == "bert" else "the cat sat"
    more = {"to": "de"} if name == "phrases" else {}
    answer = http.post("/trace", json={"model": name, "input": text, **more})
    assert answer.status_code == 200, answer.text
    activations = answer.json()["activations"]
    own = models[name].trace(text.split() if name == "tags" else text, **more)
    assert set(activations) == set(own.names)
    for point in own.names:
        packed = np.frombuffer(base64.b64decode(activations[point]["data"]), dtype=activations[point]["dtype"])
        np.testing.assert_allclose(packed.reshape(activations[point]["shape"]), own[point], atol=1e-3)
    sent = http.post("/trace", json={"model": name, "input": text, **more, "format": "safetensors"})
    arrays = load(sent.content)
    assert set(arrays) == set(own.names)
    np.testing.assert_array_equal(arrays[own.names[0]], own[own.names[0]])


def test_only_some_layers_and_heads_are_sent(http):
    ask = {"model": "gpt", "input": "the cat", "layers": [1], "heads": [0], "format": "safetensors"}
    arrays = load(http.post("/trace", json=ask).content)
    assert arrays
    assert all(".1." in name for name in arrays)
    assert all(array.shape[0] == 1 for array in arrays.values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "bert", "beam_size": 2},
        {"model": "gpt", "to": "de"},
        {"model": "gpt", "activations": ["nothing.*"]},
        {"model": "gpt", "ablate_heads": {"decoder.9.self_attention": [0]}},
        {"model": "phrases"},
        {"model": "gpt", "beam_size": 99},
    ],
)
def test_invalid_trace_request_is_refused(http, wrong):
    answer = http.post("/trace", json={"input": "the cat", **wrong})
    assert answer.status_code == 400, answer.text
