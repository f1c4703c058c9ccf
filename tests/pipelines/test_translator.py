"""Translation and its word links: the same batched or one by one; what cannot be translated is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.bundle import TaskConfig
from sightline.bundle.calibration import Bin, Calibration, Confidence
from sightline.bundle.language_statistics import collect_language_statistics
from sightline.bundle.training_facts import TrainingFacts
from sightline.decoding import DecodingSettings
from sightline.errors import InputError, SettingsError
from sightline.pipelines import Translation, Translator
from sightline.pipelines.translator import TranslationOptions
from sightline.tasks import pipeline_for
from sightline.tracing.tokenized_text import word_spans

from .tiny import (
    TAGGED,
    many_languages_bundle,
    one_direction_bundle,
    precise,
    translator_bundle,
    two_vocabularies_bundle,
)

TEXTS = ["the cat sat", "a dog ran to the house", "", "où est la gare ?", "x"]
SETTINGS = [
    DecodingSettings(max_new_tokens=8),
    DecodingSettings(beam_size=4, n_best=3, max_new_tokens=8),
    DecodingSettings(beam_size=3, max_new_tokens=8, coverage_penalty=0.2),
    DecodingSettings(do_sample=True, n_best=2, seed=5, max_new_tokens=8),
    DecodingSettings(beam_size=2, max_new_tokens=8, no_repeat_ngram_size=2, min_new_tokens=3, stop=("é", "at")),
]
SCRIPTS = st.text(st.sampled_from("the cat 漢字👩\u200d👧 \n\tü.é"), max_size=14)
BUNDLES = {"one": translator_bundle, "two vocabularies": two_vocabularies_bundle, "languages": many_languages_bundle}


@pytest.fixture(scope="module", params=BUNDLES)
def translator(request) -> Translator:
    return pipeline_for(precise(BUNDLES[request.param]()))


@pytest.fixture(scope="module")
def simple() -> Translator:
    return pipeline_for(precise(translator_bundle()))


def language(translator: Translator) -> str | None:
    return "de" if translator.languages else None


@pytest.mark.parametrize(
    "decoding", SETTINGS, ids=lambda decoding: f"beam {decoding.beam_size} sample {decoding.do_sample} {decoding.stop}"
)
def test_batch_equals_one_by_one(simple, decoding):
    check_batch_equals_one_by_one(simple, decoding, batch_tokens=4096)


@pytest.mark.parametrize("batch_tokens", [50, 4096])
def test_batch_equals_one_by_one_at_any_batch_size(translator, batch_tokens):
    check_batch_equals_one_by_one(translator, SETTINGS[1], batch_tokens=batch_tokens)


def check_batch_equals_one_by_one(translator: Translator, decoding: DecodingSettings, *, batch_tokens: int) -> None:
    to = language(translator)
    together = translator.translations(TEXTS, to=to, settings=decoding, batch_tokens=batch_tokens)
    alone = [translator.translations([text], to=to, settings=decoding)[0] for text in TEXTS]
    assert [[one.text for one in row] for row in together] == [[one.text for one in row] for row in alone]
    assert [[one.tokens for one in row] for row in together] == [[one.tokens for one in row] for row in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


@given(texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=4))
@settings(max_examples=6)
def test_batch_of_any_texts_equals_one_by_one(simple, texts):
    assert simple.translate(texts) == [simple.translate(text) for text in texts]


def test_shape_of_results_follows_the_arguments(simple):
    one, three = simple.translate("the cat"), simple.translate("the cat", n_best=3)
    assert isinstance(one, str)
    assert simple.translate(["the cat", "a dog"])[0] == one
    assert len(three) == 3
    assert simple.translate(["the cat"], n_best=3) == [three]
    assert simple.translate([]) == []


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_blank_text_is_translated_to_nothing_without_the_model(text):
    translator = pipeline_for(translator_bundle())
    translator.model.encode = pytest.fail  # any use of the model
    assert translator.translate(text) == ""
    assert translator.translations([text], alignment=True)[0][0].alignment == ()


def test_translation_begins_with_its_prefix(translator):
    to = language(translator)
    for found in translator.translate(TEXTS, to=to, prefix="die Katze", beam_size=3):
        assert found.startswith("die Katze")
    prefixes = [f"{number} " for number in range(len(TEXTS))]
    found = translator.translations(TEXTS, to=to, prefixes=prefixes)
    assert all(one[0].text.startswith(prefix) for one, prefix in zip(found, prefixes, strict=True))


def test_source_that_is_too_long_is_refused_with_both_numbers(simple):
    simple.translate("a" * 48)
    with pytest.raises(InputError, match=r"text 2 has 49 tokens, more than the 48 this model can take"):
        simple.translate(["fine", "a" * 49], split=False)
    with pytest.raises(InputError, match=r"the text has 4,900 tokens"):
        simple.translate("a" * 4900, split=False)


def test_no_more_tokens_than_decoder_positions_are_generated(simple):
    found = simple.translations(["the cat"], settings=DecodingSettings(max_new_tokens=1000, min_new_tokens=900))
    assert len(found[0][0].tokens) <= 48


def test_prefix_that_is_too_long_is_refused(simple):
    with pytest.raises(InputError, match=r"the prefix of the text has 30 tokens, more than max_new_tokens \(8\)"):
        simple.translate("the cat", prefix="z" * 30)


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff"])
def test_lone_surrogate_is_refused(simple, text):
    with pytest.raises(InputError, match="is a lone surrogate"):
        simple.translate(["fine", text])


@pytest.mark.parametrize("name", ["</s>", "<s>", "<pad>", "<2de>"])
def test_names_of_special_tokens_are_text(translator, name):
    ids = translator.encode_sources([f"a {name} b"], language(translator), None)[0]
    typed = ids[1:] if translator.languages else ids
    assert not set(typed) & translator.tokenizer.special_ids
    translator.translate(name, to=language(translator))


def test_language_decides_the_tag_before_the_text():
    translator = pipeline_for(precise(many_languages_bundle()))
    rows = translator.encode_sources(["the cat"] * 2, ["de", "fr"], "en")
    assert [row[0] for row in rows] == [translator.tokenizer.special_id(name) for name in ("<2de>", "<2fr>")]
    mixed = translator.translations(["the cat", "a dog"], to=["de", "fr"])
    assert [row[0].text for row in mixed] == [
        translator.translate("the cat", to="de"),
        translator.translate("a dog", to="fr"),
    ]


def between_two_languages() -> Translator:
    """A translator between German and English, with statistics that know "the" and "die" only."""
    tokenizer = TAGGED
    words = {"en": 300 * " the", "de": 300 * " die"}
    counts = {name: np.bincount(tokenizer.encode(text), minlength=tokenizer.vocab_size) for name, text in words.items()}
    bundle = precise(many_languages_bundle())
    training = replace(bundle.training, languages=collect_language_statistics(counts))
    return Translator(replace(bundle, task_config=TaskConfig("translation", languages=("de", "en")), training=training))


def test_between_two_languages_the_target_is_the_one_that_the_text_is_not_in():
    translator = between_two_languages()
    texts = ["see the the the cat", "sieh die die die cat"]
    assert [next(iter(translator.detect_language(text))) for text in texts] == ["en", "de"]
    assert translator.translate(texts) == [
        translator.translate(text, to=to) for text, to in zip(texts, ("de", "en"), strict=True)
    ]
    assert [found[0].to for found in translator.translations(texts)] == ["de", "en"]
    assert translator.translate("12", from_="de") == translator.translate("12", to="en")
    assert translator.trace(texts[1]).source.tokens[0].text == "<2en>"


def test_a_text_of_unclear_language_is_translated_into_the_first_with_a_warning():
    translator = between_two_languages()
    with pytest.warns(UserWarning, match="'12' was taken for en \\(50% sure\\): name the target language"):
        found = translator.translate("12")
    assert found == translator.translate("12", to="de")  # no warning: the user has decided
    assert translator.translate("12", from_="en") == found


def test_a_sentence_that_is_in_the_target_language_already_is_noted():
    """The model has never seen a source in the language of its target."""
    translator = between_two_languages()
    noted = "'the the the dog.' is in the target language \\(en\\) already: do not trust its output"
    with pytest.warns(UserWarning, match=noted):
        translator.translate("die die die cat. the the the dog.", split=True)
    with pytest.warns(UserWarning, match=noted):
        translator.translate("<p>die die die cat.</p><p>the the the dog.</p>", markup="html")
    with pytest.warns(UserWarning, match=noted):
        translator.translate("the the the dog.", to="en")
    with pytest.raises(InputError, match="`to`: the source language is en too: they must differ"):
        translator.translate("the the the dog.", to="en", from_="en")


def test_a_trace_of_a_given_target_has_the_language_of_that():
    assert between_two_languages().trace("12", target="the").source.tokens[0].text == "<2en>"


def test_a_text_in_none_of_the_languages_is_unlikely():
    translator = between_two_languages()
    assert translator.bits_per_character("the the the") < translator.bits_per_character("xyz xyz xyz")
    assert translator.bits_per_character(" ") == 0.0


def test_the_language_of_a_document_is_that_of_its_text():
    translator = between_two_languages()
    page = '<p title="the the the the">die cat</p>'
    assert translator.translate(page, markup="html") == translator.translate(page, markup="html", to="en")


def test_a_model_that_cannot_tell_languages_apart_asks_for_one():
    translator = between_two_languages()
    unknown = Translator(replace(translator.bundle, training=replace(translator.bundle.training, languages=None)))
    assert unknown.detect_language("the") == {}
    with pytest.raises(InputError, match="give the target language, one of de, en"):
        unknown.translate("the cat")


def test_language_that_is_missing_or_unknown_is_refused(simple):
    translator = pipeline_for(many_languages_bundle())
    with pytest.raises(InputError, match="`to`: give the target language, one of en, de, fr"):
        translator.translate("the cat")
    with pytest.raises(
        InputError, match="`to`: unknown language 'dee' \\(did you mean 'de'\\?\\): it must be one of en, de, fr"
    ):
        translator.translate("the cat", to="dee")
    with pytest.raises(InputError, match="`from_`: unknown language 'xx'"):
        translator.translate("the cat", to="de", from_="xx")
    with pytest.raises(InputError, match="2 languages for 1 texts"):
        translator.translations(["the cat"], to=["de", "fr"])
    with pytest.raises(InputError, match="`to`: this model was not trained for several languages: leave it out"):
        simple.translate("the cat", to="de")


def test_setting_that_does_not_exist_names_the_nearest(simple):
    with pytest.raises(SettingsError, match="unknown setting 'beem_size' \\(did you mean 'beam_size'\\?\\)"):
        simple.translate("the cat", beem_size=4)


def test_one_text_instead_of_a_list_is_refused(simple):
    with pytest.raises(InputError, match="expected a list of texts"):
        simple.translations("the cat")


def test_target_uses_its_own_vocabulary():
    translator = pipeline_for(two_vocabularies_bundle())
    [[found]] = translator.translations(["the cat"])
    assert found.text == translator.bundle.target_tokenizer.decode(
        translator.bundle.target_tokenizer.encode(found.text)
    )
    assert "".join(found.tokens).startswith(found.text[:1])


def test_stop_string_is_not_part_of_the_result(simple):
    candidates = (
        DecodingSettings(max_new_tokens=12, min_new_tokens=12, do_sample=True, seed=seed) for seed in range(100)
    )
    texts = ((decoding, simple.translations(["the cat sat"], settings=decoding)[0][0].text) for decoding in candidates)
    decoding, whole = next((decoding, text) for decoding, text in texts if len(text) > 8)
    [[cut]] = simple.translations(["the cat sat"], settings=replace(decoding, stop=(whole[3:5],)))
    assert cut.text == whole[: whole.index(whole[3:5])]
    assert cut.finish_reason == "stop"


def test_model_in_training_can_be_used():
    """Dropout is off during a call, and every module is restored afterwards."""
    bundle = translator_bundle(dropout=0.5)
    bundle.model.train()
    bundle.model.encoder.layers[0].eval()
    before = [module.training for module in bundle.model.modules()]
    translator = pipeline_for(bundle)
    first = translator.translations(TEXTS, alignment=True)
    assert first == translator.translations(TEXTS, alignment=True)
    assert [module.training for module in bundle.model.modules()] == before
    assert all(parameter.requires_grad for parameter in bundle.model.parameters())


def test_training_mode_is_restored_after_an_error():
    bundle = translator_bundle()
    bundle.model.train()
    with pytest.raises(InputError):
        pipeline_for(bundle).translate("the cat", bad_words=[[i] for i in range(bundle.tokenizer.vocab_size)])
    assert all(module.training for module in bundle.model.modules())


@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
@given(texts=st.lists(SCRIPTS, min_size=1, max_size=3))
@settings(max_examples=5)
def test_links_join_whole_words_inside_their_texts(make, texts):
    translator = pipeline_for(make())
    to = language(translator)
    decoding = DecodingSettings(beam_size=2, n_best=2, max_new_tokens=8, min_new_tokens=4)
    for text, found in zip(
        texts, translator.translations(texts, to=to, alignment=True, settings=decoding), strict=True
    ):
        for translation in found:
            for link in translation.alignment:
                assert (link.source_start, link.source_end) in word_spans(text)
                assert (link.target_start, link.target_end) in word_spans(translation.text)
                assert 0 < link.weight <= 1.00001


@pytest.mark.parametrize("make", BUNDLES.values(), ids=BUNDLES)
def test_alignment_of_a_batch_equals_one_by_one(make):
    translator = pipeline_for(precise(make()))
    to = language(translator)
    texts = ["the cat sat on the mat", "x", "", "a dog ran", "où est la gare ?"]
    together = translator.translations(texts, to=to, alignment=True)
    for text, ours in zip(texts, together, strict=True):
        [theirs] = translator.translations([text], to=to, alignment=True)
        assert [link.source_start for link in ours[0].alignment] == [link.source_start for link in theirs[0].alignment]
        weights = [[link.weight for link in one[0].alignment] for one in (ours, theirs)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-5)


def test_alignment_changes_no_translation():
    translator = pipeline_for(translator_bundle())
    [plain], [aligned] = (translator.translations(["the cat sat"], alignment=wanted) for wanted in (False, True))
    assert plain[0].alignment is None
    assert (plain[0].text, plain[0].score) == (aligned[0].text, aligned[0].score)


def test_a_model_of_one_direction_takes_only_its_own_languages():
    named, unnamed = Translator(one_direction_bundle()), Translator(translator_bundle())
    assert named.translate("the cat", to="de", from_="en") == named.translate("the cat") == unnamed.translate("the cat")
    with pytest.raises(InputError, match="this model translates en to de: leave it out, or give de") as caught:
        named.translate("the cat", to="fr")
    assert caught.value.option == "to"
    with pytest.raises(InputError, match="this model translates en to de: leave it out, or give en") as caught:
        named.translate("the cat", from_="de")
    assert caught.value.option == "from_"


CALIBRATION = Calibration("exact", DecodingSettings(beam_size=2), (Bin(-2.0, 50, 10), Bin(-1.0, 50, 40)))


@pytest.fixture(scope="module")
def calibrated() -> Translator:
    """A translator that knows how often its scores were right."""
    generation = DecodingSettings(beam_size=2, max_new_tokens=8)
    training = TrainingFacts(calibration=CALIBRATION)
    return Translator(replace(translator_bundle(), generation=generation, training=training))


@pytest.mark.parametrize(
    ("log_probability", "finish_reason", "changed", "count"),
    [
        (-3.0, "eos", {}, 50),  # -1.5 a token, the end token included
        (-9.0, "eos", {}, None),  # below all that were seen
        (-3.0, "length", {}, None),
        (-3.0, "eos", {"beam_size": 4}, None),
        (-3.0, "eos", {"beam_size": 1, "do_sample": True}, None),
    ],
)
def test_confidence_is_looked_up_by_the_score_of_a_token(calibrated, log_probability, finish_reason, changed, count):
    found = Translation("x", -1.0, log_probability, ("x",), finish_reason)
    confidence = calibrated.estimate_confidence(found, calibrated.settings(**changed))
    assert (confidence and confidence.count) == count


def test_confidence_is_that_of_the_best_result_without_a_prefix(calibrated, monkeypatch):
    known = Confidence(0.5, 0.4, 0.6, 100)
    monkeypatch.setattr(Translator, "estimate_confidence", lambda *_: known)
    [[first, second]] = calibrated.translations(["the cat"], settings=calibrated.settings(n_best=2))
    [[begun]] = calibrated.translations(["the cat"], prefixes=["d"])
    assert (first.confidence, second.confidence, begun.confidence) == (known, None, None)


def test_a_model_without_a_calibration_has_no_confidence(translator):
    assert [one.confidence for [one] in translator.translations(["the cat"], to=translator.languages[:1] or None)] == [
        None
    ]


WHOLE = "  The cat sat. A dog ran!\n\nWhere is the house?  "
SENTENCES = ["The cat sat.", "A dog ran!", "Where is the house?"]


def test_three_sentences_in_one_text_are_translated_as_three(translator):
    to = language(translator)
    one, two, three = (found[0].text for found in translator.translations(SENTENCES, to=to))
    assert translator.translations([WHOLE], to=to)[0][0].text == f"  {one} {two}\n\n{three}  "


def test_n_best_and_scores_are_those_of_the_sentences(simple):
    decoding = SETTINGS[1]
    [found] = simple.translations([WHOLE], settings=decoding)
    alone = simple.translations(SENTENCES, settings=decoding)
    for rank, translation in enumerate(found):
        expected = [several[rank] for several in alone]
        assert [one.text for one in translation.sentences] == [one.text for one in expected]
        assert [one.score for one in translation.sentences] == pytest.approx([one.score for one in expected], abs=1e-4)
        assert translation.score == pytest.approx(sum(one.score for one in expected), abs=1e-4)


def test_spans_and_links_are_those_of_the_whole_text(simple):
    [[found]] = simple.translations([WHOLE], alignment=True)
    assert [WHOLE[slice(*one.source_span)] for one in found.sentences] == SENTENCES
    assert [found.text[slice(*one.target_span)] for one in found.sentences] == [one.text for one in found.sentences]
    words, others = set(word_spans(WHOLE)), set(word_spans(found.text))
    assert found.alignment
    assert all((link.source_start, link.source_end) in words for link in found.alignment)
    assert all((link.target_start, link.target_end) in others for link in found.alignment)


def test_text_is_read_at_once_without_splitting(simple):
    [[found]] = simple.translations(["a b. C d."], split=False)
    assert [one.source for one in found.sentences] == ["a b. C d."]


@pytest.mark.parametrize(("share", "n_sentences"), [(None, 2), (0.2, 2), (0.21, 1)])
def test_model_trained_on_several_sentences_at_once_does_not_split(share, n_sentences):
    translator = pipeline_for(replace(translator_bundle(), training=TrainingFacts(multi_sentence_share=share)))
    [[found]] = translator.translations(["the cat. A dog."])
    assert len(found.sentences) == n_sentences
    assert len(translator.translations(["the cat. A dog."], split=True)[0][0].sentences) == 2


def test_sentence_longer_than_what_was_learned_is_cut_with_a_warning():
    translator = pipeline_for(replace(translator_bundle(), training=TrainingFacts(max_source_tokens=12)))
    text = "the cat sat on the mat, a dog ran to the house, the cat sat on the mat"
    [[found]] = translator.translations([text])
    assert [one.source for one in found.sentences] == text.replace(", ", ",|").split("|")
    assert "more than the 12 that this model learned to read at once" in found.warnings[0]
    with pytest.warns(UserWarning, match="it was translated in parts"):
        translator.translate(text)
    assert "may be incomplete" in translator.translations([text], split=False)[0][0].warnings[0]


def test_sentence_longer_than_the_model_can_take_is_cut(simple):
    text = "漢字" * 100
    [[found]] = simple.translations([text])
    assert "".join(one.source for one in found.sentences) == text
    assert found.warnings


def test_several_sentences_are_not_traced_as_one(simple):
    with pytest.raises(InputError, match=r"the text has 2 sentences, .* trace one of them, such as 'the cat\.'"):
        simple.trace("the cat. A dog.")
    assert simple.trace("the cat. A dog.", split=False).source.text == "the cat. A dog."


@pytest.mark.parametrize("markup", ["html", "markdown", "srt"])
def test_documents_are_the_same_batched_or_one_by_one(translator, markup):
    texts = ["the <b>cat</b> sat. A dog", "# a dog\n\n**ran** to", "the cat\n"]
    if markup == "srt":
        texts = [f"{number}\n00:00:0{number},000 --> 00:00:09,000\n{text}" for number, text in enumerate(texts, 1)]
    to = language(translator)
    together = translator.translations(texts, to=to, markup=markup)
    assert together == [translator.translations([text], to=to, markup=markup)[0] for text in texts]


def test_stream_reads_texts_only_as_they_are_needed(simple):
    read = []

    def texts():
        for text in SENTENCES * 10:
            read.append(text)
            yield text

    options = TranslationOptions(simple.generation)
    stream = simple.stream([texts()], lambda text: simple.segment(text, options), options, look_ahead=2)
    next(stream)
    assert len(read) == 2
