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
    """The input or request is invalid.

    `setting` names the setting that is invalid, or that helps: then `advice` says how, with `{}` for its name.
    """

    exit_code = 2
    code = "refused"
    """What a program tells it by: the `code` of an API's error."""

    def __init__(self, reason: str, *, setting: str | None = None, advice: str = "") -> None:
        self.reason, self.setting, self.advice = reason, setting, advice
        super().__init__(self.describe(setting))

    def describe(self, setting: str | None) -> str:
        """Return the message with another name for the setting; None leaves the setting and its advice out."""
        if setting is None:
            return self.reason
        return f"{self.reason}, or {self.advice.format(setting)}" if self.advice else f"{setting}: {self.reason}"


class SettingsError(RefusedError):
    """A setting is unknown, of the wrong type, or out of range."""


class InputError(RefusedError):
    """Text or ids that cannot be used; `option` names the invalid argument, shown as `--option` by the command line."""

    def __init__(
        self,
        reason: str,
        *,
        option: str | None = None,
        setting: str | None = None,
        advice: str = "",
        code: str = RefusedError.code,
    ) -> None:
        self.option, self.code = option, code
        super().__init__(reason, setting=setting, advice=advice)

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.option is None else f"`{self.option}`: {message}"


class JSONError(InputError):
    """JSON that is invalid or exceeds a limit: `kind` says in what way, `detail` where, or which name it is about."""

    def __init__(self, reason: str, *, kind: JSONProblem, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(reason)


class ModelFileError(RefusedError):
    """A file of a model folder is invalid: the message is one line with the file and the reason."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        super().__init__(" ".join(reason.split()))

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
