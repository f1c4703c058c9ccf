"""Language modeling: predict each next token of running text; a prompt in, its continuation out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sightline.bundle.training_facts import InputExample
from sightline.tasks.task import TEXTS, BatchPlan, EvaluationOptions, RequestField, StudioView, Task, TaskSettings
from sightline.tasks.validation import SAMPLE_TOKENS

if TYPE_CHECKING:
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings
    from sightline.data.datasets.batch_source import TextBatchSource
    from sightline.data.datasets.encoding import TextEncoder
    from sightline.data.datasets.examples import Tokenizers
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult

PROMPT = "Once"


class LanguageModel(Task):
    """Continues a text."""

    name = "language-model"
    does = "continues prompts"
    interfaces = ("sightline.model.interfaces:CausalLM",)
    default_family = "gpt"
    pipeline = "sightline.pipelines.generator:Generator"
    command = "generate"
    endpoint = "/v1/completions"
    generates = True
    running_text = True
    evaluation_sets = ("text",)
    request = (RequestField("input", TEXTS.type, "A prompt, or several.", ""),)
    view = StudioView(tab="write", label="Prompt", verb="Continue", beam=1, asks_length=True)

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:  # noqa: ARG002
        """Return running text."""
        from sightline.data.corpora.records import TEXT

        return TEXT

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "TextEncoder":  # noqa: ARG002
        """Return the encoder of documents, each with an end token."""
        from sightline.data.datasets.encoding import TextEncoder

        return TextEncoder(tokenizers.source, append_end=True)

    def batch_source(self, settings: TaskSettings, plan: BatchPlan) -> "TextBatchSource":  # noqa: ARG002
        """Return blocks of running text; in training they begin elsewhere in every epoch."""
        from sightline.data.datasets.batch_source import TextBatchSource

        return TextBatchSource(
            plan.split.dataset,
            plan.split.selected,
            plan.rank_slice,
            tokenizer=plan.tokenizers.source,
            length=plan.block_length,
            random_offset=plan.training,
        )

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score by perplexity; continue the first third of a text as a sample."""
        from sightline.evaluation.language_model import exponential
        from sightline.training.metrics import ValidationResult
        from sightline.training.report import Sample

        samples = []
        for one in self.validation_inputs(validation, 1):
            output = validation.pipeline.generate(
                one.text, max_new_tokens=SAMPLE_TOKENS, temperature=0.8, seed=validation.seed
            )
            samples.append(Sample(one.text, str(output), one.reference))
        score = ("perplexity", exponential(validation.loss))
        return ValidationResult(validation.loss, score, False, validation.tallies, tuple(samples))

    def validation_inputs(self, validation: "Validation", n: int) -> Iterator[InputExample]:
        """Yield the first third of texts, with the rest."""
        tokenizer = validation.examples.tokenizers.source
        for ids in validation.sample_texts(n):
            at = len(ids) // 3
            yield InputExample(tokenizer.decode(ids[:at]), reference=tokenizer.decode(ids[at:]))

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":
        """Score documents by perplexity and bits per character."""
        from sightline.evaluation.language_model import evaluate_text

        documents = examples.documents(separator=options.documents or "blank")
        return evaluate_text(pipeline, documents, context=options.context or 0)

    def example(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return the beginning of a story."""
        return {"text": PROMPT}

    def example_request(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return a request in OpenAI's words."""
        return {"prompt": PROMPT, "max_tokens": 40}
