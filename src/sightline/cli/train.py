"""`sightline train`: train a model by a recipe."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="Recipe: a TOML file, or a name from --list.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="section.key=value …", help="Overrides of the recipe's settings; --show-config lists them all."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run folder; default: runs/RECIPE, or RECIPE-2, … if that exists."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="N", help="Training time; replaces the length that the recipe sets (training.max_minutes=N)."
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the built-in recipes.")] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", help="Print every setting of the recipe with its value.")
    ] = False,
    overfit: Annotated[
        bool,
        typer.Option("--overfit-batch", help="Overfit a few examples to check that the model can learn, and stop."),
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")] = False,
) -> None:
    """Train a model of your own: a translator, a chat bot, a GPT, a BERT, a classifier.

    \b
    Examples:
      sightline train translation data.train=pairs.tsv
      sightline train language-model data.train=book.txt --minutes 20 --out runs/book
      sightline train --show-config classification
      sightline train --resume --out runs/book
    """
    if recipe is not None and "=" in recipe:  # no recipe: the first argument is an override
        overrides = [recipe, *(overrides or [])]
        recipe = None
    if minutes is not None:
        overrides = [*(overrides or []), f"training.max_minutes={minutes!r}"]
    if list_:
        print_recipes()
    elif show_config:
        print_config(require_recipe(recipe), overrides or [])
    elif overfit:
        check_overfit(require_recipe(recipe), overrides or [], out)
    else:
        from sightline.runs import train as run_train
        from sightline.training.report import reporter_for

        result = run_train(
            recipe,
            overrides or [],
            out=out,
            resume=resume,
            reporter=reporter_for(sys.stderr),
            tensorboard=tensorboard,
        )
        typer.echo(result.folder)
        raise typer.Exit(result.exit_code)


def require_recipe(recipe: str | None) -> str:
    """Return the recipe, or refuse a command without one."""
    if recipe is None:
        raise typer.BadParameter("give a recipe: sightline train --list lists them")
    return recipe


def print_recipes() -> None:
    """Print the built-in recipes."""
    from sightline.runs.recipe import list_recipes, read_recipe

    recipes = [read_recipe(name) for name in sorted(list_recipes())]
    width = max(len(recipe.name) for recipe in recipes)
    for recipe in recipes:
        typer.echo(f"{recipe.name:{width}}  {recipe.description}")


def print_config(name: str, overrides: list[str]) -> None:
    """Print every setting of a recipe, its value, and its meaning."""
    from sightline.runs.recipe import apply_overrides, read_recipe
    from sightline.runs.show_config import config_lines

    for line in config_lines(apply_overrides(read_recipe(name), overrides)):
        typer.echo(line)


def check_overfit(recipe: str, overrides: list[str], out: Path | None) -> None:
    """Overfit a few examples and print whether that worked."""
    from sightline.runs import overfit_batch

    found = overfit_batch(recipe, overrides, out=out)
    typer.echo(found.describe())
    raise typer.Exit(0 if found.passed else 1)
