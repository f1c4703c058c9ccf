"""One command-line option per server limit, generated from `Limits`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sightline.cli.options import replace_keywords


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**limits` of a command by one option per field of `Limits`."""
    from sightline.serving.limits import Limits

    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation(field)
        )
        for field in dataclasses.fields(Limits)
    ]

    @functools.wraps(command)
    def called(*given: Any, **named: Any) -> None:
        command(*given, **named)

    return replace_keywords(called, options)


def annotation(field: "dataclasses.Field[Any]") -> Any:
    """Return the typer annotation of a limit."""
    kind = int if isinstance(field.default, int) else float
    option = typer.Option(
        field.metadata["flag"], metavar="N", help=field.metadata["help"].capitalize(), rich_help_panel="Limits"
    )
    return Annotated[kind, option]
