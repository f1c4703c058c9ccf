"""Scores that can be compared, checked against what is known of them."""

import json
import math
from dataclasses import replace

import pytest
import torch

from pipelines.tiny import (
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    precise,
    translator_bundle,
)
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.evaluation import (
    Report,
    evaluate_chat,
    evaluate_classifier,
    evaluate_filler,
    evaluate_replies,
    evaluate_text,
    evaluate_translator,
    translation_scores,
)
from sightline.evaluation.classification import classification_report
from sightline.evaluation.translation import calibrate
from sightline.pipelines import Translation
from sightline.tasks import pipeline_for

REFERENCES = ["The cat sat on the mat.", "A dog ran to the house yesterday."]


def ready_for_json(report: Report) -> bool:
    return json.loads(json.dumps(report.values, allow_nan=False)) == report.values and len(report.lines()) == len(
        report.values
    )


def test_perfect_translations_score_a_hundred():
    scores = translation_scores(REFERENCES, REFERENCES)
    assert (scores.bleu, scores.chrf, scores.exact_match) == pytest.approx((100, 100, 100))


def test_scores_are_those_of_sacrebleu_with_its_signature():
    import sacrebleu

    ours = ["The cat sat on a mat.", "The dog ran to a house."]
    scores = translation_scores(ours, REFERENCES)
    assert scores.bleu == sacrebleu.corpus_bleu(ours, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(ours, [REFERENCES]).score
    assert scores.exact_match == 0
    assert scores.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


@pytest.mark.parametrize(("language", "tokenizer"), [("zh", "zh"), ("zh-Hant", "zh"), ("ja", "char"), ("de", "13a")])
def test_language_without_spaces_has_its_own_tokenizer(language, tokenizer):
    assert f"tok:{tokenizer}|" in translation_scores(["漢字"], ["漢字"], language=language).bleu_signature


def test_translations_without_references_are_refused():
    with pytest.raises(InputError, match="2 translations cannot be compared with 1 references"):
        translation_scores(["a", "b"], ["a"])
    with pytest.raises(InputError, match="the test set is empty"):
        translation_scores([], [])


def test_translator_is_scored_on_its_translations():
    translator = pipeline_for(precise(translator_bundle()))
    sources, way = ["the cat", "", "a dog"], DecodingSettings(max_new_tokens=6, beam_size=2)
    targets = [one[0].text for one in translator.translations(sources, settings=way)]
    report = evaluate_translator(translator, sources, targets, settings=way)
    assert report.values["exact_match"] == 100
    assert report.values["sentences"] == 3
    assert ready_for_json(report)


def test_translator_of_many_languages_takes_one_for_each_source():
    translator = pipeline_for(precise(many_languages_bundle()))
    sources, to = ["the cat", "the cat"], ["de", "fr"]
    targets = [translator.translate("the cat", to=language) for language in to]
    assert evaluate_translator(translator, sources, targets, to=to).values["exact_match"] == 100


def test_chat_is_scored_on_its_replies():
    chat = pipeline_for(precise(chat_bundle()))
    replies = chat.replies([["the cat"], ["a dog", "ran"]])
    report = evaluate_replies(chat, ["the cat", "a dog\nran"], replies)
    assert report.values["exact_match"] == 100


def test_replies_are_scored_token_by_token_with_their_end():
    """The same as by hand: teacher forcing, one reply at a time, from as many turns as the model reads."""
    chat = pipeline_for(chat_bundle())
    exchanges = [("the dog\nthe cat", "a dog ran"), ("hi", ""), ("one\ntwo\nthree", "the house")]
    nats, n_tokens = 0.0, 0
    for said, reply in exchanges:
        goal = [*chat.target_tokenizer.encode(reply), chat.end_id]
        with chat.inference_mode():
            encoder_output = chat.model.encode(torch.tensor([chat.encode_source(said.split("\n"))]))
            logits = chat.model.logits(chat.model.decode(torch.tensor([[chat.start_id, *goal[:-1]]]), encoder_output))
        nats -= float(logits[0].log_softmax(dim=-1)[range(len(goal)), goal].sum())
        n_tokens += len(goal)
    report = evaluate_chat(chat, exchanges)
    assert ready_for_json(report)
    assert report.values["tokens"] == n_tokens
    assert report.values["loss"] == pytest.approx(nats / n_tokens, rel=1e-5)
    assert report.values["perplexity_per_word"] == pytest.approx(math.exp(nats / 5), rel=1e-4)
    with pytest.raises(InputError, match="have no reply"):
        evaluate_chat(chat, [])


def test_text_is_scored_token_by_token():
    """Short documents in one block: the same as one pass over all of them."""
    generator = pipeline_for(generator_bundle())
    texts, end = ["the cat", "a dog"], generator.tokenizer.end_id
    stream = [end]
    for text in texts:
        stream += [*generator.tokenizer.encode(text), end]
    with torch.inference_mode():
        likely = generator.model.eval()(torch.tensor([stream[:-1]])).log_softmax(-1)[0]
    nats = -float(likely[torch.arange(len(stream) - 1), torch.tensor(stream[1:])].sum())
    values = evaluate_text(generator, texts).values
    assert values["tokens"] == len(stream) - 1
    assert values["perplexity"] == pytest.approx(math.exp(nats / values["tokens"]), rel=1e-4)
    assert values["perplexity_per_word"] == pytest.approx(math.exp(nats / 4), rel=1e-4)
    assert values["bits_per_character"] == pytest.approx(nats / math.log(2) / 12, rel=1e-4)
    assert ready_for_json(evaluate_text(generator, texts))


def test_long_text_is_scored_in_blocks_every_token_once():
    generator = pipeline_for(generator_bundle())
    text = "the cat sat on the mat " * 30
    values = evaluate_text(generator, [text]).values
    assert values["tokens"] == len(generator.tokenizer.encode(text)) + 1


def test_uniform_model_has_the_perplexity_of_its_vocabulary():
    bundle = generator_bundle()
    with torch.no_grad():
        bundle.model.output.weight.zero_()
    values = evaluate_text(pipeline_for(bundle), ["the cat sat on the mat"]).values
    assert values["perplexity"] == pytest.approx(bundle.tokenizer.vocab_size, rel=1e-4)


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_no_text_is_refused(texts):
    with pytest.raises(InputError, match="nothing to evaluate: the text has less than two tokens"):
        evaluate_text(pipeline_for(generator_bundle()), texts)
    with pytest.raises(InputError, match="there are no tokens to mask"):
        evaluate_filler(pipeline_for(filler_bundle()), texts)


def test_f1_is_that_of_the_definition():
    """a: 2 of 2 guesses right, 3 there; b: 1 of 2 right, 1 there; c: never seen."""
    report = classification_report(["a", "a", "b", "b"], ["a", "a", "a", "b"], labels=("a", "b", "c"))
    assert report.values["accuracy"] == 75
    assert report.values["f1 a"] == pytest.approx(80)
    assert report.values["f1 b"] == pytest.approx(200 / 3)
    assert report.values["macro_f1"] == pytest.approx((80 + 200 / 3) / 2)
    assert "f1 c" not in report.values


def test_classifier_is_scored_on_texts_pairs_and_words():
    classifier = pipeline_for(precise(classifier_bundle()))
    texts = ["the cat", ("a dog", "ran"), "z" * 90]
    examples = [(text, classifier.classify([text], truncate=True)[0].label) for text in texts]
    report = evaluate_classifier(classifier, examples)
    assert (report.values["accuracy"], report.values["examples"]) == (100, 3)
    assert ready_for_json(report)
    tagger = pipeline_for(precise(classifier_bundle(per_word=True)))
    words = ["the", "cat", "sat"]
    labels = [one.label for one in tagger.tag(words)]
    assert evaluate_classifier(tagger, [(words, labels)]).values["macro_f1"] == 100


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"unknown label 'godo' \(did you mean 'good'\?\): the model knows bad, fair"):
        evaluate_classifier(pipeline_for(classifier_bundle()), [("the cat", "godo")])
    with pytest.raises(InputError, match="example 1 does not have a label for each of its words"):
        evaluate_classifier(pipeline_for(classifier_bundle(per_word=True)), [(["a", "b"], ["bad"])])
    with pytest.raises(InputError, match="the test set is empty"):
        evaluate_classifier(pipeline_for(classifier_bundle()), [])


def test_masked_tokens_are_the_same_for_the_same_seed():
    filler = pipeline_for(filler_bundle())
    texts = ["the cat sat on the mat", "x", "a dog ran " * 20]
    first, again, other = (evaluate_filler(filler, texts, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert ready_for_json(first)
    assert 0 <= first.values["accuracy"] <= 100


def test_report_is_formatted_for_people():
    report = Report(
        {"sentences": 12_345, "bleu": 31.4159, "tiny": 0.00012345, "bleu_signature": "nrefs:1", "none": 0.0}
    )
    assert report.lines() == [
        "sentences       12,345",
        "bleu            31.42",
        "tiny            0.0001234",
        "bleu signature  nrefs:1",
        "none            0.00",
    ]


def test_option_that_would_do_nothing_is_refused(tmp_path):
    from sightline.tasks.evaluation import evaluate

    (tmp_path / "text.txt").write_text("the cat\n")
    with pytest.raises(InputError, match="`temperature`: only for source and tsv, not for text"):
        evaluate(pipeline_for(generator_bundle()), text=tmp_path / "text.txt", temperature=0.5)
    with pytest.raises(InputError, match="`beem_size`: only for source and tsv, not for text"):
        evaluate(pipeline_for(generator_bundle()), text=tmp_path / "text.txt", beem_size=4)


def translations(n: int, text: str, reference: str) -> tuple[list[Translation], list[str]]:
    found = [Translation(text, -1.0, -1.0 - number / n, ("x",), "eos") for number in range(n)]
    return found, [reference] * n


@pytest.mark.parametrize(
    ("text", "reference", "criterion", "share"),
    [
        ("Ein Hund rennt.", "Ein Hund rennt.", "exact", 1),
        ("Ein Hund rennt weg.", "Ein Hund rennt.", "close", 1),
        ("Die Sonne scheint.", "Ein Hund rennt.", "close", 0),
    ],
)
def test_right_is_exact_where_many_are_else_close_to_the_reference(text, reference, criterion, share):
    calibration = calibrate(*translations(200, text, reference), DecodingSettings())
    assert calibration.criterion == criterion
    assert sum(one.right for one in calibration.bins) == 200 * share


def test_cut_and_few_translations_do_not_calibrate():
    found, references = translations(200, "x", "x")
    assert calibrate([replace(one, finish_reason="length") for one in found], references, DecodingSettings()) is None
    assert calibrate(found[:99], references[:99], DecodingSettings()) is None
