"""`sightline info`: describe a model folder, or the engines of this machine."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.bundle import Bundle


def info(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="Model folder, run folder, or built-in model (en-de).")
    ] = None,
    engines: Annotated[
        bool, typer.Option("--engines", help="List the engines that generate text, and what each can use here.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Describe a model: what it does, its scores on the validation set and its data; then architecture and files.

    Checks every file of its folder. With --engines and no model, describe the engines instead.

    Example: sightline info runs/en-de
    """
    if (model is None) != engines:
        raise InputError("give either a MODEL or --engines")
    if model is None:
        facts = describe_engines()
    else:
        from sightline.bundle import load

        facts = collect_facts(load(model), model)
    if as_json:
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        print_table(facts)
    else:
        typer.echo("\n".join(f"{name}: {value}" for name, value in flatten_facts(facts)))


def describe_engines() -> dict[str, Any]:
    """Describe each engine: whether it can be used here, and with what; the native one is compiled if need be."""
    from importlib.metadata import version

    from sightline.engine import ENGINES
    from sightline.engine.native.compiler import load_library
    from sightline.engine.native.library import open_library
    from sightline.engine.registry import NATIVE

    loaded = load_library()
    native: dict[str, Any] = {"available": loaded.library is not None}
    if loaded.library is None:
        native["reason"] = loaded.reason
    else:
        library = open_library()
        native |= {
            "library": str(loaded.path),
            "instruction_sets": library.supported,
            "used": library.compiled[library.choose()],
        }
    known: dict[str, Any] = {"torch": {"available": True, "version": version("torch")}}
    known |= {name: native for name, row in ENGINES.items() if row.engine == NATIVE}
    return {name: known.get(name, {"available": True}) for name in ENGINES}


def collect_facts(bundle: "Bundle", folder: Path) -> dict[str, Any]:
    """Collect the facts about a model as a JSON object."""
    import torch

    from sightline import __version__
    from sightline.bundle.folder import FILE_NAMES, find_model_folder
    from sightline.config import to_mapping
    from sightline.model.registry import family_of
    from sightline.storage import current_folder

    parts: dict[str, int] = {}
    for name, parameter in bundle.model.named_parameters():
        part = name.partition(".")[0]
        parts[part] = parts.get(part, 0) + parameter.numel()
    tokenizer, files = bundle.tokenizer, current_folder(find_model_folder(folder))
    return {
        **describe_training(bundle),
        "architecture": family_of(bundle.model.config).name,
        "task_config": bundle.task_config and to_mapping(bundle.task_config),
        "parameters": {"all": sum(parts.values()), **parts},
        "model": to_mapping(bundle.model.config),
        "vocabulary": tokenizer and {"size": tokenizer.vocab_size, "special_tokens": tokenizer.roles},
        "generation": to_mapping(bundle.generation),
        "files": {name: (files / name).stat().st_size for name in FILE_NAMES if (files / name).exists()},
        "versions": {"folder": bundle.version, "sightline": __version__, "torch": torch.__version__},
    }


def describe_training(bundle: "Bundle") -> dict[str, Any]:
    """Return what a model does, how well and from what data; entries that its folder does not tell are left out."""
    from sightline.tasks.registry import TASKS, infer_task

    task_config, facts = bundle.task_config, bundle.training
    task = TASKS.get(task_config.task) if task_config else infer_task(bundle.model.config)
    names = ("files", "n_examples", "n_validation", "step")
    data = {name: getattr(facts, name) for name in names if getattr(facts, name) not in (None, ())}
    calibration = facts.calibration
    entries = {
        "does": task and task.describe(task_config, facts),
        "scores": dict(facts.scores),
        "trained_on": data,
        "confidence": calibration
        and f"{sum(one.count for one in calibration.bins):,} validation texts, right if {calibration.criterion}",
    }
    return {name: value for name, value in entries.items() if value}


def flatten_facts(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Flatten the facts to rows of name and value."""
    from sightline.bundle.folder import format_value

    rows = []
    for name, value in facts.items():
        entries = value if isinstance(value, dict) else {"": "none" if value is None else value}
        for key, entry in entries.items():
            words = ", ".join(f"{k} {v}" for k, v in entry.items()) if isinstance(entry, dict) else format_value(entry)
            rows.append((f"{name} {key}".strip(), words + (" bytes" if name == "files" else "")))
    return rows


def print_table(facts: dict[str, Any]) -> None:
    """Print the facts as a table, for terminals."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, words in flatten_facts(facts):
        table.add_row(Text(name), Text(words))
    Console().print(table)
