"""Validate a model: the loss over the validation set, the task's score, and sample outputs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sightline.bundle import Bundle
from sightline.data.datasets.batch_source import BatchSource
from sightline.data.datasets.stateless_random import permutation
from sightline.decoding import DecodingSettings
from sightline.evaluation import translation_scores
from sightline.evaluation.language_model import exponential
from sightline.model import Model
from sightline.pipelines import Chat, Classifier, Filler, Generator, Translator, pipeline_for
from sightline.pipelines.filler import MASK
from sightline.runs.examples import Examples
from sightline.training.metrics import ValidationResult
from sightline.training.objective import Objective
from sightline.training.report import Sample
from sightline.training.state import Metric

MAX_TRANSLATED = 500
"""Sentences translated at every validation; the final score is over all of them."""
N_SAMPLES = 3
SAMPLE_TOKENS = 40
SAMPLE_STREAM = 9
"""Random stream that selects the samples."""


@dataclass(frozen=True)
class Validator:
    """Validates the current model of a run."""

    bundle: Bundle
    examples: Examples
    batch_source: BatchSource
    objective: Objective
    seed: int

    def __call__(self) -> ValidationResult:
        """Compute the loss, then the score of the task."""
        model = self.bundle.model
        loss, tallies = mean_loss(model, self.batch_source, self.objective)
        scorers: dict[str, Callable[[float, dict[str, float]], ValidationResult]] = {
            "translation": self._translation,
            "chat": self._chat,
            "language-model": self._language_model,
            "masked-language-model": self._masked_language_model,
            "classification": self._classification,
        }
        return scorers[self.examples.recipe.task](loss, tallies)

    def final(self, bundle: Bundle) -> tuple[dict[str, Metric], tuple[Sample, ...]] | None:
        """Score the saved model on the whole validation set with its own decoding settings, with sacreBLEU signatures.

        Only translation needs this: during training it is scored on fewer sentences with greedy decoding.
        """
        if self.examples.recipe.task != "translation":
            return None
        pairs, outputs = self._translate(bundle, bundle.generation, n=len(self.examples.valid.selected))
        scores = translation_scores(outputs, [pair.target for pair in pairs])
        return dict(vars(scores)), make_samples(pairs, outputs)

    def _translation(self, loss: float, tallies: dict[str, float]) -> ValidationResult:
        # An early model that does not end its sentences need not decode up to the limit.
        max_length = 10 + 2 * int(self.examples.valid.dataset.lengths[self.examples.valid.selected, 1].max())
        quick = DecodingSettings(max_new_tokens=min(max_length, self.bundle.generation.max_new_tokens))
        pairs, outputs = self._translate(self.bundle, quick, n=MAX_TRANSLATED)
        scores = translation_scores(outputs, [pair.target for pair in pairs])
        samples = make_samples(pairs, outputs)
        others = {"chrf": scores.chrf, "exact_match": scores.exact_match, "perplexity": exponential(loss), **tallies}
        return ValidationResult(loss, ("bleu", scores.bleu), True, others, samples)

    def _translate(self, bundle: Bundle, settings: DecodingSettings, *, n: int) -> "tuple[list[Pair], list[str]]":
        translator = pipeline_for(bundle)
        if not isinstance(translator, Translator):
            raise TypeError(translator)
        pairs = list(self._pairs(n))
        languages = [pair.language for pair in pairs if pair.language]
        found = translator.translations([pair.source for pair in pairs], to=languages or None, settings=settings)
        return pairs, [translations[0].text for translations in found]

    def _chat(self, loss: float, tallies: dict[str, float]) -> ValidationResult:
        chat = pipeline_for(self.bundle)
        if not isinstance(chat, Chat):
            raise TypeError(chat)
        pairs = list(self._pairs(N_SAMPLES))
        samples = [Sample(pair.source, chat.reply(pair.source.split("\n")), pair.target) for pair in pairs]
        return ValidationResult(loss, ("perplexity", exponential(loss)), False, tallies, tuple(samples))

    def _language_model(self, loss: float, tallies: dict[str, float]) -> ValidationResult:
        generator = pipeline_for(self.bundle)
        if not isinstance(generator, Generator):
            raise TypeError(generator)
        tokenizer = self.examples.tokenizers.source
        samples = []
        for ids in self._texts(1):
            at = len(ids) // 3
            prompt, rest = tokenizer.decode(ids[:at]), tokenizer.decode(ids[at:])
            output = generator.generate(prompt, max_new_tokens=SAMPLE_TOKENS, temperature=0.8, seed=self.seed)
            samples.append(Sample(prompt, str(output), rest))
        return ValidationResult(loss, ("perplexity", exponential(loss)), False, tallies, tuple(samples))

    def _masked_language_model(self, loss: float, tallies: dict[str, float]) -> ValidationResult:
        filler = pipeline_for(self.bundle)
        if not isinstance(filler, Filler):
            raise TypeError(filler)
        tokenizer = self.examples.tokenizers.source
        samples = []
        for ids in self._texts(N_SAMPLES):
            at = len(ids) // 2
            before, hidden, after = (tokenizer.decode(part) for part in (ids[:at], ids[at : at + 1], ids[at + 1 :]))
            if MASK in before + after:
                continue  # the text itself contains the mask token
            masked = f"{before}{MASK}{after}"
            answers = [candidate.token.strip() for candidate in filler.fill(masked, n=3)[0].candidates]
            samples.append(Sample(masked, " | ".join(answers), hidden.strip()))
        words = tallies.get("words_loss", loss)
        return ValidationResult(loss, ("perplexity", exponential(words)), False, in_percent(tallies), tuple(samples))

    def _classification(self, loss: float, tallies: dict[str, float]) -> ValidationResult:
        classifier = pipeline_for(self.bundle)
        if not isinstance(classifier, Classifier):
            raise TypeError(classifier)
        samples = [] if self.examples.data.label_level == "token" else list(self._labeled(classifier))
        return ValidationResult(loss, ("accuracy", 100 * tallies["accuracy"]), True, {}, tuple(samples))

    def _labeled(self, classifier: Classifier) -> Iterator[Sample]:
        tokenizer, labels, dataset = self.examples.tokenizers.source, self.examples.labels, self.examples.valid.dataset
        for number in self._sample(N_SAMPLES):
            texts = [tokenizer.decode(dataset.sequence(number, column).tolist()) for column in range(dataset.columns)]
            found = classifier.classify([texts[0] if len(texts) == 1 else (texts[0], texts[1])], truncate=True)[0]
            reference = labels.names[int(dataset.labels[number])] if labels else ""
            yield Sample(" | ".join(texts), f"{found.label} ({found.probability:.0%})", reference)

    def _pairs(self, n: int) -> "Iterator[Pair]":
        """Yield sources and targets as text, of a fixed random sample of examples."""
        tokenizers, dataset = self.examples.tokenizers, self.examples.valid.dataset
        languages = self.examples.data.languages
        for number in self._sample(n):
            source, target = (dataset.sequence(number, column).tolist() for column in (0, 1))
            language = tokenizers.source.token_text(source[0])[2:-1] if languages else None
            yield Pair(
                tokenizers.source.decode(source[1:] if languages else source),
                tokenizers.output.decode(target),
                language,
            )

    def _texts(self, n: int) -> Iterator[list[int]]:
        """Yield the first ids of some texts, short enough for the model even if decoding changes their length."""
        dataset, room = self.examples.valid.dataset, self.bundle.model.config.max_length or SAMPLE_TOKENS
        for number in self._sample(n):
            yield dataset.sequence(number).tolist()[: max(1, min(SAMPLE_TOKENS, room // 2))]

    def _sample(self, n: int) -> list[int]:
        numbers = np.flatnonzero(self.examples.valid.selected)
        chosen: list[int] = numbers[permutation(len(numbers), self.seed, SAMPLE_STREAM)[:n]].tolist()
        return chosen


@dataclass(frozen=True)
class Pair:
    """An example of the validation set as text."""

    source: str
    target: str
    language: str | None


def make_samples(pairs: Sequence[Pair], outputs: Sequence[str]) -> tuple[Sample, ...]:
    """Return the first few translations with their references."""
    some = zip(pairs[:N_SAMPLES], outputs[:N_SAMPLES], strict=True)
    return tuple(Sample(pair.source, output, pair.target) for pair, output in some)


@torch.inference_mode()
def mean_loss(model: Model, batch_source: BatchSource, objective: Objective) -> tuple[float, dict[str, float]]:
    """Return the mean loss per target over all batches, and the means of the tallies."""
    total, count = 0.0, 0
    tallies: dict[str, tuple[float, int]] = {}
    device = next(model.parameters()).device
    for batch in batch_source.epoch(0):
        loss = objective(model, batch.to(device))
        total, count = total + float(loss.total), count + loss.count
        for name, (value, n) in loss.tallies.items():
            value_sum, n_sum = tallies.get(name, (0.0, 0))
            tallies[name] = (value_sum + value, n_sum + n)
    return total / max(1, count), {name: value / max(1, n) for name, (value, n) in tallies.items()}


def in_percent(tallies: dict[str, float]) -> dict[str, float]:
    """Return accuracies in percent, as all scores are."""
    return {name: 100 * value if name.endswith("accuracy") else value for name, value in tallies.items()}
