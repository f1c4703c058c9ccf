"""What a run records in training.json of the model folder: its data, inputs to try, and what inputs look like."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from sightline.bundle.input_statistics import collect_input_statistics
from sightline.bundle.language_statistics import LanguageStatistics, collect_language_statistics
from sightline.bundle.training_facts import InputExample, TrainingFacts
from sightline.data.datasets.examples import Examples
from sightline.data.sentences import split_sentences
from sightline.data.tokenizers import tag_token
from sightline.training.state import Metric


def training_file_names(examples: Examples) -> tuple[str, ...]:
    """Return short names of the training files."""
    return examples.data.describe_files("train")


def has_fold_scores(examples: Examples) -> bool:
    """Return whether this is the final model of a cross-validation, which is trained on all examples."""
    return bool(examples.data.folds) and examples.data.fold is None


MAX_EXAMPLES = 8
MAX_EXAMPLE_LENGTH = 160
"""Characters of each text of an example: one must fit into a button, and be read at a glance."""


def collect_data_facts(examples: Examples, inputs: Sequence[InputExample]) -> TrainingFacts:
    """Return what the model folder records about the data; `inputs` are some of the validation set."""
    pairs = any(one.second is not None for one in inputs)
    texts = [text for one in inputs for text in (one.text, one.second) if text]
    seen_ids = examples.train.find_ids(columns=2 if pairs else 1)
    tokenizers = examples.tokenizers
    return TrainingFacts(
        files=training_file_names(examples),
        n_examples=int(examples.train.selected.sum()),
        n_validation=None if has_fold_scores(examples) else int(examples.valid.selected.sum()),
        examples=choose_examples(inputs),
        inputs=collect_input_statistics(texts, tokenizers.source, tokenizers.words, seen_ids) if texts else None,
        languages=count_languages(examples),
        **measure_sources(examples),
    )


def keep_finite(scores: Mapping[str, Metric]) -> dict[str, float]:
    """Return the scores that are finite numbers."""
    return {
        name: float(value) for name, value in scores.items() if isinstance(value, int | float) and math.isfinite(value)
    }


def choose_examples(inputs: Sequence[InputExample], n: int = MAX_EXAMPLES) -> tuple[InputExample, ...]:
    """Return a few short inputs that differ in length, words and target language; a longer one comes first."""
    short = {
        one.text: one
        for one in inputs
        if one.text.strip() and all(len(text or "") <= MAX_EXAMPLE_LENGTH for text in (one.text, one.second))
    }
    in_one_line = [one for text, one in short.items() if "\n" not in text]
    rest = sorted(in_one_line or short.values(), key=lambda one: (len(one.text), one.text))
    chosen: list[InputExample] = []
    words_used, languages_used = Counter[str](), Counter[str | None]()
    for number in range(min(n, len(rest))):
        group = rest[number * len(rest) // n : (number + 1) * len(rest) // n] if len(rest) > n else [rest[number]]
        best = min(
            group,
            key=lambda one: (languages_used[one.to], sum(words_used[word] for word in one.text.casefold().split())),
        )
        chosen.append(replace(best, reference=best.reference[:MAX_EXAMPLE_LENGTH]))
        languages_used[best.to] += 1
        words_used.update(set(best.text.casefold().split()))
    first = 3 * len(chosen) // 4
    return (*chosen[first : first + 1], *chosen[:first], *chosen[first + 1 :])


def spread(numbers: Int[ndarray, " n"], limit: int) -> Int[ndarray, " some"]:
    """Return at most so many of the numbers, evenly spread."""
    return numbers[np.linspace(0, len(numbers) - 1, min(len(numbers), limit)).astype(np.int64)]


MAX_MEASURED_SOURCES = 2_000
"""Training sources in which sentences are counted, evenly spread over the corpus."""


def measure_sources(examples: Examples) -> dict[str, Any]:
    """Return how long the sources of pairs are and how many have several sentences; nothing for other examples."""
    dataset, numbers = examples.train.dataset, np.flatnonzero(examples.train.selected)
    if dataset.columns < 2 or examples.labels or not len(numbers):
        return {}
    tokenizer, n_tags = examples.tokenizers.source, 1 if examples.data.languages else 0
    some = spread(numbers, MAX_MEASURED_SOURCES)
    texts = tokenizer.decode_batch([ids.tolist()[n_tags:] for ids in dataset.sequences(some)])
    lengths = dataset.lengths[numbers, 0]
    return {
        "multi_sentence_share": sum(len(split_sentences(text)) > 1 for text in texts) / len(texts),
        "max_source_tokens": max(1, int(np.quantile(lengths, 0.999, method="higher"))),
    }


MAX_SURPRISE = 0.5
"""Bits per token by which sources may be less likely than targets while they count as the same languages.

Measured: 0.2 to 0.3 for models of all directions; 1.1 for English dates and amounts into German or French ones, whose
digits are the same, and more for sentences.
"""
MAX_COUNTED_TARGETS = 50_000
"""Training targets in which the tokens of each language are counted, evenly spread over the corpus."""


def count_languages(examples: Examples) -> LanguageStatistics | None:
    """Return how often each token occurs in each target language of a multilingual translator.

    Between two languages a source is in the other one, and counts too: sources may be in lower case, as people type.
    None for other models, where the sources have a tokenizer of their own, and where they are in other languages than
    the targets (English into German or French): then these statistics say nothing about an input.
    """
    languages, tokenizers = examples.data.languages, examples.tokenizers
    numbers = np.flatnonzero(examples.train.selected)
    if not languages or tokenizers.target is not None or not len(numbers):
        return None
    dataset = examples.train.dataset
    some = spread(numbers, MAX_COUNTED_TARGETS)
    tags = np.array([ids[0] for ids in dataset.sequences(some)])
    of_targets, of_both = {}, {}
    for language in languages:
        is_target = tags == tokenizers.source.special_id(tag_token(language))
        targets = dataset.sequences(some[is_target], column=1)
        sources = [ids[1:] for ids in dataset.sequences(some[~is_target])] if len(languages) == 2 else []
        of_targets[language] = count_tokens(targets, tokenizers.source.vocab_size)
        of_both[language] = of_targets[language] + count_tokens(sources, tokenizers.source.vocab_size)
    found, few = collect_language_statistics(of_targets), spread(some, MAX_MEASURED_SOURCES)
    some_sources = [ids[1:].tolist() for ids in dataset.sequences(few)]
    some_targets = [ids.tolist() for ids in dataset.sequences(few, column=1)]
    is_same = found.mean_information(some_sources) <= found.mean_information(some_targets) + MAX_SURPRISE
    return collect_language_statistics(of_both) if is_same else None


def count_tokens(texts: Sequence[Int[ndarray, " n"]], vocab_size: int) -> Int[ndarray, " V"]:
    """Return how often each token occurs."""
    return np.bincount(np.concatenate(texts) if texts else np.zeros(0, dtype=np.int64), minlength=vocab_size)
