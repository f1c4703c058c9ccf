"""The decoding fields that all endpoints for text generation share."""

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
    """Decoding options. Those not given are taken from the model's own settings."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        None, description="Sampling temperature; 0 is greedy."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="Nucleus sampling: sample from the fewest tokens with this total probability."
    )
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(
        None, description="Sample from this many most probable tokens; 0 for all. (Not in OpenAI's API.)"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Random seed: the same seed gives the same text."
    )
    beam_size: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Beam size; 1 is greedy. (Not in OpenAI's API.)"
    )
    n: Annotated[int, Field(ge=1)] | None = Field(None, description="Number of completions for each prompt.")
    stop: Stop = Field(None, description="Stop sequences: the text ends before any of them.")

    def stops(self) -> tuple[str, ...]:
        """Return the stop sequences."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def settings_for(self, pipeline: Pipeline, limits: Limits, *, max_tokens: int | None) -> DecodingSettings:
        """Return the model's decoding settings overridden by these; `max_tokens` is the request's own limit."""
        limits.check("choices", self.n or 1, param="n")
        limits.check("beams", self.beam_size or 1, param="beam_size")
        limits.check("stop_sequences", len(self.stops()), param="stop")
        limits.check("new_tokens", max_tokens or 1, param="max_tokens")
        given = {
            "temperature": self.temperature or None,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": self.seed,
            "beam_size": self.beam_size,
            "n_best": self.n or 1,
            "stop": self.stops() or None,
            "max_new_tokens": min(max_tokens or pipeline.generation.max_new_tokens, limits.new_tokens),
        }
        overrides: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        if self.temperature == 0:
            overrides["do_sample"] = False
        try:
            if isinstance(pipeline, Generator):
                del overrides["n_best"]
                return pipeline.resolve_settings(self.n or 1, overrides)
            return pipeline.settings(**overrides)
        except SettingsError as error:
            raise Problem(400, str(error), code="invalid_value") from None
