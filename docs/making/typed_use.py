"""What a user writes, with the types an editor shows: `make check` fails if `load` no longer offers a verb."""

import sightline


def use(folder: str) -> None:
    """Call every verb of what `load` returns."""
    model = sightline.load(folder)
    text: str = model.translate("How are you?")
    texts: list[str] = model.translate(["How are you?"], to="de", beam_size=4)
    story: str = model.generate("Once")
    reply: str = model.reply(["Hi", text])
    candidates: list[str] = [candidate.token for filling in model.fill("A [MASK]") for candidate in filling.candidates]
    label: str = model.classify([story, reply])[0].label
    nearest: list[str] = [neighbor.word for neighbor in model.neighbors("dog")]
    trace: sightline.Trace = model.trace(text)
    report: sightline.Report = sightline.evaluate(model, source="test.en", target="test.de")
    result: sightline.Result = sightline.train("translation", {"data.train": "pairs.tsv"})
    again: str = result.load().translate("How are you?")
    print(texts, candidates, label, nearest, trace.target.text, report.lines(), again)  # noqa: T201
