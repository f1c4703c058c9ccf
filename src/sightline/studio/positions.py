"""/studio-api/positions: the codes of a model's positions, and how alike they are."""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, Field

from sightline.pipelines import Pipeline
from sightline.serving import Body, Router
from sightline.serving.api import Desk
from sightline.tracing.position_codes import position_codes, similarities, wavelengths

MOST = 512
"""Positions that are shown."""


class PositionsBody(Body):
    """Of which model, and how many."""

    model: str | None = None
    n: Annotated[int, Field(ge=1, le=MOST)] = 64


class Numbers(BaseModel):
    """An array as the modules that draw unpack it."""

    shape: list[int]
    dtype: Literal["float32"] = "float32"
    data: str

    @classmethod
    def of(cls, array: Float[np.ndarray, "..."]) -> "Numbers":
        """Pack an array: little-endian floats in base64."""
        packed = base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode("ascii")
        return cls(shape=list(array.shape), data=packed)


class PositionCodes(BaseModel):
    """What tells a model where a token stands."""

    kind: str = Field(description="sinusoidal, learned or rotary, as the model's settings say.")
    most: int = Field(description="Positions that can be asked for.")
    codes: Numbers = Field(description="Position by depth.")
    similarities: Numbers = Field(description="The cosine of the angle between every two codes.")
    wavelengths: list[float] | None = Field(description="After how many positions each depth repeats; learned: null.")


def router(desk: Desk) -> Router:
    """Return the route that tells the codes of positions."""
    routes = Router(include_in_schema=False)

    @routes.post("/studio-api/positions")
    async def positions(body: PositionsBody) -> PositionCodes:
        pipeline = desk.shelf.named(body.model, Pipeline)
        found = await desk.call((id(pipeline), "positions"), lambda many: [told(pipeline, n) for n in many], [body.n])
        codes: PositionCodes = found[0]
        return codes

    return routes


def told(pipeline: Pipeline, n: int) -> PositionCodes:
    """Return the first codes of a model."""
    config: Any = pipeline.model.config
    codes = position_codes(pipeline, n=n)
    return PositionCodes(
        kind=config.positions,
        most=min(MOST, config.max_length or MOST),
        codes=Numbers.of(codes),
        similarities=Numbers.of(similarities(codes)),
        wavelengths=wavelengths(config),
    )
