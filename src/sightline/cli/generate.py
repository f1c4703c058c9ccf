"""`sightline generate`: go on with a text."""

from dataclasses import asdict
from typing import Annotated

import typer

from sightline.cli.opening import opened
from sightline.cli.options import AsJson, Beam, MaxTokens, MinP, ModelFolder, Seed, Temperature, TopK, TopP, decoding
from sightline.cli.output import put, put_json, put_line
from sightline.cli.texts import whole_text


def generate(
    model: ModelFolder,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="What to go on from; else all of stdin, or nothing.")
    ] = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    beam: Beam = None,
    seed: Seed = None,
    n: Annotated[int, typer.Option("--n", min=1, max=1000, metavar="N", help="Write N texts, a line each.")] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="End before this; may be given several times.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a text.

    Prints what is written as it comes, without the prompt. With --n N there is one line for each text, a line break in
    it written as \\n; with --json it stays one.

    \b
    Examples:
      sightline generate runs/shakespeare "To be, or" --max-tokens 50
      sightline generate runs/shakespeare --temperature 0.8 --top-p 0.95 --seed 1
      sightline generate runs/shakespeare "ROMEO:" --n 3 --temperature 1 --json
      sightline generate runs/shakespeare --stop $'\\n' < beginning.txt
    """
    from sightline.pipelines import Generator

    generator = opened(model, Generator)
    text = whole_text(prompt)
    options = decoding(max_tokens, temperature, top_k=top_k, top_p=top_p, min_p=min_p, beam=beam, seed=seed)
    if stop:
        options["stop"] = tuple(stop)
    if n > 1 and beam is None:
        options["sample"] = True  # texts that differ must be drawn
    if n == 1 and not as_json:
        for piece in generator.stream(text, **options):
            put(piece)
        put("\n")
        return
    [written] = generator.continuations([text], settings=generator.settings_for(n, options))
    for number, result in enumerate(written, 1):
        if as_json:
            put_json({"number": number, "prompt": text, **asdict(result)})
        else:
            put_line(result.text)
