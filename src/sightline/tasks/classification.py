"""Classification of texts, pairs of texts, or the words of a sentence."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import InputExample, TrainingFacts
from sightline.errors import InputError
from sightline.tasks.task import NO_FACTS, BatchPlan, EvaluationOptions, RequestField, StudioView, Task, TaskSettings
from sightline.tasks.validation import N_SAMPLES, FinalScores

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings
    from sightline.data.datasets.batch_source import BatchSource
    from sightline.data.datasets.encoded_dataset import EncodedDataset
    from sightline.data.datasets.encoding import Encoder
    from sightline.data.datasets.examples import Examples, Split, Tokenizers
    from sightline.decoding.settings import DecodingSettings
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.model.config import ModelConfig
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult
    from sightline.training.report import Sample
    from sightline.training.state import Metric


N_LABELS_SHOWN = 20


class Classification(Task):
    """Assigns classes to texts, pairs of texts, or words."""

    name = "classification"
    does = "classifies"
    interfaces = ("sightline.model.interfaces:TextEncoder",)
    default_family = "bert"
    heads = ("sequence_classification", "token_classification")
    pipeline = "sightline.pipelines.classifier:Classifier"
    command = "classify"
    config_entries = ("labels", "per_word", "pair")
    evaluation_sets = ("labeled",)
    request = (
        RequestField("input", str | list[str] | None, "A text, or several.", None),
        RequestField("pairs", list[list[str]] | None, "Pairs of texts, instead of input.", None),
    )
    view = StudioView(tab="classify", label="Text to classify", verb="Classify", extra_input="optional pair")

    def describe(self, task_config: TaskConfig | None, facts: TrainingFacts = NO_FACTS) -> str:  # noqa: ARG002
        """Return what is classified, and the first classes."""
        labels = task_config.labels if task_config else ()
        what = "pairs of texts" if task_config and task_config.pair else "texts"
        what = "the words of a sentence" if task_config and task_config.per_word else what
        listed = ", ".join(labels[:N_LABELS_SHOWN]) + (", …" if len(labels) > N_LABELS_SHOWN else "")
        return f"classifies {what}" + (f" into {len(labels):,} classes: {listed}" if labels else "")

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:
        """Return texts, pairs or words with their labels."""
        from sightline.data.corpora.records import PAIR_AND_LABEL, TEXT_AND_LABEL, TOKENS_AND_LABELS

        return {"sequence": TEXT_AND_LABEL, "pair": PAIR_AND_LABEL, "token": TOKENS_AND_LABELS}[data.label_level]

    def find_labels(self, settings: TaskSettings) -> "Labels":
        """Return the labels of the training set."""
        from sightline.data.corpora.records import Labels

        return Labels.collect(self.open_corpus(settings).records(), chosen=bool(settings.data.columns))

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "Encoder":
        """Return the encoder of labeled texts or words."""
        from sightline.data.corpora.records import Labels
        from sightline.data.datasets.encoding import LabeledEncoder, TaggedEncoder

        known, level = labels or Labels(()), settings.data.label_level
        if level == "token":
            return TaggedEncoder(tokenizers.source, known)
        return LabeledEncoder(tokenizers.source, known, pairs=level == "pair")

    def classes_of(self, settings: TaskSettings, dataset: "EncodedDataset") -> "NDArray[np.int64] | None":
        """Return the classes of the texts; words have theirs in every sentence."""
        import numpy as np

        return None if settings.data.label_level == "token" else np.asarray(dataset.labels)

    def batch_source(self, settings: TaskSettings, plan: BatchPlan) -> "BatchSource":
        """Return batches of labeled texts or words."""
        from sightline.data.datasets.batch_source import LabeledBatchSource, TaggedBatchSource

        kind = TaggedBatchSource if settings.data.label_level == "token" else LabeledBatchSource
        tokenizer = plan.tokenizers.source
        return kind(plan.split.dataset, plan.examples, plan.rank_slice, tokenizer=tokenizer, length=plan.block_length)

    def build_task_config(self, settings: TaskSettings, labels: "Labels | None") -> TaskConfig:
        """Return the task with its labels."""
        level = settings.data.label_level
        names = labels.names if labels else ()
        return TaskConfig(self.name, labels=names, per_word=level == "token", pair=level == "pair")

    def head(self, task_config: TaskConfig) -> str:
        """Return the head for words or for texts."""
        return "token_classification" if task_config.per_word else "sequence_classification"

    def config_fields(self, settings: TaskSettings, task_config: TaskConfig) -> dict[str, Any]:  # noqa: ARG002
        """Return the head and the number of classes."""
        return {"heads": (self.head(task_config),), "n_classes": max(1, len(task_config.labels))}

    def find_mismatches(self, task_config: TaskConfig, config: "ModelConfig") -> list[str]:
        """Return why a model cannot do the task: no head, or another number of classes than labels."""
        problems, n_classes = super().find_mismatches(task_config, config), getattr(config, "n_classes", None)
        if task_config.labels and n_classes not in (None, len(task_config.labels)):
            problems.append(f"lists {len(task_config.labels):,} labels, but the model has {n_classes:,} classes")
        return problems

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score by accuracy."""
        from sightline.training.metrics import ValidationResult

        accuracy = 100 * validation.tallies["accuracy"]
        return ValidationResult(validation.loss, ("accuracy", accuracy), True, {}, tuple(classify_samples(validation)))

    def score_final(
        self,
        validation: "Validation",
        settings: "DecodingSettings",  # noqa: ARG002 - nothing is generated
    ) -> "FinalScores | None":
        """Score a linear model of words on the same examples, to compare with."""
        accuracy = score_linear_baseline(validation.examples, seed=validation.seed)
        if accuracy is None:
            return None
        return FinalScores({LINEAR_ACCURACY: accuracy}, tuple(classify_samples(validation)))

    def comment_on(self, scores: "Mapping[str, Metric]", *, n_validation: int) -> str | None:
        """Say how the model compares with a linear one, whether that may be chance, and what to do if it is worse."""
        ours, linear = scores.get("accuracy"), scores.get(LINEAR_ACCURACY)
        if not isinstance(ours, float) or not isinstance(linear, float):
            return None
        # Two standard errors of a difference of two proportions; those of one set of examples differ rather less.
        variance = sum(score * (100 - score) for score in (ours, linear))
        margin = 2 * math.sqrt(variance / max(1, n_validation))
        chance = (
            f" (a difference below {margin:.0f} points may be chance on {n_validation:,} validation examples)"
            if abs(ours - linear) < margin
            else ""
        )
        if ours >= linear:
            return f"a linear model of words has {linear:.1f} %, this model {ours:.1f} %{chance}"
        return (
            f"a linear model of words has {linear:.1f} %, this model only {ours:.1f} %{chance}: prefer a linear model, "
            f"label more examples, or {PRETRAIN}"
        )

    def small_data_settings(self, data: "DataSettings", *, n_bytes: int) -> Mapping[str, object]:
        """Return the settings of a small model that reads words as a whole; to label words, it needs their pieces."""
        if data.label_level == "token" or n_bytes > MAX_SMALL_DATA:
            return {}
        return SMALL_DATA | {"training.max_epochs": max(5, min(30, round(1_100_000 / max(1, n_bytes))))}

    def suggest_start(self, *, n_examples: int) -> str | None:
        """Recommend pretraining where there are few labeled examples."""
        if n_examples > FEW_EXAMPLES:
            return None
        return f"the model learns from {n_examples:,} examples only, starting from nothing: {PRETRAIN}"

    def validation_inputs(self, validation: "Validation", n: int) -> Iterator[InputExample]:
        """Yield texts, or pairs of them, with their labels; for a classifier of words, sentences."""
        examples = validation.examples
        tokenizer, labels, dataset = examples.tokenizers.source, examples.labels, examples.valid.dataset
        if examples.data.label_level == "token":
            yield from super().validation_inputs(validation, n)
            return
        for number in validation.sample(n):
            texts = [tokenizer.decode(dataset.sequence(number, column).tolist()) for column in range(dataset.columns)]
            reference = labels.names[int(dataset.labels[number])] if labels else ""
            yield InputExample(texts[0], second=texts[1] if len(texts) > 1 else None, reference=reference)

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":  # noqa: ARG002
        """Score classes by accuracy and F1."""
        from sightline.evaluation.classification import evaluate_classifier

        return evaluate_classifier(pipeline, examples.labeled(pipeline.labels, per_word=pipeline.per_word))

    def read_request(self, pipeline: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the texts, the pairs or the words that a request names."""
        given, pairs = values["input"], values["pairs"]
        if (given is None) == (pairs is None):
            raise InputError("give exactly one of input and pairs", option="input")
        texts = [given] if isinstance(given, str) else given
        if texts is not None:
            return [text.split() for text in texts] if pipeline.per_word else texts, {}
        if pipeline.per_word:
            raise InputError("this model classifies words, give input instead", option="pairs")
        if any(len(pair) != 2 for pair in pairs):
            raise InputError("a pair is a list of two texts", option="pairs")
        return [(first, second) for first, second in pairs], {}

    def view_of(self, pipeline: Any) -> StudioView:
        """Return the view with a second text for a model of pairs, and without one for a model of texts or words."""
        config = pipeline.task_config
        if config is None or (config.pair is None and not config.per_word):  # a folder of an earlier version: either
            return self.view
        return replace(self.view, extra_input="pair" if config.pair else None)

    def example(self, pipeline: Any) -> dict[str, Any]:
        """Return a text, or a pair of texts."""
        return {"text": "A dog runs.", "second": "An animal moves."} if pipeline.pair else super().example(pipeline)

    def example_request(self, pipeline: Any) -> dict[str, Any]:
        """Return a request with a text, or a pair of texts."""
        example = self.example(pipeline)
        return {"pairs": [[example["text"], example["second"]]]} if pipeline.pair else {"input": example["text"]}

    def next_command(self, folder: Path, task_config: TaskConfig) -> str:
        """Return the command that classifies a text, or a pair of texts."""
        if task_config.pair:
            return f'sightline {self.command} {folder} --pair "…" "…"'
        return super().next_command(folder, task_config)

    def result_type(self) -> Any:
        """Return the class of a text, or those of its words."""
        from sightline.pipelines.classifier import Classification, ClassifiedWord

        return Classification | list[ClassifiedWord]

    def answer(self, pipeline: Any, inputs: Sequence[Any], **options: Any) -> list[Any]:  # noqa: ARG002
        """Return the class of each text or pair, or those of the words of each sentence."""
        results: list[Any] = pipeline.tagged_words(inputs) if pipeline.per_word else pipeline.classify(inputs)
        return results


MAX_SMALL_DATA = 2_000_000
"""Bytes of labeled text, some 40,000 short ones, up to which a small model is chosen; measured up to 1.1 MB."""
SMALL_DATA: dict[str, object] = {
    "tokenizer.vocab_size": 30_000,  # no limit in fact: a word of the training set is a token even if it occurs once
    "tokenizer.min_frequency": 1,
    "tokenizer.add_prefix_space": True,
    "model.n_layers": 1,
    "model.d_model": 64,
    "model.n_heads": 2,
    "model.d_ff": 128,
    "model.pooling": "mean",
    "model.embedding_norm": False,  # words that say nothing can have short vectors
    "model.dropout": 0.2,
    "model.token_dropout": 0.3,
    "training.learning_rate": 0.003,
    "training.ema_decay": 0.98,
    "training.best_metric": "last",  # a few hundred validation examples cannot tell which epoch is best
}
"""Measured on 500 to 20,000 sentences of SST-2 (docs/log.md): more epochs are worse; more layers too, up to 5,000."""
LINEAR_ACCURACY = "linear_model_accuracy"
"""Score of the linear baseline on the validation set."""
FEW_EXAMPLES = 5_000
PRETRAIN = (
    "start from a model that has read plain text of the same kind "
    "(sightline train masked-language-model data.train=TEXT, then model.init_from=RUN)"
)


def score_linear_baseline(examples: "Examples", *, seed: int) -> float | None:
    """Return the accuracy of a linear model, trained and validated on the same examples; None for words."""
    import numpy as np

    from sightline.data.datasets.stateless_random import permutation
    from sightline.evaluation.linear_baseline import MAX_EXAMPLES, train_linear_baseline

    if examples.data.label_level == "token" or examples.labels is None:
        return None

    def read(split: "Split") -> tuple[list[list[str]], list[int]]:
        dataset, decode = split.dataset, examples.tokenizers.source.decode
        selected = np.flatnonzero(split.selected)
        numbers: list[int] = selected[permutation(len(selected), seed, 0)[:MAX_EXAMPLES]].tolist()
        columns = range(dataset.columns)
        texts = [[decode(dataset.sequence(number, column).tolist()) for column in columns] for number in numbers]
        return texts, [int(dataset.labels[number]) for number in numbers]

    baseline = train_linear_baseline(*read(examples.train), n_classes=len(examples.labels), seed=seed)
    texts, labels = read(examples.valid)
    n_right = sum(found == label for found, label in zip(baseline.predict(texts), labels, strict=True))
    return 100 * n_right / max(1, len(labels))


def classify_samples(validation: "Validation") -> "Iterator[Sample]":
    """Yield the classes of some texts of the validation set."""
    from sightline.training.report import Sample

    if validation.examples.data.label_level == "token":
        return
    for one in Classification().validation_inputs(validation, N_SAMPLES):
        texts = [one.text] if one.second is None else [one.text, one.second]
        found = validation.pipeline.classify([texts[0] if len(texts) == 1 else tuple(texts)], truncate=True)[0]
        yield Sample(" | ".join(texts), f"{found.label} ({found.probability:.0%})", one.reference)
