"""Files that rows need and that the corpora do not have in this form."""

import re
from pathlib import Path

END_OF_SENTENCE = re.compile(r"(?<= [.!?]) (?=[A-Z\"'“(])")
"""In text whose punctuation stands apart."""


def two_parts_of_shakespeare(data: Path, folder: Path) -> None:
    """The first nine tenths to learn from, the rest to validate on: nanoGPT's cut."""
    text = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    at = int(len(text) * 0.9)
    for name, part in (("train.txt", text[:at]), ("val.txt", text[at:])):
        (folder / name).write_text(part, encoding="utf-8", newline="\n")


def sentences_of_wikitext(data: Path, folder: Path) -> None:
    """A sentence a line, a blank line after an article: what BERT learns to follow one another."""
    for part in ("train", "valid"):
        text = (data / "wikitext2" / f"{part}.raw.txt").read_text(encoding="utf-8")
        lines: list[str] = []
        for paragraph in map(str.strip, text.split("\n")):
            if re.fullmatch(r"= [^=].*[^=] =", paragraph):  # the title of an article, not of a section
                lines.append("")
            elif paragraph and not paragraph.startswith("="):
                lines += END_OF_SENTENCE.split(paragraph)
        (folder / f"wikitext-{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
