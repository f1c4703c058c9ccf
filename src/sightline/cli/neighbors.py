"""`sightline neighbors`: the words a model holds to be nearest to a word."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder
from sightline.cli.output import put_json, put_row
from sightline.cli.progress import shown
from sightline.cli.texts import Text, answers, text_blocks

if TYPE_CHECKING:
    from sightline.pipelines import Neighbor


def neighbors(
    model: ModelFolder,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Words; else the lines of stdin.")] = None,
    n: Annotated[int, typer.Option("--n", min=1, max=10_000, metavar="N", help="Print the N nearest words.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Find the words that are nearest to a word.

    Near are words whose vectors point the same way. Prints, with tabs between: the word, its neighbor, and the cosine
    of their vectors. With --json there is one object for each word.

    \b
    Examples:
      sightline neighbors runs/en-de house
      sightline neighbors runs/shakespeare king queen --n 5
      sightline neighbors runs/bert --json < words.txt
    """
    from sightline.pipelines import load

    pipeline = load(model)

    def work(block: list[Text]) -> "list[list[Neighbor]]":
        return [pipeline.neighbors(text.text.strip(), n=n) for text in block]

    for word, found in answers(shown(text_blocks(words)), work):
        if as_json:
            near = [{"word": neighbor.word, "similarity": neighbor.similarity} for neighbor in found or ()]
            put_json({"line": word.number, "word": word.text.strip(), "neighbors": near})
            continue
        for neighbor in found or ():
            put_row(word.text.strip(), neighbor.word, f"{neighbor.similarity:.4f}")
