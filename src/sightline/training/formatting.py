"""Metrics and samples of a run as text for people, one line each. Knows no terminal and no file.

Texts from models and corpora are shown as they are, except that control characters are escaped.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sightline.training.state import Metric

MAX_CHARACTERS = 300
"""Of a sample, in the output."""

JOINERS = "\u200c\u200d"
"""Invisible, but Persian, Hindi and some emoji need them."""

FORMATS: dict[str, str] = {
    "step": "step {:,}",
    "epoch": "epoch {:.1f}",
    "loss": "loss {:.3f}",
    "learning_rate": "lr {:.1e}",
    "tokens_per_second": "{:,.0f} tokens/s",
}
"""The common metrics, in the order shown, before all others."""

HIDDEN = ("seconds", "tokens", "gradient_norm")
"""Metrics that are stored but not shown."""

VALIDATION_PREFIX = "validation_"
"""Prefix of validation metrics that also exist for training: the loss."""

UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


@dataclass(frozen=True)
class Sample:
    """One output of the model with its source and reference, either of which may be empty."""

    source: str
    output: str
    reference: str

    def parts(self) -> Iterator[tuple[str, str]]:
        """Yield the labels and texts to show, without empty ones."""
        if self.source:
            yield "source", shorten(escape_control(self.source))
        yield "output", shorten(escape_control(self.output)) or "(empty)"
        if self.reference:
            yield "reference", shorten(escape_control(self.reference))


def format_values(record: Mapping[str, Metric]) -> list[str]:
    """Format the metrics of a record: the common ones first, then the others by name."""
    common = [name for name in FORMATS if name in record]
    others = [name for name in record if name not in FORMATS and name not in HIDDEN]
    shown = [name for name in (*common, *others) if record[name] is not None]
    return [format_value(name, record[name]) for name in shown if record[name] or name != "skipped"]


def format_value(name: str, value: Metric) -> str:
    """Format one metric with its name."""
    if name in FORMATS and not isinstance(value, str):
        return FORMATS[name].format(value)
    if isinstance(value, float):
        text = f"{value:.3f}" if 0.01 <= abs(value) < 1000 or value == 0 else f"{value:,.3g}"
    else:
        text = f"{value:,}" if isinstance(value, int) else shorten(escape_control(str(value)))
    return f"{escape_control(name).replace('_', ' ')} {text}"


def format_validation(record: Mapping[str, Metric]) -> str:
    """Format the scores of a validation, the step first."""
    step = {name: value for name, value in record.items() if name == "step"}
    scores = {name.removeprefix(VALIDATION_PREFIX): value for name, value in record.items() if name != "step"}
    return "  ".join([*format_values(step), "validation", *format_values(scores)])


def shorten(text: str) -> str:
    """Cut a long text."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 2]} …"


def escape_control(text: str) -> str:
    r"""Escape characters that are invisible or control a terminal: \n, \x1b, \u202e."""
    return "".join(c if is_displayable(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def is_displayable(character: str) -> bool:
    """Tell whether a character can be shown as it is: French needs narrow spaces, Persian its joiners."""
    return character.isprintable() or character in JOINERS or unicodedata.category(character) == "Zs"


def format_duration(seconds: float | int) -> str:
    """Format a time ("2 min 40 s", "12 min") with no more precision than an estimate has."""
    whole = max(1, round(seconds))
    at = next(index for index, (_, size) in enumerate(UNITS) if whole >= size)
    name, size = UNITS[at]
    count, rest = divmod(whole, size)
    finer, finer_size = UNITS[min(at + 1, len(UNITS) - 1)]
    fine = rest // finer_size if count < 10 else 0
    return f"{count} {name} {fine} {finer}" if fine else f"{count} {name}"
