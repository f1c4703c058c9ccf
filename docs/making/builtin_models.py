"""`make builtin-models`: train the models that the package contains, score them, and write them into the package.

A translator learns Tatoeba first. There people greet each other rarely, so a short second run adds everyday phrases of
our own (everyday.tsv), whose slots for names, places and greetings are filled. A run that was stopped continues, one
that is finished is only scored and written. The corpora are not part of the project: the cards name them, their authors
and their licenses.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import torch

from sightline import evaluate, load, train
from sightline.bundle import Bundle, build_model_card, save
from sightline.bundle import load as load_bundle
from sightline.bundle.builtin import FOLDER
from sightline.errors import SightlineError
from sightline.pipelines import Translator
from sightline.runs.demo import is_trained
from sightline.runs.folder import is_run
from sightline.runs.run_record import read_run_record
from sightline.training.report import reporter_for

NAME = "en-de"
MAX_BYTES = 8_000_000
"""Of a model folder, as it lies in the wheel."""
TATOEBA = "tatoeba/eng-deu.tsv"
N_PARTS = 100
"""The English sentences are dealt into this many parts: the first is the test set, the second the validation set."""
CASUAL_EVERY = 8
"""One source in this many is also learned as people type in haste: in lower case, without punctuation at the end."""

EVERYDAY = Path(__file__).with_name("everyday.tsv")
COPIES = 24
"""Copies of an everyday phrase beside one of every other sentence, shared by what its slots may hold."""
NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Hannah", "Jonas", "Julia", "Karl", "Laura", "Lena", "Lukas",
    "Maria", "Max", "Mia", "Michael", "Nina", "Paul", "Peter", "Sarah", "Sofia", "Thomas", "Tom",
)  # fmt: skip
PLACES = (
    "Berlin", "Hamburg", "Frankfurt", "London", "Paris", "Boston", "Madrid", "Amsterdam", "England", "Japan",
    "Munich=München", "Cologne=Köln", "Vienna=Wien", "Zurich=Zürich", "Rome=Rom", "Germany=Deutschland",
    "Austria=Österreich", "France=Frankreich", "Italy=Italien", "Spain=Spanien", "Poland=Polen", "India=Indien",
)  # fmt: skip
GREETINGS = (
    "Hello=Hallo", "Hi=Hallo", "Hey", "Good morning=Guten Morgen", "Good evening=Guten Abend",
    "Good afternoon=Guten Tag",
)  # fmt: skip
SLOTS = {"{name}": NAMES, "{place}": PLACES, "{greeting}": GREETINGS}
"""What slots may hold: English=German, or a word that is the same in both."""

Pair = tuple[str, str]


def fill_slots(pair: Pair) -> list[Pair]:
    """Return a phrase with everything that its slots may hold."""
    for slot, fillings in SLOTS.items():
        if slot in pair[0]:
            words = ((text.partition("=")[0], text.rpartition("=")[2]) for text in fillings)
            filled = [(pair[0].replace(slot, one), pair[1].replace(slot, other)) for one, other in words]
            return [ready for partly in filled for ready in fill_slots(partly)]
    return [pair]


def read_pairs(path: Path) -> list[Pair]:
    """Return the English–German pairs of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(english, german) for english, german in (line.split("\t") for line in lines)]


def key_of(text: str) -> str:
    """Return a text without case, spaces and punctuation: texts that differ in these only count as one."""
    return "".join(filter(str.isalnum, text.casefold()))


def split_pairs(pairs: Iterable[Pair]) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return training, validation and test pairs: no sentence of either side is in two of them."""
    parts: tuple[list[Pair], list[Pair], list[Pair]] = ([], [], [])
    for pair in pairs:
        number = crc32(key_of(pair[0]).encode()) % N_PARTS
        parts[{0: 2, 1: 1}.get(number, 0)].append(pair)
    train, valid, test = parts
    held_out = {key_of(text) for pair in test for text in pair}
    valid = [pair for pair in valid if held_out.isdisjoint(map(key_of, pair))]
    held_out |= {key_of(text) for pair in valid for text in pair}
    return [pair for pair in train if held_out.isdisjoint(map(key_of, pair))], valid, test


def both_directions(pairs: Iterable[Pair], *, casual: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield source, target and target language, each pair in both directions."""
    for english, german in pairs:
        for source, target, language in ((english, german, "de"), (german, english, "en")):
            yield source, target, language
            typed = source.lower().rstrip(".!? ")
            if casual and typed and crc32(f"{source}\t{target}".encode()) % CASUAL_EVERY == 0:
                yield typed, target, language


def write_rows(path: Path, rows: Iterable[tuple[str, ...]]) -> None:
    """Write a TSV."""
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8", newline="\n")


def prepare_corpora(data: Path, folder: Path) -> None:
    """Write the two training sets, the validation set, and a test set for each direction."""
    train, valid, test = split_pairs(read_pairs(data / TATOEBA))
    held_out = {key_of(text) for pair in (*valid, *test) for text in pair}
    everyday = []
    for filled in map(fill_slots, read_pairs(EVERYDAY)):
        unseen = [pair for pair in filled if held_out.isdisjoint(map(key_of, pair))]
        everyday += unseen * max(1, COPIES // len(filled))
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "train.tsv", both_directions(train, casual=True))
    write_rows(folder / "everyday.tsv", both_directions(everyday, casual=True))
    write_rows(folder / "valid.tsv", both_directions(valid))
    for language, (source, target) in {"de": (0, 1), "en": (1, 0)}.items():
        first = {pair[source]: pair[target] for pair in reversed(test)}
        write_rows(folder / f"test.{language}.tsv", reversed(first.items()))


MULTI30K = "multi30k/test_2016_flickr"
CORPORA = ("Tatoeba English–German", "everyday phrases")
ATTRIBUTION = """\
The sentences are those of [Tatoeba](https://tatoeba.org) as selected by
[manythings.org/anki](https://www.manythings.org/anki/), by many authors, under
[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/). Changes: they were split into training, validation and
test set, and an eighth of the sources was also learned in lower case and without the punctuation at the end. The
examples and words in this folder are theirs. Some hundred everyday phrases were added that we wrote ourselves."""
LIMITS = """\
Small and quick, for sentences of everyday life: it has read 160,000 pairs of some six words a side. Long sentences,
names, numbers and subjects that Tatoeba hardly has come out wrong, sometimes fluently. Do not rely on it where a
mistake would matter."""


def score(translator: Translator, data: Path, folder: Path) -> dict[str, Mapping[str, float | int | str]]:
    """Return the scores on held-out Tatoeba sentences and, if it is there, Multi30k's test set, in both directions."""
    found: dict[str, Mapping[str, float | int | str]] = {}
    for source, target in (("en", "de"), ("de", "en")):
        sets: dict[str, dict[str, Any]] = {
            f"Tatoeba, held out, {source} → {target}": {"tsv": folder / f"test.{target}.tsv"}
        }
        if (data / f"{MULTI30K}.{source}").exists():
            sides = {"source": data / f"{MULTI30K}.{source}", "target": data / f"{MULTI30K}.{target}"}
            sets[f"Multi30k, test_2016_flickr, {source} → {target}"] = sides
        for name, files in sets.items():
            found[name] = evaluate(translator, **files, to=target).values
            sys.stderr.write(f"{name}: BLEU {found[name]['bleu']:.2f}, chrF {found[name]['chrf']:.2f}\n")
    return found


def write_model(trained: Bundle, place: Path, *, sections: Mapping[str, str]) -> None:
    """Write a model with half-precision weights and its card."""
    card = build_model_card(
        trained.model,
        trained.tokenizer,
        title=f"{NAME}: English to German and German to English",
        sections=sections,
    )
    save(replace(trained, card=card, training=replace(trained.training, files=CORPORA)), place)
    size = sum(path.stat().st_size for path in place.iterdir())
    sys.stderr.write(f"{place}: {size:,} bytes\n")
    if size > MAX_BYTES:
        raise SightlineError(f"{place} has {size:,} bytes, more than {MAX_BYTES:,}")


def format_scores(scores: Mapping[str, Mapping[str, float | int | str]]) -> str:
    """Return scores as a table of Markdown, with sacreBLEU's signature."""
    rows = [
        f"| {name} | {one['sentences']:,} | {one['bleu']:.2f} | {one['chrf']:.2f} |" for name, one in scores.items()
    ]
    signature = next(iter(scores.values()))["bleu_signature"]
    head = ["| test set | sentences | BLEU | chrF |", "|---|---|---|---|"]
    note = f"It has read none of these Tatoeba sentences, on either side, and nothing of Multi30k. `{signature}`"
    return "\n".join([*head, *rows, "", note])


SECOND = {"training.learning_rate": 0.001, "training.warmup_steps": 50, "training.max_epochs": 0.8}
"""Settings of the second run, beside those of the recipe."""


def finish_run(run: Path, overrides: Mapping[str, object]) -> Mapping[str, float]:
    """Start or continue a run unless it is finished, and return its progress."""
    if not is_trained(run):
        result = train(NAME, overrides, out=run, resume=is_run(run), reporter=reporter_for(sys.stderr))
        if result.exit_code:
            raise SystemExit(result.exit_code)
    progress: Mapping[str, float] = (read_run_record(run) or {})["outcome"]["progress"]
    return progress


def make_model(data: Path, runs: Path, *, minutes: float | None) -> None:
    """Train, score and write the translator of English and German."""
    folder = runs / "builtin"
    corpus, first, second = folder / "tatoeba", folder / NAME, folder / f"{NAME}-everyday"
    prepare_corpora(data, corpus)
    length = {"training.max_minutes": minutes} if minutes else {}
    stages = (
        finish_run(first, {"data.folder": str(corpus), **length}),
        finish_run(
            second,
            {
                "data.folder": str(corpus),
                "data.train": ["train.tsv", "everyday.tsv"],
                "model.init_from": str(first),
                **SECOND,
            },
        ),
    )
    trained = load_bundle(second)
    cast("torch.nn.Module", trained.model).half()
    spent = (f"{one['step']:,} updates in {one['seconds'] / 60:.0f} minutes" for one in stages)
    training = (
        f"`make builtin-models{f' MINUTES={minutes:g}' if minutes else ''}`, the recipe `{NAME}` twice: "
        f"{' and, with everyday phrases, '.join(spent)}, on two cores. The weights are those after update "
        f"{trained.training.step:,} of the second time, the best on the validation set, in half precision."
    )
    sections = {
        "Task": "Translates sentences between English and German. The direction follows from the text, or from `--to`: "
        "each text is in the other language. Of a sentence that is in the target language already nothing good comes "
        "out.",
        "Limits": LIMITS,
        "Data": ATTRIBUTION,
        "Training": training,
    }
    write_model(trained, FOLDER / NAME, sections=sections)
    scores = score(load(FOLDER / NAME), data, corpus)
    write_model(trained, FOLDER / NAME, sections={**sections, "Scores": format_scores(scores)})


def main() -> int:
    """Make the built-in models."""
    parser = argparse.ArgumentParser(prog="make builtin-models", description="Train the models of the package.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs, outside the work tree")
    parser.add_argument("--minutes", type=float, help="training time, in place of the recipe's number of epochs")
    arguments = parser.parse_args()
    try:
        make_model(arguments.data.resolve(), arguments.runs.resolve(), minutes=arguments.minutes)
    except SightlineError as error:
        raise SystemExit(f"builtin-models: {error}") from None
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
