"""/classify and /fill: the endpoints of encoder models."""

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request

from sightline.pipelines import Classification, Classifier, Filler
from sightline.serving.api.submit import NO_MODEL, Submitter
from sightline.serving.http.problem import Problem
from sightline.serving.http.routing import Body, Router

Pair = Annotated[list[str], Field(min_length=2, max_length=2)]


class ClassifyBody(Body):
    """A text or a list of texts to classify (`input`), or pairs of texts (`pairs`)."""

    input: str | list[str] | None = None
    pairs: list[Pair] | None = None
    model: str | None = Field(None, description="Model id; required if several models classify.")


class ClassProbabilities(BaseModel):
    """The most probable class, and the probabilities of all."""

    label: str
    probability: float
    probabilities: dict[str, float]


class WordClass(ClassProbabilities):
    """A word and its class."""

    word: str


class ClassifyResponse(BaseModel):
    """The class of each text; for a token classifier, the classes of its words."""

    data: list[ClassProbabilities] | list[list[WordClass]]


class FillBody(Body):
    """Texts with [MASK] in place of words."""

    input: str | list[str]
    n: Annotated[int, Field(ge=1, le=100)] = Field(5, description="Number of candidates for each mask.")
    model: str | None = Field(None, description="Model id; required if several models fill masks.")


class FillCandidate(BaseModel):
    """A candidate for a mask."""

    text: str = Field(description="The text with the mask filled.")
    token: str
    probability: float


class FillResponse(BaseModel):
    """For each text, for each mask, the most probable candidates."""

    data: list[list[list[FillCandidate]]]


def router(submitter: Submitter) -> Router:
    """Return the routes of encoder models."""
    routes = Router(tags=["Sightline"], responses=NO_MODEL)

    @routes.post("/classify", summary="Classify texts, pairs of texts, or words")
    async def classify(body: ClassifyBody, request: Request) -> ClassifyResponse:
        model = submitter.models.get(body.model, Classifier)
        if (body.input is None) == (body.pairs is None):
            raise Problem(400, "input and pairs: give exactly one of them", param="input", code="invalid_value")
        texts = [body.input] if isinstance(body.input, str) else body.input
        if model.per_word:
            return await classify_words(submitter, request, model, texts)
        items = [(pair[0], pair[1]) for pair in body.pairs] if body.pairs is not None else texts or []
        param = "input" if body.pairs is None else "pairs"
        found, _ = await submitter.call_on_texts(request, model, "classify", model.classify, items, param=param)
        return ClassifyResponse(data=[ClassProbabilities(**to_fields(one)) for one in found])

    @routes.post("/fill", summary="Fill the masks of texts")
    async def fill(body: FillBody, request: Request) -> FillResponse:
        model = submitter.models.get(body.model, Filler)
        texts = [body.input] if isinstance(body.input, str) else body.input
        n = body.n
        found, _ = await submitter.call_on_texts(
            request, model, ("fill", n), lambda many: model.fillings(many, n=n), texts, param="input"
        )
        return FillResponse(
            data=[
                [
                    [FillCandidate(text=c.text, token=c.token, probability=c.probability) for c in mask.candidates]
                    for mask in masks
                ]
                for masks in found
            ]
        )

    return routes


async def classify_words(
    submitter: Submitter, request: Request, model: Classifier, texts: list[str] | None
) -> ClassifyResponse:
    """Classify the words of each text."""
    if texts is None:
        raise Problem(
            400, "pairs: this model classifies words, give input instead", param="pairs", code="invalid_value"
        )
    sentences = [text.split() for text in texts]
    found, _ = await submitter.call_on_texts(request, model, "tag", model.tags, sentences, param="input")
    data = [
        [WordClass(word=word, **to_fields(one)) for word, one in zip(words, classes, strict=True)]
        for words, classes in zip(sentences, found, strict=True)
    ]
    return ClassifyResponse(data=data)


def to_fields(one: Classification) -> dict[str, Any]:
    """Return a classification as fields of the response."""
    return {"label": one.label, "probability": one.probability, "probabilities": one.probabilities}
