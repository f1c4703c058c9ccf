"""What checks types and shapes while tests run.

Of a list, beartype by itself looks at an item drawn by `random`, also in the thread of a server that lives through many
tests, and Hypothesis finds that somebody drew from `random` inside a strategy. Here it is always the first item.

jaxtyping's own decorator binds the arguments of every call anew and checks them twice, for the sake of its messages:
that takes as long as all the rest. Here beartype checks each value once; jaxtyping only remembers, for the time of a
call, which size each letter stands for.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_random=False, violation_type=jaxtyping.TypeCheckError))
thoroughly = jaxtyping.jaxtyped


def parts_of(hint: object) -> list[object]:
    """Return a hint and all that it is made of."""
    return [hint, *(part for argument in get_args(hint) for part in parts_of(argument))]


def checked(function: Any = None, *, typechecker: Any) -> Any:
    """Stand in for jaxtyping's decorator, which the import hook puts on everything."""
    if function is None:
        return functools.partial(checked, typechecker=typechecker)
    if dataclasses.is_dataclass(function):
        function.__init__ = checked(function.__init__, typechecker=typechecker)
        return function
    if not inspect.isfunction(function):
        return thoroughly(function, typechecker=typechecker)
    parts = [part for hint in function.__annotations__.values() for part in parts_of(hint)]
    if any(isinstance(part, str) for part in parts):  # a class that is not there yet, and may never be
        return thoroughly(function, typechecker=typechecker)
    shapes = any(inspect.isclass(part) and issubclass(part, jaxtyping.AbstractArray) for part in parts)
    asks = "isinstance" in function.__code__.co_names  # perhaps about a shape, in letters of its own
    return with_sizes(check(function)) if shapes or asks else check(function)


def with_sizes(function: Callable[..., object]) -> Callable[..., object]:
    """Let a letter stand for one size during each call."""

    @functools.wraps(function)
    def instead(*args: object, **kwargs: object) -> object:
        with thoroughly("context"):
            return function(*args, **kwargs)

    return instead


def check_quickly() -> None:
    """Let the import hook use this instead of jaxtyping's own, for all that is imported from now on."""
    jaxtyping.jaxtyped = checked
