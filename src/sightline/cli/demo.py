"""`sightline demo`: the built-in translator, trained while you wait."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from socket import socket


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the trained model goes, or is.")] = Path("runs/demo"),
    retrain: Annotated[bool, typer.Option("--retrain", help="Train again, though there is a trained model.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve/--no-serve", help="Whether to open the studio afterwards, until Ctrl-C.")
    ] = True,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open it in your browser.")] = True,
) -> None:
    """Train the built-in phrase translator (six languages, any to any), show its score, and open the studio on it.

    \b
    Examples:
      sightline demo
      sightline demo --no-serve --out runs/phrases
    """
    from sightline.run.demo import demo as run_demo
    from sightline.run.demo import tell
    from sightline.training.report import reporter_for

    found = run_demo(out, reporter_for(sys.stderr), retrain=retrain)
    if found.exit_code:
        raise typer.Exit(found.exit_code)
    tell(found, typer.echo)
    if serve:
        open_studio(found.folder, browser=browser)


def open_studio(folder: Path, *, browser: bool) -> None:
    """Show the model of the demo at work on its first phrase, until Ctrl-C."""
    from urllib.parse import urlencode

    from sightline.cli.serve import run_studio
    from sightline.pipelines import load
    from sightline.run.demo import BEAM, SHOWN
    from sightline.serving import ServingSettings

    text, to = SHOWN[0]
    view = "#/watch?" + urlencode({"model": "demo", "text": text, "to": to, "beam": BEAM})
    with usual_port() as taken:
        models = {"demo": load(folder)}
        run_studio(taken, ServingSettings(), models, runs=folder.resolve().parent, browser=browser, view=view)


def usual_port() -> "socket":
    """Return a socket on the port of `sightline serve`, or on a free one where that is taken."""
    from sightline.errors import SightlineError
    from sightline.serving import ServingSettings, bind

    try:
        return bind(ServingSettings())
    except SightlineError:
        return bind(ServingSettings(port=0))
