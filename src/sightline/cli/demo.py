"""`sightline demo`: the built-in translator, trained while you wait."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the trained model goes, or is.")] = Path("runs/demo"),
    retrain: Annotated[bool, typer.Option("--retrain", help="Train again, though there is a trained model.")] = False,
    serve: Annotated[  # noqa: ARG001 - the studio will listen to it
        bool, typer.Option("--serve/--no-serve", help="Whether to open the studio afterwards, where there is one.")
    ] = True,
) -> None:
    """Train the built-in phrase translator (six languages, any to any), show its score and some translations, draw one.

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
