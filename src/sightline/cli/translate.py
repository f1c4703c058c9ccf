"""`sightline translate`: translate texts, one line each."""

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.options import (
    BEAM_SEARCH,
    AsJson,
    BatchTokens,
    From,
    ModelFolder,
    Texts,
    To,
    open_pipeline,
    with_decoding,
)
from sightline.cli.texts import Text, process_texts, put_json, put_line, put_row, read_blocks, show_progress

if TYPE_CHECKING:
    from sightline.decoding import DecodingSettings
    from sightline.pipelines import Translation, Translator

WORD = re.compile(r"\S+")


@with_decoding(*BEAM_SEARCH, after="from_")
def translate(
    model: ModelFolder,
    texts: Texts = None,
    to: To = None,
    from_: From = None,
    n_best: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of translations to print for each text, best first.")
    ] = 1,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="Print the score and a tab before each translation; then, if the model has one, the confidence and a "
            "tab: how often a score like this was right on the validation set.",
        ),
    ] = False,
    alignment: Annotated[
        bool,
        typer.Option(
            "--alignment", help="Print a tab and the word alignment by attention after each translation: 0-0 1-2."
        ),
    ] = False,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Target prefix: every translation begins with TEXT.")
    ] = None,
    batch_tokens: BatchTokens = 4096,
    as_json: AsJson = False,
    **decoding: object,
) -> None:
    """Translate texts, or the lines of stdin.

    Line 7 of the output is the translation of line 7; with --n-best N there are N lines for each text. A line break
    within a translation is printed as \\n; JSON keeps it.

    Confidence: right means equal to the reference if a fifth of the validation set was, else a chrF of 60 or more.

    \b
    Examples:
      sightline translate runs/en-de "Where is the station?"
      sightline translate runs/phrases --to fr "March 14, 2026"
      sightline translate runs/en-de --beam 5 --n-best 3 --scores < en.txt
      cat en.txt | sightline translate runs/en-de --json > de.jsonl
    """
    from sightline.pipelines import Translator

    translator = open_pipeline(model, Translator)
    check_languages(translator, to, from_)
    settings = translator.settings(n_best=n_best, **decoding)
    calibration = translator.bundle.training.calibration
    calibrated = calibration is not None
    if calibration is not None and (scores or as_json) and not calibration.applies_to(settings):
        typer.echo(f"no confidence: it was measured with {describe_decoding(calibration.decoding)}", err=True)

    def work(block: list[Text]) -> "list[list[Translation]]":
        return translator.translations(
            [text.text for text in block],
            to=to,
            from_=from_,
            prefixes=None if prefix is None else [prefix] * len(block),
            alignment=alignment,
            settings=settings,
            batch_tokens=batch_tokens,
        )

    for text, found in process_texts(show_progress(read_blocks(texts)), work):
        results = [None] if found is None else found
        for rank, result in zip_longest(range(1, n_best + 1), results):
            if as_json and (result is not None or rank == 1):
                put_json({"line": text.number, "rank": rank, "source": text.text, **to_json_dict(result, text.text)})
            elif not as_json:
                put_columns(result, text.text, scores=scores, confidence=scores and calibrated, alignment=alignment)


def check_languages(translator: "Translator", to: str | None, from_: str | None) -> None:
    """Refuse invalid languages before a text is read."""
    translator.language_tags(to, from_, 1)


def describe_decoding(settings: "DecodingSettings") -> str:
    """Name the settings of a search that options can change."""
    return f"--beam {settings.beam_size} --length-penalty {settings.length_penalty:g}"


def put_columns(result: "Translation | None", source: str, *, scores: bool, confidence: bool, alignment: bool) -> None:
    """Print a translation as a line, or an empty line if there is none: every text gets the same number of lines."""
    text = "" if result is None else result.text
    if not (scores or alignment):
        put_line(text)
        return
    score = "" if result is None else f"{result.score:.4f}"
    pairs = (
        "" if result is None else " ".join(f"{link['source']}-{link['target']}" for link in links_of(result, source))
    )
    known = "" if result is None or result.confidence is None else f"{result.confidence.share:.2f}"
    put_row(*[score] * scores, *[known] * confidence, text, *[pairs] * alignment)


def to_json_dict(result: "Translation | None", source: str) -> dict[str, object]:
    """Return a translation as a JSON object."""
    if result is None:
        return {
            "text": "",
            "score": None,
            "log_probability": None,
            "confidence": None,
            "tokens": [],
            "finish_reason": None,
            "alignment": None,
        }
    return {
        "text": result.text,
        "score": result.score,
        "log_probability": result.log_probability,
        "confidence": result.confidence and vars(result.confidence),
        "tokens": result.tokens,
        "finish_reason": result.finish_reason,
        "alignment": None if result.alignment is None else links_of(result, source),
    }


def links_of(result: "Translation", source: str) -> list[dict[str, object]]:
    """Return the linked words by index (from 0) and span."""
    source_words, target_words = word_numbers(source), word_numbers(result.text)
    return [
        {
            "source": source_words[link.source_start],
            "target": target_words[link.target_start],
            "source_span": [link.source_start, link.source_end],
            "target_span": [link.target_start, link.target_end],
            "weight": link.weight,
        }
        for link in result.alignment or ()
    ]


def word_numbers(text: str) -> dict[int, int]:
    """Return the index of each word by its first character."""
    return {word.start(): number for number, word in enumerate(WORD.finditer(text))}
