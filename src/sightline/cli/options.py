"""Arguments and options shared by several commands."""

from pathlib import Path
from typing import Annotated

import typer

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder or run folder.")]
Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Input texts; default: the lines of stdin.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

Beam = Annotated[
    int | None,
    typer.Option(min=1, metavar="K", help="Beam size: number of hypotheses kept at every step; 1 is greedy."),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        metavar="A", help="Length penalty: score = log P / ((5 + length) / 6)^A; above 0 favors longer results."
    ),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, metavar="N", help="Maximum number of tokens to generate.")]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="Sampling temperature: below 1, less random; 0 disables sampling.")
]
TopK = Annotated[
    int | None,
    typer.Option(min=0, metavar="K", help="Top-k sampling: sample from the K most likely tokens; 0 for all."),
]
TopP = Annotated[
    float | None,
    typer.Option(metavar="P", help="Top-p (nucleus) sampling: sample from the fewest tokens with total probability P."),
]
MinP = Annotated[
    float | None,
    typer.Option(
        metavar="P", help="Min-p sampling: sample from tokens at least P times as likely as the most likely one."
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Random seed for sampling: the same seed gives the same text.")
]
To = Annotated[str | None, typer.Option(metavar="LANG", help="Target language, for example de.")]
From = Annotated[str | None, typer.Option("--from", metavar="LANG", help="Source language.")]
BatchTokens = Annotated[
    int, typer.Option(min=1, metavar="N", help="Batch size in tokens: more is faster and needs more memory.")
]


def drop_unset(**options: object) -> dict[str, object]:
    """Return the options that were set."""
    return {name: value for name, value in options.items() if value is not None}


def decoding_overrides(
    max_tokens: int | None,
    temperature: float | None,
    *,
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
    beam_size: int | None,
    seed: int | None,
) -> dict[str, object]:
    """Return the decoding settings that were set; temperature 0 disables sampling."""
    greedy = temperature == 0
    return drop_unset(
        max_new_tokens=max_tokens,
        temperature=None if greedy else temperature,
        do_sample=False if greedy else None,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        beam_size=beam_size,
        seed=seed,
    )
