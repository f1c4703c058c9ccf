"""Data settings: where the corpus is and how it is read, the `[data]` section of a recipe."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sightline.config import Checks
from sightline.data.corpora.files import OnBadUTF8, find_files
from sightline.data.corpora.formats import DocumentSeparator
from sightline.data.corpora.tables import DELIMITERS
from sightline.errors import SettingsError

LabelLevel = Literal["sequence", "pair", "token"]
Format = Literal["parallel", "tsv", "csv", "jsonl", "text"]
Part = Literal["train", "valid"]
Files = str | tuple[str, ...]
"""A file, a folder, a pattern such as `data/*.tsv`, or a list of these."""

FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
"""By file extension, ignoring `.gz`; any other file is plain text."""

SPLIT_SETTINGS = frozenset({"validation_share", "folds", "fold"})
"""Settings that only decide which examples are held out."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The files of a corpus, and what happens to unusual lines in them."""

    train: Files = field(
        metadata={
            "help": "training set: a TSV, CSV, JSONL or plain text file, optionally gzipped; "
            "or a folder of such files, a pattern (data/*.tsv), or a list of these"
        }
    )
    folder: str | None = field(
        default=None,
        metadata={"help": "data folder: file names are relative to it; none: to the current folder"},
    )
    train_target: Files | None = field(
        default=None,
        metadata={"help": "target side of the training set, where source and target are two line-aligned files"},
    )
    valid: Files | None = field(default=None, metadata={"help": "validation set; none: held out from train"})
    valid_target: Files | None = field(default=None, metadata={"help": "target side of the validation set"})
    validation_share: float | None = field(
        default=0.1,
        metadata={
            "help": "share of train held out for validation, if valid is not set; "
            "at least 200 and at most 2,000 examples, but never more than a fifth; none: a hundredth, as in 0.2.0"
        },
    )
    folds: int = field(
        default=0,
        metadata={
            "help": "cross-validation for small sets: train this many models, each validated on another part of the "
            "data, report their mean score, then train the final model on all data; 0: off"
        },
    )
    fold: int | None = field(
        default=None, metadata={"help": "train only the model that is validated on this fold, from 1; none: all"}
    )
    format: Literal["auto", "parallel", "tsv", "csv", "jsonl", "text"] = field(
        default="auto", metadata={"help": "file format; auto: by file extension"}
    )
    columns: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": 'TSV or CSV columns (names, or numbers from "1") or JSONL keys, in the order the task needs: '
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
            "help": "header line: whether a TSV or CSV starts with column names; none: detected in a CSV, "
            "in a TSV only if columns are given by name"
        },
    )
    delimiter: str | None = field(
        default=None,
        metadata={
            "help": "delimiter of a TSV or CSV: comma, semicolon, tab, pipe, or any one character; "
            "none: the tab in a TSV, detected in a CSV"
        },
    )
    quoting: bool | None = field(
        default=None,
        metadata={
            "help": 'quoted cells in a TSV or CSV: whether "…" around a cell is removed and "" within it means "; '
            "none: detected"
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
        default=False, metadata={"help": "drop repeated examples (compared with about four million others)"}
    )
    drop_identical: bool = field(default=False, metadata={"help": "drop pairs whose source and target are identical"})
    clean: bool = field(
        default=False,
        metadata={"help": "drop what `sightline clean` would drop from the training set, and report the counts"},
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        for name in ("train", "train_target", "valid", "valid_target"):
            given = getattr(self, name)
            checks.that(given is None or (bool(given) and all(as_names(given))), f"{name} names no file")
        checks.that(
            self.validation_share is None or 0 < self.validation_share <= 0.2,
            f"validation_share must be above 0 and at most 0.2, not {self.validation_share}",
        )
        checks.that(
            self.folds == 0 or 2 <= self.folds <= 100, f"folds must be 0 or between 2 and 100, not {self.folds}"
        )
        checks.that(
            self.fold is None or 1 <= self.fold <= self.folds,
            f"fold must be between 1 and folds = {self.folds}, not {self.fold}",
        )
        checks.that(not self.folds or self.valid is None, "folds are parts of train: leave valid out")
        checks.that(
            self.delimiter is None or len(self.delimiter_character or "") == 1,
            f"delimiter must be one of {', '.join(DELIMITERS)} or one character, not {self.delimiter!r}",
        )
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

    @property
    def delimiter_character(self) -> str | None:
        """The delimiter itself; None if it is to be detected."""
        return DELIMITERS.get(self.delimiter, self.delimiter) if self.delimiter is not None else None

    def names(self, part: Part) -> tuple[tuple[str, ...], ...]:
        """Return what the settings name as the training or validation set, for each of its one or two sides."""
        first, second = (self.train, self.train_target) if part == "train" else (self.valid, self.valid_target)
        return tuple(as_names(given) for given in (first, second) if given is not None)

    def sides(self, part: Part) -> tuple[tuple[Path, ...], ...]:
        """Return the files of the training or validation set, in order, for each of its one or two sides."""
        sides = tuple(find_files(names, self.folder) for names in self.names(part))
        if len(sides) == 2 and len(sides[0]) != len(sides[1]):
            raise SettingsError(
                f"{len(sides[0]):,} files of sources and {len(sides[1]):,} of targets: they go together one by one",
                setting=f"data.{part}_target",
            )
        return sides

    def files(self, part: Part) -> tuple[Path, ...]:
        """Return all files of the training or validation set."""
        return tuple(path for side in self.sides(part) for path in side)

    def describe_files(self, part: Part) -> tuple[str, ...]:
        """Return short names of the files: those that are named, without folders, and how many a name stands for."""
        found = []
        for names in self.names(part):
            for name in names[:MAX_NAMES]:
                path = Path(self.folder or "", name)
                n = 1 if path.is_file() else len(find_files((name,), self.folder))
                found.append(path.name if n == 1 and not path.is_dir() else f"{path.name} ({n:,} files)")
            found += [f"… ({len(names):,} in all)"] if len(names) > MAX_NAMES else []
        return tuple(found)

    def format_of(self, part: Part) -> Format:
        """Return the file format of the training or validation set; auto: by file extension, one for all files."""
        if self.format != "auto":
            return self.format
        sides = self.sides(part)
        if len(sides) == 2:
            return "parallel"
        by_format = {extension_format(path): path for path in reversed(sides[0])}
        if len(by_format) > 1:
            examples = ", ".join(sorted(path.name for path in by_format.values()))
            raise SettingsError(
                f"its files are of several formats ({examples}): give those of one, such as data/*.tsv, "
                "or set data.format",
                setting=f"data.{part}",
            )
        return next(iter(by_format))


MAX_NAMES = 5
"""Files that are named in a message or card."""


def as_names(given: Files) -> tuple[str, ...]:
    """Return a setting that names files as a tuple."""
    return (given,) if isinstance(given, str) else given


def extension_format(path: Path) -> Format:
    """Return the format that a file's extension stands for."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return FORMATS.get(suffixes[-1] if suffixes else "", "text")
