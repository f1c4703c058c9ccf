"""What tasks share whose examples are a source and a target: encoding, batches, and pairs of the validation set."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sightline.bundle.training_facts import InputExample
from sightline.errors import SettingsError
from sightline.tasks.task import BatchPlan, Task, TaskSettings

if TYPE_CHECKING:
    from sightline.data.corpora.records import Labels
    from sightline.data.datasets.batch_source import PairBatchSource
    from sightline.data.datasets.encoding import PairEncoder
    from sightline.data.datasets.examples import Tokenizers
    from sightline.tasks.validation import Validation


class PairTask(Task):
    """Generates a target from a source: by an encoder–decoder, or by a decoder that reads the source first."""

    interfaces = ("sightline.model.interfaces:Seq2Seq", "sightline.model.interfaces:CausalLM")
    default_family = "transformer"
    generates = True
    reads_pairs = True

    def build_encoder(self, settings: TaskSettings, tokenizers: "Tokenizers", labels: "Labels | None") -> "PairEncoder":  # noqa: ARG002
        """Return the encoder of pairs, with a tag before each source if there are several target languages."""
        from sightline.data.datasets.encoding import PairEncoder
        from sightline.data.tokenizers import tag_token

        tags = {name: tokenizers.source.special_id(tag_token(name)) for name in settings.data.languages}
        if missing := [name for name, id_ in tags.items() if id_ is None]:
            raise SettingsError(f"the tokenizer has no language tag for {', '.join(missing)}")
        return PairEncoder(
            tokenizers.source, tokenizers.target, tags={name: id_ for name, id_ in tags.items() if id_ is not None}
        )

    def batch_source(self, settings: TaskSettings, plan: BatchPlan) -> "PairBatchSource":  # noqa: ARG002
        """Return batches of pairs of similar length; `data.max_length` has dropped those that are too long."""
        from sightline.data.datasets.batch_source import PairBatchSource

        source, target = plan.tokenizers.source, plan.tokenizers.output
        return PairBatchSource(plan.split.dataset, plan.examples, plan.rank_slice, source=source, target=target)

    def validation_inputs(self, validation: "Validation", n: int) -> Iterator[InputExample]:
        """Yield sources with their targets."""
        for pair in sample_pairs(validation, n):
            yield InputExample(pair.source, to=pair.language, reference=pair.target)


@dataclass(frozen=True)
class Pair:
    """An example of the validation set as text."""

    source: str
    target: str
    language: str | None


def sample_pairs(validation: "Validation", n: int) -> Iterator[Pair]:
    """Yield sources and targets as text, of a fixed random sample of the validation set."""
    examples = validation.examples
    tokenizers, dataset, languages = examples.tokenizers, examples.valid.dataset, examples.data.languages
    for number in validation.sample(n):
        source, target = (dataset.sequence(number, column).tolist() for column in (0, 1))
        language = tokenizers.source.token_text(source[0])[2:-1] if languages else None
        yield Pair(
            tokenizers.source.decode(source[1:] if languages else source),
            tokenizers.output.decode(target),
            language,
        )
