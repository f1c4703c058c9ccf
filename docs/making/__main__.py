"""`make docs-figures`: redraw docs/figures, rewrite the tables of docs/walkthrough.md, and check its numbers."""

import json
import sys
from pathlib import Path

import torch

from making.chapter import find_stale_numbers, replace_tables
from making.drawings import FIGURES, draw_all
from making.example import load_example
from making.facts import collect_facts, tables
from sightline.errors import SightlineError

DOCS = Path(__file__).parents[1]
CHAPTER, PICTURES = DOCS / "walkthrough.md", DOCS / "figures"
NUMBERS = PICTURES / "numbers.json"


def main(run: Path) -> int:
    """Make everything from the model of a run; return 1 if numbers in the text are out of date."""
    torch.set_num_threads(1)  # sum in one order: the numbers are the same each time
    example = load_example(run)
    draw_all(example, PICTURES)
    numbers = collect_facts(example)
    NUMBERS.write_text(json.dumps(numbers, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = replace_tables(CHAPTER.read_text(encoding="utf-8"), tables(example))
    CHAPTER.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {len(FIGURES)} figures, numbers.json and the tables of {CHAPTER.name}\n")
    stale = find_stale_numbers(text, [number for group in numbers.values() for number in group.values()])
    if stale:
        sys.stderr.write(f"{CHAPTER}: numbers that do not match this model: {', '.join(stale)} (see {NUMBERS})\n")
    return 1 if stale else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(Path(sys.argv[1])))
    except SightlineError as error:
        raise SystemExit(f"docs-figures: {error}") from None
