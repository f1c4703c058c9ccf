"""The options of a trace: one definition for Python, the command line and the studio."""

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
"""Every activation."""

GIGABYTE = 1_000_000_000

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called with the current stage, the amount done, and the total."""


def ignore_progress(what: str, done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """What a trace captures and computes besides tokens and steps."""

    activations: Sequence[str] = field(
        default=DEFAULT, metadata={"help": "activations to capture, by name; `*` matches anything"}
    )
    layers: Sequence[int] | None = field(default=None, metadata={"help": "capture only these layers"})
    heads: Sequence[int] | None = field(default=None, metadata={"help": "capture only these heads"})
    candidates: int = field(default=10, metadata={"help": "number of candidate tokens per step"})
    logit_lens: bool = field(default=True, metadata={"help": "logit lens: the top tokens after every layer"})
    head_ablation: bool = field(default=False, metadata={"help": "head ablation: effect of removing each head"})
    hypotheses: bool = field(default=False, metadata={"help": "also capture the attention of every beam hypothesis"})
    ablate_heads: Mapping[str, Sequence[int]] = field(
        default_factory=dict, metadata={"help": "heads to ablate: {'decoder.1.cross_attention': [0, 3]}"}
    )
    limit: int = field(default=GIGABYTE, metadata={"help": "memory limit for the activations, in bytes"})
    progress: Progress = field(default=ignore_progress, metadata={"help": "callback that reports progress"})

    def __post_init__(self) -> None:
        if isinstance(self.activations, str):
            object.__setattr__(self, "activations", (self.activations,))
        checks = Checks()
        checks.between(1, 1_000, candidates=self.candidates)
        checks.between(0, 1 << 50, limit=self.limit)
        checks.done()

    @classmethod
    def of(cls, options: Mapping[str, Any], *, generates: bool) -> "tuple[TraceOptions, dict[str, Any]]":
        """Split keyword options into trace options and, for models that generate, decoding settings; drop None."""
        options = {name: value for name, value in options.items() if value is not None}
        own_names = [one.name for one in dataclasses.fields(cls)]
        settings = [one.name for one in dataclasses.fields(DecodingSettings)] if generates else []
        unknown = [name for name in options if name not in (*own_names, *settings)]
        if unknown:
            raise SettingsError(unknown_name(unknown[0], [*own_names, *settings], what="trace option"))
        own = {name: value for name, value in options.items() if name in own_names}
        return cls(**own), {name: value for name, value in options.items() if name in settings}
