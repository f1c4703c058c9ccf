"""/studio-api/positions: the position encodings of a model, and their cosine similarity."""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, Field

from sightline.pipelines import Pipeline
from sightline.serving.api import Submitter
from sightline.serving.http import Body, Router
from sightline.tracing.vectors import cosine_similarities, position_encodings, wavelengths

MAX_POSITIONS = 512


class PositionsBody(Body):
    """The model, and the number of positions."""

    model: str | None = None
    n: Annotated[int, Field(ge=1, le=MAX_POSITIONS)] = 64


class PackedArray(BaseModel):
    """An array in the form that the drawing modules unpack."""

    shape: list[int]
    dtype: Literal["float32"] = "float32"
    data: str

    @classmethod
    def of(cls, array: Float[np.ndarray, "..."]) -> "PackedArray":
        """Pack an array: little-endian floats in base64."""
        packed = base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode("ascii")
        return cls(shape=list(array.shape), data=packed)


class PositionEncodings(BaseModel):
    """The position encodings of a model."""

    kind: str = Field(description="The model setting `positions`: sinusoidal, learned, rope, …")
    max_positions: int = Field(description="Largest number of positions that can be requested.")
    encodings: PackedArray = Field(description="Position by dimension.")
    similarities: PackedArray = Field(description="Cosine similarity of every two encodings.")
    wavelengths: list[float] | None = Field(description="Period of each dimension in positions; null if learned.")


def router(submitter: Submitter) -> Router:
    """Return the route of the position encodings."""
    routes = Router(include_in_schema=False)

    @routes.post("/studio-api/positions")
    async def positions(body: PositionsBody) -> PositionEncodings:
        pipeline = submitter.models.get(body.model)
        found = await submitter.call(
            (id(pipeline), "positions"), lambda many: [encode_positions(pipeline, n) for n in many], [body.n]
        )
        encodings: PositionEncodings = found[0]
        return encodings

    return routes


def encode_positions(pipeline: Pipeline, n: int) -> PositionEncodings:
    """Return the first `n` position encodings of a model."""
    config: Any = pipeline.model.config
    encodings = position_encodings(pipeline, n=n)
    return PositionEncodings(
        kind=config.positions,
        max_positions=min(MAX_POSITIONS, config.max_length or MAX_POSITIONS),
        encodings=PackedArray.of(encodings),
        similarities=PackedArray.of(cosine_similarities(encodings)),
        wavelengths=wavelengths(config),
    )
