"""/classify and /fill: what BERT does with a text."""

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request

from sightline.pipelines import Classification, Classifier, Filler
from sightline.serving.api.desk import Desk
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.body import Body
from sightline.serving.problem import Problem
from sightline.serving.route import Router

Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class ClassifyBody(Body):
    """What to classify: a text, several, or with `pairs` pairs of texts."""

    input: str | list[str] | None = None
    pairs: list[Pair] | None = None
    model: str | None = Field(None, description="Which model, where several classify.")


class OneClass(BaseModel):
    """The likeliest class, and how likely each is."""

    label: str
    probability: float
    probabilities: dict[str, float]


class ClassifiedWord(OneClass):
    """A word and its class."""

    word: str


class Classified(BaseModel):
    """The class of each text; of a model for words, the classes of the words of each."""

    data: list[OneClass] | list[list[ClassifiedWord]]


class FillBody(Body):
    """Texts with gaps: [MASK]."""

    input: str | list[str]
    n: Annotated[int, Field(ge=1, le=100)] = Field(5, description="So many candidates for each gap.")
    model: str | None = Field(None, description="Which model, where several fill gaps.")


class FillCandidate(BaseModel):
    """What could stand in a gap."""

    text: str = Field(description="The text with the gap filled.")
    token: str
    probability: float


class Filled(BaseModel):
    """For each text, for each gap, the likeliest candidates."""

    data: list[list[list[FillCandidate]]]


def router(desk: Desk) -> Router:
    """Return the routes of models that read."""
    routes = Router(tags=["Sightline"], responses=NO_MODEL)

    @routes.post("/classify", summary="Classify texts, pairs of texts, or words")
    async def classify(body: ClassifyBody, request: Request) -> Classified:
        model = desk.shelf.named(body.model, Classifier)
        if (body.input is None) == (body.pairs is None):
            raise Problem(400, "give either input or pairs", param="input", code="invalid_value")
        texts = [body.input] if isinstance(body.input, str) else body.input
        if model.per_word:
            return await classified_words(desk, request, model, texts)
        items = [(pair[0], pair[1]) for pair in body.pairs] if body.pairs is not None else texts or []
        param = "input" if body.pairs is None else "pairs"
        found, _ = await desk.read(request, model, "classify", model.classify, items, param=param)
        return Classified(data=[OneClass(**entries(one)) for one in found])

    @routes.post("/fill", summary="Fill the gaps of texts")
    async def fill(body: FillBody, request: Request) -> Filled:
        model = desk.shelf.named(body.model, Filler)
        texts = [body.input] if isinstance(body.input, str) else body.input
        n = body.n
        found, _ = await desk.read(
            request, model, ("fill", n), lambda many: model.fillings(many, n=n), texts, param="input"
        )
        return Filled(
            data=[
                [
                    [FillCandidate(text=c.text, token=c.token, probability=c.probability) for c in gap.candidates]
                    for gap in gaps
                ]
                for gaps in found
            ]
        )

    return routes


async def classified_words(desk: Desk, request: Request, model: Classifier, texts: list[str] | None) -> Classified:
    """Classify the words of each text."""
    if texts is None:
        raise Problem(400, "this model classifies words: give input, not pairs", param="pairs", code="invalid_value")
    sentences = [text.split() for text in texts]
    found, _ = await desk.read(request, model, "tag", model.tags, sentences, param="input")
    data = [
        [ClassifiedWord(word=word, **entries(one)) for word, one in zip(words, classes, strict=True)]
        for words, classes in zip(sentences, found, strict=True)
    ]
    return Classified(data=data)


def entries(one: Classification) -> dict[str, Any]:
    """Return a class as JSON has it."""
    return {"label": one.label, "probability": one.probability, "probabilities": one.probabilities}
