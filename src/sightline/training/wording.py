"""The numbers and texts of a run as people read them, in one line each. Knows no screen and no file.

Texts that models and corpora made are shown as they are, but for characters that would steer a terminal, which are
written out.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sightline.training.state import Metric

LONGEST = 300
"""Characters of a text that are shown."""

JOINERS = "\u200c\u200d"
"""Invisible, but without them Persian, Hindi and some emoji fall apart."""

KNOWN: dict[str, str] = {
    "step": "step {:,}",
    "epoch": "epoch {:.1f}",
    "loss": "loss {:.3f}",
    "learning_rate": "rate {:.1e}",
    "tokens_per_second": "{:,.0f} tokens/s",
}
"""How the usual numbers are shown, in this order, before all others."""

HIDDEN = ("seconds", "tokens", "gradient_norm")
"""What only a program wants to know."""

VALIDATED = "validation_"
"""How the names begin of what a training set has too: the loss."""

UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


@dataclass(frozen=True)
class Sample:
    """What the model made of one text, beside what was expected; a source or reference may be empty."""

    source: str
    output: str
    reference: str

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the texts with their names, as they can be shown, without those that are empty."""
        if self.source:
            yield "source", shortened(visible(self.source))
        yield "output", shortened(visible(self.output)) or "(nothing)"
        if self.reference:
            yield "reference", shortened(visible(self.reference))


def shown_values(record: Mapping[str, Metric]) -> list[str]:
    """Return the entries of a record for people: the usual ones first, then the others by their names."""
    usual = [name for name in KNOWN if name in record]
    others = [name for name in record if name not in KNOWN and name not in HIDDEN]
    shown = [name for name in (*usual, *others) if record[name] is not None]
    return [shown_value(name, record[name]) for name in shown if record[name] or name != "skipped"]


def shown_value(name: str, value: Metric) -> str:
    """Return one value with its name."""
    if name in KNOWN and not isinstance(value, str):
        return KNOWN[name].format(value)
    if isinstance(value, float):
        text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:,.3g}"
    else:
        text = f"{value:,}" if isinstance(value, int) else shortened(visible(str(value)))
    return f"{visible(name).replace('_', ' ')} {text}"


def validation_line(record: Mapping[str, Metric]) -> str:
    """Return the scores of a validation, the step first."""
    step = {name: value for name, value in record.items() if name == "step"}
    scores = {name.removeprefix(VALIDATED): value for name, value in record.items() if name != "step"}
    return "  ".join([*shown_values(step), "validation", *shown_values(scores)])


def shortened(text: str) -> str:
    """Keep the beginning of a long text."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]} …"


def visible(text: str) -> str:
    r"""Write out every character that would not show, or that would steer a terminal: \n, \x1b, \u202e."""
    return "".join(c if shows(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def shows(character: str) -> bool:
    """Tell whether a character can be shown as it is: French needs its narrow blanks, Persian its joiners."""
    return character.isprintable() or character in JOINERS or unicodedata.category(character) == "Zs"


def duration(seconds: float | int) -> str:
    """Return a time as people say it ("2 min 40 s", "12 min"), no more exact than it can be foreseen."""
    whole = max(1, round(seconds))
    at = next(index for index, (_, size) in enumerate(UNITS) if whole >= size)
    name, size = UNITS[at]
    count, rest = divmod(whole, size)
    finer, finer_size = UNITS[min(at + 1, len(UNITS) - 1)]
    fine = rest // finer_size if count < 10 else 0
    return f"{count} {name} {fine} {finer}" if fine else f"{count} {name}"
