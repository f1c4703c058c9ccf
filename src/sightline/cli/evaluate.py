"""`sightline evaluate`: score a model on a test set."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from sightline.cli.options import BEAM_SEARCH, EngineName, From, ModelFolder, To, with_decoding
from sightline.cli.texts import put_json, put_line, show_status

BleuTokenizer = Literal["13a", "none", "intl", "zh", "char"]
DocumentEnd = Literal["blank", "line", "file"]


@with_decoding(*BEAM_SEARCH, after="from_")
def evaluate(
    model: ModelFolder,
    source: Annotated[Path | None, typer.Option(metavar="F", help="Source file, one text per line.")] = None,
    target: Annotated[
        Path | None, typer.Option(metavar="F", help="Target (reference) file, one text per line.")
    ] = None,
    tsv: Annotated[
        Path | None, typer.Option(metavar="F", help="Parallel file: source and target as TSV, CSV or JSONL.")
    ] = None,
    text: Annotated[Path | None, typer.Option(metavar="F", help="Text file for language models.")] = None,
    dialogues: Annotated[
        Path | None, typer.Option(metavar="F", help="Dialogues: JSONL of turns, or TSV of turn and reply.")
    ] = None,
    labeled: Annotated[Path | None, typer.Option(metavar="F", help="Labeled texts, TSV, CSV or JSONL.")] = None,
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
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="F", help="File for the hypotheses: translations, replies or predicted classes, one per line."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Score only the first N examples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    engine: EngineName = "torch",
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
      sightline evaluate runs/en-de --tsv test.tsv --output hypotheses.txt
      sightline evaluate runs/mood --labeled test.tsv --json
    """
    from sightline.tasks.evaluation import evaluate as score

    names = tuple(name.strip() for name in columns.split(",")) if columns is not None else ()
    with show_status("scoring …"):
        report = score(
            model,
            source=source,
            target=target,
            tsv=tsv,
            text=text,
            dialogues=dialogues,
            labeled=labeled,
            columns=names,
            pair=pair,
            limit=limit,
            to=to,
            from_=from_,
            tokenize=tokenize,
            documents=documents,
            context=context,
            output=output,
            engine=engine,
            **decoding,
        )
    if as_json:
        put_json({"model": str(model), **report.values})
    else:
        for line in report.lines():
            put_line(line)
