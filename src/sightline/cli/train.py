"""`sightline train`: carry a recipe out."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A TOML file, or the name of a recipe of --list.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="section.key=value …", help="Settings in place of the recipe's; --explain lists them."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder of the run; else runs/RECIPE, or RECIPE-2, … where that is taken."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the recipes that come with Sightline.")] = False,
    explained: Annotated[bool, typer.Option("--explain", help="Print every option of the recipe.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Does it learn? Learn a few examples by heart, and train no further.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write the curves for TensorBoard too.")] = False,
) -> None:
    """Train a model of your own: a translator, a chat bot, a GPT, a BERT, a classifier.

    \b
    Examples:
      sightline train translation data.train=pairs.tsv
      sightline train language-model data.train=book.txt training.max_minutes=20 --out runs/book
      sightline train --explain classification
      sightline train --resume --out runs/book
    """
    if recipe is not None and "=" in recipe:  # there is no recipe, the first override stands in its place
        overrides = [recipe, *(overrides or [])]
        recipe = None
    if listed:
        list_recipes()
    elif explained:
        explain(needed(recipe), overrides or [])
    elif check:
        does_it_learn(needed(recipe), overrides or [], out)
    else:
        from sightline.run import train as carry_out
        from sightline.training.report import reporter_for

        result = carry_out(
            recipe,
            overrides or [],
            out=out,
            resume=resume,
            reporter=reporter_for(sys.stderr),
            tensorboard=tensorboard,
        )
        typer.echo(result.folder)
        raise typer.Exit(result.exit_code)


def needed(recipe: str | None) -> str:
    """Return the recipe, or say that one must be named."""
    if recipe is None:
        raise typer.BadParameter("name a recipe: sightline train --list shows them")
    return recipe


def list_recipes() -> None:
    """Print the recipes that come with Sightline."""
    from sightline.run.recipe import read_recipe, shipped

    recipes = [read_recipe(name) for name in sorted(shipped())]
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        typer.echo(f"{recipe.name:{width}}  {recipe.description}")


def explain(name: str, overrides: list[str]) -> None:
    """Print a recipe in full: every option, its value here, and what it means."""
    from sightline.run.explain import explanation
    from sightline.run.overrides import changed
    from sightline.run.recipe import read_recipe

    for line in explanation(changed(read_recipe(name), overrides)):
        typer.echo(line)


def does_it_learn(recipe: str, overrides: list[str], out: Path | None) -> None:
    """Learn a few examples by heart and say whether that went well."""
    from sightline.run import check

    found = check(recipe, overrides, out=out)
    typer.echo(found.sentence())
    raise typer.Exit(0 if found.passed else 1)
