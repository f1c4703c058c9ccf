"""`sightline generate`: continue a text."""

from dataclasses import asdict
from typing import Annotated

import typer

from sightline.cli.loading import open_pipeline
from sightline.cli.options import (
    AsJson,
    Beam,
    MaxTokens,
    MinP,
    ModelFolder,
    Seed,
    Temperature,
    TopK,
    TopP,
    decoding_overrides,
)
from sightline.cli.output import put, put_json, put_line
from sightline.cli.texts import read_text


def generate(
    model: ModelFolder,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Text to continue; default: all of stdin, or nothing.")
    ] = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    beam: Beam = None,
    seed: Seed = None,
    n: Annotated[
        int, typer.Option("--n", min=1, max=1000, metavar="N", help="Number of texts to generate, one line each.")
    ] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Stop string: generation ends before it; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Continue a text.

    Prints the generated text as it comes, without the prompt. With --n N there is one line for each text, a line break
    within it printed as \\n; JSON keeps it.

    \b
    Examples:
      sightline generate runs/shakespeare "To be, or" --max-tokens 50
      sightline generate runs/shakespeare --temperature 0.8 --top-p 0.95 --seed 1
      sightline generate runs/shakespeare "ROMEO:" --n 3 --temperature 1 --json
      sightline generate runs/shakespeare --stop $'\\n' < beginning.txt
    """
    from sightline.pipelines import Generator

    generator = open_pipeline(model, Generator)
    text = read_text(prompt)
    options = decoding_overrides(
        max_tokens, temperature, top_k=top_k, top_p=top_p, min_p=min_p, beam_size=beam, seed=seed
    )
    if stop:
        options["stop"] = tuple(stop)
    if n > 1 and beam is None:
        options["do_sample"] = True  # different texts need sampling
    if n == 1 and not as_json:
        for piece in generator.stream(text, **options):
            put(piece)
        put("\n")
        return
    [results] = generator.continuations([text], settings=generator.resolve_settings(n, options))
    for number, result in enumerate(results, 1):
        if as_json:
            put_json({"number": number, "prompt": text, **asdict(result)})
        else:
            put_line(result.text)
