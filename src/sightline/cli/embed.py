"""`sightline embed`: embed texts as vectors."""

from typing import Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder, Texts
from sightline.cli.texts import Text, process_texts, put_json, put_row, read_blocks, show_progress


def embed(
    model: ModelFolder,
    texts: Texts = None,
    normalize: Annotated[
        bool, typer.Option("--normalize", help="Scale every vector to length 1, so that dot products are cosines.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Embed texts as vectors.

    Prints one tab-separated vector for each text or line of stdin; an empty line for a blank one.

    \b
    Examples:
      sightline embed runs/bert "A dog runs." "A cat sleeps."
      sightline embed runs/bert --normalize < sentences.txt > vectors.tsv
      sightline embed runs/bert --json < sentences.txt
    """
    from sightline.tasks import load

    pipeline = load(model)

    def work(block: list[Text]) -> list[list[float]]:
        vectors = pipeline.embed([text.text for text in block])
        if normalize:
            vectors = vectors / vectors.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        return vectors.tolist()

    for text, vector in process_texts(show_progress(read_blocks(texts)), work):
        numbers = None if vector is None else [f"{number:.9g}" for number in vector]  # the precision of float32
        if as_json:
            put_json({"line": text.number, "text": text.text, "vector": numbers and [float(n) for n in numbers]})
        else:
            put_row(*numbers or [""])
