"""`sightline evaluate`: score a model on a test set."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sightline.cli.heldout import HeldOut
from sightline.cli.options import BEAM_SEARCH, From, ModelFolder, To, with_decoding
from sightline.cli.texts import put_json, put_line, show_status
from sightline.cli.translate import check_languages
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.evaluation import Report
    from sightline.pipelines import Pipeline

BleuTokenizer = Literal["13a", "none", "intl", "zh", "char"]
DocumentEnd = Literal["blank", "line", "file"]

TEST_SETS = {
    "Translator": ("--source", "--tsv"),
    "Chat": ("--dialogues", "--source", "--tsv"),
    "Generator": ("--text",),
    "Filler": ("--text",),
    "Classifier": ("--labeled",),
}
"""Test-set options of each pipeline, by class name."""


@with_decoding(*BEAM_SEARCH, after="from_")
def evaluate(
    model: ModelFolder,
    source: Annotated[Path | None, typer.Option(metavar="F", help="Source file, one text per line.")] = None,
    target: Annotated[
        Path | None, typer.Option(metavar="F", help="Target (reference) file, one text per line.")
    ] = None,
    tsv: Annotated[
        Path | None, typer.Option(metavar="F", help="Parallel file: source and target, tab-separated.")
    ] = None,
    text: Annotated[Path | None, typer.Option(metavar="F", help="Text file for language models.")] = None,
    dialogues: Annotated[
        Path | None, typer.Option(metavar="F", help="Dialogues: JSONL of turns, or TSV of turn and reply.")
    ] = None,
    labeled: Annotated[Path | None, typer.Option(metavar="F", help="Labeled texts, TSV or JSONL.")] = None,
    documents: Annotated[
        DocumentEnd | None,
        typer.Option(help="Document separator of --text: a blank line (default), every line, or the end of the file."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Context of --text: tokens reread before each block but not scored (slower)."
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of a TSV (names, or numbers from 1) or keys of JSONL.")
    ] = None,
    pair: Annotated[bool, typer.Option("--pair", help="Pairs of texts in --labeled: text, pair, label.")] = False,
    to: To = None,
    from_: From = None,
    tokenize: Annotated[
        BleuTokenizer | None,
        typer.Option(help="Tokenizer of BLEU; none for text that is tokenized already."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Score only the first N examples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    **decoding: object,
) -> None:
    """Score a model on a test set.

    Metrics: BLEU and chrF with sacreBLEU's signature for translation, perplexity and bits per character for language
    models and chat, accuracy and perplexity for masked words, accuracy and F1 for classification.

    Files are UTF-8, plain or gzipped. For a multilingual translator, a third column of --tsv names the target language
    of each line, unless --to does.

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
    others |= {"--to": to, "--from": from_}
    others |= {"--beam": decoding.get("beam_size"), "--length-penalty": decoding.get("length_penalty")}
    held_out = HeldOut.of(files, columns=names, pair=pair, limit=limit, others=others)
    pipeline = load(model)
    check_test_set(pipeline, held_out, model)
    with show_status("scoring …"):
        report = score(
            pipeline,
            held_out,
            to=to,
            from_=from_,
            tokenize=tokenize,
            documents=documents,
            context=context,
            decoding=decoding,
        )
    if as_json:
        put_json({"model": str(model), **report.values})
    else:
        for line in report.lines():
            put_line(line)


def check_test_set(pipeline: "Pipeline", held_out: HeldOut, model: Path) -> None:
    """Refuse a test set of the wrong kind for this model."""
    options = TEST_SETS.get(type(pipeline).__name__, ())
    if held_out.option not in options:
        advice = f"give {' or '.join(options)}" if options else "it has no head that could be scored"
        raise RefusedError(f"{model}: {held_out.option} is not for this model: {advice}")


def score(
    pipeline: "Pipeline",
    held_out: HeldOut,
    *,
    to: str | None,
    from_: str | None,
    tokenize: BleuTokenizer | None,
    documents: DocumentEnd | None,
    context: int | None,
    decoding: dict[str, object],
) -> "Report":
    """Score a model on a test set of its kind."""
    from sightline.evaluation import (
        evaluate_chat,
        evaluate_classifier,
        evaluate_filler,
        evaluate_text,
        evaluate_translator,
    )
    from sightline.pipelines import Chat, Classifier, Filler, Generator, Translator

    if isinstance(pipeline, Chat) and held_out.option == "--dialogues":
        return evaluate_chat(pipeline, held_out.exchanges(context_turns=pipeline.context_turns))
    if isinstance(pipeline, Translator | Chat):
        language_column = (
            isinstance(pipeline, Translator) and bool(pipeline.languages) and to is None and held_out.is_table
        )
        if isinstance(pipeline, Translator) and not language_column:
            check_languages(pipeline, to, from_)
        sources, targets, *languages = zip(*held_out.pairs(language_column=language_column), strict=True)
        settings = pipeline.settings(**decoding)
        target_language = languages[0] if language_column else to
        return evaluate_translator(pipeline, sources, targets, to=target_language, settings=settings, tokenize=tokenize)
    if isinstance(pipeline, Generator):
        return evaluate_text(pipeline, held_out.documents(separator=documents or "blank"), context=context or 0)
    if isinstance(pipeline, Filler):
        if documents is not None or context is not None:
            option = "--context" if documents is None else "--documents"
            raise RefusedError(
                f"{option} is for models that generate text: this one fills in masked words, line by line"
            )
        return evaluate_filler(pipeline, held_out.lines())
    assert isinstance(pipeline, Classifier)  # noqa: S101  # check_test_set has refused all others
    return evaluate_classifier(pipeline, held_out.labeled(pipeline.labels, per_word=pipeline.per_word))
