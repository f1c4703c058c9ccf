"""The demo: train the built-in phrase translator, unless that has been done, show what it can, and draw one phrase."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline.bundle.atomic import beside, place_of, remove
from sightline.errors import RefusedError
from sightline.pipelines import Translator, load
from sightline.run.folder import MODEL, is_run
from sightline.run.journal import read_journal
from sightline.run.training_run import train
from sightline.tracing.drawing import page
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
PAGE = "look.html"
"""The first of them drawn, in the folder of the run."""
BEAM = 4
"""Of the drawn one, so that its page has a tree."""


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
    page: Path | None = None
    """One of them drawn; None where it could not be written."""
    exit_code: int = 0


def demo(
    folder: Path, reporter: Reporter, *, retrain: bool = False, overrides: Mapping[str, object] | None = None
) -> Demo:
    """Return the demo, trained now or before; a training that was interrupted goes on."""
    journal = read_journal(folder)
    if journal is not None and journal.get("name") != RECIPE:
        raise RefusedError(f"{folder} holds another run ({journal.get('name')}), not the demo: choose another --out")
    if retrain and journal is not None:
        gone = beside(folder.resolve(), "gone")
        with locked(folder):  # nobody trains there now
            remove(gone)
            folder.rename(gone)  # half removed, it must not look like a run
        remove(gone)
    if not is_trained(folder):
        result = train(RECIPE, overrides or {}, out=folder, resume=is_run(folder), reporter=reporter)
        if result.exit_code:
            return Demo(folder, 0.0, 0, 0.0, (), exit_code=result.exit_code)
    translator = load(folder)
    if not isinstance(translator, Translator):
        raise TypeError(translator)
    written = read_journal(folder) or {}
    outcome, asked = written["outcome"], written["data"]
    shown = tuple(Shown(source, to, translator.translate(source, to=to)) for source, to in SHOWN)
    minutes = outcome["progress"]["seconds"] / 60
    drawn = drawn_page(folder, translator)
    return Demo(folder, outcome["scores"]["exact_match"], asked["validation_examples"], minutes, shown, drawn)


def is_trained(folder: Path) -> bool:
    """Tell whether a finished run is there."""
    outcome = (read_journal(folder) or {}).get("outcome") or {"ending": "signal"}
    return outcome["ending"] != "signal" and place_of(folder / MODEL).is_dir()


def drawn_page(folder: Path, translator: Translator) -> Path | None:
    """Return the page that shows how the model translates the first phrase, drawn now unless that has been done.

    A page that is older than the model shows another one. Where nothing can be written, the rest of the demo goes on.
    """
    place = folder / PAGE
    if place.exists() and place.stat().st_mtime >= place_of(folder / MODEL).stat().st_mtime:
        return place
    source, to = SHOWN[0]
    trace = translator.trace(source, to=to, beam=BEAM, knockouts=True, hypotheses=True)
    try:
        place.write_text(page(trace), encoding="utf-8")
    except OSError:
        return None
    return place


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
    if found.page is not None:
        say(f"How it translates the first of them, head by head: {found.page} (open it in a browser, without network).")
    say(f"The model is in {found.folder / MODEL}. Try:")
    say(f'  sightline translate {found.folder} --to fr "October 3, 2031"')
    say(f'  sightline translate {found.folder} --to de --n-best 3 --beam 4 --scores "Friday, May 5, 2034"')
    say(f"  sightline info {found.folder}")
