"""Translation: a source sentence in, a target sentence out, with a multilingual model into the language asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import TrainingFacts
from sightline.tasks.pairs import Pair, PairTask, sample_pairs
from sightline.tasks.task import NO_FACTS, TEXTS, EvaluationOptions, RequestField, StudioView, TaskSettings
from sightline.tasks.validation import N_SAMPLES, FinalScores

if TYPE_CHECKING:
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings
    from sightline.decoding.settings import DecodingSettings
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.pipelines.translator import Translation as Translated
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult
    from sightline.training.report import Sample

MAX_PREFIX = 2_000
"""Characters of the beginning that a request may give."""
MAX_TRANSLATED = 500
"""Sentences translated at every validation; the final score is over all of them."""


class Translation(PairTask):
    """Translation between two languages, or several."""

    name = "translation"
    does = "translates"
    pipeline = "sightline.pipelines.translator:Translator"
    command = "translate"
    endpoint = "/translate"
    config_entries = ("languages", "source_language", "target_language")
    evaluation_sets = ("source", "tsv")
    request = (
        TEXTS,
        RequestField("to", str | None, "Target language, if the model has several.", None),
        RequestField("prefix", str, "Beginning of the translation.", "", max_length=MAX_PREFIX),
        RequestField("split", bool | None, "Whether sentences are translated one by one; default: the model's.", None),
        RequestField("markup", Literal["text", "html", "markdown", "srt"], "Markup of the input.", "text"),
    )
    view = StudioView(label="Text to translate", verb="Translate")

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:
        """Return source and target, and the target language if there are several."""
        from sightline.data.corpora.records import SOURCE_AND_TARGET, SOURCE_TARGET_LANGUAGE

        return SOURCE_TARGET_LANGUAGE if data.languages else SOURCE_AND_TARGET

    def build_task_config(self, settings: TaskSettings, labels: "Labels | None") -> TaskConfig:  # noqa: ARG002
        """Return the task with its languages."""
        data = settings.data
        return TaskConfig(
            self.name,
            languages=data.languages,
            source_language=data.source_language,
            target_language=data.target_language,
        )

    def describe(self, task_config: TaskConfig | None, facts: TrainingFacts = NO_FACTS) -> str:
        """Return the languages it translates, by their English names."""
        if task_config is None or not (task_config.languages or task_config.target_language):
            return "translates from one language to another"
        if task_config.languages:
            *first, last = map(language_name, task_config.languages)
            between = facts.languages is not None  # recorded where its sources are in these languages, too
            how = "between" if between and first else "into"
            return f"translates {how} {', '.join(first)} and {last}" if first else f"translates into {last}"
        source, target = str(task_config.source_language), str(task_config.target_language)
        return f"translates {language_name(source)} to {language_name(target)}"

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score greedy translations of some sentences by BLEU."""
        from sightline.decoding.settings import DecodingSettings
        from sightline.evaluation.language_model import exponential
        from sightline.evaluation.translation import translation_scores
        from sightline.training.metrics import ValidationResult

        # An early model that does not end its sentences need not decode up to the limit.
        valid = validation.examples.valid
        limit = 10 + 2 * int(valid.dataset.lengths[valid.selected, 1].max())
        quick = DecodingSettings(max_new_tokens=min(limit, validation.pipeline.generation.max_new_tokens))
        pairs, found = translate_pairs(validation, quick, n=MAX_TRANSLATED)
        outputs = [one.text for one in found]
        scores = translation_scores(outputs, [pair.target for pair in pairs])
        others = {"chrf": scores.chrf, "exact_match": scores.exact_match, "perplexity": exponential(validation.loss)}
        return ValidationResult(
            validation.loss, ("bleu", scores.bleu), True, {**others, **validation.tallies}, make_samples(pairs, outputs)
        )

    def score_final(self, validation: "Validation", settings: "DecodingSettings") -> "FinalScores":
        """Translate the whole validation set with the model's own decoding settings; with sacreBLEU's signatures."""
        from sightline.evaluation.translation import calibrate, translation_scores

        pairs, found = translate_pairs(validation, settings, n=len(validation.examples.valid.selected))
        outputs, references = [one.text for one in found], [pair.target for pair in pairs]
        scores = translation_scores(outputs, references)
        calibration = calibrate(found, references, settings)
        return FinalScores(dict(vars(scores)), make_samples(pairs, outputs), calibration)

    def confidence(self, found: Any) -> float | None:
        """Return how often a translation with the score of this one was right; None for several sentences."""
        share: float | None = found.confidence and found.confidence.share
        return share

    def target_language(self, found: Any) -> str | None:
        """Return the language that was given, or that the model chose."""
        language: str | None = found.to
        return language

    def warnings(self, found: Any) -> Sequence[str]:
        """Return what the user should know of a translation."""
        notes: Sequence[str] = found.warnings
        return notes

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":
        """Score translations by BLEU and chrF; a table may name the target language of each line."""
        from sightline.evaluation.translation import evaluate_translator

        has_language = bool(pipeline.languages) and options.to is None and examples.is_table
        if not has_language:
            pipeline.language_tags(options.to, options.from_, [""])  # a typo is reported before anything is translated
        sources, targets, *languages = zip(*examples.pairs(language_column=has_language), strict=True)
        return evaluate_translator(
            pipeline,
            sources,
            targets,
            to=languages[0] if has_language else options.to,
            settings=pipeline.settings(**options.decoding),
            tokenize=options.tokenize,
        )

    def next_command(self, folder: Path, task_config: TaskConfig) -> str:
        """Return the command that translates a text."""
        language = f" --to {task_config.languages[0]}" if task_config.languages else ""
        return f'sightline translate {folder} "…"{language}'

    def example(self, pipeline: Any) -> dict[str, Any]:
        """Return a greeting, or a date for a multilingual model, as the demo translates."""
        if len(pipeline.languages) < 2:
            return {"text": "Good morning"}
        return {"text": "March 14, 2026", "to": "de" if "de" in pipeline.languages else pipeline.languages[1]}

    def example_request(self, pipeline: Any) -> dict[str, Any]:
        """Return a request in LibreTranslate's words, with a sentence of the model's validation set if it has some."""
        recorded = [{"text": one.text, "to": one.to} for one in pipeline.bundle.training.examples[:1]]
        example = next(iter(recorded), self.example(pipeline))
        target = example.get("to") or (pipeline.task_config and pipeline.task_config.target_language)
        return {"q": example["text"], "target": target or "de"}


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if it has none."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(code, sep="-").get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code


def translate_pairs(
    validation: "Validation", settings: "DecodingSettings", *, n: int
) -> "tuple[list[Pair], list[Translated]]":
    """Translate some sentences of the validation set."""
    pairs = list(sample_pairs(validation, n))
    languages = [pair.language for pair in pairs if pair.language]
    found = validation.pipeline.translations(
        [pair.source for pair in pairs], to=languages or None, split=False, settings=settings
    )
    return pairs, [translations[0] for translations in found]


def make_samples(pairs: Sequence[Pair], outputs: Sequence[str]) -> "tuple[Sample, ...]":
    """Return the first few translations with their references."""
    from sightline.training.report import Sample

    some = zip(pairs[:N_SAMPLES], outputs[:N_SAMPLES], strict=True)
    return tuple(Sample(pair.source, output, pair.target) for pair, output in some)
