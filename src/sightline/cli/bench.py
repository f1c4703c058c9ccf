"""`sightline bench`: speed compared with other implementations, in interleaved rounds."""

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sightline.bench.measure import Timing

app = typer.Typer(
    help="Compare speed with other implementations, in interleaved rounds. Keep the machine idle meanwhile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Rounds = Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of rounds; medians are reported.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Size(StrEnum):
    """Size of the model."""

    tiny = "tiny"
    base = "base"


@app.command()
def train(
    size: Annotated[Size, typer.Option(help="Transformer-tiny, or the paper's base.")] = Size.tiny,
    rounds: Rounds = 15,
    as_json: AsJson = False,
) -> None:
    """Time one training step against the installed peers. A step is forward, backward and update.

    Example: sightline bench train --size base --rounds 7
    """
    from sightline.bench.train import bench_train, missing_peers
    from sightline.runtime import keep_freed_memory

    if missing := missing_peers():
        typer.echo(f"skipped, not installed: {', '.join(missing)} (pip install 'sightline[bench]')", err=True)
    keep_freed_memory()  # the peers benefit too
    work, timings = bench_train(size.value, rounds=rounds, after_round=progress_printer(rounds))
    about = f"{work.n_target_tokens:,} target tokens a step, {work.padding:.0%} padding, {size.value}"
    report(timings, about=about, tokens=work.n_target_tokens, as_json=as_json)


@app.command()
def corpus(
    source: Annotated[
        Path | None, typer.Option(metavar="F", help="Source file, one sentence per line; default: built-in phrases.")
    ] = None,
    target: Annotated[Path | None, typer.Option(metavar="F", help="Target file, one sentence per line.")] = None,
    sentences: Annotated[int, typer.Option(min=10, metavar="N", help="Number of sentences.")] = 4000,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time one epoch, batching included, against HF's Trainer loop.

    Example: sightline bench corpus --source train.en --target train.de
    """
    from sightline.bench.corpus import bench_corpus, read_sentences
    from sightline.runtime import keep_freed_memory

    keep_freed_memory()  # the peers benefit too
    work = read_sentences(source, target, n=sentences)
    timings, waste = bench_corpus(work, rounds=rounds, after_round=progress_printer(rounds))
    shares = ", ".join(f"{name} {share:.1%}" for name, share in waste.items())
    about = f"{len(work.sources):,} pairs, {work.n_target_tokens:,} target tokens; padding: {shares}"
    report(timings, about=about, tokens=work.n_target_tokens, as_json=as_json)


@app.command()
def trace(
    size: Annotated[Size, typer.Option(help="Transformer-tiny, or the paper's base.")] = Size.tiny,
    rounds: Rounds = 15,
    as_json: AsJson = False,
) -> None:
    """Time a translation with and without tracing. Measures the memory of both, too.

    Example: sightline bench trace --size base --rounds 7
    """
    from sightline.bench.trace import bench_trace

    cost = bench_trace(size.value, rounds=rounds, after_round=progress_printer(rounds))
    kept = ", ".join(f"{name} {count / 1e6:.1f} MB" for name, count in cost.activation_bytes.items())
    peaks = ", ".join(f"{name} {count / 1e6:,.0f} MB" for name, count in cost.peak_bytes.items())
    about = f"30 tokens into 30, {size.value}; recorded: {kept}; peak memory growth: {peaks or 'unknown'}"
    report(cost.timings, about=about, as_json=as_json)


@app.command()
def serve(
    size: Annotated[Size, typer.Option(help="Transformer-tiny, or the paper's base.")] = Size.tiny,
    clients: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Number of concurrent clients.")] = 64,
    requests: Annotated[int, typer.Option(min=1, metavar="N", help="Number of requests per client and round.")] = 4,
    rounds: Rounds = 5,
    as_json: AsJson = False,
) -> None:
    """Time serving many clients, and one, against a simple handler. The model is a translator.

    Example: sightline bench serve --clients 64
    """
    from dataclasses import asdict

    from sightline.bench.serve import bench_serve

    results = bench_serve(
        size.value, clients=clients, requests_each=requests, rounds=rounds, after_round=progress_printer(rounds)
    )
    if as_json:
        typer.echo(json.dumps([asdict(result) for result in results], indent=2))
        return
    typer.echo(f"30 tokens into 30, {size.value}; medians of {rounds} interleaved rounds")
    for one in results:
        speed = f"{one.tokens_per_second:9,.0f} tokens/s   p50 {one.p50 * 1e3:8,.0f} ms   p99 {one.p99 * 1e3:8,.0f} ms"
        typer.echo(f"  {one.name:32}{speed}" + (f"   {one.failures} failed" if one.failures else ""))


@app.command()
def startup(rounds: Rounds = 10, as_json: AsJson = False) -> None:
    """Time the startup of commands in a fresh interpreter.

    Example: sightline bench startup
    """
    from sightline.bench.measure import bench_startup

    report(
        bench_startup(rounds=rounds, after_round=progress_printer(rounds)),
        about="one fresh interpreter each",
        as_json=as_json,
    )


def progress_printer(rounds: int) -> Callable[[int], None]:
    """Return a callback that prints the round on a terminal, nothing elsewhere."""

    def print_round(number: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(
                "\rwarming up" if number < 0 else f"\rround {number + 1} of {rounds}" + "\n" * (number + 1 == rounds)
            )

    return print_round


def report(timings: "list[Timing]", *, about: str, tokens: int | None = None, as_json: bool) -> None:
    """Print medians, and the speed of the first relative to each, compared round by round."""
    first = timings[0]
    if as_json:
        results = [
            {"name": t.name, "median_seconds": t.median, "ratio": first.speed_against(t), "seconds": t.seconds}
            for t in timings
        ]
        typer.echo(json.dumps({"about": about, "tokens": tokens, "results": results}, indent=2))
        return
    typer.echo(f"{about}; medians of {len(first.seconds)} interleaved rounds")
    for timing in timings:
        speed = f"{tokens / timing.median:10,.0f} tokens/s" if tokens else ""
        ratio = f"{first.name} is {first.speed_against(timing):.2f}× as fast" if timing is not first else ""
        typer.echo(f"  {timing.name:22}{timing.median * 1e3:10,.1f} ms{speed}   {ratio}".rstrip())
