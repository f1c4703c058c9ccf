"""How a model does on the validation set: the loss over all of it, the task's score, and some outputs to look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sightline.bundle import Bundle
from sightline.decoding import DecodingSettings
from sightline.evaluation import translation_scores
from sightline.evaluation.text import exponential
from sightline.model import Model
from sightline.pipelines import Chat, Classifier, Filler, Generator, Translator, pipeline_for
from sightline.pipelines.filler import MASK
from sightline.run.examples import Examples
from sightline.text.chance import order
from sightline.text.feed import Feed
from sightline.training.objective import Objective
from sightline.training.report import Sample
from sightline.training.state import Metric
from sightline.training.validation import Validation

MOST_TRANSLATED = 500
"""Sentences whose translations are scored at every validation; the final score is over all of them."""
N_SAMPLES = 3
SAMPLE_TOKENS = 40
WHICH = 9
"""A draw of its own."""


@dataclass(frozen=True)
class Validator:
    """Judges the model of a run as it is at the moment."""

    bundle: Bundle
    examples: Examples
    feed: Feed
    objective: Objective
    seed: int

    def __call__(self) -> Validation:
        """Measure the loss, then let the model do its task."""
        model = self.bundle.model
        loss, tallies = mean_loss(model, self.feed, self.objective)
        judges: dict[str, Callable[[float, dict[str, float]], Validation]] = {
            "translation": self._translation,
            "chat": self._chat,
            "language-model": self._language_model,
            "masked-language-model": self._masked_language_model,
            "classification": self._classification,
        }
        return judges[self.examples.recipe.task](loss, tallies)

    def final(self, bundle: Bundle) -> tuple[dict[str, Metric], tuple[Sample, ...]] | None:
        """Score the model that is kept on the whole validation set, the way it will be used; signed, to be compared.

        Only translations are judged otherwise than while training, where a quicker search over fewer sentences will do.
        """
        if self.examples.recipe.task != "translation":
            return None
        pairs, outputs = self._translated(bundle, bundle.generation, most=len(self.examples.valid.chosen))
        scores = translation_scores(outputs, [pair.target for pair in pairs])
        return dict(vars(scores)), samples_of(pairs, outputs)

    def _translation(self, loss: float, tallies: dict[str, float]) -> Validation:
        # A model that has not learned to end a sentence yet need not go on to the longest that is allowed.
        longest = 10 + 2 * int(self.examples.valid.store.lengths[self.examples.valid.chosen, 1].max())
        quick = DecodingSettings(max_length=min(longest, self.bundle.generation.max_length))
        pairs, outputs = self._translated(self.bundle, quick, most=MOST_TRANSLATED)
        scores = translation_scores(outputs, [pair.target for pair in pairs])
        samples = samples_of(pairs, outputs)
        others = {"chrf": scores.chrf, "exact_match": scores.exact_match, "perplexity": exponential(loss), **tallies}
        return Validation(loss, ("bleu", scores.bleu), True, others, samples)

    def _translated(self, bundle: Bundle, settings: DecodingSettings, *, most: int) -> "tuple[list[Pair], list[str]]":
        translator = pipeline_for(bundle)
        if not isinstance(translator, Translator):
            raise TypeError(translator)
        pairs = list(self._pairs(most))
        languages = [pair.language for pair in pairs if pair.language]
        found = translator.translations([pair.source for pair in pairs], to=languages or None, settings=settings)
        return pairs, [translations[0].text for translations in found]

    def _chat(self, loss: float, tallies: dict[str, float]) -> Validation:
        chat = pipeline_for(self.bundle)
        if not isinstance(chat, Chat):
            raise TypeError(chat)
        pairs = list(self._pairs(N_SAMPLES))
        samples = [Sample(pair.source, chat.reply(pair.source.split("\n")), pair.target) for pair in pairs]
        return Validation(loss, ("perplexity", exponential(loss)), False, tallies, tuple(samples))

    def _language_model(self, loss: float, tallies: dict[str, float]) -> Validation:
        generator = pipeline_for(self.bundle)
        if not isinstance(generator, Generator):
            raise TypeError(generator)
        tokenizer = self.examples.vocabulary.source
        samples = []
        for ids in self._texts(1):
            at = len(ids) // 3
            prompt, rest = tokenizer.decode(ids[:at]), tokenizer.decode(ids[at:])
            output = generator.generate(prompt, max_length=SAMPLE_TOKENS, temperature=0.8, seed=self.seed)
            samples.append(Sample(prompt, str(output), rest))
        return Validation(loss, ("perplexity", exponential(loss)), False, tallies, tuple(samples))

    def _masked_language_model(self, loss: float, tallies: dict[str, float]) -> Validation:
        filler = pipeline_for(self.bundle)
        if not isinstance(filler, Filler):
            raise TypeError(filler)
        tokenizer = self.examples.vocabulary.source
        samples = []
        for ids in self._texts(N_SAMPLES):
            at = len(ids) // 2
            before, hidden, after = (tokenizer.decode(part) for part in (ids[:at], ids[at : at + 1], ids[at + 1 :]))
            if MASK in before + after:
                continue  # somebody writes about masks: which one would be ours?
            question = f"{before}{MASK}{after}"
            answers = [candidate.token.strip() for candidate in filler.fill(question, n=3)[0].candidates]
            samples.append(Sample(question, " | ".join(answers), hidden.strip()))
        words = tallies.get("words_loss", loss)
        return Validation(loss, ("perplexity", exponential(words)), False, in_percent(tallies), tuple(samples))

    def _classification(self, loss: float, tallies: dict[str, float]) -> Validation:
        classifier = pipeline_for(self.bundle)
        if not isinstance(classifier, Classifier):
            raise TypeError(classifier)
        samples = [] if self.examples.data.classified == "words" else list(self._labelled(classifier))
        return Validation(loss, ("accuracy", 100 * tallies["accuracy"]), True, {}, tuple(samples))

    def _labelled(self, classifier: Classifier) -> Iterator[Sample]:
        tokenizer, labels, store = self.examples.vocabulary.source, self.examples.labels, self.examples.valid.store
        for number in self._chosen(N_SAMPLES):
            texts = [tokenizer.decode(store.sequence(number, column).tolist()) for column in range(store.columns)]
            found = classifier.classify([texts[0] if len(texts) == 1 else (texts[0], texts[1])], cut=True)[0]
            right = labels.names[int(store.labels[number])] if labels else ""
            yield Sample(" | ".join(texts), f"{found.label} ({found.probability:.0%})", right)

    def _pairs(self, most: int) -> "Iterator[Pair]":
        """Yield sources and targets as text, those of a few examples chosen once and for all."""
        vocabulary, store = self.examples.vocabulary, self.examples.valid.store
        languages = self.examples.data.languages
        for number in self._chosen(most):
            source, target = (store.sequence(number, column).tolist() for column in (0, 1))
            language = vocabulary.source.token_text(source[0])[2:-1] if languages else None
            yield Pair(
                vocabulary.source.decode(source[1:] if languages else source),
                vocabulary.written.decode(target),
                language,
            )

    def _texts(self, most: int) -> Iterator[list[int]]:
        """Yield the beginnings of some pieces of text, as long as the model can take once they are taken apart."""
        store, room = self.examples.valid.store, self.bundle.model.config.max_length or SAMPLE_TOKENS
        for number in self._chosen(most):
            yield store.sequence(number).tolist()[: max(1, min(SAMPLE_TOKENS, room // 2))]

    def _chosen(self, most: int) -> list[int]:
        numbers = np.flatnonzero(self.examples.valid.chosen)
        chosen: list[int] = numbers[order(len(numbers), self.seed, WHICH)[:most]].tolist()
        return chosen


@dataclass(frozen=True)
class Pair:
    """A sentence of the validation set."""

    source: str
    target: str
    language: str | None


def samples_of(pairs: Sequence[Pair], outputs: Sequence[str]) -> tuple[Sample, ...]:
    """Return the first few translations beside what was expected."""
    some = zip(pairs[:N_SAMPLES], outputs[:N_SAMPLES], strict=True)
    return tuple(Sample(pair.source, output, pair.target) for pair, output in some)


@torch.inference_mode()
def mean_loss(model: Model, feed: Feed, objective: Objective) -> tuple[float, dict[str, float]]:
    """Return the loss over a whole feed, an answer's share of it, and the means of what was counted beside."""
    total, count = 0.0, 0
    tallies: dict[str, tuple[float, int]] = {}
    for batch in feed.epoch(0):
        loss = objective(model, batch)
        total, count = total + float(loss.total), count + loss.count
        for name, (value, of) in loss.tallies.items():
            had, had_of = tallies.get(name, (0.0, 0))
            tallies[name] = (had + value, had_of + of)
    return total / max(1, count), {name: value / max(1, of) for name, (value, of) in tallies.items()}


def in_percent(tallies: dict[str, float]) -> dict[str, float]:
    """Return shares as percent, as all scores are."""
    return {name: 100 * value if name.endswith("accuracy") else value for name, value in tallies.items()}
