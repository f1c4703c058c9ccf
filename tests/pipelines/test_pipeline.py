"""What every pipeline can do and which one a folder opens as; batches, overridden settings, and texts for traces."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sightline
from sightline import pipelines
from sightline.bundle import Bundle, save
from sightline.data.tokenizers import train_tokenizer
from sightline.decoding import DecodingSettings
from sightline.errors import InputError, SettingsError
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.pipelines.pipeline import MIN_WIDTH, batch_by_tokens, find_token_spans, override_settings, tokenize_input
from sightline.tasks import load, pipeline_for

from .tiny import (
    BPE,
    CHARACTERS,
    LINES,
    MASKING,
    WORDS,
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    record_encoded_texts,
    tiny_model,
    translator_bundle,
    two_vocabularies_bundle,
)

MAKERS = {
    translator_bundle: Translator,
    many_languages_bundle: Translator,
    two_vocabularies_bundle: Translator,
    chat_bundle: Chat,
    generator_bundle: Generator,
    filler_bundle: Filler,
    classifier_bundle: Classifier,
}
EVERY = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
TEXTS = ["the cat sat", "", "x", "a dog ran to the house"]


@EVERY
def test_folder_opens_as_the_pipeline_of_its_task(make, tmp_path):
    save(make(), tmp_path / "model")
    for folder in (tmp_path / "model", tmp_path):  # the model, and the run it is in
        pipeline = sightline.load(folder)
        assert type(pipeline) is MAKERS[make]
        assert pipeline.folder == folder
    assert torch.equal(load(tmp_path).embed(["the cat"]), pipeline_for(make()).embed(["the cat"]))


@pytest.mark.parametrize(
    ("architecture", "tokenizer", "heads", "kind"),
    [
        ("transformer", BPE, None, Translator),
        ("gpt", BPE, None, Generator),
        ("bert", MASKING, ["mlm", "sequence_classification"], Filler),
        ("bert", MASKING, ["sequence_classification"], Classifier),
        ("bert", MASKING, ["token_classification"], Classifier),
        ("bert", MASKING, [], Pipeline),
    ],
)
def test_pipeline_of_a_model_without_a_task_follows_its_heads(architecture, tokenizer, heads, kind):
    model = tiny_model(architecture, tokenizer, **({} if heads is None else {"heads": heads}))
    pipeline = pipeline_for(Bundle(model, tokenizer))
    assert type(pipeline) is kind
    assert pipeline.embed(["the cat"]).shape == (1, 16)


def test_model_without_a_tokenizer_is_refused():
    with pytest.raises(InputError, match=r"has no tokenizer \(tokenizer\.json\)"):
        pipeline_for(Bundle(tiny_model("gpt", BPE)))


def test_tokenizer_without_a_needed_token_is_refused():
    with pytest.raises(InputError, match="has no start token, which a Translator needs"):
        Translator(Bundle(tiny_model("transformer", MASKING), MASKING))
    with pytest.raises(InputError, match="has no mask token, which a Filler needs"):
        Filler(Bundle(tiny_model("bert", BPE), BPE))
    with pytest.raises(InputError, match="a Filler cannot use a GPT"):
        Filler(Bundle(tiny_model("gpt", MASKING), MASKING))


@EVERY
def test_vectors_of_a_batch_equal_one_by_one(make):
    pipeline = pipeline_for(make())
    together = pipeline.embed(TEXTS, batch_tokens=20)
    assert together.shape == (4, 16)
    assert (together[1] == 0).all()
    torch.testing.assert_close(together, torch.cat([pipeline.embed([text]) for text in TEXTS]), atol=1e-5, rtol=1e-5)
    assert pipeline.embed([]).shape == (0, 16)


def test_vector_is_the_mean_without_special_tokens():
    pipeline = pipeline_for(filler_bundle())
    ids = MASKING.encode("the cat")
    with torch.inference_mode():
        hidden = pipeline.model.eval()(torch.tensor([[MASKING.cls_id, *ids, MASKING.sep_id]]))[0]
    torch.testing.assert_close(pipeline.embed(["the cat"])[0], hidden[1:-1].mean(dim=0), atol=1e-6, rtol=1e-5)


@EVERY
def test_text_that_is_too_long_to_embed_is_refused(make):
    with pytest.raises(InputError, match=r"text 2 has \d\d tokens, more than the 48"):
        pipeline_for(make()).embed(["fine", "z" * 60])


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "words", "characters"])
def test_word_vector_is_that_of_running_text(kind):
    """The space before a word belongs to it if its token includes one, and is ignored if it is a token itself."""
    tokenizer = train_tokenizer(kind, LINES, vocab_size=600)
    pipeline = pipeline_for(Bundle(tiny_model("gpt", tokenizer), tokenizer, words=WORDS))
    running, blank = tokenizer.encode("x cat"), tokenizer.encode(" ")
    ids = running[len(tokenizer.encode("x")) :]
    ids = ids[1:] if ids[:1] == blank else ids
    expected = pipeline.embedding_weight[ids].mean(dim=0)
    torch.testing.assert_close(pipeline.word_vectors(["cat"])[0], expected)


def test_neighbors_are_the_words_with_the_highest_cosine():
    pipeline = pipeline_for(generator_bundle())
    vectors = pipeline.word_vectors(WORDS)
    for word in (*WORDS, "unknown", "Ünknown"):
        found = pipeline.neighbors(word, n=3)
        cosines = torch.cosine_similarity(pipeline.word_vectors([word]), vectors)
        expected = sorted((-float(c), w) for c, w in zip(cosines, WORDS, strict=True) if w != word)[:3]
        assert [one.word for one in found] == [name for _, name in expected]
        assert [one.similarity for one in found] == pytest.approx([-c for c, _ in expected], abs=1e-6)


def test_neighbors_follow_changed_weights():
    pipeline = pipeline_for(generator_bundle())
    pipeline.neighbors("cat", n=1)
    with torch.no_grad():
        pipeline.embedding_weight[:] = torch.randn(
            pipeline.embedding_weight.shape, generator=torch.Generator().manual_seed(1)
        )
        ids = pipeline.tokenizer.encode(" cat")
        pipeline.embedding_weight[pipeline.tokenizer.encode(" dog")[0]] = pipeline.embedding_weight[ids].mean(dim=0)
    assert len(pipeline.neighbors("cat", n=100)) == len(WORDS) - 1


def test_neighbors_without_a_list_or_of_no_word_are_refused():
    with pytest.raises(InputError, match=r"no list of words \(words\.txt\)"):
        pipeline_for(two_vocabularies_bundle()).neighbors("cat")
    for word in ("", " "):
        with pytest.raises(InputError, match="is not a word"):
            pipeline_for(generator_bundle()).neighbors(word)
        with pytest.raises(InputError, match="is not a word"):
            pipeline_for(generator_bundle(CHARACTERS)).neighbors(word)


def test_public_names_are_there():
    assert pipelines.__all__ == sorted(pipelines.__all__)
    assert all(hasattr(pipelines, name) for name in pipelines.__all__)


@given(
    lengths=st.lists(st.integers(0, 60), max_size=40), batch_tokens=st.integers(1, 300), rows=st.sampled_from([1, 4])
)
def test_every_text_with_tokens_is_in_one_batch_within_the_budget(lengths, batch_tokens, rows):
    found = list(batch_by_tokens(lengths, batch_tokens=batch_tokens, rows=rows))
    wanted = [number for number, length in enumerate(lengths) if length]
    assert sorted(number for batch in found for number in batch) == wanted
    for batch in found:
        width = max(MIN_WIDTH, *(lengths[number] for number in batch))
        assert len(batch) == 1 or len(batch) * width * rows <= batch_tokens


def test_budget_of_zero_is_refused():
    with pytest.raises(SettingsError, match="batch_tokens must be 1 or more, not 0"):
        list(batch_by_tokens([3], batch_tokens=0))


GREEDY, BEAM, SAMPLED = (
    DecodingSettings(),
    DecodingSettings(beam_size=4),
    DecodingSettings(do_sample=True, temperature=0.7),
)


@pytest.mark.parametrize(
    ("base", "given", "expected"),
    [
        (GREEDY, {}, {"do_sample": False, "beam_size": 1}),
        (GREEDY, {"temperature": 0.5}, {"do_sample": True, "temperature": 0.5}),
        (BEAM, {"seed": 1}, {"do_sample": True, "beam_size": 1, "seed": 1}),
        (BEAM, {"seed": None}, {"do_sample": False, "beam_size": 4}),
        (BEAM, {"top_k": 5, "n_best": 9}, {"do_sample": True, "n_best": 9}),
        (GREEDY, {"temperature": 0.5, "do_sample": False}, {"do_sample": False}),
        (SAMPLED, {"beam_size": 3}, {"do_sample": False, "beam_size": 3}),
        (SAMPLED, {"beam_size": 1}, {"do_sample": True, "temperature": 0.7}),
        (SAMPLED, {"n_best": 5}, {"do_sample": True, "n_best": 5, "beam_size": 1}),
        (GREEDY, {"n_best": 5}, {"beam_size": 5, "n_best": 5}),
        (BEAM, {"n_best": 2}, {"beam_size": 4, "n_best": 2}),
        (GREEDY, {"stop": "x"}, {"stop": ("x",)}),
        (GREEDY, {"stop": ["x", "y"], "length_penalty": 1}, {"stop": ("x", "y"), "length_penalty": 1.0}),
    ],
    ids=str,
)
def test_overrides_imply_other_settings(base, given, expected):
    found = override_settings(base, given)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"beam_size": 4, "temperature": 0.5}, "do_sample draws one token at a time: it needs beam_size = 1, not 4"),
        ({"beam_size": 2, "n_best": 3}, r"n_best \(3\) is more than beam_size \(2\)"),
        ({"temprature": 1.0}, r"unknown setting 'temprature' \(did you mean 'temperature'\?\)"),
        ({"beam_size": "4"}, "beam_size: '4' is not a whole number"),
        ({"do_sample": "yes"}, "'yes' is not true or false"),
    ],
)
def test_contradictory_overrides_are_refused(given, reason):
    with pytest.raises(SettingsError, match=reason):
        override_settings(GREEDY, given)


def test_input_is_tokenized_once(monkeypatch):
    texts = record_encoded_texts(monkeypatch)
    found = tokenize_input("the cat", BPE, before=[1], after=[2])
    assert texts == ["the cat"]
    assert [token.id for token in found.tokens] == [1, *BPE.encode("the cat"), 2]
    assert [(token.start, token.end) for token in found.tokens] == [(0, 0), *BPE.offsets("the cat"), (7, 7)]


@pytest.mark.parametrize("make", [generator_bundle, chat_bundle, translator_bundle], ids=lambda make: make.__name__)
def test_traced_text_is_tokenized_once(make, monkeypatch):
    pipeline = pipeline_for(make())
    texts = record_encoded_texts(monkeypatch)
    pipeline.trace("the cat", target="a dog")
    assert texts == ["the cat", "a dog"]


@pytest.mark.parametrize("tokenizer", [BPE, CHARACTERS], ids=["bpe", "characters"])
@given(text=st.text(st.sampled_from("the cat 漢字👩\u200d👧 \n\tü.é"), max_size=14))
def test_spans_of_generated_text_cover_it_in_order(tokenizer, text):
    ids = tokenizer.encode(text)
    spans = find_token_spans(ids, tokenizer, text)
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    assert {place for start, end in spans for place in range(start, end)} == set(range(len(text)))
    assert all(start < end for start, end in spans)
