"""No result depends on the other sentences of the batch."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import sightline.decoding
from sightline.decoding import DecodingSettings, Request, search
from sightline.decoding.settings import contains
from sightline.errors import InputError

from .toy import END, Toy, contains_any

SEARCHES = [
    DecodingSettings(max_new_tokens=7),
    DecodingSettings(max_new_tokens=7, beam_size=3, n_best=2),
    DecodingSettings(max_new_tokens=7, beam_size=5, n_best=5, coverage_penalty=0.3, length_penalty=1.2),
    DecodingSettings(max_new_tokens=7, do_sample=True, seed=5, n_best=3),
    DecodingSettings(max_new_tokens=7, do_sample=True, seed=6, temperature=1.7, top_k=4, top_p=0.9, min_p=0.05),
]
PROCESSORS = {
    "none": {},
    "min_new_tokens": {"min_new_tokens": 4},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "repetition_penalty_on_prompt": {"repetition_penalty": 1.8, "include_prompt": True},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "no_repeat_ngram_size_on_prompt": {"no_repeat_ngram_size": 2, "include_prompt": True},
    "bad_words": {"bad_words": ((3,), (2, 4), (4, 4, 5))},
    "forced_words": {"forced_words": ((3, 2), (5,))},
    "forced_words_without_repeats": {"forced_words": ((3, 3), (5,)), "no_repeat_ngram_size": 1},
    "stop": {"stop": ("34", "5")},
}


def text_of(ids):
    return "".join(map(str, ids))


def outcome(toy, sentences, settings):
    """Return the results, or None if no token was allowed for some sentence."""
    sources, contexts, prefixes, limits = zip(*sentences, strict=True)
    mask = toy.source_mask(sources)
    try:
        return search(
            toy,
            toy.start(sources, contexts),
            Request(
                contexts,
                settings,
                end_ids=[END],
                prefixes=prefixes if not settings.stop else None,
                max_new_tokens=limits,
                is_complete=contains_any(settings.stop, text_of),
                source_mask=mask,
            ),
        )
    except InputError as error:
        assert "no token is allowed" in str(error)  # noqa: PT017 - any other error fails the test
        return None


sentence = st.tuples(
    st.integers(0, 9),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from([(), (1,), (4, 2)]),
    st.integers(5, 8),
)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("settings", SEARCHES, ids=["greedy", "beam", "coverage", "sampling", "filtered-sampling"])
@examples(max_examples=3)
@given(seed=st.integers(0, 99), sentences=st.lists(sentence, min_size=2, max_size=4), grain=st.sampled_from([0.0, 1.0]))
def test_batched_equals_one_by_one(settings, processor, seed, sentences, grain):
    settings = dataclasses.replace(settings, **PROCESSORS[processor])
    toy = Toy(6, seed=seed, sources=3, grain=grain)
    alone = [outcome(toy, [one], settings) for one in sentences]
    together = outcome(toy, sentences, settings)
    assert together == (None if None in alone else [results for one in alone for results in one])


@pytest.mark.parametrize("settings", SEARCHES, ids=["greedy", "beam", "coverage", "sampling", "filtered-sampling"])
@examples(max_examples=10)
@given(seed=st.integers(0, 999), prefix=st.lists(st.integers(1, 3), max_size=2))
def test_every_search_applies_all_processors(settings, seed, prefix):
    settings = dataclasses.replace(
        settings, max_new_tokens=9, min_new_tokens=3, bad_words=((4,), (1, 6), (6, 6, 1)), forced_words=((5, 2), (3,))
    )
    (results,) = outcome(Toy(7, seed=seed, sources=3), [(0, [1], prefix, 9)], settings)
    assert results
    for result in results:
        assert not any(contains(result.ids, bad) for bad in settings.bad_words)
        assert all(contains(result.ids, forced) for forced in settings.forced_words)
        assert 3 <= len(result.content) <= len(result.ids) <= 9
        assert list(result.ids[: len(prefix)]) == prefix
        assert len(result.token_log_probabilities) == len(result.ids)
        assert result.log_probability == sum(result.token_log_probabilities)


@pytest.mark.parametrize("settings", SEARCHES[:2] + SEARCHES[3:4], ids=["greedy", "beam", "sampling"])
@examples(max_examples=10)
@given(seed=st.integers(0, 999), size=st.integers(1, 3))
def test_no_ngram_appears_twice(settings, seed, size):
    settings = dataclasses.replace(settings, no_repeat_ngram_size=size, max_new_tokens=5)
    for result in outcome(Toy(8, seed=seed, sources=3), [(0, [1], (), 5)], settings)[0]:
        grams = [result.ids[i : i + size] for i in range(len(result.ids) - size + 1)]
        assert len(grams) == len(set(grams))


def test_public_names_are_sorted_and_there():
    names = sightline.decoding.__all__
    assert names == sorted(names, key=lambda name: (name.islower(), name))
    assert all(hasattr(sightline.decoding, name) for name in names)
