"""`make docs-figures`: draw docs/figures anew, write the tables of docs/walkthrough.md, and check its sentences."""

import json
import sys
from pathlib import Path

import torch

from making.chapter import untrue, woven
from making.drawings import FIGURES, draw_all
from making.facts import facts, tables
from making.story import story_of
from sightline.errors import SightlineError

DOCS = Path(__file__).parents[1]
CHAPTER, PICTURES = DOCS / "walkthrough.md", DOCS / "figures"
NUMBERS = PICTURES / "numbers.json"


def main(run: Path) -> int:
    """Make everything from the model of a run; return 1 if sentences of the chapter are no longer true."""
    torch.set_num_threads(1)  # sums in one order, so that the numbers are the same each time
    story = story_of(run)
    draw_all(story, PICTURES)
    true = facts(story)
    NUMBERS.write_text(json.dumps(true, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = woven(CHAPTER.read_text(encoding="utf-8"), tables(story))
    CHAPTER.write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {len(FIGURES)} figures, numbers.json and the tables of {CHAPTER.name}\n")
    stale = untrue(text, [number for group in true.values() for number in group.values()])
    if stale:
        sys.stderr.write(f"{CHAPTER}: not true of this model any more: {', '.join(stale)} (see {NUMBERS})\n")
    return 1 if stale else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(Path(sys.argv[1])))
    except SightlineError as error:
        raise SystemExit(f"docs-figures: {error}") from None
