"""What can go wrong that is not a bug, each kind with its exit code.

    SightlineError            1  something failed
    └── RefusedError          2  what was asked or given cannot be taken
        ├── SettingsError        a setting: unknown, of the wrong type, or out of range
        ├── InputError           text or ids a model cannot take (too long, outside the vocabulary)
        └── ModelFileError       a file of a model folder, with its reason

Only the command line's `main` and the server turn these into text or a status; everything else raises them.
"""

from pathlib import Path


class SightlineError(Exception):
    """Root of every error that is meant for a person: its text says what happened and what to do."""

    exit_code = 1


class RefusedError(SightlineError):
    """What was asked or given cannot be taken."""

    exit_code = 2


class SettingsError(RefusedError):
    """A setting is unknown, of the wrong type, or out of range."""


class InputError(RefusedError):
    """Text or ids that this model cannot take."""


class ModelFileError(RefusedError):
    """A file of a model folder is refused: always one line, naming file and reason."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        self.reason = " ".join(reason.split())
        super().__init__(f"{self.path}: {self.reason}")
