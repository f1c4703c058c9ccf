"""`sightline inspect`: one file that shows what a model does with a text."""

import inspect as signatures
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.options import ModelFolder, To, drop_unset, with_decoding
from sightline.cli.texts import put_json
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline
    from sightline.tracing import Trace

FIGURES = (".svg", ".png")
ENDINGS = (".html", *FIGURES, ".json")


@with_decoding("beam_size", after="words")
def inspect(
    model: ModelFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Input text.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file: .html, .svg, .png or .json.")],
    to: To = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Target text to force, instead of what the model generates."),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Figure (.svg, .png): attention, matrix, lines, heads, calculation, beam, positions or embeddings.",
        ),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(metavar="WHICH", help="Attention to show: cross, decoder or encoder.")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, metavar="N", help="Layer, from 0; default: the last.")] = None,
    head: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Head, from 0; default: the mean of all heads.")
    ] = None,
    row: Annotated[int | None, typer.Option(min=0, metavar="N", help="Query token of a calculation, from 0.")] = None,
    words: Annotated[bool, typer.Option("--words", help="Show whole words instead of tokens.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title above the figure.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the path and size of the output file as JSON.")
    ] = False,
    **decoding: Any,
) -> None:
    """Trace a model on a text and draw it: attention, candidates, beams, in one file.

    An .html file is a page to explore, .svg and .png are figures, .json has all the numbers. The default figure of a
    translation shows the last layer's cross-attention as lines and a matrix; of any other model, all heads.

    \b
    Examples:
      sightline inspect runs/en-de "Where is the station?" --out station.html
      sightline inspect runs/phrases "March 14, 2026" --to de --out march.svg
      sightline inspect runs/en-de "Where is it?" --figure calculation --layer 1 --head 3 --out sum.png
      sightline inspect runs/phrases "next week" --to fr --beam 4 --figure beam --out beam.svg
    """
    ending = check_ending(out)
    options = drop_unset(attention=attention, layer=layer, head=head, row=row, words=words or None)
    if ending in FIGURES:
        check_figure(figure)
    elif figure_options := drop_unset(figure=figure, **options):
        raise RefusedError(f"--{next(iter(figure_options))} is for figures: let --out end in .svg or .png")
    from sightline.tasks import load

    pipeline = load(model)
    default = {"beam_size": 4} if figure == "beam" else {}
    trace_options = {**drop_unset(to=to, target=target), **default, **decoding}
    if ending in FIGURES:
        draw_figure(out, pipeline, text, figure, trace_options, {**options, **drop_unset(title=title)})
    elif ending == ".html":
        hypotheses = decoding.get("beam_size", 1) > 1
        write_page(out, trace_text(pipeline, text, trace_options, head_ablation=True, hypotheses=hypotheses), title)
    else:
        write(out, trace_text(pipeline, text, trace_options).to_json())
    report_file(out, as_json=as_json)


def check_ending(out: Path) -> str:
    """Return the extension of the output file, refusing a bad path before any slow work."""
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise RefusedError(f"--out {out}: the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if not out.resolve().parent.is_dir():
        raise RefusedError(f"--out {out}: there is no folder {out.resolve().parent}")
    return ending


def check_figure(kind: str | None) -> None:
    """Refuse an unknown figure, naming those there are."""
    from sightline.tracing.figures import KINDS

    if kind is not None and kind not in KINDS:
        raise RefusedError(f"--figure {kind[:60]!r}: it is one of {', '.join(KINDS)}")


def trace_text(pipeline: "Pipeline", text: str, trace_options: dict[str, object], **options: object) -> "Trace":
    """Trace the model, refusing options that do not apply to it."""
    accepted = set(signatures.signature(pipeline.trace).parameters)
    accepted |= {"beam_size"} if "target" in accepted else set()  # models that generate have a beam
    if unknown := [name for name in trace_options if name not in accepted]:
        option = "beam" if unknown[0] == "beam_size" else unknown[0]
        raise RefusedError(f"--{option} is not for this model, which is a {type(pipeline).__name__}")
    return pipeline.trace(pipeline.parse_input(text), **trace_options, **options)


def draw_figure(
    out: Path,
    pipeline: "Pipeline",
    text: str,
    kind: str | None,
    trace_options: dict[str, object],
    options: dict[str, object],
) -> None:
    """Draw a figure of a trace or of the model, and report characters that no font of the PNG has."""
    from sightline.tracing.figures import KINDS, MODEL_KINDS, default_kind, draw, save

    kind = "calculation" if kind is None and "row" in options else kind
    drawn_from: Any = pipeline
    if kind not in MODEL_KINDS:
        activations = ("*_attention.*",) if kind == "calculation" else ("*.weights",)
        drawn_from = trace_text(pipeline, text, trace_options, activations=activations, logit_lens=False)
        kind = default_kind(drawn_from, chosen=bool(options.keys() - {"title"})) if kind is None else kind
    known = signatures.signature(KINDS[kind]).parameters
    if unknown := [name for name in options if name not in known or (kind, name) == ("embeddings", "words")]:
        raise RefusedError(f"--{unknown[0]} is not for the figure {kind!r}")
    if kind == "embeddings":
        options = {**options, "words": text.split()}
    figure = draw(kind, drawn_from, **options)
    with writable(out):
        missing = save(figure, out)
    if missing and out.suffix.lower() == ".png":
        typer.echo(f"no font here has {missing[:20]}: the PNG shows boxes instead; an .svg keeps the text", err=True)


def write_page(out: Path, trace: "Trace", title: str | None) -> None:
    """Write a trace as an HTML page."""
    from sightline.tracing.page import build_page

    write(out, build_page(trace, title=title))


def write(out: Path, text: str) -> None:
    """Write a text to a file."""
    with writable(out):
        out.write_text(text, encoding="utf-8")


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Turn a failure to write the file into one line."""
    try:
        yield
    except OSError as error:
        raise RefusedError(f"--out {out}: {error.strerror}") from None


def report_file(out: Path, *, as_json: bool) -> None:
    """Print the path and size of the file."""
    size = out.stat().st_size
    if as_json:
        put_json({"out": str(out), "bytes": size})
    else:
        typer.echo(f"wrote {out} ({size / 1000:,.0f} kB)", err=True)
