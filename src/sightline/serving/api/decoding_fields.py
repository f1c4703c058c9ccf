"""The fields by which a request says how its text is to be chosen, the same wherever texts are written."""

from typing import Annotated

from pydantic import Field

from sightline.decoding import DecodingSettings
from sightline.errors import SettingsError
from sightline.pipelines import Generator, Pipeline
from sightline.serving.body import Body
from sightline.serving.limits import Limits
from sightline.serving.problem import Problem

Stop = str | list[str] | None


class DecodingFields(Body):
    """How to choose tokens. What is not given is as the model's own settings say."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="Draw at random; 0 takes the likeliest token."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Draw from the fewest tokens that have this probability together."
    )
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Draw from so many of the likeliest tokens; 0 for all. (Not OpenAI's.)"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(None, description="The same seed gives the same text.")
    beam: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Keep so many beginnings at every step; 1 is greedy. (Not OpenAI's.)"
    )
    n: Annotated[int, Field(ge=1)] | None = Field(None, description="So many answers to each prompt.")
    stop: Stop = Field(None, description="The text ends before any of these.")

    def stops(self) -> tuple[str, ...]:
        """Return the stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def settings_for(self, pipeline: Pipeline, limits: Limits, *, most_tokens: int | None) -> DecodingSettings:
        """Return the settings of a model with these in their place; `most_tokens` is what the request asks for."""
        limits.check("choices", self.n or 1, param="n")
        limits.check("beams", self.beam or 1, param="beam")
        limits.check("stop_sequences", len(self.stops()), param="stop")
        limits.check("new_tokens", most_tokens or 1, param="max_tokens")
        own = {
            "temperature": self.temperature or None,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "beam": self.beam,
            "n_best": self.n or 1,
            "stop": self.stops() or None,
            "max_length": min(most_tokens or pipeline.generation.max_length, limits.new_tokens),
        }
        overrides: dict[str, object] = {name: value for name, value in own.items() if value is not None}
        if self.temperature == 0:
            overrides["sample"] = False
        try:
            if isinstance(pipeline, Generator):
                del overrides["n_best"]
                return pipeline.settings_for(self.n or 1, overrides)
            return pipeline.settings(**overrides)
        except SettingsError as error:
            raise Problem(400, str(error), code="invalid_value") from None
