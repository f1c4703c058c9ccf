"""Chat: the last turns of a dialogue in, a reply out."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import InputExample
from sightline.tasks.pairs import PairTask, sample_pairs
from sightline.tasks.task import EvaluationOptions, RequestField, StudioView, TaskSettings
from sightline.tasks.validation import N_SAMPLES

if TYPE_CHECKING:
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult

TURN = "Hi how are you"


class Chat(PairTask):
    """Replies to messages."""

    name = "chat"
    does = "replies to conversations"
    pipeline = "sightline.pipelines.chat:Chat"
    command = "chat"
    endpoint = "/v1/chat/completions"
    config_entries = ("context_turns",)
    evaluation_sets = ("dialogues", "source", "tsv")
    request = (RequestField("input", str | list[str], "A message, or the turns of a conversation, oldest first."),)
    view = StudioView(tab="chat", label="Message", verb="Reply", extra_input="turns")

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:  # noqa: ARG002
        """Return the turns of a dialogue, which are read as sources and replies."""
        from sightline.data.corpora.records import TURNS

        return TURNS

    def build_task_config(self, settings: TaskSettings, labels: "Labels | None") -> TaskConfig:  # noqa: ARG002
        """Return the task with the number of turns that are read."""
        return TaskConfig(self.name, context_turns=settings.data.context_turns)

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score by perplexity: a message has many good replies."""
        from sightline.evaluation.language_model import exponential
        from sightline.training.metrics import ValidationResult
        from sightline.training.report import Sample

        samples = [
            Sample(pair.source, validation.pipeline.reply(pair.source.split("\n")), pair.target)
            for pair in sample_pairs(validation, N_SAMPLES)
        ]
        score = ("perplexity", exponential(validation.loss))
        return ValidationResult(validation.loss, score, False, validation.tallies, tuple(samples))

    def validation_inputs(self, validation: "Validation", n: int) -> Iterator[InputExample]:
        """Yield the messages that begin a conversation: others need their earlier turns."""
        return (one for one in super().validation_inputs(validation, n) if "\n" not in one.text)

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":
        """Score the replies of dialogues by perplexity, those of pairs by BLEU and chrF."""
        from sightline.evaluation.language_model import evaluate_chat
        from sightline.evaluation.translation import evaluate_replies

        if examples.kind == "dialogues":
            return evaluate_chat(pipeline, examples.exchanges(context_turns=pipeline.context_turns))
        sources, targets = zip(*examples.pairs(language_column=False), strict=True)
        settings = pipeline.settings(**options.decoding)
        return evaluate_replies(pipeline, sources, targets, settings=settings, tokenize=options.tokenize)

    def next_command(self, folder: Path, task_config: TaskConfig) -> str:  # noqa: ARG002
        """Return the command that starts a conversation."""
        return f"sightline chat {folder}"

    def example(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return a greeting."""
        return {"text": TURN}

    def example_request(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return a request in OpenAI's words."""
        return {"messages": [{"role": "user", "content": TURN}]}

    def read_request(self, pipeline: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:  # noqa: ARG002
        """Return the turns of the one conversation that a request holds."""
        given = values.pop("input")
        return [[given] if isinstance(given, str) else given], values
