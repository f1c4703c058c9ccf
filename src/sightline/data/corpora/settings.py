"""Data settings: where the corpus is and how it is read, the `[data]` section of a recipe."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sightline.config import Checks
from sightline.data.corpora.files import OnBadUTF8
from sightline.data.corpora.formats import DocumentSeparator
from sightline.errors import SettingsError

LabelLevel = Literal["sequence", "pair", "token"]
Format = Literal["parallel", "tsv", "jsonl", "text"]
Part = Literal["train", "valid"]

FORMATS: dict[str, Format] = {".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""By file extension, ignoring `.gz`; any other file is plain text."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The files of a corpus, and what happens to unusual lines in them."""

    train: str = field(metadata={"help": "training set: a TSV, JSONL or plain text file, optionally gzipped"})
    folder: str | None = field(
        default=None,
        metadata={"help": "data folder: file names are relative to it; none: to the current folder"},
    )
    train_target: str | None = field(
        default=None,
        metadata={"help": "target side of the training set, where source and target are two line-aligned files"},
    )
    valid: str | None = field(default=None, metadata={"help": "validation set; none: held out from train"})
    valid_target: str | None = field(default=None, metadata={"help": "target side of the validation set"})
    format: Literal["auto", "parallel", "tsv", "jsonl", "text"] = field(
        default="auto", metadata={"help": "file format; auto: by file extension"}
    )
    columns: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": 'TSV columns (names, or numbers from "1") or JSONL keys, in the order the task needs: '
            "source, target (, language) | text, label | text, pair, label | tokens, labels | turns"
        },
    )
    languages: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "target languages of a multilingual translation model; "
            "a third column then names the language of each target"
        },
    )
    source_language: str | None = field(
        default=None,
        metadata={
            "help": "language of the sources of a translation model of one direction, such as en; set both or none"
        },
    )
    target_language: str | None = field(
        default=None,
        metadata={"help": "language of its targets, such as de: a request for another language is refused"},
    )
    label_level: LabelLevel = field(
        default="sequence",
        metadata={"help": "what a label belongs to: a text (sequence), a pair of texts, or each word (token)"},
    )
    header: bool | None = field(
        default=None,
        metadata={
            "help": "header line: whether a TSV starts with column names; none: only if columns are given by name"
        },
    )
    document_separator: DocumentSeparator = field(
        default="blank",
        metadata={"help": "end of a document in plain text: a blank line, every line, or only the end of the file"},
    )
    context_turns: int = field(
        default=3, metadata={"help": "dialogue context: number of previous turns a reply is conditioned on"}
    )
    casual_user_turns: bool = field(
        default=False,
        metadata={"help": "data augmentation: also train on user turns in lower case without punctuation"},
    )
    max_length: int = field(default=256, metadata={"help": "maximum length of a sequence in tokens"})
    too_long: Literal["drop", "truncate"] = field(
        default="drop", metadata={"help": "examples longer than max_length: drop or truncate them"}
    )
    on_bad_utf8: OnBadUTF8 = field(
        default="refuse",
        metadata={
            "help": "lines that are not valid UTF-8: refuse the file, replace the bytes by U+FFFD, or skip the line"
        },
    )
    drop_duplicates: bool = field(
        default=False, metadata={"help": "drop repeated examples (compared with the first million distinct ones)"}
    )
    drop_identical: bool = field(default=False, metadata={"help": "drop pairs whose source and target are identical"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(bool(self.train), "train names no file")
        checks.between(1, 1_000_000, max_length=self.max_length)
        checks.between(1, 1_000, context_turns=self.context_turns)
        checks.that(
            all(name.replace("-", "").isalnum() for name in self.languages) and len(set(self.languages)) != 1,
            f"languages must be two or more short names such as de or pt-BR, not {', '.join(self.languages)}",
        )
        checks.that(len(set(self.languages)) == len(self.languages), "languages names one language twice")
        pair = (self.source_language, self.target_language)
        checks.that(
            all(name is None or name.replace("-", "").isalnum() for name in pair),
            "source_language and target_language must be short names such as de or pt-BR, "
            f"not {' and '.join(map(str, pair))}",
        )
        checks.that((pair[0] is None) == (pair[1] is None), "source_language and target_language go together: set both")
        checks.that(pair[0] is None or pair[0] != pair[1], f"source_language and target_language are both {pair[0]}")
        checks.that(
            pair == (None, None) or not self.languages,
            "source_language and target_language name the languages of one direction: leave them out with languages",
        )
        checks.that(all(self.columns), "columns holds an empty name")
        checks.that(len(set(self.columns)) == len(self.columns), "columns names one column twice")
        checks.that(self.valid_target is None or self.valid is not None, "valid_target needs valid")
        if self.valid is not None:
            given = [name for name in ("train", "valid") if getattr(self, f"{name}_target") is not None]
            checks.that(len(given) != 1, "train_target and valid_target must be given together")
        checks.that(
            self.format != "parallel" or self.train_target is not None,
            "format parallel needs train_target, the target file",
        )
        checks.that(
            self.train_target is None or self.format in ("auto", "parallel"),
            f"train_target is for parallel files, not for {self.format}",
        )
        checks.done()

    def files(self, part: Part) -> tuple[Path, ...]:
        """Return the one or two files of the training or validation set."""
        first, second = (self.train, self.train_target) if part == "train" else (self.valid, self.valid_target)
        return tuple(Path(self.folder or "", name) for name in (first, second) if name is not None)

    def format_of(self, part: Part) -> Format:
        """Return the file format of the training or validation set; auto: by file extension."""
        files = self.files(part)
        if self.format != "auto":
            return self.format
        if len(files) == 2:
            return "parallel"
        suffixes = [suffix.lower() for suffix in files[0].suffixes if suffix.lower() != ".gz"]
        last = suffixes[-1] if suffixes else ""
        if last == ".csv":
            raise SettingsError(f"{files[0]}: CSV is not supported: save it as TSV (tabs between columns, no quotes)")
        return FORMATS.get(last, "text")
