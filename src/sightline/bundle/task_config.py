"""The task of a model: stored in config.json, so that a loaded model knows how it is used."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.model.registry import architecture_of
from sightline.settings import Checks
from sightline.text import Tokenizer, tag_token
from sightline.text.labels import MAX_LABELS

TaskName = Literal["translation", "chat", "language-model", "masked-language-model", "classification"]

ARCHITECTURES: dict[TaskName, str] = {
    "translation": "transformer",
    "chat": "transformer",
    "language-model": "gpt",
    "masked-language-model": "bert",
    "classification": "bert",
}
"""The architecture of each task."""

LANGUAGE = re.compile(r"[\w-]{1,40}")
MAX_LABEL_LENGTH = 200


@dataclass(frozen=True)
class TaskConfig:
    """The task of a model, and the meaning of its outputs."""

    task: TaskName
    languages: tuple[str, ...] = ()
    """Multilingual translation: the target languages; each source then begins with a target-language tag."""
    labels: tuple[str, ...] = ()
    """Classification: the class names, by id."""
    per_word: bool = False
    """Classification: of each word (token classification) instead of the text."""
    context_turns: int = 3
    """Chat: number of previous turns a reply is conditioned on."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        names = (("languages", self.languages, "translation"), ("labels", self.labels, "classification"))
        for name, values, task in names:
            checks.that(not values or self.task == task, f"{name} are only for the task {task}, not {self.task}")
            checks.that(len(set(values)) == len(values), f"{name} contains a name twice")
            checks.that(len(values) <= MAX_LABELS, f"{name} has {len(values):,} names, more than {MAX_LABELS:,}")
        for language in self.languages:
            checks.that(
                LANGUAGE.fullmatch(language) is not None,
                f"{language[:60]!r} is not a valid language name (letters, digits, - and _)",
            )
        length = max(map(len, self.labels), default=0)
        checks.that(length <= MAX_LABEL_LENGTH, f"a label has {length:,} characters, more than {MAX_LABEL_LENGTH}")
        checks.that(not self.per_word or self.task == "classification", "per_word is only for the task classification")
        checks.between(1, 1_000, context_turns=self.context_turns)
        checks.done()


def find_task_mismatches(task_config: TaskConfig, config: BlockConfig, tokenizer: Tokenizer | None) -> Iterator[str]:
    """Yield why a model cannot perform its task."""
    found, needed = architecture_of(config), ARCHITECTURES[task_config.task]
    if found != needed:
        yield f"has the task {task_config.task}, which needs the architecture {needed}, not {found}"
        return
    if isinstance(config, BertConfig):
        head = head_for(task_config)
        if head not in config.heads:
            yield f"has the task {task_config.task}, but the model has no head {head}"
        if task_config.labels and len(task_config.labels) != config.n_classes:
            yield f"lists {len(task_config.labels):,} labels, but the model has {config.n_classes:,} classes"
    for language in task_config.languages if tokenizer else ():
        if tokenizer and tokenizer.special_id(tag_token(language)) is None:
            yield f"lists the language {language!r}, but the tokenizer has no special token {tag_token(language)!r}"


def head_for(task_config: TaskConfig) -> str:
    """Return the encoder head that a task needs."""
    if task_config.task == "masked-language-model":
        return "mlm"
    return "token_classification" if task_config.per_word else "sequence_classification"
