"""`sightline generate`: continue a text."""

from dataclasses import asdict
from typing import Annotated

import typer

from sightline.cli.options import SAMPLING, AsJson, EngineName, ModelFolder, open_pipeline, with_decoding
from sightline.cli.texts import put, put_json, put_line, read_text


@with_decoding(*SAMPLING, after="prompt")
def generate(
    model: ModelFolder,
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="Text to continue; default: all of stdin, or nothing.")
    ] = None,
    n: Annotated[
        int, typer.Option("--n", min=1, max=1000, metavar="N", help="Number of texts to generate, one line each.")
    ] = 1,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Stop string: generation ends before it; may be repeated.")
    ] = None,
    as_json: AsJson = False,
    engine: EngineName = "torch",
    **decoding: object,
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

    generator = open_pipeline(model, Generator, engine=engine)
    text = read_text(prompt)
    if stop:
        decoding["stop"] = tuple(stop)
    if n > 1 and "beam_size" not in decoding:
        decoding["do_sample"] = True  # different texts need sampling
    if n == 1 and not as_json:
        for piece in generator.stream(text, **decoding):
            put(piece)
        put("\n")
        return
    [results] = generator.continuations([text], settings=generator.resolve_settings(n, decoding))
    for number, result in enumerate(results, 1):
        if as_json:
            put_json({"number": number, "prompt": text, **asdict(result)})
        else:
            put_line(result.text)
