"""What a model was made for: kept in config.json, so that whoever opens the folder knows how to ask it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sightline.model.bert import BertConfig
from sightline.model.config import BlockConfig
from sightline.model.registry import architecture_of
from sightline.settings import Checks
from sightline.text import Tokenizer, tag_token
from sightline.text.labels import MOST as MOST_LABELS

Task = Literal["translation", "chat", "language-model", "masked-language-model", "classification"]

ARCHITECTURES: dict[Task, str] = {
    "translation": "transformer",
    "chat": "transformer",
    "language-model": "gpt",
    "masked-language-model": "bert",
    "classification": "bert",
}
"""What each task is done by."""

LANGUAGE = re.compile(r"[\w-]{1,40}")
LONGEST_LABEL = 200


@dataclass(frozen=True)
class Purpose:
    """The task of a model, and what its answers mean."""

    task: Task
    languages: tuple[str, ...] = ()
    """Translation into several languages: each source then begins with the token of its target's language."""
    labels: tuple[str, ...] = ()
    """Classification: the names of the classes, by id."""
    per_word: bool = False
    """Classification: of each word instead of the text."""
    history: int = 3
    """Chat: turns that are read before a reply."""

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        names = (("languages", self.languages, "translation"), ("labels", self.labels, "classification"))
        for name, values, task in names:
            checks.that(not values or self.task == task, f"{name} belong to the task {task}, not {self.task}")
            checks.that(len(set(values)) == len(values), f"{name} holds a name twice")
            checks.that(len(values) <= MOST_LABELS, f"{name} are {len(values):,}, more than {MOST_LABELS:,}")
        for language in self.languages:
            checks.that(
                LANGUAGE.fullmatch(language) is not None,
                f"{language[:60]!r} is not the name of a language (letters, digits, - and _)",
            )
        longest = max(map(len, self.labels), default=0)
        checks.that(longest <= LONGEST_LABEL, f"a label has {longest:,} characters, more than {LONGEST_LABEL}")
        checks.that(not self.per_word or self.task == "classification", "per_word belongs to the task classification")
        checks.between(1, 1_000, history=self.history)
        checks.done()


def misfits(purpose: Purpose, config: BlockConfig, tokenizer: Tokenizer | None) -> Iterator[str]:
    """Yield why a model cannot do what it was made for."""
    found, needed = architecture_of(config), ARCHITECTURES[purpose.task]
    if found != needed:
        yield f"says the model was made for {purpose.task}, which takes the architecture {needed}, not {found}"
        return
    if isinstance(config, BertConfig):
        head = head_for(purpose)
        if head not in config.heads:
            yield f"says the model was made for {purpose.task}, but it has no head {head}"
        if purpose.labels and len(purpose.labels) != config.n_classes:
            yield f"names {len(purpose.labels):,} labels, but the model tells {config.n_classes:,} classes apart"
    for language in purpose.languages if tokenizer else ():
        if tokenizer and tokenizer.special_id(tag_token(language)) is None:
            yield f"names the language {language!r}, but the tokenizer has no special token {tag_token(language)!r}"


def head_for(purpose: Purpose) -> str:
    """Return the head of an encoder that a task needs."""
    if purpose.task == "masked-language-model":
        return "masked_words"
    return "token_classes" if purpose.per_word else "sequence_classes"
