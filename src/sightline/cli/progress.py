"""How far a long work has come: a bar on stderr where that is a terminal and the results go elsewhere, else nothing."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.cli.texts import Text


def wanted() -> bool:
    """Tell whether somebody watches who does not see the results come, or types them."""
    return sys.stderr.isatty() and not sys.stdout.isatty() and not sys.stdin.isatty()


def shown(blocks: "Iterator[list[Text]]") -> "Iterator[list[Text]]":
    """Pass on blocks of texts, showing how many were worked on: each is done when the next is asked for."""
    if not wanted():
        yield from blocks
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # Left to itself, rich would lead what is printed meanwhile to where the bar is.
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("reading", total=input_size())
        for block in blocks:
            yield block
            if block:
                bar.update(task, advance=n_bytes(block), description=f"{block[-1].number:,} lines")


def n_bytes(block: "Sequence[Text]") -> int:
    """Return how much of a file some lines are."""
    return sum(len(text.text.encode("utf-8", errors="replace")) + 1 for text in block)


def input_size() -> int | None:
    """Return how many bytes stdin has, if it is a file."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Say on a terminal what takes so long."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
