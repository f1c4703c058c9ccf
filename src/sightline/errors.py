"""Errors that are not bugs, each class with its exit code.

    SightlineError            1  the operation failed
    └── RefusedError          2  the input or request is invalid
        ├── SettingsError        a setting: unknown, of the wrong type, or out of range
        ├── InputError           text or ids that cannot be used (too long, outside the vocabulary)
        │   └── JSONError        JSON that is invalid or exceeds a limit
        └── ModelFileError       a file of a model folder is invalid, and why

Only the command line's `main` and the server turn these into text or a status code; all other code raises them.
"""

from pathlib import Path
from typing import Literal

JSONProblem = Literal[
    "byte_order_mark", "constant", "depth", "duplicate_key", "encoding", "integer", "number", "size", "surrogate",
    "syntax",
]  # fmt: skip


class SightlineError(Exception):
    """Root of every error meant for users: its message says what happened and what to do."""

    exit_code = 1


class RefusedError(SightlineError):
    """The input or request is invalid."""

    exit_code = 2


class SettingsError(RefusedError):
    """A setting is unknown, of the wrong type, or out of range."""


class InputError(RefusedError):
    """Text or ids that cannot be used; `option` names the invalid argument, shown as `--option` by the command line."""

    def __init__(self, reason: str, *, option: str | None = None) -> None:
        self.reason, self.option = reason, option
        super().__init__(reason if option is None else f"`{option}`: {reason}")


class JSONError(InputError):
    """JSON that is invalid or exceeds a limit: `kind` says in what way, `detail` where, or which name it is about."""

    def __init__(self, reason: str, *, kind: JSONProblem, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(reason)


class ModelFileError(RefusedError):
    """A file of a model folder is invalid: the message is one line with the file and the reason."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        self.reason = " ".join(reason.split())
        super().__init__(f"{self.path}: {self.reason}")
