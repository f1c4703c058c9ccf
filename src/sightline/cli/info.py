"""`sightline info`: what is in a model folder."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sightline.bundle import Bundle


def info(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Say what is in a model folder, after checking every file of it.

    Example: sightline info runs/en-de
    """
    from sightline.bundle import load

    facts = facts_of(load(model), model)
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        print_table(facts)
    else:
        typer.echo("\n".join(f"{name}: {value}" for name, value in rows_of(facts)))


def facts_of(bundle: "Bundle", folder: Path) -> dict[str, Any]:
    """Collect what there is to say about a model, ready for JSON."""
    import torch

    from sightline import __version__
    from sightline.bundle.atomic import place_of
    from sightline.bundle.source import FILE_NAMES, model_place
    from sightline.model.registry import architecture_of
    from sightline.settings import to_mapping

    parts: dict[str, int] = {}
    for name, parameter in bundle.model.named_parameters():
        part = name.partition(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    tokenizer, place = bundle.tokenizer, place_of(model_place(folder))
    return {
        "architecture": architecture_of(bundle.model.config),
        "purpose": bundle.purpose and to_mapping(bundle.purpose),
        "parameters": {"all": sum(parts.values()), **parts},
        "model": to_mapping(bundle.model.config),
        "vocabulary": tokenizer and {"size": tokenizer.vocab_size, "special_tokens": tokenizer.roles},
        "generation": to_mapping(bundle.generation),
        "files": {name: (place / name).stat().st_size for name in FILE_NAMES if (place / name).exists()},
        "versions": {"folder": bundle.version, "sightline": __version__, "torch": torch.__version__},
    }


def rows_of(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Flatten the facts to lines: a name and what is to be said of it."""
    from sightline.bundle.card import in_words

    rows = []
    for name, value in facts.items():
        entries = value if isinstance(value, dict) else {"": "none" if value is None else value}
        for key, entry in entries.items():
            words = ", ".join(f"{k} {v}" for k, v in entry.items()) if isinstance(entry, dict) else in_words(entry)
            rows.append((f"{name} {key}".strip(), words + (" bytes" if name == "files" else "")))
    return rows


def print_table(facts: dict[str, Any]) -> None:
    """Show the facts on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, words in rows_of(facts):
        table.add_row(Text(name), Text(words))
    Console().print(table)
