"""`sightline evaluate`: scores of a model on a test set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sightline.cli.heldout import HeldOut
from sightline.cli.options import Beam, From, LengthPenalty, ModelFolder, To, given
from sightline.cli.output import put_json, put_line
from sightline.cli.progress import busy
from sightline.cli.translate import check_languages
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.evaluation import Report
    from sightline.pipelines import Pipeline

Words = Literal["13a", "none", "intl", "zh", "char"]
Ends = Literal["blank", "line", "file"]

FITTING = {
    "Translator": ("--source", "--tsv"),
    "Chat": ("--dialogues", "--source", "--tsv"),
    "Generator": ("--text",),
    "Filler": ("--text",),
    "Classifier": ("--labeled",),
}
"""What each kind of pipeline is scored on."""


def evaluate(
    model: ModelFolder,
    source: Annotated[Path | None, typer.Option(metavar="F", help="Texts to translate, one a line.")] = None,
    target: Annotated[Path | None, typer.Option(metavar="F", help="Their translations, one a line.")] = None,
    tsv: Annotated[Path | None, typer.Option(metavar="F", help="Both in one file, with a tab between.")] = None,
    text: Annotated[Path | None, typer.Option(metavar="F", help="Running text, or lines.")] = None,
    dialogues: Annotated[
        Path | None, typer.Option(metavar="F", help="Dialogues, JSONL with turns or TSV of turn and reply.")
    ] = None,
    labeled: Annotated[Path | None, typer.Option(metavar="F", help="Texts and labels, TSV or JSONL.")] = None,
    documents: Annotated[
        Ends | None,
        typer.Option(help="What ends a document of --text: a blank line if not said, every line, or the file's end."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Tokens of --text that are read before the first that counts (slower)."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of a TSV (names, or numbers from 1) or keys of a JSONL.")
    ] = None,
    pair: Annotated[bool, typer.Option("--pair", help="--labeled has pairs of texts: text, pair, label.")] = False,
    to: To = None,
    from_: From = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    tokenize: Annotated[
        Words | None, typer.Option(help="What BLEU takes for words; none: what is between blanks (tokenised text).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Take the first N examples only.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Score a model on a test set.

    Translators get BLEU and chrF with sacreBLEU's signature, language models and chats perplexity and bits per
    character, models that fill in words accuracy and perplexity, classifiers accuracy and F1.

    Files are UTF-8, also packed by gzip. For a translator into several languages, a third column of --tsv names the
    language of each line, unless --to does.

    \b
    Examples:
      sightline evaluate runs/en-de --source test.en --target test.de --beam 4
      sightline evaluate runs/en-de --tsv test.tsv --columns 2,3 --limit 500
      sightline evaluate runs/shakespeare --text test.txt --context 200
      sightline evaluate runs/talk --dialogues test.jsonl --columns dialog
      sightline evaluate runs/mood --labeled test.tsv --json
    """
    from sightline.pipelines import load

    names = tuple(name.strip() for name in columns.split(",")) if columns is not None else ()
    files = {"--source": source, "--target": target, "--tsv": tsv, "--text": text, "--labeled": labeled}
    files["--dialogues"] = dialogues
    others: dict[str, object] = {"--documents": documents, "--context": context, "--tokenize": tokenize}
    others |= {"--to": to, "--from": from_, "--beam": beam, "--length-penalty": length_penalty}
    held_out = HeldOut.of(files, columns=names, pair=pair, limit=limit, others=others)
    pipeline = load(model)
    check_kind(pipeline, held_out, model)
    with busy("scoring …"):
        report = scores(
            pipeline,
            held_out,
            to=to,
            from_=from_,
            tokenize=tokenize,
            documents=documents,
            context=context,
            options=given(beam=beam, length_penalty=length_penalty),
        )
    if as_json:
        put_json({"model": str(model), **report.values})
    else:
        for line in report.lines():
            put_line(line)


def check_kind(pipeline: "Pipeline", held_out: HeldOut, model: Path) -> None:
    """Refuse a test set that says nothing about this kind of model."""
    fitting = FITTING.get(type(pipeline).__name__, ())
    if held_out.option not in fitting:
        advice = f"give {' or '.join(fitting)}" if fitting else "it has no head that could be scored"
        raise RefusedError(f"{model}: {held_out.option} is not for this model: {advice}")


def scores(
    pipeline: "Pipeline",
    held_out: HeldOut,
    *,
    to: str | None,
    from_: str | None,
    tokenize: Words | None,
    documents: Ends | None,
    context: int | None,
    options: dict[str, object],
) -> "Report":
    """Score a model on the test set that is for its kind."""
    from sightline.evaluation import (
        evaluate_chat,
        evaluate_classifier,
        evaluate_filler,
        evaluate_text,
        evaluate_translator,
    )
    from sightline.pipelines import Chat, Classifier, Filler, Generator, Translator

    if isinstance(pipeline, Chat) and held_out.option == "--dialogues":
        return evaluate_chat(pipeline, held_out.exchanges(history=pipeline.history))
    if isinstance(pipeline, Translator | Chat):
        named = isinstance(pipeline, Translator) and bool(pipeline.languages) and to is None and held_out.is_table
        if isinstance(pipeline, Translator) and not named:
            check_languages(pipeline, to, from_)
        sources, targets, *languages = zip(*held_out.pairs(named=named), strict=True)
        settings = pipeline.settings(**options)
        into = languages[0] if named else to
        return evaluate_translator(pipeline, sources, targets, to=into, settings=settings, tokenize=tokenize)
    if isinstance(pipeline, Generator):
        return evaluate_text(pipeline, held_out.documents(ended_by=documents or "blank"), context=context or 0)
    if isinstance(pipeline, Filler):
        if documents is not None or context is not None:
            option = "--context" if documents is None else "--documents"
            raise RefusedError(f"{option} is for models that write: this one fills in words, line by line")
        return evaluate_filler(pipeline, held_out.lines())
    assert isinstance(pipeline, Classifier)  # noqa: S101  # check_kind has refused all others
    return evaluate_classifier(pipeline, held_out.labeled(pipeline.labels, per_word=pipeline.per_word))
