"""Masked language modeling, with next sentence prediction (Devlin et al. 2019): a text with [MASK] in, words out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.bundle.contents import TaskConfig
from sightline.bundle.training_facts import InputExample
from sightline.errors import InputError, SettingsError
from sightline.tasks.task import TEXTS, BatchPlan, EvaluationOptions, RequestField, StudioView, Task, TaskSettings
from sightline.tasks.validation import N_SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sightline.data.corpora.corpus import Corpus
    from sightline.data.corpora.records import Labels
    from sightline.data.corpora.settings import DataSettings, Part
    from sightline.data.datasets.batch_source import BatchSource
    from sightline.data.datasets.encoded_dataset import EncodedDataset
    from sightline.data.datasets.encoding import TextEncoder
    from sightline.data.datasets.examples import Split, Tokenizers
    from sightline.evaluation.evaluation_set import EvaluationSet
    from sightline.evaluation.report import Report
    from sightline.pipelines.filler import Candidate
    from sightline.tasks.validation import Validation
    from sightline.training.metrics import ValidationResult


class MaskedLanguageModel(Task):
    """Fills masked words."""

    name = "masked-language-model"
    does = "fills masks"
    interfaces = ("sightline.model.interfaces:TextEncoder",)
    default_family = "bert"
    heads = ("mlm",)
    pipeline = "sightline.pipelines.filler:Filler"
    command = "fill"
    running_text = True
    evaluation_sets = ("text",)
    request = (
        RequestField("input", TEXTS.type, "A text with [MASK] in place of words, or several."),
        RequestField("n", int, "Number of candidates for each mask.", 5, minimum=1, maximum=100),
    )
    view = StudioView(tab="fill", label="Text with [MASK]", verb="Fill")

    def record_fields(self, data: "DataSettings") -> tuple[str, ...]:  # noqa: ARG002
        """Return running text."""
        from sightline.data.corpora.records import TEXT

        return TEXT

    def open_corpus(self, settings: TaskSettings, part: "Part" = "train") -> "Corpus":
        """Open running text; next sentence prediction reads it line by line."""
        from sightline.data.corpora.corpus import Corpus

        if not uses_nsp(settings):
            return super().open_corpus(settings, part)
        if (form := settings.data.format_of(part)) != "text":
            raise SettingsError(
                f"next sentence prediction needs plain text, one sentence per line, not {form}: "
                "provide such a text, or set model.heads=mlm"
            )
        return Corpus(settings.data, self.record_fields(settings.data), part, unit="line")

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "TextEncoder":  # noqa: ARG002
        """Return the encoder of running text; a BERT has no end token."""
        from sightline.data.datasets.encoding import TextEncoder

        return TextEncoder(tokenizers.source, append_end=False)

    def hold_out(self, settings: TaskSettings, dataset: "EncodedDataset", *, seed: int) -> "NDArray[np.bool_]":
        """Hold out chunks of text, or, for next sentence prediction, groups of consecutive lines."""
        import numpy as np

        from sightline.data.datasets.splits import hold_out_line_groups, validation_size

        if not uses_nsp(settings):
            return super().hold_out(settings, dataset, seed=seed)
        if settings.data.folds:
            raise SettingsError("next sentence prediction has no folds: set model.heads=mlm", setting="data.folds")
        size = validation_size(len(dataset), share=settings.data.validation_share)
        return hold_out_line_groups(np.asarray(dataset.labels), seed=seed, size=size)

    def batch_source(self, settings: TaskSettings, plan: BatchPlan) -> "BatchSource":
        """Return masked blocks of text, or masked pairs of sentences."""
        import numpy as np

        from sightline.data.datasets.batch_source import MaskedBatchSource, SentencePairBatchSource
        from sightline.data.datasets.masking import Masker
        from sightline.data.datasets.splits import group_lines

        dataset, tokenizer = plan.split.dataset, plan.tokenizers.source
        masker, length = Masker(tokenizer, settings.masking, seed=plan.rank_slice.seed), plan.block_length
        if not uses_nsp(settings):
            return MaskedBatchSource(
                dataset, plan.split.selected, plan.rank_slice, tokenizer=tokenizer, masker=masker, length=length
            )
        return SentencePairBatchSource(
            dataset,
            plan.examples,
            plan.rank_slice,
            documents=group_lines(np.asarray(dataset.labels))[plan.examples],
            tokenizer=tokenizer,
            masker=masker,
            length=length,
        )

    def objective_options(self, settings: TaskSettings, train: "Split", *, max_length: int | None) -> dict[str, float]:
        """Return the weight of next sentence prediction: the mean number of masked tokens in a pair of sentences."""
        if not uses_nsp(settings):
            return {}
        lengths = train.dataset.lengths[train.selected, 0]
        pair = min(2 * float(lengths.mean()), float(max_length or 512))
        return {"nsp_weight": max(1.0, settings.masking.mask_rate * pair)}

    def validate(self, validation: "Validation") -> "ValidationResult":
        """Score by the perplexity of masked words; fill a mask in the middle of some texts as samples."""
        from sightline.evaluation.language_model import exponential
        from sightline.training.metrics import ValidationResult
        from sightline.training.report import Sample

        samples = []
        for one in self.validation_inputs(validation, N_SAMPLES):
            answers = [candidate.token.strip() for candidate in validation.pipeline.fill(one.text, n=3)[0].candidates]
            samples.append(Sample(one.text, " | ".join(answers), one.reference))
        words = validation.tallies.get("words_loss", validation.loss)
        others = {
            name: 100 * value if name.endswith("accuracy") else value for name, value in validation.tallies.items()
        }
        return ValidationResult(validation.loss, ("perplexity", exponential(words)), False, others, tuple(samples))

    def validation_inputs(self, validation: "Validation", n: int) -> Iterator[InputExample]:
        """Yield lines with a mask."""
        from sightline.pipelines.filler import MASK

        tokenizer = validation.examples.tokenizers.source
        for ids in validation.sample_texts(n):
            at = len(ids) // 2
            before, through, whole = (tokenizer.decode(ids[:end]) for end in (at, at + 1, len(ids)))
            hidden, after = through[len(before) :], whole[len(through) :]  # a piece alone may have lost its space
            if MASK not in before + after:  # else the text itself contains the mask token
                line = before.rpartition("\n")[2] + MASK + after.partition("\n")[0]
                yield InputExample(line, reference=hidden.strip())

    def evaluate(self, pipeline: Any, examples: "EvaluationSet", options: EvaluationOptions) -> "Report":
        """Score masked words, line by line."""
        from sightline.evaluation.language_model import evaluate_filler

        for option in ("documents", "context"):
            if getattr(options, option) is not None:
                raise InputError(
                    "only for models that generate text: this one fills in masked words, line by line", option=option
                )
        return evaluate_filler(pipeline, examples.lines())

    def next_command(self, folder: Path, task_config: TaskConfig) -> str:  # noqa: ARG002
        """Return the command that fills a mask."""
        return f'sightline fill {folder} "… [MASK] …"'

    def example(self, pipeline: Any) -> dict[str, Any]:  # noqa: ARG002
        """Return a text with a mask."""
        return {"text": "The [MASK] dog"}

    def result_type(self) -> Any:
        """Return the candidates for each mask of a text."""
        from sightline.pipelines.filler import Candidate

        return list[list[Candidate]]

    def answer(self, pipeline: Any, inputs: Sequence[Any], **options: Any) -> "list[list[list[Candidate]]]":
        """Return the candidates for each mask of each text."""
        return [[mask.candidates for mask in masks] for masks in pipeline.fillings(inputs, n=options["n"])]


def uses_nsp(settings: TaskSettings) -> bool:
    """Tell whether the model is also trained on next sentence prediction."""
    return "nsp" in settings.heads
