"""/v1/embeddings: texts in, vectors out."""

import base64
from typing import Literal

import numpy as np
from pydantic import BaseModel
from starlette.requests import Request

from sightline.pipelines import Pipeline
from sightline.serving.api.loaded_models import NO_MODEL
from sightline.serving.api.submit import Submitter
from sightline.serving.body import Body
from sightline.serving.route import Router


class EmbeddingBody(Body):
    """The texts to embed."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = None


class Embedding(BaseModel):
    """One embedding: numbers, or their bytes (float32, little-endian) in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Token counts of a request."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """All embeddings."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


def router(submitter: Submitter) -> Router:
    """Return the route that embeds texts."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/embeddings", summary="Embed texts")
    async def embeddings(body: EmbeddingBody, request: Request) -> EmbeddingList:
        model = submitter.models.get(body.model, Pipeline)
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors, n_tokens = await submitter.call_on_texts(
            request, model, "embed", lambda many: list(model.embed(many)), texts, param="input"
        )
        data = [
            Embedding(index=number, embedding=encode_vector(vector.numpy(), body.encoding_format))
            for number, vector in enumerate(vectors)
        ]
        usage = EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens)
        return EmbeddingList(data=data, model=body.model, usage=usage)

    return routes


def encode_vector(vector: np.ndarray, encoding_format: str | None) -> list[float] | str:
    """Return an embedding in the requested format."""
    if encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
