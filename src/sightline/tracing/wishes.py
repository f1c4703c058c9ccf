"""What someone wants to see in a trace: one definition for Python, the command line and the studio."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.settings import Checks, unknown_name

DEFAULT = ("*.weights",)
"""The weights of every attention."""
EVERYTHING = ("*",)
"""Every value there is."""

GIGABYTE = 1_000_000_000

Progress: TypeAlias = Callable[[str, int, int], object]
"""Is told what is being done, how much of it is done, and how much there is."""


def nobody(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What is captured and found out besides tokens and steps."""

    probes: Sequence[str] = field(default=DEFAULT, metadata={"help": "names of values, `*` standing for anything"})
    layers: Sequence[int] | None = field(default=None, metadata={"help": "only the probes of these layers"})
    heads: Sequence[int] | None = field(default=None, metadata={"help": "only these heads of the probes"})
    candidates: int = field(default=10, metadata={"help": "how many of the likeliest tokens are shown at a step"})
    readout: bool = field(default=True, metadata={"help": "read out the top tokens after every layer"})
    knockouts: bool = field(default=False, metadata={"help": "find out what changes without each head"})
    hypotheses: bool = field(default=False, metadata={"help": "also the attention of everything a beam looked at"})
    knock_out: Mapping[str, Sequence[int]] = field(
        default_factory=dict, metadata={"help": "heads to silence: {'decoder.1.cross_attention': [0, 3]}"}
    )
    limit: int = field(default=GIGABYTE, metadata={"help": "bytes that the probes may take"})
    progress: Progress = field(default=nobody, metadata={"help": "is told how far it is"})

    def __post_init__(self) -> None:
        if isinstance(self.probes, str):
            object.__setattr__(self, "probes", (self.probes,))
        checks = Checks()
        checks.between(1, 1_000, candidates=self.candidates)
        checks.between(0, 1 << 50, limit=self.limit)
        checks.done()

    @classmethod
    def of(cls, options: Mapping[str, Any], *, writes: bool) -> "tuple[Wishes, dict[str, Any]]":
        """Part options into wishes and decoding settings, which only a model that writes has; None is not given."""
        options = {name: value for name, value in options.items() if value is not None}
        wishes = [one.name for one in dataclasses.fields(cls)]
        settings = [one.name for one in dataclasses.fields(DecodingSettings)] if writes else []
        strange = [name for name in options if name not in (*wishes, *settings)]
        if strange:
            raise SettingsError(unknown_name(strange[0], [*wishes, *settings], what="option of a trace"))
        own = {name: value for name, value in options.items() if name in wishes}
        return cls(**own), {name: value for name, value in options.items() if name in settings}
