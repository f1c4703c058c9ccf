"""Arguments and options that several commands have, each with its one meaning."""

from pathlib import Path
from typing import Annotated

import typer

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="A model folder, or the folder of a run.")]
Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What to work on; else the lines of stdin.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

Beam = Annotated[
    int | None, typer.Option(min=1, metavar="K", help="Keep the K best beginnings at every step; 1 is greedy.")
]
LengthPenalty = Annotated[
    float | None, typer.Option(metavar="A", help="Above 0 favours longer results: log P / ((5 + length) / 6)^A.")
]
MaxTokens = Annotated[int | None, typer.Option(min=1, metavar="N", help="Write at most N tokens.")]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="Draw at random; below 1 bold choices are rarer, at 0 there are none.")
]
TopK = Annotated[int | None, typer.Option(min=0, metavar="K", help="Draw from the K likeliest tokens; 0 for all.")]
TopP = Annotated[
    float | None, typer.Option(metavar="P", help="Draw from the fewest tokens that have this probability together.")
]
MinP = Annotated[
    float | None, typer.Option(metavar="P", help="Draw from tokens this probable relative to the likeliest.")
]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="Draw; the same seed gives the same text.")]
To = Annotated[str | None, typer.Option(metavar="LANG", help="The language to translate into, as de.")]
From = Annotated[str | None, typer.Option("--from", metavar="LANG", help="The language of the texts.")]
BatchTokens = Annotated[
    int, typer.Option(min=1, metavar="N", help="Tokens in one batch: more is faster and takes more memory.")
]


def given(**options: object) -> dict[str, object]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def decoding(
    max_tokens: int | None,
    temperature: float | None,
    *,
    top_k: int | None,
    top_p: float | None,
    min_p: float | None,
    beam: int | None,
    seed: int | None,
) -> dict[str, object]:
    """Return the decoding settings that were given; without heat (temperature 0) nothing is drawn."""
    cold = temperature == 0
    return given(
        max_length=max_tokens,
        temperature=None if cold else temperature,
        sample=False if cold else None,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        beam=beam,
        seed=seed,
    )
