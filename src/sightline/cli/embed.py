"""`sightline embed`: texts as vectors."""

from typing import Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder, Texts
from sightline.cli.output import put_json, put_row
from sightline.cli.progress import shown
from sightline.cli.texts import Text, answers, text_blocks


def embed(
    model: ModelFolder,
    texts: Texts = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Give every vector the length 1: their products are cosines then.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Turn texts into vectors.

    Prints for each text, or line of stdin, its numbers with tabs between; nothing in the line of a blank one.

    \b
    Examples:
      sightline embed runs/bert "A dog runs." "A cat sleeps."
      sightline embed runs/bert --normalize < sentences.txt > vectors.tsv
      sightline embed runs/bert --json < sentences.txt
    """
    from sightline.pipelines import load

    pipeline = load(model)

    def work(block: list[Text]) -> list[list[float]]:
        vectors = pipeline.embed([text.text for text in block])
        if normalize:
            vectors = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return vectors.tolist()

    for text, vector in answers(shown(text_blocks(texts)), work):
        numbers = None if vector is None else [f"{number:.9g}" for number in vector]  # all that 32 bits can tell
        if as_json:
            put_json({"line": text.number, "text": text.text, "vector": numbers and [float(n) for n in numbers]})
        else:
            put_row(*numbers or [""])
