"""The program `sightline`: runs a command, and turns an error into one line and an exit code.

    0  done        1  failed        2  wrong usage or invalid input
    130, 143, 129  interrupted (Ctrl-C), terminated or hung up; a training run has saved its state

Commands import what they need inside their functions, so that `sightline --help` does not wait for torch.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sightline import __version__
from sightline.cli.average import average
from sightline.cli.bench import app as bench
from sightline.cli.chat import chat
from sightline.cli.classify import classify
from sightline.cli.clean import clean
from sightline.cli.demo import demo
from sightline.cli.embed import embed
from sightline.cli.evaluate import evaluate
from sightline.cli.fill import fill
from sightline.cli.generate import generate
from sightline.cli.info import info
from sightline.cli.inspect import inspect
from sightline.cli.neighbors import neighbors
from sightline.cli.serve import serve
from sightline.cli.train import train
from sightline.cli.translate import translate
from sightline.errors import InputError, RefusedError, SightlineError
from sightline.renames import OPTIONS
from sightline.runtime import (
    SPIN_COUNT,
    TRAINING_SPIN_COUNT,
    DeviceName,
    keep_defaults,
    limit_spinning,
    set_default_device,
    set_default_threads,
)

OTHER_COMMANDS = "Commands"
"""Heading of commands without one."""
MAX_SUMMARY = 200
"""Maximum length of a command's summary in characters: long ones are wrapped, not cut."""


class Sections(TyperGroup):
    """Lists commands by the `rich_help_panel` they were registered with."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list per heading."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands:
            heading = getattr(command, "rich_help_panel", None)
            row = (name.ljust(width), command.get_short_help_str(MAX_SUMMARY))
            sections.setdefault(heading if isinstance(heading, str) else OTHER_COMMANDS, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="sightline",
    cls=Sections,
    help="Build, train, run and see through Transformers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
TRAIN = "Train"
USE = "Use a model"
INSPECT = "Inspect and evaluate"
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    TRAIN: (demo, clean, train, average),
    USE: (translate, generate, chat, fill, classify, embed, neighbors, serve),
    INSPECT: (inspect, evaluate, info),
}
"""The commands by the heading under which they are listed."""
for section, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=section)(command)
app.add_typer(bench, name="bench", rich_help_panel=INSPECT)
TRAINING_COMMANDS = {command.__name__ for command in (demo, train)}


def print_version(wanted: bool) -> bool:
    """Print the version and exit."""
    if wanted:
        typer.echo(f"sightline {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def common_options(
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=1024, metavar="N", help="Number of CPU threads; also accepted after the command."),
    ] = None,
    device: Annotated[
        DeviceName,
        typer.Option(help="Device to compute on; auto: a GPU if there is one; also accepted after the command."),
    ] = "auto",
    debug: Annotated[  # noqa: ARG001
        bool, typer.Option("--debug", help="Show the traceback of an error; also accepted after the command.")
    ] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Build, train, run and see through Transformers."""
    if threads is not None:
        set_default_threads(threads)
    if device != "auto":
        set_default_device(device)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    limit_spinning(TRAINING_SPIN_COUNT if TRAINING_COMMANDS & set(given) else SPIN_COUNT)  # before torch is imported
    try:
        with keep_defaults():
            run(given)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        discard_stdout()
        return 1
    except SightlineError as error:
        return report_failure(message_of(error), error.exit_code, arguments=given)
    except Exception as error:
        return report_failure(
            f"{type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, arguments=given
        )
    return 0


def run(arguments: Sequence[str]) -> None:
    """Run a command and flush its output."""
    for option in renamed_options(arguments):
        raise RefusedError(f"no such option: {option} (did you mean {OPTIONS[option]}?)")
    try:
        typer.main.get_command(app).main(args=move_common_options_first(arguments), prog_name="sightline")
    finally:
        sys.stdout.flush()


def renamed_options(arguments: Sequence[str]) -> list[str]:
    """Return the options that had another name in 0.1.0; arguments after `--` are text."""
    names = (argument.partition("=")[0] for argument in takewhile(lambda argument: argument != "--", arguments))
    return [name for name in names if name in OPTIONS]


COMMON_WITH_VALUE = ("--threads", "--device")
"""Options of every command that have a value."""


def move_common_options_first(arguments: Sequence[str]) -> list[str]:
    """Move the options that every command accepts to where they are declared, before the command's name."""
    common, rest = [], []
    pending = iter(arguments)
    for argument in pending:
        if argument == "--":
            rest += [argument, *pending]
        elif argument in COMMON_WITH_VALUE:
            common += [argument, *([value] if (value := next(pending, None)) is not None else [])]
        elif argument in ("--debug", "--version") or argument.partition("=")[0] in COMMON_WITH_VALUE:
            common.append(argument)
        else:
            rest.append(argument)
    return common + rest


def message_of(error: SightlineError) -> str:
    """Return the message of an error, naming the argument at fault as an option: `from_` is --from here."""
    if isinstance(error, InputError) and error.option is not None:
        return f"{option_name(error.option)}: {error.reason}"
    if isinstance(error, RefusedError) and error.setting is not None and "." not in error.setting:
        return error.describe(option_name(error.setting))  # an argument of a function, not a setting of a recipe
    return str(error)


def option_name(argument: str) -> str:
    """Return the option that sets an argument."""
    shorter = {"beam_size": "beam", "max_new_tokens": "max-tokens"}
    return f"--{shorter.get(argument, argument.rstrip('_').replace('_', '-'))}"


def report_failure(message: str, code: int, *, arguments: Sequence[str]) -> int:
    """Print an error as one line, after the traceback with --debug, and return the exit code."""
    if "--debug" in arguments:
        traceback.print_exc()
    line = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    sys.stderr.write(f"sightline: {line}\n")
    return code


def discard_stdout() -> None:
    """Send further output nowhere: the reader has closed the pipe, and even the interpreter's last flush would fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
