"""The demo: train the phrase translator unless it is trained, show translations, and trace one of them.

The phrases are what one can watch being learned; real sentences are translated by a model of the package.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import RefusedError
from sightline.pipelines import Translator
from sightline.runs.folder import MODEL, is_run
from sightline.runs.run_record import read_run_record
from sightline.runs.training_run import train
from sightline.storage import current_folder, lock_run, remove_folder, temporary_folder
from sightline.tasks import load
from sightline.tracing.page import build_page
from sightline.training.report import Reporter

RECIPE = "phrases"
PHRASES = (
    ("March 14, 2026", "de"),
    ("Samstag, 1. Januar 2028", "fr"),
    ("il y a 12 jours", "en"),
    ("312,50 euros", "it"),
    ("42 Kilometer pro Stunde", "es"),
    ("Brazil, Japan, and Germany", "pt"),
)
"""Phrases to translate; some may be in the training set."""
BUILTIN = "en-de"
SENTENCES = ("Where is the station?", "Hello, how are you?", "Ich habe heute leider keine Zeit.")
"""Sentences for the built-in translator, either way."""
PAGE = "look.html"
"""Trace of the first phrase, in the folder of the run."""
BEAM = 4
"""Beam size of the traced phrase, so that its page has a search tree."""


@dataclass(frozen=True)
class TranslatedPhrase:
    """A phrase of the demo with its translation."""

    source: str
    language: str
    output: str


@dataclass(frozen=True)
class Demo:
    """A trained phrase translator with its score."""

    folder: Path
    exact_match: float
    """Percent of validation phrases translated exactly as the reference."""
    n_unseen: int
    minutes: float
    """Training time."""
    shown: tuple[TranslatedPhrase, ...]
    page: Path | None = None
    """Page with the trace of the first phrase; None if it could not be written."""
    exit_code: int = 0
    sentences: tuple[TranslatedPhrase, ...] = ()
    """Sentences translated by the built-in model."""


def demo(
    folder: Path, reporter: Reporter, *, retrain: bool = False, overrides: Mapping[str, object] | None = None
) -> Demo:
    """Return the demo, trained now or before; an interrupted training is resumed."""
    record = read_run_record(folder)
    if record is not None and record.get("name") != RECIPE:
        raise RefusedError(f"{folder} holds another run ({record.get('name')}), not the demo: choose another --out")
    if retrain and record is not None:
        gone = temporary_folder(folder.resolve(), "gone")
        with lock_run(folder):  # no other process is training there
            remove_folder(gone)
            folder.rename(gone)  # half removed, it must not look like a run
        remove_folder(gone)
    if not is_trained(folder):
        result = train(RECIPE, overrides or {}, out=folder, resume=is_run(folder), reporter=reporter)
        if result.exit_code:
            return Demo(folder, 0.0, 0, 0.0, (), exit_code=result.exit_code)
    translator = load(folder)
    finished = read_run_record(folder) or {}
    outcome, data = finished["outcome"], finished["data"]
    shown = tuple(TranslatedPhrase(source, to, translator.translate(source, to=to)) for source, to in PHRASES)
    minutes = outcome["progress"]["seconds"] / 60
    trace_page = write_trace_page(folder, translator)
    return Demo(
        folder,
        outcome["scores"]["exact_match"],
        data["validation_examples"],
        minutes,
        shown,
        trace_page,
        sentences=translate_sentences(),
    )


def translate_sentences() -> tuple[TranslatedPhrase, ...]:
    """Translate a few sentences with the built-in model, each into the language it is not in."""
    translator = load(BUILTIN)
    outputs = zip(SENTENCES, translator.translate(SENTENCES), strict=True)
    return tuple(TranslatedPhrase(text, translator.choose_target(text) or "", output) for text, output in outputs)


def is_trained(folder: Path) -> bool:
    """Tell whether the folder holds a finished run."""
    outcome = (read_run_record(folder) or {}).get("outcome") or {"stop_reason": "signal"}
    return outcome["stop_reason"] != "signal" and current_folder(folder / MODEL).is_dir()


def write_trace_page(folder: Path, translator: Translator) -> Path | None:
    """Return the page with the trace of the first phrase, written now unless it is up to date.

    A page older than the model is outdated. If it cannot be written, the demo continues without it.
    """
    place = folder / PAGE
    if place.exists() and place.stat().st_mtime >= current_folder(folder / MODEL).stat().st_mtime:
        return place
    source, to = PHRASES[0]
    trace = translator.trace(source, to=to, beam_size=BEAM, head_ablation=True, hypotheses=True)
    try:
        place.write_text(build_page(trace), encoding="utf-8")
    except OSError:
        return None
    return place


def print_demo(found: Demo, say: Callable[[str], None]) -> None:
    """Print the translations, the score, and the next commands."""
    print_translations(found.shown, say)
    say("")
    say(
        f"{found.exact_match:.1f} % of {found.n_unseen} unseen phrases are translated exactly right "
        f"({found.minutes:.1f} minutes of training)."
    )
    if found.page is not None:
        say(
            f"How the model translates the first one, head by head: {found.page} (open it in a browser, works offline)."
        )
    say(f"The model is in {found.folder / MODEL}. Try:")
    say(f'  sightline translate {found.folder} --to fr "October 3, 2031"')
    say(f'  sightline translate {found.folder} --to de --n-best 3 --beam 4 --scores "Friday, May 5, 2034"')
    say(f"  sightline info {found.folder}")
    say("")
    say(f"Whole sentences, by {BUILTIN}, a model that comes with Sightline:")
    print_translations(found.sentences, say)
    say(f'  sightline translate {BUILTIN} "…"')


def print_translations(translations: Sequence[TranslatedPhrase], say: Callable[[str], None]) -> None:
    """Print translations as a table."""
    width = max(len(shown.source) for shown in translations)
    for shown in translations:
        say(f"  {shown.source:{width}}  → {shown.language}  {shown.output}")
