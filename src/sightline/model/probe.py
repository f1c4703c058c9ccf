"""Named watch points: look at, or change, any value on its way through a model.

Models pass every interesting value through a probe, `x = probe("residual", x)`, under a dotted name such as
`decoder.2.cross_attention.weights` (docs/shapes.md lists them all). `IDLE`, the default, hands everything straight
back. A real probe acts where one of its patterns matches; attention leaves its fused kernel only in layers where a
value is wanted that the kernel never forms.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import Tensor

from sightline.errors import InputError

Action = Callable[[str, Tensor], Tensor | None]
"""Takes a point's full name and value; returns what the model goes on with, or None to leave the value alone."""


class Idle:
    """The probe of every ordinary run: watches nothing, changes nothing."""

    def within(self, place: object) -> "Idle":  # noqa: ARG002 - same signature as Probe
        """Return the probe for a part of the model."""
        return self

    def watches(self, *points: str) -> bool:  # noqa: ARG002
        """Tell whether any of these points is watched here."""
        return False

    def __call__(self, point: str, value: Tensor) -> Tensor:  # noqa: ARG002
        """Show a value on its way and return what to go on with."""
        return value


IDLE = Idle()


class Probe(Idle):
    """Calls actions at the points whose names match their patterns (`*` matches anything, dots included)."""

    def __init__(self, actions: Mapping[str, Action | Sequence[Action]]) -> None:
        self.actions = [
            (pattern, tuple(action) if isinstance(action, Sequence) else (action,))
            for pattern, action in actions.items()
        ]
        self.place = ""
        self.found: dict[str, tuple[Action, ...]] = {}  # full name → its actions; shared with the probes within

    def within(self, place: object) -> "Probe":
        """Return the probe for a part of the model."""
        inner = Probe({})
        inner.actions, inner.found, inner.place = self.actions, self.found, f"{self.place}{place}."
        return inner

    def at(self, point: str) -> tuple[Action, ...]:
        """Return the actions for a point of this place, in the order of their patterns."""
        name = self.place + point
        if name not in self.found:
            matching = (actions for pattern, actions in self.actions if fnmatchcase(name, pattern))
            self.found[name] = tuple(action for actions in matching for action in actions)
        return self.found[name]

    def watches(self, *points: str) -> bool:
        """Tell whether any of these points is watched here."""
        return any(self.at(point) for point in points)

    def unmatched(self) -> list[str]:
        """Return the patterns that no point has matched so far: after a whole pass, misspelt ones."""
        return [pattern for pattern, _ in self.actions if not any(fnmatchcase(name, pattern) for name in self.found)]

    def __call__(self, point: str, value: Tensor) -> Tensor:
        """Let the actions of this point see, and perhaps change, the value."""
        for action in self.at(point):
            changed = action(self.place + point, value)
            value = value if changed is None else changed
        return value


class Recorder(Probe):
    """A probe that keeps what it sees, after any interventions: `recorder["encoder.0.self_attention.weights"]`."""

    def __init__(self, *patterns: str, interventions: Mapping[str, Action | Sequence[Action]] | None = None) -> None:
        self.seen: dict[str, Tensor] = {}
        super().__init__(interventions or {})
        self.actions += [(pattern, (self.keep,)) for pattern in patterns]

    def keep(self, name: str, value: Tensor) -> None:
        """Remember the newest value of a point, cut loose from the graph."""
        self.seen[name] = value.detach().clone()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.seen:
            near = difflib.get_close_matches(name, self.seen, n=3)
            raise KeyError(f"no point {name!r} was recorded; nearest: {', '.join(near) or 'none'}")
        return self.seen[name]


def knock_out(*heads: int) -> Action:
    """Zero these heads; act on `…attention.mixed`, whose layout is B H T D."""

    def zero(name: str, mixed: Tensor) -> Tensor:
        if not name.endswith("mixed") or max(heads, default=0) >= mixed.size(1):
            raise InputError(
                f"cannot knock out heads {heads} at {name!r}: heads below {mixed.size(1)}, at a point 'mixed'"
            )
        kept = mixed.new_ones(mixed.size(1))
        kept[list(heads)] = 0
        return mixed * kept[:, None, None]

    return zero


def replace_with(value: Tensor) -> Action:
    """Put another value in a point's place."""
    return lambda _, old: value.expand_as(old)
