"""`sightline neighbors`: nearest neighbors of words."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder
from sightline.cli.texts import Text, process_texts, put_json, put_row, read_blocks, show_progress

if TYPE_CHECKING:
    from sightline.pipelines import Neighbor


def neighbors(
    model: ModelFolder,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Words; default: the lines of stdin.")
    ] = None,
    n: Annotated[
        int, typer.Option("--n", min=1, max=10_000, metavar="N", help="Number of neighbors to print for each word.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Find the nearest neighbors of words, by the cosine similarity of their vectors.

    Prints, tab-separated: the word, its neighbor, and their cosine similarity. With --json there is one object for
    each word.

    \b
    Examples:
      sightline neighbors runs/en-de house
      sightline neighbors runs/shakespeare king queen --n 5
      sightline neighbors runs/bert --json < words.txt
    """
    from sightline.tasks import load

    pipeline = load(model)

    def work(block: list[Text]) -> "list[list[Neighbor]]":
        return [pipeline.neighbors(text.text.strip(), n=n) for text in block]

    for word, found in process_texts(show_progress(read_blocks(words)), work):
        if as_json:
            near = [{"word": neighbor.word, "similarity": neighbor.similarity} for neighbor in found or ()]
            put_json({"line": word.number, "word": word.text.strip(), "neighbors": near})
            continue
        for neighbor in found or ():
            put_row(word.text.strip(), neighbor.word, f"{neighbor.similarity:.4f}")
