"""/v1/embeddings: texts in, vectors out."""

import base64
from typing import Literal

import numpy as np
from pydantic import BaseModel
from starlette.requests import Request

from sightline.pipelines import Pipeline
from sightline.serving.api.desk import Desk
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.body import Body
from sightline.serving.route import Router


class EmbeddingBody(Body):
    """What to make vectors of."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = None


class Embedding(BaseModel):
    """One vector: numbers, or their bytes (float32, little-endian) in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """All vectors."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


def router(desk: Desk) -> Router:
    """Return the route that gives vectors."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/embeddings", summary="Make vectors of texts")
    async def embeddings(body: EmbeddingBody, request: Request) -> EmbeddingList:
        model = desk.shelf.named(body.model, Pipeline)
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors, n_tokens = await desk.read(
            request, model, "embed", lambda many: list(model.embed(many)), texts, param="input"
        )
        data = [
            Embedding(index=number, embedding=encoded(vector.numpy(), body.encoding_format))
            for number, vector in enumerate(vectors)
        ]
        usage = EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens)
        return EmbeddingList(data=data, model=body.model, usage=usage)

    return routes


def encoded(vector: np.ndarray, how: str | None) -> list[float] | str:
    """Return a vector as the client wants it."""
    if how == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
