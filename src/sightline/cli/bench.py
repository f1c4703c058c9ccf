"""`sightline bench`: speed compared with other implementations, in interleaved rounds."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sightline.bench.contenders import Plan
    from sightline.bench.growth import Growth, GrowthReport
    from sightline.bench.report import Report

app = typer.Typer(
    help="Compare speed with other implementations, in interleaved rounds. Keep the machine idle meanwhile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Rounds = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of rounds; medians are reported.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, which `bench chart` draws.")]
Only = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this contender beside ours; may be given again.")
]
Before = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Work tree of an older commit, whose code takes part as `before`."),
]
Batch = Annotated[int | None, typer.Option(min=1, max=100_000, metavar="N", help="Texts at once.")]
Length = Annotated[int | None, typer.Option(min=1, max=100_000, metavar="N", help="Tokens of each text.")]
From = Annotated[int | None, typer.Option("--from", min=1, metavar="N", help="First value of --grow.")]
To = Annotated[int | None, typer.Option("--to", min=1, metavar="N", help="Last value of --grow.")]
GROW = typer.Option(help="Double this again and again: growth curves.")


class PairSize(StrEnum):
    """Sizes of an encoder–decoder."""

    tiny = "tiny"
    base = "base"


class TrainingSize(StrEnum):
    """Sizes that are trained."""

    tiny = "tiny"
    base = "base"
    bert_mini = "bert-mini"
    nanogpt = "nanogpt"
    gpt2 = "gpt2"


class DecodingSize(StrEnum):
    """Sizes that generate."""

    tiny = "tiny"
    base = "base"
    nanogpt = "nanogpt"
    gpt2 = "gpt2"


class EmbeddingSize(StrEnum):
    """Sizes of an encoder."""

    bert_mini = "bert-mini"
    bert_base = "bert-base"


class TrainingNumber(StrEnum):
    """What may grow in training."""

    length = "length"
    batch = "batch"
    vocabulary = "vocabulary"
    layers = "layers"


class DecodingNumber(StrEnum):
    """What may grow in generating."""

    length = "length"
    batch = "batch"
    beam = "beam"
    vocabulary = "vocabulary"
    layers = "layers"


class EmbeddingNumber(StrEnum):
    """What may grow in embedding."""

    length = "length"
    batch = "batch"
    layers = "layers"


class CorpusNumber(StrEnum):
    """What may grow in an epoch."""

    sentences = "sentences"


RANGES = {
    "length": (64, 4096),
    "batch": (1, 256),
    "beam": (1, 16),
    "vocabulary": (1000, 128_000),
    "layers": (1, 16),
    "sentences": (1000, 16_000),
}
"""First and last value of --grow, if none is given."""


@app.command()
def train(
    size: Annotated[TrainingSize, typer.Option(help="Transformer-tiny, the paper's base, or another.")] = (
        TrainingSize.tiny
    ),
    batch: Batch = None,
    length: Length = None,
    grow: Annotated[TrainingNumber | None, GROW] = None,
    first: From = None,
    last: To = None,
    rounds: Rounds = 15,
    only: Only = None,
    before: Before = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Instead of peers: ours without each of its levers, one at a time.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Time one training step against the installed peers. A step is forward, backward and update.

    Each peer takes part at its fastest setting: as it is, compiled, or with bf16 autocast.

    Example: sightline bench train --size base --rounds 7
    """
    from sightline.bench.shapes import Shape
    from sightline.bench.train import ablate_train, bench_train, grow_train

    shape = Shape(size.value, batch=batch, length=length)
    with benchmark_plan(rounds, only, before) as plan:
        if grow is not None:
            found: Report | GrowthReport = grow_train(shape, growth_of(grow, first, last), plan)
        else:
            found = ablate_train(shape, plan) if ablate else bench_train(shape, plan)
    report(found, as_json=as_json)


@app.command()
def decode(
    size: Annotated[DecodingSize, typer.Option(help="An encoder–decoder, or a GPT.")] = DecodingSize.tiny,
    batch: Batch = 1,
    beam: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Beam size; 1 is greedy.")] = 1,
    length: Length = None,
    grow: Annotated[DecodingNumber | None, GROW] = None,
    first: From = None,
    last: To = None,
    rounds: Rounds = 15,
    only: Only = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Time generating 28 tokens against other engines, all with the same weights. Reading the source counts.

    Each peer takes part with one thread or with all, whichever is faster; its tokens are compared with ours.

    Example: sightline bench decode --size base --batch 32 --beam 4
    """
    from sightline.bench.decode import bench_decode, grow_decode
    from sightline.bench.shapes import Shape

    shape = Shape(size.value, batch=batch, beam=beam, length=length)
    with benchmark_plan(rounds, only, before) as plan:
        found = bench_decode(shape, plan) if grow is None else grow_decode(shape, growth_of(grow, first, last), plan)
    report(found, as_json=as_json)


@app.command()
def embed(
    size: Annotated[EmbeddingSize, typer.Option(help="A small or a large BERT.")] = EmbeddingSize.bert_mini,
    batch: Batch = None,
    length: Length = None,
    grow: Annotated[EmbeddingNumber | None, GROW] = None,
    first: From = None,
    last: To = None,
    rounds: Rounds = 15,
    only: Only = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Time embedding a batch of texts of mixed length against other encoders, all with the same weights.

    Example: sightline bench embed --batch 64 --length 128
    """
    from sightline.bench.embed import bench_embed, grow_embed
    from sightline.bench.shapes import Shape

    shape = Shape(size.value, batch=batch, length=length)
    with benchmark_plan(rounds, only, before) as plan:
        found = bench_embed(shape, plan) if grow is None else grow_embed(shape, growth_of(grow, first, last), plan)
    report(found, as_json=as_json)


@app.command()
def corpus(
    source: Annotated[
        Path | None, typer.Option(metavar="F", help="Source file, one sentence per line; default: built-in phrases.")
    ] = None,
    target: Annotated[Path | None, typer.Option(metavar="F", help="Target file, one sentence per line.")] = None,
    sentences: Annotated[int, typer.Option(min=10, metavar="N", help="Number of sentences.")] = 4000,
    size: Annotated[PairSize, typer.Option(help="Transformer-tiny, or the paper's base.")] = PairSize.tiny,
    grow: Annotated[CorpusNumber | None, GROW] = None,
    first: From = None,
    last: To = None,
    rounds: Rounds = 5,
    only: Only = None,
    before: Before = None,
    as_json: AsJson = False,
) -> None:
    """Time one epoch over real sentences, batching included, against other models in the loop of HF's Trainer.

    Example: sightline bench corpus --source train.en --target train.de
    """
    from sightline.bench.corpus import EpochSettings, bench_corpus, grow_corpus

    epoch = EpochSettings(source, target, size.value)
    with benchmark_plan(rounds, only, before) as plan:
        found = (
            bench_corpus(epoch, sentences, plan)
            if grow is None
            else grow_corpus(epoch, growth_of(grow, first, last), plan)
        )
    report(found, as_json=as_json)


@app.command()
def trace(
    size: Annotated[PairSize, typer.Option(help="Transformer-tiny, or the paper's base.")] = PairSize.tiny,
    rounds: Rounds = 15,
    only: Only = None,
    as_json: AsJson = False,
) -> None:
    """Time a translation with and without tracing, here and in HF. Measures the memory of both, too.

    Example: sightline bench trace --size base --rounds 7
    """
    from sightline.bench.trace import bench_trace

    with benchmark_plan(rounds, only) as plan:
        found = bench_trace(size.value, plan)
    report(found, as_json=as_json)


@app.command()
def serve(
    size: Annotated[PairSize, typer.Option(help="Transformer-tiny, or the paper's base.")] = PairSize.tiny,
    clients: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Number of concurrent clients.")] = 64,
    requests: Annotated[int, typer.Option(min=1, metavar="N", help="Number of requests per client and round.")] = 4,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time serving many clients, and one, against simple handlers: of our pipeline, and of CTranslate2.

    Example: sightline bench serve --clients 64
    """
    from dataclasses import asdict

    from sightline.bench.limits import describe_machine
    from sightline.bench.serve import bench_serve

    machine, about = describe_machine(), f"Serving, {size.value}: 30 tokens into 30"
    with benchmark_plan(rounds) as plan:
        results = bench_serve(size.value, plan, clients=clients, requests_each=requests)
    if as_json:
        servers = [asdict(result) for result in results]
        found = {"command": "serve", "about": about, "machine": asdict(machine), "servers": servers}
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"{about}; medians of {rounds} interleaved rounds\n{machine}")
    for one in results:
        speed = f"{one.tokens_per_second:9,.0f} tokens/s   p50 {one.p50 * 1e3:8,.0f} ms   p99 {one.p99 * 1e3:8,.0f} ms"
        typer.echo(f"  {one.name:32}{speed}" + (f"   {one.failures} failed" if one.failures else ""))


@app.command()
def startup(rounds: Rounds = 10, as_json: AsJson = False) -> None:
    """Time commands in fresh interpreters: what imports take, and one word translated cold, here and elsewhere.

    Example: sightline bench startup
    """
    from sightline.bench.startup import bench_startup

    with benchmark_plan(rounds) as plan:
        found = bench_startup(plan)
    report(found, as_json=as_json)


@app.command()
def chart(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="What `bench … --json` printed.")],
    out: Annotated[Path, typer.Option(metavar="F", help="Picture to write, .svg or .png.")] = Path("speed.svg"),
) -> None:
    """Draw what other benchmarks measured: bars, or the curves of --grow.

    Example: sightline bench chart train.json decode.json --out speed.svg
    """
    from sightline.bench.chart import draw_charts

    draw_charts(files, out)
    typer.echo(out)


def growth_of(number: StrEnum, first: int | None, last: int | None) -> "Growth":
    """Return the values that a number takes."""
    from sightline.bench.growth import Growth, doubled
    from sightline.errors import InputError

    low, high = RANGES[number.value]
    values = doubled(first or low, last or high)
    if not values:
        raise InputError(f"--to {last or high:,} is below --from {first or low:,}")
    return Growth(number.value, values)


@contextmanager
def benchmark_plan(rounds: int, only: list[str] | None = None, before: Path | None = None) -> "Iterator[Plan]":
    """Yield the plan of a benchmark, which tells on a terminal what it is doing, and nothing elsewhere."""
    from sightline.bench.contenders import Plan

    if not sys.stderr.isatty():
        yield Plan(rounds, only or [], before)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield Plan(rounds, only or [], before, status.update)


def report(found: "Report | GrowthReport", *, as_json: bool) -> None:
    """Print what was measured."""
    typer.echo(json.dumps(found.as_json(), indent=2) if as_json else found.as_text())
