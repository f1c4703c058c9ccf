"""Classification of texts, pairs of texts, or the words of a sentence."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import InputExample
from sightline.errors import InputError
from sightline.tasks.task import BatchPlan, EvaluationOptions, RequestField, StudioView, Task, TaskSettings
from sightline.tasks.validation import N_SAMPLES

if TYPE_CHECKING:
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings
    from sightline.data.datasets.batch_source import BatchSource
    from sightline.data.datasets.encoding import Encoder
    from sightline.data.datasets.examples import Tokenizers
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.model.config import ModelConfig
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult
    from sightline.training.report import Sample


class Classification(Task):
    """Assigns classes to texts, pairs of texts, or words."""

    name = "classification"
    does = "classifies"
    interfaces = ("sightline.model.interfaces:TextEncoder",)
    default_family = "bert"
    heads = ("sequence_classification", "token_classification")
    pipeline = "sightline.pipelines.classifier:Classifier"
    command = "classify"
    config_entries = ("labels", "per_word")
    evaluation_sets = ("labeled",)
    request = (
        RequestField("input", str | list[str] | None, "A text, or several.", None),
        RequestField("pairs", list[list[str]] | None, "Pairs of texts, instead of input.", None),
    )
    view = StudioView(tab="classify", label="Text to classify", verb="Classify", extra_input="pair")

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:
        """Return texts, pairs or words with their labels."""
        from sightline.data.corpora.records import PAIR_AND_LABEL, TEXT_AND_LABEL, TOKENS_AND_LABELS

        return {"sequence": TEXT_AND_LABEL, "pair": PAIR_AND_LABEL, "token": TOKENS_AND_LABELS}[data.label_level]

    def find_labels(self, settings: TaskSettings) -> "Labels":
        """Return the labels of the training set."""
        from sightline.data.corpora.records import Labels

        return Labels.collect(self.open_corpus(settings).records())

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "Encoder":
        """Return the encoder of labeled texts or words."""
        from sightline.data.corpora.records import Labels
        from sightline.data.datasets.encoding import LabeledEncoder, TaggedEncoder

        known, level = labels or Labels(()), settings.data.label_level
        if level == "token":
            return TaggedEncoder(tokenizers.source, known)
        return LabeledEncoder(tokenizers.source, known, pairs=level == "pair")

    def batch_source(self, settings: TaskSettings, plan: BatchPlan) -> "BatchSource":
        """Return batches of labeled texts or words."""
        from sightline.data.datasets.batch_source import LabeledBatchSource, TaggedBatchSource

        kind = TaggedBatchSource if settings.data.label_level == "token" else LabeledBatchSource
        tokenizer = plan.tokenizers.source
        return kind(plan.split.dataset, plan.examples, plan.rank_slice, tokenizer=tokenizer, length=plan.block_length)

    def build_task_config(self, settings: TaskSettings, labels: "Labels | None") -> TaskConfig:
        """Return the task with its labels."""
        per_word = settings.data.label_level == "token"
        return TaskConfig(self.name, labels=labels.names if labels else (), per_word=per_word)

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

    def result_type(self) -> Any:
        """Return the class of a text, or those of its words."""
        from sightline.pipelines.classifier import Classification, ClassifiedWord

        return Classification | list[ClassifiedWord]

    def answer(self, pipeline: Any, inputs: Sequence[Any], **options: Any) -> list[Any]:  # noqa: ARG002
        """Return the class of each text or pair, or those of the words of each sentence."""
        results: list[Any] = pipeline.tagged_words(inputs) if pipeline.per_word else pipeline.classify(inputs)
        return results


def classify_samples(validation: "Validation") -> "Iterator[Sample]":
    """Yield the classes of some texts of the validation set."""
    from sightline.training.report import Sample

    if validation.examples.data.label_level == "token":
        return
    for one in Classification().validation_inputs(validation, N_SAMPLES):
        texts = [one.text] if one.second is None else [one.text, one.second]
        found = validation.pipeline.classify([texts[0] if len(texts) == 1 else tuple(texts)], truncate=True)[0]
        yield Sample(" | ".join(texts), f"{found.label} ({found.probability:.0%})", one.reference)
