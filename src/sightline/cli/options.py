"""Arguments and options shared by several commands, and the opening of a model as the pipeline a command needs."""

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline

    Kind = TypeVar("Kind", bound=Pipeline)
else:
    Kind = TypeVar("Kind")


ModelFolder = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model folder, run folder, or built-in model (en-de).")
]
Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Input texts; default: the lines of stdin.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
To = Annotated[str | None, typer.Option(metavar="LANG", help="Target language, for example de.")]
From = Annotated[str | None, typer.Option("--from", metavar="LANG", help="Source language.")]
BatchTokens = Annotated[
    int, typer.Option(min=1, metavar="N", help="Batch size in tokens: more is faster and needs more memory.")
]

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Engine that generates: torch; native, one C file with the same results; or native-int8, faster still, "
        "with weights rounded to 8 bits. See info --engines.",
    ),
]

DECODING_OPTIONS: dict[str, Any] = {
    "max_new_tokens": Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Maximum number of tokens to generate.")
    ],
    "temperature": Annotated[
        float | None, typer.Option(metavar="T", help="Sampling temperature: below 1, less random; 0 disables sampling.")
    ],
    "top_k": Annotated[
        int | None,
        typer.Option(min=0, metavar="K", help="Top-k sampling: sample from the K most likely tokens; 0 for all."),
    ],
    "top_p": Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Top-p (nucleus) sampling: sample from the fewest tokens with total probability P."
        ),
    ],
    "min_p": Annotated[
        float | None,
        typer.Option(
            metavar="P", help="Min-p sampling: sample from tokens at least P times as likely as the most likely one."
        ),
    ],
    "beam_size": Annotated[
        int | None,
        typer.Option(
            "--beam", min=1, metavar="K", help="Beam size: number of hypotheses kept at every step; 1 is greedy."
        ),
    ],
    "length_penalty": Annotated[
        float | None,
        typer.Option(
            metavar="A", help="Length penalty: score = log P / ((5 + length) / 6)^A; above 0 favors longer results."
        ),
    ],
    "seed": Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Random seed for sampling: the same seed gives the same text."),
    ],
}
"""The option of each decoding setting; the help is not that of `DecodingSettings`, whose package loads torch."""
SAMPLING = ("max_new_tokens", "temperature", "top_k", "top_p", "min_p", "beam_size", "seed")
"""Settings of commands that continue a text or reply."""
BEAM_SEARCH = ("beam_size", "length_penalty")
"""Settings of commands that translate."""


def with_decoding(*settings: str, after: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the `**decoding` of a command by the options of these settings, listed after another parameter.

    The command receives those that were set, as overrides of the model's decoding settings.
    """
    options = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=DECODING_OPTIONS[name]
        )
        for name in settings
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(*given: Any, **named: Any) -> None:
            decoding = decoding_overrides(**{name: named.pop(name, None) for name in settings})
            command(*given, **named, **decoding)

        return replace_keywords(called, options, after=after)

    return decorate


def decoding_overrides(**options: object) -> dict[str, object]:
    """Return the decoding settings that were set; temperature 0 disables sampling."""
    if options.get("temperature") == 0:
        options |= {"temperature": None, "do_sample": False}
    return drop_unset(**options)


def replace_keywords(
    command: Callable[..., None], options: Sequence[inspect.Parameter], *, after: str | None = None
) -> Callable[..., None]:
    """Give a command the signature that typer reads: `options` after a parameter, or last, in place of its `**`."""
    parameters = [
        parameter
        for parameter in inspect.signature(command).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    names = [parameter.name for parameter in parameters]
    place = len(names) if after is None else names.index(after) + 1
    parameters[place:place] = options
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def drop_unset(**options: object) -> dict[str, object]:
    """Return the options that were set."""
    return {name: value for name, value in options.items() if value is not None}


def open_pipeline(folder: Path, kind: type[Kind], *, engine: str = "torch") -> Kind:
    """Open a model folder as this kind of pipeline; one that names no task may become the usual kind of its family."""
    from sightline.model.registry import interface_of, resolve
    from sightline.tasks import TASKS, load, task_of

    pipeline: Pipeline = load(folder, engine=engine)
    if isinstance(pipeline, kind):
        return pipeline
    reference, config = f"{kind.__module__}:{kind.__qualname__}", pipeline.model.config
    wanted = next(task for task in TASKS.values() if task.pipeline == reference)
    is_usual = resolve(wanted.interfaces[0]) is interface_of(config) and wanted.suits(config)
    if pipeline.task_config is None and is_usual:
        return kind(pipeline.bundle, folder=pipeline.folder)
    task = task_of(pipeline)
    raise RefusedError(
        f"{folder}: this model is not for sightline {wanted.command}: use sightline {task.command if task else 'embed'}"
    )
