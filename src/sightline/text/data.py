"""Where the data is and how it is read: the `[data]` section of a recipe."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sightline.errors import SettingsError
from sightline.settings import Checks
from sightline.text.documents import Documents
from sightline.text.lines import OnBadUTF8

Classified = Literal["text", "pair", "words"]
Format = Literal["parallel", "tsv", "jsonl", "text"]
Part = Literal["train", "valid"]

FORMATS: dict[str, Format] = {".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
"""By the end of a file's name, `.gz` left aside; anything else is running text."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which files a corpus is in, and what happens to what is unusual in them."""

    train: str = field(metadata={"help": "the file to learn from: TSV, JSONL or plain text, also packed by gzip"})
    folder: str | None = field(
        default=None,
        metadata={"help": "where the files are, if not in the folder one is in (or named with their path)"},
    )
    train_target: str | None = field(
        default=None, metadata={"help": "the other side, where source and target are two files with the same lines"}
    )
    valid: str | None = field(
        default=None, metadata={"help": "the file to validate on; if not given, some sentences of train are set aside"}
    )
    valid_target: str | None = field(default=None, metadata={"help": "the other side of valid"})
    format: Literal["auto", "parallel", "tsv", "jsonl", "text"] = field(
        default="auto", metadata={"help": "how the files are read; auto goes by their names"}
    )
    columns: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": 'columns of a TSV (names, or numbers from "1") or keys of a JSONL, in the order the task needs: '
            "source, target (, language) | text, label | text, pair, label | tokens, labels | turns"
        },
    )
    languages: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "for one model that translates into several languages: their names; "
            "a third column then says which language the target is in"
        },
    )
    classified: Classified = field(
        default="text", metadata={"help": "what has a label: a text, a pair of texts, or every one of some words"}
    )
    header: bool | None = field(
        default=None, metadata={"help": "whether a TSV begins with names; if not said: when columns are given by name"}
    )
    documents: Documents = field(
        default="blank",
        metadata={"help": "what ends a document of plain text: a blank line, every line, or the file's end alone"},
    )
    history: int = field(default=3, metadata={"help": "turns of a dialogue that a reply is learned from"})
    typed_in_haste: bool = field(
        default=False,
        metadata={"help": "learn a reply also from what was said in small letters without punctuation, as people type"},
    )
    max_length: int = field(default=256, metadata={"help": "tokens of one sentence, at most"})
    on_long: Literal["skip", "cut"] = field(
        default="skip", metadata={"help": "what happens to an example with a longer sentence"}
    )
    on_bad_utf8: OnBadUTF8 = field(
        default="refuse", metadata={"help": "what happens to a line that is not UTF-8; replace puts U+FFFD"}
    )
    drop_duplicates: bool = field(
        default=False, metadata={"help": "leave out what was there before (the first million are remembered)"}
    )
    drop_copies: bool = field(default=False, metadata={"help": "leave out pairs whose two sides are the same"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        checks.that(bool(self.train), "train names no file")
        checks.between(1, 1_000_000, max_length=self.max_length)
        checks.between(1, 1_000, history=self.history)
        checks.that(
            all(name.replace("-", "").isalnum() for name in self.languages) and len(set(self.languages)) != 1,
            f"languages must be two or more short names such as de or pt-BR, not {', '.join(self.languages)}",
        )
        checks.that(len(set(self.languages)) == len(self.languages), "languages names one language twice")
        checks.that(all(self.columns), "columns holds an empty name")
        checks.that(len(set(self.columns)) == len(self.columns), "columns names one column twice")
        checks.that(self.valid_target is None or self.valid is not None, "valid_target needs valid")
        if self.valid is not None:
            given = [name for name in ("train", "valid") if getattr(self, f"{name}_target") is not None]
            checks.that(len(given) != 1, "train_target and valid_target come together, or neither")
        checks.that(
            self.format != "parallel" or self.train_target is not None,
            "format parallel needs train_target, the other file",
        )
        checks.that(
            self.train_target is None or self.format in ("auto", "parallel"),
            f"train_target is for parallel files, not for {self.format}",
        )
        checks.done()

    def files(self, part: Part) -> tuple[Path, ...]:
        """Return the one or two files of a part."""
        first, second = (self.train, self.train_target) if part == "train" else (self.valid, self.valid_target)
        return tuple(Path(self.folder or "", name) for name in (first, second) if name is not None)

    def format_of(self, part: Part) -> Format:
        """Return how a part is read, from its file's name if the settings leave it open."""
        files = self.files(part)
        if self.format != "auto":
            return self.format
        if len(files) == 2:
            return "parallel"
        suffixes = [suffix.lower() for suffix in files[0].suffixes if suffix.lower() != ".gz"]
        last = suffixes[-1] if suffixes else ""
        if last == ".csv":
            raise SettingsError(f"{files[0]}: CSV is not read: save it as TSV (tabs between columns, no quotes)")
        return FORMATS.get(last, "text")
