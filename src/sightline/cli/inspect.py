"""`sightline inspect`: one file that shows what a model did with a text."""

import inspect as signatures
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.options import Beam, ModelFolder, To, given
from sightline.cli.output import put_json
from sightline.errors import InputError, RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline
    from sightline.tracing import Trace

FIGURES = (".svg", ".png")
ENDINGS = (".html", *FIGURES, ".json")


def inspect(
    model: ModelFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What the model is to read.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write: .html, .svg, .png or .json.")],
    to: To = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Show how this would be written, instead of what the model writes."),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Of an .svg or .png: attention, matrix, lines, heads, calculation, beam, positions or embeddings.",
        ),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(metavar="WHICH", help="Whose attention: cross, decoder or encoder.")
    ] = None,
    layer: Annotated[int | None, typer.Option(min=0, metavar="N", help="The layer, from 0; else the last.")] = None,
    head: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The head, from 0; else the mean of all.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="In a calculation: the token that looks, from 0.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Take whole words instead of tokens.")] = False,
    beam: Beam = None,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Written above the figure.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON what was written, and where.")] = False,
) -> None:
    """Draw what a model does with a text: one file, made for a page, a paper or a slide.

    An .html is a page to explore, .svg and .png are figures, and .json has all the numbers. Without --figure a
    translation is drawn as lines and a matrix of its last cross-attention, and any other model with all its heads.

    \b
    Examples:
      sightline inspect runs/en-de "Where is the station?" --out station.html
      sightline inspect runs/phrases "March 14, 2026" --to de --out march.svg
      sightline inspect runs/en-de "Where is it?" --figure calculation --layer 1 --head 3 --out sum.png
      sightline inspect runs/phrases "next week" --to fr --beam 4 --figure beam --out beam.svg
    """
    ending = checked_ending(out)
    options = given(attention=attention, layer=layer, head=head, row=row, words=words or None)
    if ending in FIGURES:
        check_figure(figure)
    elif of_figures := given(figure=figure, **options):
        raise RefusedError(f"--{next(iter(of_figures))} is for figures: let --out end in .svg or .png")
    from sightline.pipelines import load

    pipeline = load(model)
    wishes = given(to=to, target=target, beam=4 if figure == "beam" and beam is None else beam)
    if ending in FIGURES:
        draw_figure(out, pipeline, text, figure, wishes, {**options, **given(title=title)})
    elif ending == ".html":
        write_page(out, traced(pipeline, text, wishes, knockouts=True, hypotheses=(beam or 1) > 1), title)
    else:
        write(out, traced(pipeline, text, wishes).to_json())
    tell(out, as_json=as_json)


def checked_ending(out: Path) -> str:
    """Return what kind of file is wanted, before anything slow is done."""
    ending = out.suffix.lower()
    if ending not in ENDINGS:
        raise RefusedError(f"--out {out}: the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if not out.resolve().parent.is_dir():
        raise RefusedError(f"--out {out}: there is no folder {out.resolve().parent}")
    return ending


def check_figure(kind: str | None) -> None:
    """Refuse a figure that nobody can draw, naming those there are."""
    from sightline.tracing.figures import KINDS

    if kind is not None and kind not in KINDS:
        raise RefusedError(f"--figure {kind[:60]!r}: it is one of {', '.join(KINDS)}")


def traced(pipeline: "Pipeline", text: str, wishes: dict[str, object], **options: object) -> "Trace":
    """Return what the model did, or say which option is not for this model."""
    taken = set(signatures.signature(pipeline.trace).parameters)
    taken |= {"beam"} if "target" in taken else set()  # what writes has a beam
    if strange := [name for name in wishes if name not in taken]:
        raise RefusedError(f"--{strange[0]} is not for this model, which is a {type(pipeline).__name__}")
    read: Any = text.split() if getattr(pipeline, "per_word", False) else text
    try:
        return pipeline.trace(read, **wishes, **options)
    except InputError as error:
        raise InputError(str(error).replace("`to`", "--to").replace("`from_`", "--from")) from None


def draw_figure(
    out: Path, pipeline: "Pipeline", text: str, kind: str | None, wishes: dict[str, object], options: dict[str, object]
) -> None:
    """Draw a figure of a trace or of the model itself, and say which letters a PNG could not show."""
    from sightline.tracing.figures import KINDS, OF_A_MODEL, default_kind, draw, save

    kind = "calculation" if kind is None and "row" in options else kind
    drawn_from: Any = pipeline
    if kind not in OF_A_MODEL:
        probes = ("*_attention.*",) if kind == "calculation" else ("*.weights",)
        drawn_from = traced(pipeline, text, wishes, probes=probes, readout=False)
        kind = default_kind(drawn_from, chosen=bool(options.keys() - {"title"})) if kind is None else kind
    known = signatures.signature(KINDS[kind]).parameters
    if strange := [name for name in options if name not in known or (kind, name) == ("embeddings", "words")]:
        raise RefusedError(f"--{strange[0]} is not for the figure {kind!r}")
    if kind == "embeddings":
        options = {**options, "words": text.split()}
    figure = draw(kind, drawn_from, **options)
    with writable(out):
        unknown = save(figure, out)
    if unknown and out.suffix.lower() == ".png":
        typer.echo(f"no font here has {unknown[:20]}: the PNG shows signs instead; an .svg keeps the text", err=True)


def write_page(out: Path, trace: "Trace", title: str | None) -> None:
    """Write the page that draws a trace."""
    from sightline.tracing.drawing import page

    write(out, page(trace, title=title))


def write(out: Path, text: str) -> None:
    """Write a text to a file."""
    with writable(out):
        out.write_text(text, encoding="utf-8")


@contextmanager
def writable(out: Path) -> Iterator[None]:
    """Say in a line why a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise RefusedError(f"--out {out}: {error.strerror}") from None


def tell(out: Path, *, as_json: bool) -> None:
    """Say where the file is."""
    size = out.stat().st_size
    if as_json:
        put_json({"out": str(out), "bytes": size})
    else:
        typer.echo(f"wrote {out} ({size / 1000:,.0f} kB)", err=True)
