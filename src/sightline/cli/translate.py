"""`sightline translate`: translate texts, one line each, or documents."""

import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sightline.cli.options import (
    BEAM_SEARCH,
    AsJson,
    BatchTokens,
    EngineName,
    From,
    ModelFolder,
    Texts,
    To,
    open_pipeline,
    with_decoding,
)
from sightline.cli.texts import (
    Text,
    add_location,
    decode_utf8,
    put,
    put_json,
    put_line,
    put_row,
    read_blocks,
    show_progress,
)
from sightline.config import one_of
from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    from sightline.decoding import DecodingSettings
    from sightline.pipelines import Translation, Translator
    from sightline.pipelines.documents import Markup
    from sightline.pipelines.segments import SegmentedText
    from sightline.pipelines.translator import SegmentedDocument

MARKUPS = ("text", "html", "markdown", "srt")
"""As in `pipelines.documents`, whose package loads torch."""
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
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--no-split",
            help="Translate sentences one by one; default: unless the model was trained on several at once.",
        ),
    ] = None,
    markup: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="Markup to keep: html, markdown or srt; each text, or all of stdin, is a document."
        ),
    ] = "text",
    batch_tokens: BatchTokens = 4096,
    as_json: AsJson = False,
    engine: EngineName = "torch",
    **decoding: object,
) -> None:
    """Translate texts, or the lines of stdin, or with --markup documents.

    Line 7 of the output is the translation of line 7, however many sentences it has; with --n-best N there are N lines
    for each text, the second of them with the second-best translation of every sentence. A line break within a
    translation is printed as \\n; JSON keeps it.

    A model between two languages, such as en-de, translates each line into the one it is not in: give --to where all
    lines are in one language, and where a warning says that a text is unclear.

    Confidence: right means equal to the reference if a fifth of the validation set was, else a chrF of 60 or more.

    \b
    Examples:
      sightline translate en-de "Where is the station? I have to go."
      sightline translate runs/phrases --to fr "March 14, 2026"
      sightline translate runs/mine --beam 5 --n-best 3 --scores < en.txt
      sightline translate runs/mine --markup html < page.html > seite.html
      cat en.txt | sightline translate runs/mine --json > de.jsonl
    """
    from sightline.pipelines import Translator
    from sightline.pipelines.translator import TranslationOptions

    check_markup(markup, n_best=n_best, scores=scores, alignment=alignment, prefix=prefix, as_json=as_json)
    translator = open_pipeline(model, Translator, engine=engine)
    check_languages(translator, to, from_)
    settings = translator.settings(n_best=n_best, **decoding)
    calibration = translator.bundle.training.calibration
    calibrated = calibration is not None
    if calibration is not None and (scores or as_json) and not calibration.applies_to(settings):
        typer.echo(f"no confidence: it was measured with {describe_decoding(calibration.decoding)}", err=True)
    options = TranslationOptions(
        settings,
        to=to,
        from_=from_,
        prefix=prefix or "",
        split=split,
        markup=cast("Markup", markup),
        alignment=alignment,
        batch_tokens=batch_tokens,
    )

    def segment(text: Text) -> "SegmentedText | SegmentedDocument":
        try:
            return translator.segment(text.text, options)
        except InputError as error:
            raise add_location(error, text) from None

    blocks = show_progress(read_blocks(texts)) if markup == "text" else iter([read_documents(texts)])
    for text, found in translator.stream(blocks, segment, options):
        if found[0].warnings:
            put_warnings(found[0].warnings, text)
        results = [None] if text.blank else found
        for rank, result in zip_longest(range(1, n_best + 1), results):
            if as_json and (result is not None or rank == 1):
                put_json({"line": text.number, "rank": rank, "source": text.text, **to_json_dict(result, text.text)})
            elif markup != "text":
                put_document(found[0].text, ends_line=bool(texts))
            elif not as_json:
                put_columns(result, text.text, scores=scores, confidence=scores and calibrated, alignment=alignment)


def check_markup(markup: str, *, n_best: int, scores: bool, alignment: bool, prefix: str | None, as_json: bool) -> None:
    """Refuse an unknown markup, and columns beside a document."""
    if markup not in MARKUPS:
        raise RefusedError(f"--markup {markup[:60]!r}: it must be {one_of(MARKUPS)}")
    columns = {"n-best": n_best > 1, "scores": scores, "alignment": alignment, "prefix": bool(prefix)}
    given = [name for name, is_given in columns.items() if is_given]
    if markup != "text" and given and not (as_json and given == ["n-best"]):
        raise RefusedError(f"--{given[0]} is for texts, not for documents: leave --markup out, or use --json")


def read_documents(given: Sequence[str] | None) -> list[Text]:
    """Return the documents given as arguments, or the one on stdin."""
    if given and list(given) != ["-"]:
        return [Text(text, f"text {number}", number) for number, text in enumerate(given, 1)]
    return [Text(decode_utf8(sys.stdin.buffer.read(), "stdin").removeprefix("\ufeff"), "stdin", 1)]


def put_document(text: str, *, ends_line: bool) -> None:
    """Print a document as it is; one that was given as an argument ends its line, as others may follow."""
    put(text)
    if ends_line and not text.endswith("\n"):
        put("\n")


def put_warnings(messages: Sequence[str], text: Text) -> None:
    """Print to stderr what the user should know about a translation."""
    for message in messages:
        typer.echo(message if text.location is None else f"{text.location}: {message}", err=True)


def check_languages(translator: "Translator", to: str | None, from_: str | None) -> None:
    """Refuse invalid languages before a text is read."""
    translator.language_tags(to, from_, [""])


def describe_decoding(settings: "DecodingSettings") -> str:
    """Name the settings of a search that options can change."""
    return f"--beam {settings.beam_size} --length-penalty {settings.length_penalty:g}"


def put_columns(result: "Translation | None", source: str, *, scores: bool, confidence: bool, alignment: bool) -> None:
    """Print a translation as a line, or an empty line if there is none: every text gets the same number of lines.

    Scores and confidences are those of the sentences.
    """
    text = "" if result is None else result.text
    if not (scores or alignment):
        put_line(text)
        return
    score = "" if result is None else " ".join(f"{one.score:.4f}" for one in result.sentences)
    pairs = (
        "" if result is None else " ".join(f"{link['source']}-{link['target']}" for link in links_of(result, source))
    )
    confidences = [] if result is None else [one.confidence for one in result.sentences]
    known = " ".join("-" if one is None else f"{one.share:.2f}" for one in confidences) if any(confidences) else ""
    put_row(*[score] * scores, *[known] * confidence, text, *[pairs] * alignment)


def to_json_dict(result: "Translation | None", source: str) -> dict[str, object]:
    """Return a translation as a JSON object."""
    if result is None:
        return {
            "text": "",
            "to": None,
            "score": None,
            "log_probability": None,
            "confidence": None,
            "tokens": [],
            "finish_reason": None,
            "alignment": None,
            "sentences": [],
            "warnings": [],
        }
    return {
        "text": result.text,
        "to": result.to,
        "score": result.score,
        "log_probability": result.log_probability,
        "confidence": result.confidence and asdict(result.confidence),
        "tokens": result.tokens,
        "finish_reason": result.finish_reason,
        "alignment": None if result.alignment is None else links_of(result, source),
        "sentences": [asdict(sentence) for sentence in result.sentences],
        "warnings": result.warnings,
    }


def links_of(result: "Translation", source: str) -> list[dict[str, object]]:
    """Return the linked words by index (from 0) and span."""
    source_words, target_words = word_starts(source), word_starts(result.text)
    return [
        {
            "source": bisect_right(source_words, link.source_start) - 1,
            "target": bisect_right(target_words, link.target_start) - 1,
            "source_span": [link.source_start, link.source_end],
            "target_span": [link.target_start, link.target_end],
            "weight": link.weight,
        }
        for link in result.alignment or ()
    ]


def word_starts(text: str) -> list[int]:
    """Return where each word starts; a link may start within one, as sentences need no space between them."""
    return [word.start() for word in WORD.finditer(text)]
