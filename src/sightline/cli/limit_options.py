"""One command-line option per server limit, generated from `Limits`."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**limits` of a command by one option per field of `Limits`."""
    from sightline.serving.limits import Limits

    fixed = [
        parameter
        for parameter in inspect.signature(command).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation(field)
        )
        for field in dataclasses.fields(Limits)
    ]

    @functools.wraps(command)
    def called(*given: Any, **named: Any) -> None:
        command(*given, **named)

    called.__signature__ = inspect.Signature([*fixed, *options])  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*fixed, *options)}
    return called


def annotation(field: "dataclasses.Field[Any]") -> Any:
    """Return the typer annotation of a limit."""
    kind = int if isinstance(field.default, int) else float
    option = typer.Option(
        field.metadata["flag"], metavar="N", help=field.metadata["help"].capitalize(), rich_help_panel="Limits"
    )
    return Annotated[kind, option]
