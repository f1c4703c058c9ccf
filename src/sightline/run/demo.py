"""The demo: train the built-in phrase translator, unless that has been done, and show what it can."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import RefusedError
from sightline.pipelines import Translator, load
from sightline.run.folder import MODEL, is_run
from sightline.run.journal import read_journal
from sightline.run.training_run import train
from sightline.training.lock import locked
from sightline.training.report import Reporter

RECIPE = "phrases"
SHOWN = (
    ("March 14, 2026", "de"),
    ("Samstag, 1. Januar 2028", "fr"),
    ("il y a 12 jours", "en"),
    ("312,50 euros", "it"),
    ("42 Kilometer pro Stunde", "es"),
    ("Brazil, Japan, and Germany", "pt"),
)
"""What a visitor sees; those that happen to be in the training part are asked all the same."""


@dataclass(frozen=True)
class Shown:
    """One phrase of the demo."""

    source: str
    language: str
    output: str


@dataclass(frozen=True)
class Demo:
    """A trained phrase translator and how good it is."""

    folder: Path
    exact_match: float
    """Percent of unseen phrases whose translation is exactly right."""
    n_unseen: int
    minutes: float
    """Of training."""
    shown: tuple[Shown, ...]
    exit_code: int = 0


def demo(
    folder: Path, reporter: Reporter, *, retrain: bool = False, overrides: Mapping[str, object] | None = None
) -> Demo:
    """Return the demo, trained now or before; a training that was interrupted goes on."""
    journal = read_journal(folder)
    if journal is not None and journal.get("name") != RECIPE:
        raise RefusedError(f"{folder} holds another run ({journal.get('name')}), not the demo: choose another --out")
    if retrain and journal is not None:
        with locked(folder):  # nobody trains there now
            shutil.rmtree(folder)
    if not is_trained(folder):
        result = train(RECIPE, overrides or {}, out=folder, resume=is_run(folder), reporter=reporter)
        if result.exit_code:
            return Demo(folder, 0.0, 0, 0.0, (), result.exit_code)
    translator = load(folder)
    if not isinstance(translator, Translator):
        raise TypeError(translator)
    written = read_journal(folder) or {}
    outcome, asked = written["outcome"], written["data"]
    shown = tuple(Shown(source, to, translator.translate(source, to=to)) for source, to in SHOWN)
    minutes = outcome["progress"]["seconds"] / 60
    return Demo(folder, outcome["scores"]["exact_match"], asked["validation_examples"], minutes, shown)


def is_trained(folder: Path) -> bool:
    """Tell whether a finished run is there."""
    outcome = (read_journal(folder) or {}).get("outcome") or {"ending": "signal"}
    return outcome["ending"] != "signal" and (folder / MODEL).is_dir()


def tell(found: Demo, say: Callable[[str], None]) -> None:
    """Show a demo to a person."""
    width = max(len(shown.source) for shown in found.shown)
    for shown in found.shown:
        say(f"  {shown.source:{width}}  → {shown.language}  {shown.output}")
    say("")
    say(
        f"{found.exact_match:.1f} % of {found.n_unseen} phrases it has never seen are translated exactly "
        f"({found.minutes:.1f} minutes of training)."
    )
    say(f"The model is in {found.folder / MODEL}. Try:")
    say(f'  sightline translate {found.folder} --to fr "October 3, 2031"')
    say(f'  sightline translate {found.folder} --to de --n-best 3 --beam 4 --scores "Friday, May 5, 2034"')
    say(f"  sightline info {found.folder}")
