"""Prepare files that rows need from the corpora."""

import re
from pathlib import Path

END_OF_SENTENCE = re.compile(r"(?<= [.!?]) (?=[A-Z\"'“(])")
"""In text with tokenized punctuation."""


def split_shakespeare(data: Path, folder: Path) -> None:
    """Write the first nine tenths as training set and the rest as validation set, as nanoGPT does."""
    text = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    at = int(len(text) * 0.9)
    for name, part in (("train.txt", text[:at]), ("val.txt", text[at:])):
        (folder / name).write_text(part, encoding="utf-8", newline="\n")


def split_wikitext_sentences(data: Path, folder: Path) -> None:
    """Write one sentence per line and a blank line between articles, for next-sentence prediction."""
    for part in ("train", "valid"):
        text = (data / "wikitext2" / f"{part}.raw.txt").read_text(encoding="utf-8")
        lines: list[str] = []
        for paragraph in map(str.strip, text.split("\n")):
            if re.fullmatch(r"= [^=].*[^=] =", paragraph):  # the title of an article, not of a section
                lines.append("")
            elif paragraph and not paragraph.startswith("="):
                lines += END_OF_SENTENCE.split(paragraph)
        (folder / f"wikitext-{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
