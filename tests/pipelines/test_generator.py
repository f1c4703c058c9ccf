"""Generation: streamed, batched or alone, the same text."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.decoding import DecodingSettings
from sightline.errors import InputError, SettingsError
from sightline.pipelines import Generator
from sightline.tasks import pipeline_for

from .tiny import BPE, CHARACTERS, generator_bundle, precise

PROMPTS = ["the cat", "", "a dog ran to the", "漢", "x y z"]
OPTIONS = [
    {},
    {"temperature": 1.5, "seed": 3},
    {"beam_size": 3},
    {"top_k": 5, "seed": 1, "repetition_penalty": 1.3, "include_prompt": True},
    {"temperature": 2.0, "seed": 2, "stop": ("a", "th")},
    {"min_new_tokens": 4, "no_repeat_ngram_size": 2},
]
EVERY_OPTION = pytest.mark.parametrize("options", OPTIONS, ids=str)


@pytest.fixture(scope="module", params=[BPE, CHARACTERS], ids=["bpe", "characters"])
def generator(request) -> Generator:
    return pipeline_for(precise(generator_bundle(request.param)))


@pytest.fixture(scope="module")
def simple() -> Generator:
    return pipeline_for(precise(generator_bundle()))


@EVERY_OPTION
@pytest.mark.parametrize("prompt", PROMPTS[:3])
def test_stream_is_what_generate_returns(generator, options, prompt):
    pieces = list(generator.stream(prompt, max_new_tokens=20, **options))
    assert "".join(pieces) == generator.generate(prompt, max_new_tokens=20, **options)
    assert all(pieces)


@given(seed=st.integers(0, 10_000), stop=st.sampled_from([(), ("e",), ("the", "�"), (" ", "ab")]))
@settings(max_examples=15)
def test_stream_of_anything_is_what_generate_returns(generator, seed, stop):
    """High temperatures generate bytes that are not characters: these are held back, and come out the same."""
    options = {"temperature": 4.0, "seed": seed, "stop": stop, "max_new_tokens": 24}
    assert "".join(generator.stream("the", **options)) == generator.generate("the", **options)


@EVERY_OPTION
def test_batch_of_prompts_equals_one_by_one(simple, options):
    options = simple.settings(**options)
    together = simple.continuations(PROMPTS, settings=options, batch_tokens=60)
    alone = [simple.continuations([prompt], settings=options)[0] for prompt in PROMPTS]
    assert [[one.tokens for one in row] for row in together] == [[one.tokens for one in row] for row in alone]
    assert [[one.text for one in row] for row in together] == [[one.text for one in row] for row in alone]


def test_cached_generation_equals_full_passes(simple):
    """Token after token through the cache, or the whole text again for every token."""
    ids = simple.tokenizer.encode("the cat")
    with torch.inference_mode():
        for _ in range(8):
            ids.append(int(simple.model.eval()(torch.tensor([ids]))[0, -1].argmax()))
            if ids[-1] == simple.tokenizer.end_id:
                break
    expected = simple.tokenizer.decode(ids)[len("the cat") :]
    assert simple.generate("the cat", max_new_tokens=8) == expected.rstrip("�")


def test_stream_leaves_the_model_alone_between_pieces():
    bundle = generator_bundle(dropout=0.5)
    bundle.model.train()
    generator = pipeline_for(bundle)
    expected = generator.generate("the cat", max_new_tokens=20)
    found = []
    for piece in generator.stream("the cat", max_new_tokens=20):
        assert bundle.model.training
        assert not torch.is_inference_mode_enabled()
        found.append(piece)
    assert "".join(found) == expected


def test_stream_refuses_at_once(simple):
    with pytest.raises(SettingsError, match="did you mean 'top_p'"):
        simple.stream("the", top_pp=0.5)
    with pytest.raises(InputError, match="the prompt has 61 tokens, more than the 48"):
        simple.stream("z" * 60)


def test_several_texts_need_sampling_or_a_beam(simple):
    sampled = simple.generate("the", n=3, temperature=2.0, seed=1)
    assert len(sampled) == 3
    assert len(set(sampled)) > 1
    assert sampled[0] == simple.generate("the", temperature=2.0, seed=1)
    assert len(simple.generate("the", n=2, beam_size=2)) == 2
    with pytest.raises(SettingsError, match="3 different texts need sampling or a beam"):
        simple.generate("the", n=3)


def test_text_ends_where_the_model_has_no_positions_left(simple):
    prompt = "z" * 45
    [[found]] = simple.continuations([prompt], settings=DecodingSettings(max_new_tokens=100, min_new_tokens=60))
    assert (len(found.tokens), found.finish_reason) == (
        48 + 1 - 46,
        "length",
    )  # the end token of the previous document comes first
    simple.generate("z" * 47)


def test_prompt_of_special_names_is_text(simple):
    [[first, *ids]] = simple.encode_prompts(["</s><s>"])
    assert first == simple.tokenizer.end_id
    assert not set(ids) & simple.tokenizer.special_ids
    assert simple.encode_prompts([""]) == [[simple.tokenizer.end_id]]


def test_lone_surrogate_is_refused(simple):
    with pytest.raises(InputError, match="is a lone surrogate"):
        simple.generate("\udc00")


def test_stop_string_is_cut_off_and_never_leaks(simple):
    candidates = ({"max_new_tokens": 20, "min_new_tokens": 20, "seed": seed} for seed in range(100))
    texts = ((options, simple.generate("the", **options)) for options in candidates)
    options, whole = next((options, text) for options, text in texts if len(text) > 10)
    stop = whole[5:8]
    assert "".join(simple.stream("the", **options, stop=stop)) == whole[: whole.index(stop)]


@pytest.mark.parametrize("text", ["the cat sat on the mat " * 6, "x", ""])
def test_log_likelihood_is_that_of_every_block(simple, text):
    """Blocks share a token: every token is scored once, given those before it in its block."""
    end = simple.tokenizer.end_id
    ids = [end, *simple.tokenizer.encode(text), end]
    expected = 0.0
    with torch.inference_mode():
        for start in range(0, len(ids) - 1, 48):
            block = torch.tensor([ids[start : start + 49]])
            likely = simple.model.eval()(block[:, :-1]).log_softmax(-1)
            expected += float(likely.gather(2, block[:, 1:, None]).sum())
    assert simple.log_likelihoods([text])[0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("context", [0, 1, 20, 47])
def test_every_token_is_scored_once_given_its_context(simple, context):
    """After the first block, every block begins with `context` tokens of the one before it."""
    ids = simple.tokenizer.encode("the cat sat on the mat " * 12)
    expected, counted = [], 0
    with torch.inference_mode():
        while counted < len(ids) - 1:
            begin = max(0, counted - context)
            block = torch.tensor([ids[begin : begin + 49]])
            likely = simple.model.eval()(block[:, :-1]).log_softmax(-1).gather(2, block[:, 1:, None])[0, :, 0]
            expected += likely[counted - begin :].tolist()
            counted = len(expected)
    [found] = simple.token_log_probs([ids], context=context, batch_tokens=200)
    assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_longest_context_fills_the_whole_context_window(simple):
    ids = simple.tokenizer.encode("the cat sat on the mat " * 12)
    [found] = simple.token_log_probs([ids], context=47)
    with torch.inference_mode():
        for place in (len(ids) - 9, len(ids) - 1):
            likely = simple.model.eval()(torch.tensor([ids[place - 48 : place]])).log_softmax(-1)[0, -1, ids[place]]
            assert float(found[place - 1]) == pytest.approx(float(likely), abs=1e-4)


@pytest.mark.parametrize("context", [-1, 48])
def test_context_that_leaves_nothing_to_score_is_refused(simple, context):
    with pytest.raises(
        InputError, match=f"a context of {context} tokens: this model reads 48 at once, so it must be 0 to 47"
    ):
        simple.token_log_probs([[1, 2]], context=context)


def test_log_likelihoods_of_many_are_those_of_each(simple):
    texts = ["the cat", "", "a dog " * 40, "漢字"]
    alone = [simple.log_likelihoods([text])[0] for text in texts]
    assert simple.log_likelihoods(texts, batch_tokens=100) == pytest.approx(alone, abs=1e-3)
