"""The commands of the documents, made small enough to run in a test."""

import json
import re
import shlex
import subprocess
from pathlib import Path

from torch.distributed.run import get_args_parser

from runs.small import LAYERS, TINY
from sightline.cli.main import main

PROGRAMS = ("sightline ", "torchrun ", "awk ")
WITHOUT_MODEL = {"--list", "--show-config"}
WORDS = ("red", "green", "blue", "one", "two", "three", "cat", "dog", "bird")


def find_commands(text: str) -> list[str]:
    """Return the commands in the fenced blocks of a document, in order; a prompt before one is left out."""
    lines = [line for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith(PROGRAMS)]


def shrink(command: str) -> list[str]:
    """Return the arguments of a command after `sightline`; training gets a tiny model, a few steps and no minutes."""
    parts = shlex.split(command, comments=True)
    arguments = parts[parts.index("sightline") + 1 :]
    if arguments[0] != "train" or WITHOUT_MODEL & set(arguments):
        return arguments
    arguments = [argument for argument in arguments if not argument.startswith("training.max_steps")]
    if "--minutes" in arguments:
        at = arguments.index("--minutes")
        del arguments[at : at + 2]
    if "--resume" in arguments:
        return arguments
    layers = LAYERS.get(arguments[1], {"model.n_layers": 1})
    small = {**TINY, **layers, "training.max_steps": 3, "training.warmup_steps": 1, "training.threads": 1}
    arguments[2:2] = [f"{name}={value}" for name, value in small.items()]
    return arguments


def run(command: str) -> int:
    """Run a command, ours in this process; return its exit code.

    Of torchrun, the options are checked, and what each process does is done by this one: processes that find each other
    over ports have tests of their own (tests/runs/test_two_ranks.py).
    """
    if command.startswith("awk"):
        return subprocess.run(command, shell=True, check=False).returncode  # noqa: S602 - our own documents
    if not command.startswith("torchrun"):
        return main(shrink(command))
    launched = get_args_parser().parse_args(shlex.split(command, comments=True)[1:])
    assert (launched.module, launched.training_script) == (True, "sightline")
    return main(shrink(command))


def write_corpora(n: int = 230) -> None:
    """Write the files that the documents name into the current folder."""
    first = [f"{WORDS[i % 9]} {WORDS[i * 2 % 9]} {i}" for i in range(n)]
    second = [f"{text.upper()}!" for text in first]
    files = {
        "pairs.tsv": [f"{a}\t{b}" for a, b in zip(first, second, strict=True)],
        "train.en": first,
        "train.de": second,
        "dialogues.jsonl": [json.dumps({"turns": [a, b, a]}) for a, b in zip(first, second, strict=True)],
        "book.txt": first,
        "text.txt": [text if i % 5 else f"{text}\n" for i, text in enumerate(first)],
        "labeled.tsv": [f"{text}\t{WORDS[i % 3]}" for i, text in enumerate(first)],
        "two.tsv": [
            f"{a}\t{b}\t{'yes' if i % 2 else 'no'}" for i, (a, b) in enumerate(zip(first, second, strict=True))
        ],
        "words.jsonl": [json.dumps({"tokens": text.split(), "labels": ["COLOR", "THING", "NUM"]}) for text in first],
    }
    for name, lines in files.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
