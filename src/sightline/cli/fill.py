"""`sightline fill`: the words that fit where a text has [MASK]."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.opening import opened
from sightline.cli.options import AsJson, ModelFolder, Texts
from sightline.cli.output import put_json, put_row
from sightline.cli.progress import shown
from sightline.cli.texts import Text, answers, text_blocks

if TYPE_CHECKING:
    from sightline.pipelines import Filling


def fill(
    model: ModelFolder,
    texts: Texts = None,
    n: Annotated[int, typer.Option("--n", min=1, max=1000, metavar="N", help="Print the N likeliest words.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Fill in the words that are missing, where a text has [MASK].

    Prints, with tabs between: the number of the mask, the word, its probability, and the text with the word in it.
    With --json there is one object for each text.

    \b
    Examples:
      sightline fill runs/bert "A dog [MASK] in the park."
      sightline fill runs/bert --n 3 "A [MASK] [MASK] in the park."
      sightline fill runs/bert --json < sentences.txt
    """
    from sightline.pipelines import Filler

    filler = opened(model, Filler)

    def work(block: list[Text]) -> "list[list[Filling]]":
        return filler.fillings([text.text for text in block], n=n)

    for text, fillings in answers(shown(text_blocks(texts)), work):
        if as_json:
            put_json({"line": text.number, "text": text.text, "masks": [entries_of(each) for each in fillings or ()]})
            continue
        for number, filling in enumerate(fillings or (), 1):
            for candidate in filling.candidates:
                put_row(str(number), candidate.token, f"{candidate.probability:.4f}", candidate.text)


def entries_of(filling: "Filling") -> list[dict[str, object]]:
    """Return what fits at one mask, ready for JSON."""
    return [{"word": c.token, "probability": c.probability, "text": c.text} for c in filling.candidates]
