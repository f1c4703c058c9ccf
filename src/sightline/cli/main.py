"""The program `sightline`: finds the command, and turns what goes wrong into one line and an exit code.

    0  done        1  failed        2  wrong usage or refused input
    130, 143, 129  stopped by Ctrl-C, a request to terminate or a closed terminal; a run has saved its state

Commands import what they need inside their functions: `sightline --help` must answer at once, and torch does not.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from sightline import __version__
from sightline.cli.average import average
from sightline.cli.bench import app as bench
from sightline.cli.chat import chat
from sightline.cli.classify import classify
from sightline.cli.demo import demo
from sightline.cli.embed import embed
from sightline.cli.evaluate import evaluate
from sightline.cli.fill import fill
from sightline.cli.generate import generate
from sightline.cli.info import info
from sightline.cli.inspect import inspect
from sightline.cli.neighbors import neighbors
from sightline.cli.sections import LOOK, TRAIN, USE, Sections
from sightline.cli.serve import serve
from sightline.cli.train import train
from sightline.cli.translate import translate
from sightline.errors import SightlineError
from sightline.runtime import use_threads

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
WORDS: dict[str, tuple[Callable[..., None], ...]] = {
    TRAIN: (demo, train, average),
    USE: (translate, generate, chat, fill, classify, embed, neighbors, serve),
    LOOK: (inspect, evaluate, info),
}
for section, words in WORDS.items():
    for word in words:
        app.command(rich_help_panel=section)(word)
app.add_typer(bench, name="bench", rich_help_panel=LOOK)


def print_version(wanted: bool) -> bool:
    """Print the version and leave."""
    if wanted:
        typer.echo(f"sightline {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def everywhere(
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, metavar="N", help="Use N threads; accepted after any command too.")
    ] = None,
    debug: Annotated[  # noqa: ARG001
        bool, typer.Option("--debug", help="Show the traceback of an error; accepted after any command too.")
    ] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Build, train, run and see through Transformers."""
    if threads is not None:
        use_threads(threads)


def common_first(arguments: Sequence[str]) -> list[str]:
    """Move the options that every command accepts to where they are declared, before the command's name."""
    common, rest = [], []
    pending = iter(arguments)
    for argument in pending:
        if argument == "--":
            rest += [argument, *pending]
        elif argument == "--threads":
            common += [argument, *([value] if (value := next(pending, None)) is not None else [])]
        elif argument in ("--debug", "--version") or argument.startswith("--threads="):
            common.append(argument)
        else:
            rest.append(argument)
    return common + rest


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        run(given)
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        leave_pipe()
        return 1
    except SightlineError as error:
        return failed(str(error), error.exit_code, show=given)
    except Exception as error:
        return failed(f"{type(error).__name__}: {error} (this is a bug; --debug shows where)", 1, show=given)
    return 0


def run(arguments: Sequence[str]) -> None:
    """Run a command and make sure that what it wrote has arrived."""
    try:
        typer.main.get_command(app).main(args=common_first(arguments), prog_name="sightline")
    finally:
        sys.stdout.flush()


def failed(message: str, code: int, *, show: Sequence[str]) -> int:
    """Say in one line what went wrong, after the traceback if it was asked for."""
    if "--debug" in show:
        traceback.print_exc()
    line = "".join(character if character.isprintable() else repr(character)[1:-1] for character in message)
    sys.stderr.write(f"sightline: {line}\n")
    return code


def leave_pipe() -> None:
    """Let nothing more be written to a reader that has gone, not even by the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
