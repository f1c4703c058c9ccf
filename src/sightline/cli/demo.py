"""`sightline demo`: train the built-in phrase translator and open the studio."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from socket import socket


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run folder of the demo model.")] = Path("runs/demo"),
    retrain: Annotated[bool, typer.Option("--retrain", help="Train again even if there is a trained model.")] = False,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Open the studio afterwards, until Ctrl-C.")] = True,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the studio in your browser.")] = True,
) -> None:
    """Train the phrase translator (six languages, any to any), show its score, and open the studio.

    The studio has two models: the one that was just trained, and the built-in translator of sentences, en-de.

    \b
    Examples:
      sightline demo
      sightline demo --no-serve --out runs/phrases
    """
    from sightline.runs.demo import demo as run_demo
    from sightline.runs.demo import print_demo
    from sightline.training.report import reporter_for

    found = run_demo(out, reporter_for(sys.stderr), retrain=retrain)
    if found.exit_code:
        raise typer.Exit(found.exit_code)
    print_demo(found, typer.echo)
    if serve:
        open_studio(found.folder, browser=browser)


def open_studio(folder: Path, *, browser: bool) -> None:
    """Open the studio on a sentence for the built-in translator, with the demo model beside it, until Ctrl-C."""
    from urllib.parse import urlencode

    from sightline.cli.serve import run_studio
    from sightline.runs.demo import BEAM, BUILTIN, SENTENCES
    from sightline.serving.http import ServingSettings
    from sightline.tasks import load

    view = "#/watch?" + urlencode({"model": BUILTIN, "text": SENTENCES[0], "beam": BEAM})
    with bind_default_port() as taken:
        models = {BUILTIN: load(BUILTIN), "demo": load(folder)}
        run_studio(taken, ServingSettings(), models, runs=folder.resolve().parent, browser=browser, view=view)


def bind_default_port() -> "socket":
    """Return a socket on the default port of `sightline serve`, or on a free one if that is in use."""
    from sightline.errors import SightlineError
    from sightline.serving.http import ServingSettings, bind

    try:
        return bind(ServingSettings())
    except SightlineError:
        return bind(ServingSettings(port=0))
