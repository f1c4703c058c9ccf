"""What a task is: everything that other layers need to know of it, in one row.

Rows are plain data, lazy references (`module:name`) and methods that import what they need when they are called: a
server's front process or a command's help reads them without loading torch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import InputExample, TrainingFacts
from sightline.decoding.settings import FinishReason
from sightline.errors import SettingsError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sightline.data.corpora.corpus import Corpus
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings, Part
    from sightline.data.datasets.batch_source import BatchSource, RankSlice
    from sightline.data.datasets.encoded_dataset import EncodedDataset
    from sightline.data.datasets.encoding import Encoder
    from sightline.data.datasets.examples import Split, Tokenizers
    from sightline.data.datasets.masking import MaskingSettings
    from sightline.decoding.settings import DecodingSettings
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.model.config import ModelConfig
    from sightline.pipelines.generation import JobGroup
    from sightline.tasks.validation import FinalScores, Validation
    from sightline.training.metrics import ValidationResult
    from sightline.training.state import Metric

NO_FACTS = TrainingFacts()
"""What is known of a model whose folder tells nothing about its training."""
REQUIRED = object()
"""The default of a request field that must be given."""


@dataclass(frozen=True)
class RequestField:
    """A field of a request to a model of this task, besides `model` and, where text is generated, decoding options."""

    name: str
    type: Any
    description: str
    default: Any = REQUIRED
    minimum: int | None = None
    maximum: int | None = None
    max_length: int | None = None
    """Characters of a text that is tokenized while the request is read."""


TEXTS = RequestField("input", str | list[str], "A text, or several.")
"""The input of most tasks."""


EXAMPLE: dict[str, Any] = {"text": "What a day"}
"""An input for any model that reads text."""


@dataclass(frozen=True)
class GeneratedText:
    """One of the texts generated for an input, best first."""

    text: str
    score: float
    """Log-probability under the length penalty."""
    log_probability: float
    finish_reason: FinishReason
    confidence: float | None = None
    """How often one with a score like this was right on the validation set; null if that is not known."""
    to: str | None = None
    """The language of a translation; null for other texts, and for models that do not name their languages."""
    warnings: list[str] = field(default_factory=list)
    """What the user should know, such as sentences that were too long."""


@dataclass(frozen=True)
class StudioView:
    """How the studio shows a task."""

    tab: str | None = None
    """The view made for this task (write, chat, fill, classify), beside those that every model has."""
    label: str = "Text"
    """What the input is called."""
    verb: str = "Run"
    """What the button says."""
    extra_input: Literal["turns", "pair", "optional pair"] | None = None
    """Input besides the text: earlier turns of a conversation, or the second text of a pair."""
    beam: int = 4
    """Beam size at first, where text is generated."""
    asks_length: bool = False
    """Whether the user chooses how much is generated: the text has no end of its own."""


@dataclass(frozen=True)
class TaskSettings:
    """What a task reads of a recipe."""

    data: "DataSettings"
    masking: "MaskingSettings"
    heads: tuple[str, ...] = ()
    """The heads that the recipe gives the model, if its family has any."""


@dataclass(frozen=True)
class BatchPlan:
    """What batches are made of, and for which model."""

    split: "Split"
    rank_slice: "RankSlice"
    tokenizers: "Tokenizers"
    max_length: int | None
    """That of the model."""
    training: bool = True
    """False for validation, whose batches are the same in every epoch."""

    @property
    def examples(self) -> "NDArray[np.int64]":
        """The numbers of the selected examples."""
        import numpy as np

        return np.flatnonzero(self.split.selected)

    @property
    def block_length(self) -> int:
        """The maximum length of a model that reads text in blocks of it."""
        if self.max_length is None:
            raise SettingsError("model.max_length must be set: this task cuts text into blocks of that length")
        return self.max_length


@dataclass(frozen=True)
class EvaluationOptions:
    """How to score a model, where the task has a choice."""

    to: str | None = None
    from_: str | None = None
    tokenize: Any = None
    documents: Any = None
    context: int | None = None
    decoding: Mapping[str, object] = field(default_factory=dict)


class Task:
    """A task. `register` (`tasks/registry.py`) adds one; a subclass overrides what differs from the defaults here."""

    name: str
    """As in recipes, config.json and the API."""
    does: str
    """What a model of it does, in a sentence about it."""
    interfaces: tuple[str, ...]
    """Protocols of `sightline.model.interfaces` whose models can do it, the usual one first."""
    default_family: str
    pipeline: str
    """The pipeline, as `module:name`."""
    command: str = "embed"
    """The command that uses such a model."""
    endpoint: str = ""
    """The endpoint made for it (OpenAI's, LibreTranslate's); empty: the one that every task has, /tasks/NAME."""
    generates: bool = False
    """Whether a model of it generates text: then it has decoding settings, a beam, and a target that can be forced."""
    heads: tuple[str, ...] = ()
    """Heads of which a model with heads needs one."""
    config_entries: tuple[str, ...] = ()
    """Entries of `TaskConfig` that it uses."""
    running_text: bool = False
    """Whether examples are blocks of running text."""
    reads_pairs: bool = False
    """Whether an example is a source and a target: the model is trained to read the source only."""
    evaluation_sets: tuple[str, ...] = ()
    """The test sets it can be scored on: options of `sightline evaluate`."""
    request: tuple[RequestField, ...] = (TEXTS,)
    view: StudioView = StudioView()

    def describe(self, task_config: TaskConfig | None, facts: TrainingFacts = NO_FACTS) -> str:  # noqa: ARG002
        """Return what a model does, in words: its languages or classes too, if it has any."""
        return self.does

    # From files to batches

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:
        """Return the fields of a record: one of the tuples of `data/corpora/records.py`."""
        raise NotImplementedError

    def open_corpus(self, settings: TaskSettings, part: "Part" = "train") -> "Corpus":
        """Open the training or validation corpus."""
        from sightline.data.corpora.corpus import Corpus

        return Corpus(settings.data, self.record_fields(settings.data), part)

    def find_labels(self, settings: TaskSettings) -> "Labels | None":  # noqa: ARG002 - most tasks have none
        """Return the labels of the training set; None if the task has no labels."""
        return None

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "Encoder":
        """Return the encoder from records to ids."""
        raise NotImplementedError

    def hold_out(self, settings: TaskSettings, dataset: "EncodedDataset", *, seed: int) -> "NDArray[np.bool_]":
        """Return which examples to hold out for validation: a share of them, or a fold."""
        from sightline.data.datasets.splits import hold_out, hold_out_by_class, hold_out_fold

        data, classes = settings.data, self.classes_of(settings, dataset)
        if data.fold is not None:
            return hold_out_fold(dataset.keys, classes, seed=seed, fold=data.fold, folds=data.folds)
        size = self.validation_size(settings, dataset)
        if classes is None or data.validation_share is None:
            return hold_out(dataset.keys, seed=seed, size=size)
        return hold_out_by_class(dataset.keys, classes, seed=seed, size=size)

    def validation_size(self, settings: TaskSettings, dataset: "EncodedDataset") -> int:
        """Return how many examples to hold out."""
        from sightline.data.datasets.splits import validation_size

        return validation_size(len(dataset), share=settings.data.validation_share, chunks=self.running_text)

    def classes_of(self, settings: TaskSettings, dataset: "EncodedDataset") -> "NDArray[np.int64] | None":  # noqa: ARG002
        """Return the classes of the examples, each of which is to be in both splits; None if there are none."""
        return None

    def batch_source(self, settings: TaskSettings, plan: "BatchPlan") -> "BatchSource":
        """Return the batches of a split."""
        raise NotImplementedError

    # The model

    def build_task_config(self, settings: TaskSettings, labels: "Labels | None") -> TaskConfig:  # noqa: ARG002
        """Return what the model folder says of the task."""
        return TaskConfig(self.name)

    def head(self, task_config: TaskConfig) -> str | None:  # noqa: ARG002
        """Return the head that a model with heads needs; None if it needs none."""
        return self.heads[0] if self.heads else None

    def suits(self, config: "ModelConfig") -> bool:
        """Tell whether a model of the right interface has a head for the task."""
        return not self.heads or bool(set(self.heads) & set(getattr(config, "heads", self.heads)))

    def config_fields(self, settings: TaskSettings, task_config: TaskConfig) -> dict[str, Any]:  # noqa: ARG002
        """Return the fields of the model's config that the task decides."""
        return {"heads": settings.heads} if settings.heads else {}

    def find_mismatches(self, task_config: TaskConfig, config: "ModelConfig") -> list[str]:
        """Return why a model of the right family cannot do the task all the same."""
        names = ("languages", "source_language", "target_language", "labels", "per_word", "pair")
        given = [name for name in names if getattr(task_config, name)]
        problems = [
            f'has the entry "{name}", which is not for the task {self.name}'
            for name in given
            if name not in self.config_entries
        ]
        head = self.head(task_config)
        if head is not None and head not in getattr(config, "heads", (head,)):
            problems.append(f"has the task {self.name}, but the model has no head {head}")
        return problems

    def objective_options(self, settings: TaskSettings, train: "Split", *, max_length: int | None) -> dict[str, float]:  # noqa: ARG002
        """Return settings of the objective that the data decides."""
        return {}

    # Scores

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score the model on the validation set, during training."""
        raise NotImplementedError

    def score_final(
        self,
        validation: "Validation",  # noqa: ARG002
        settings: "DecodingSettings",  # noqa: ARG002
    ) -> "FinalScores | None":
        """Score the best model once more at the end of a run; None if `validate` has said everything."""
        return None

    def comment_on(self, scores: "Mapping[str, Metric]", *, n_validation: int) -> str | None:  # noqa: ARG002
        """Return what the final scores, on so many examples, mean for the user, if more than the numbers say."""
        return None

    def small_data_settings(self, data: "DataSettings", *, n_bytes: int) -> Mapping[str, object]:  # noqa: ARG002
        """Return settings, by section.key, for a model that learns from so little text alone; none: the usual ones.

        They hold for what the recipe leaves open.
        """
        return {}

    def suggest_start(self, *, n_examples: int) -> str | None:  # noqa: ARG002
        """Return what a model of this task had better start from, if a run that starts from nothing has little data."""
        return None

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":
        """Score a model on a test set, one of `evaluation_sets`."""
        raise NotImplementedError

    def validation_inputs(self, validation: "Validation", n: int) -> "Iterator[InputExample]":
        """Yield up to n inputs of the validation set, in the form in which people give them."""
        tokenizer = validation.examples.tokenizers.source
        for ids in validation.sample_texts(n):
            yield InputExample(tokenizer.decode(ids))

    # Use

    def next_command(self, folder: Path, task_config: TaskConfig) -> str:  # noqa: ARG002
        """Return the command that uses a trained model."""
        return f'sightline {self.command} {folder} "…"'

    def view_of(self, pipeline: Any) -> StudioView:  # noqa: ARG002
        """Return how the studio shows a model of this task."""
        return self.view

    def example(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return an example input: the text, and what else a request needs."""
        return EXAMPLE

    def example_request(self, pipeline: Any) -> dict[str, Any]:
        """Return the body of an example request to `endpoint`, without `model`."""
        return {"input": self.example(pipeline)["text"]}

    def read_request(self, pipeline: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:  # noqa: ARG002
        """Return the inputs that a request names and the options for all of them."""
        given = values.pop("input")
        return [given] if isinstance(given, str) else given, values

    def result_type(self) -> Any:
        """Return the type of the result for one input: dataclasses, lists and plain values, which become JSON."""
        return list[GeneratedText]

    def answer(self, pipeline: Any, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """Return the result for each input; not used where text is generated."""
        raise NotImplementedError

    def confidence(self, found: Any) -> float | None:  # noqa: ARG002
        """Return how often a generated text with the score of this one was right; None if that is not known."""
        return None

    def target_language(self, found: Any) -> str | None:  # noqa: ARG002
        """Return the language of a generated text, if it is a translation and its language is known."""
        return None

    def warnings(self, found: Any) -> Sequence[str]:  # noqa: ARG002
        """Return what the user should know of a generated text."""
        return ()

    def create_job_group(self, pipeline: Any, given: Any, settings: "DecodingSettings", **options: Any) -> "JobGroup":
        """Create the jobs of generating the text for one input."""
        group: JobGroup = pipeline.create_job_group(given, settings, **options)
        return group
