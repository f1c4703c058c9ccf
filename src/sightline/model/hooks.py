"""Named hook points: read or change any activation of a model.

Models pass every interesting value through their hooks, `x = hooks("residual", x)`, under a dotted name such as
`decoder.2.cross_attention.weights` (docs/shapes.md lists them all). `NO_HOOKS`, the default, returns every value as it
is. `Hooks` act where one of their patterns matches; attention leaves its fused kernel only in layers where a value is
hooked that the kernel never computes.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import Tensor

from sightline.errors import InputError

Action = Callable[[str, Tensor], Tensor | None]
"""Takes a point's full name and value; returns the value to continue with, or None to leave it unchanged."""


class NoHooks:
    """The default hooks: they watch and change nothing."""

    def within(self, scope: object) -> "NoHooks":  # noqa: ARG002 - same signature as Hooks
        """Return the hooks for a part of the model."""
        return self

    def watches(self, *points: str) -> bool:  # noqa: ARG002
        """Tell whether any of these points is watched here."""
        return False

    def __call__(self, point: str, value: Tensor) -> Tensor:  # noqa: ARG002
        """Run the actions of a point on its value; return the value to continue with."""
        return value


NO_HOOKS = NoHooks()


class Hooks(NoHooks):
    """Calls actions at the points whose names match their patterns (`*` matches anything, dots included)."""

    def __init__(self, actions: Mapping[str, Action | Sequence[Action]]) -> None:
        self.actions = [
            (pattern, tuple(action) if isinstance(action, Sequence) else (action,))
            for pattern, action in actions.items()
        ]
        self.prefix = ""
        self.matches: dict[str, tuple[Action, ...]] = {}  # full name → its actions; shared with inner scopes

    def within(self, scope: object) -> "Hooks":
        """Return the hooks for a part of the model."""
        inner = Hooks({})
        inner.actions, inner.matches, inner.prefix = self.actions, self.matches, f"{self.prefix}{scope}."
        return inner

    def at(self, point: str) -> tuple[Action, ...]:
        """Return the actions for a point of this scope, in the order of their patterns."""
        name = self.prefix + point
        if name not in self.matches:
            matching = (actions for pattern, actions in self.actions if fnmatchcase(name, pattern))
            self.matches[name] = tuple(action for actions in matching for action in actions)
        return self.matches[name]

    def watches(self, *points: str) -> bool:
        """Tell whether any of these points is watched here."""
        return any(self.at(point) for point in points)

    def unmatched(self) -> list[str]:
        """Return the patterns that matched no point so far: after a whole forward pass, misspelled ones."""
        return [pattern for pattern, _ in self.actions if not any(fnmatchcase(name, pattern) for name in self.matches)]

    def __call__(self, point: str, value: Tensor) -> Tensor:
        """Run the actions of a point on its value; return the value to continue with."""
        for action in self.at(point):
            changed = action(self.prefix + point, value)
            value = value if changed is None else changed
        return value


class ActivationCache(Hooks):
    """Hooks that keep the values they see, after any interventions: `cache["encoder.0.self_attention.weights"]`."""

    def __init__(self, *patterns: str, interventions: Mapping[str, Action | Sequence[Action]] | None = None) -> None:
        self.seen: dict[str, Tensor] = {}
        super().__init__(interventions or {})
        self.actions += [(pattern, (self.keep,)) for pattern in patterns]

    def keep(self, name: str, value: Tensor) -> None:
        """Store the newest value of a point, detached from the graph."""
        self.seen[name] = value.detach().clone()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.seen:
            near = difflib.get_close_matches(name, self.seen, n=3)
            raise KeyError(f"no point {name!r} was recorded; nearest: {', '.join(near) or 'none'}")
        return self.seen[name]


def ablate_heads(*heads: int) -> Action:
    """Return an action that zeroes these heads at a point `…attention.head_outputs`, B H T D."""

    def zero(name: str, head_outputs: Tensor) -> Tensor:
        n_heads = head_outputs.size(1)
        if not name.endswith("head_outputs") or max(heads, default=0) >= n_heads:
            raise InputError(
                f"cannot ablate heads {heads} at {name!r}: give heads below {n_heads} and a point 'head_outputs'"
            )
        kept = head_outputs.new_ones(n_heads)
        kept[list(heads)] = 0
        return head_outputs * kept[:, None, None]

    return zero


def replace_with(value: Tensor) -> Action:
    """Return an action that replaces the value of a point (activation patching)."""
    return lambda _, old: value.expand_as(old)
