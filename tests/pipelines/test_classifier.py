"""Classes of texts, pairs and words: batched or alone, the same."""

from dataclasses import replace

import pytest
import torch

from sightline.bundle import Bundle
from sightline.errors import InputError
from sightline.pipelines import Classifier
from sightline.tasks import pipeline_for

from .tiny import MASKING, classifier_bundle, precise, tiny_model

TEXTS = ["the cat sat", "", ("a dog", "ran to the house"), "x", ("x", ""), "[CLS] [SEP]"]
SENTENCES = [["the", "cat", "sat"], ["x"], [], ["où", "est", "漢字", "?"]]


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return pipeline_for(precise(classifier_bundle()))


@pytest.fixture(scope="module")
def tagger() -> Classifier:
    return pipeline_for(precise(classifier_bundle(per_word=True)))


@pytest.mark.parametrize("batch_tokens", [20, 4096])
def test_batch_of_texts_equals_one_by_one(classifier, batch_tokens):
    together = classifier.classify(TEXTS, batch_tokens=batch_tokens)
    alone = [classifier.classify([text])[0] for text in TEXTS]
    assert [one.label for one in together] == [one.label for one in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.probabilities == pytest.approx(theirs.probabilities, abs=1e-5)


def test_class_is_that_of_the_model(classifier):
    ids = torch.tensor([[MASKING.cls_id, *MASKING.encode("a"), MASKING.sep_id, *MASKING.encode("b"), MASKING.sep_id]])
    segments = torch.tensor([[0, 0, 0, 1, 1]])
    with torch.inference_mode():
        model = classifier.model.eval()
        expected = model.sequence_classification(model.pool(model(ids, segments=segments))).softmax(dim=1)[0]
    [found] = classifier.classify([("a", "b")])
    assert list(found.probabilities) == ["bad", "fair", "good"]
    assert list(found.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-6)
    assert found.probability == max(found.probabilities.values())
    assert found.probabilities[found.label] == found.probability


def test_batch_of_sentences_equals_one_by_one(tagger):
    together = tagger.tags(SENTENCES, batch_tokens=20)
    alone = [tagger.tag(words) for words in SENTENCES]
    assert [[one.label for one in words] for words in together] == [[one.label for one in words] for words in alone]
    assert [len(words) for words in together] == [len(words) for words in SENTENCES]


def test_class_of_a_word_is_read_at_its_first_token(tagger):
    words = ["x漢", "cat"]
    pieces = [MASKING.encode("x漢"), MASKING.encode(" cat")]
    ids = [MASKING.cls_id, *pieces[0], *pieces[1], MASKING.sep_id]
    with torch.inference_mode():
        scores = tagger.model.token_classification(tagger.model.eval()(torch.tensor([ids]))).softmax(dim=2)[0]
    found = tagger.tag(words)
    for place, one in zip([1, 1 + len(pieces[0])], found, strict=True):
        assert list(one.probabilities.values()) == pytest.approx(scores[place].tolist(), abs=1e-6)


def test_text_that_is_too_long_is_refused_or_truncated(classifier, tagger):
    with pytest.raises(InputError, match="text 2 has 62 tokens, more than the 48"):
        classifier.classify(["fine", "z" * 60])
    [truncated] = classifier.classify(["z" * 60], truncate=True)
    assert truncated == classifier.classify(["z" * 46])[0]
    with pytest.raises(InputError, match="the sentence has 62 tokens"):
        tagger.tag(["z" * 60])


def test_words_and_texts_are_not_mixed_up(classifier, tagger):
    with pytest.raises(InputError, match="classifies texts, not words: use classify"):
        classifier.tag(["a"])
    with pytest.raises(InputError, match="classifies words, not texts: use tag"):
        tagger.classify(["a"])
    with pytest.raises(InputError, match="expected a list of texts, not one text"):
        classifier.classify("a text")
    with pytest.raises(InputError, match="expected a list of words"):
        tagger.tag("a text")
    with pytest.raises(InputError, match="word 1 is empty"):
        tagger.tag(["", "a"])


def test_classes_without_names_are_numbered():
    model = tiny_model("bert", MASKING, heads=["token_classification"], n_classes=2)
    pipeline = pipeline_for(Bundle(model, MASKING))
    assert isinstance(pipeline, Classifier)
    assert (pipeline.per_word, pipeline.labels) == (True, ("0", "1"))


def test_lone_surrogate_is_refused(classifier):
    with pytest.raises(InputError, match="is a lone surrogate"):
        classifier.classify([("fine", "\ud800")])


@pytest.mark.parametrize(
    ("pair", "given", "reason"),
    [
        (True, ["a"], "classifies pairs of texts, not single ones: give two texts, with --pair"),
        (True, [("a", "b"), "c"], "classifies pairs of texts, not single ones"),
        (False, [("a", "b")], "classifies single texts, not pairs: give one text"),
    ],
)
def test_a_classifier_refuses_what_it_was_not_trained_on(pair, given, reason):
    bundle = classifier_bundle()
    found = pipeline_for(replace(bundle, task_config=replace(bundle.task_config, pair=pair)))
    with pytest.raises(InputError, match=reason):
        found.classify(given)
    with pytest.raises(InputError, match=reason):
        found.trace(given[-1])
    assert found.classify([("a", "b") if pair else "a"])
