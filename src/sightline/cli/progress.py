"""Progress bar on stderr, only if that is a terminal and the results go elsewhere."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.cli.texts import Text


def should_show() -> bool:
    """Return whether a user watches stderr but neither sees the results nor types the input."""
    return sys.stderr.isatty() and not sys.stdout.isatty() and not sys.stdin.isatty()


def show_progress(blocks: "Iterator[list[Text]]") -> "Iterator[list[Text]]":
    """Yield the blocks and show how many lines are done: a block is done when the next one is requested."""
    if not should_show():
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # By default, rich would redirect stdout to the console of the bar.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("reading", total=input_size())
        for block in blocks:
            yield block
            if block:
                bar.update(task, advance=n_bytes(block), description=f"{block[-1].number:,} lines")


def n_bytes(block: "Sequence[Text]") -> int:
    """Return the size of some lines in the input file."""
    return sum(len(text.text.encode("utf-8", errors="replace")) + 1 for text in block)


def input_size() -> int | None:
    """Return the size of stdin in bytes, if it is a file."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


@contextmanager
def show_status(what: str) -> Iterator[None]:
    """Show on a terminal what is being done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
