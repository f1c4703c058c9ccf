"""`sightline fill`: predict the words for [MASK]."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.options import AsJson, ModelFolder, Texts, open_pipeline
from sightline.cli.texts import Text, process_texts, put_json, put_row, read_blocks, show_progress

if TYPE_CHECKING:
    from sightline.pipelines import Filling


def fill(
    model: ModelFolder,
    texts: Texts = None,
    n: Annotated[
        int,
        typer.Option(
            "--n", min=1, max=1000, metavar="N", help="Number of words to print for each mask, most likely first."
        ),
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Fill in masked words: predict the words for [MASK] in a text.

    Prints, tab-separated: the number of the mask, the word, its probability, and the text with the word filled in.
    With --json there is one object for each text.

    \b
    Examples:
      sightline fill runs/bert "A dog [MASK] in the park."
      sightline fill runs/bert --n 3 "A [MASK] [MASK] in the park."
      sightline fill runs/bert --json < sentences.txt
    """
    from sightline.pipelines import Filler

    filler = open_pipeline(model, Filler)

    def work(block: list[Text]) -> "list[list[Filling]]":
        return filler.fillings([text.text for text in block], n=n)

    for text, fillings in process_texts(show_progress(read_blocks(texts)), work):
        if as_json:
            put_json(
                {"line": text.number, "text": text.text, "masks": [to_json_dicts(each) for each in fillings or ()]}
            )
            continue
        for number, filling in enumerate(fillings or (), 1):
            for candidate in filling.candidates:
                put_row(str(number), candidate.token, f"{candidate.probability:.4f}", candidate.text)


def to_json_dicts(filling: "Filling") -> list[dict[str, object]]:
    """Return the candidates for one mask as JSON objects."""
    return [{"word": c.token, "probability": c.probability, "text": c.text} for c in filling.candidates]
