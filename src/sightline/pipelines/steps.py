"""A model's step as a search knows it."""

from typing import Any

from jaxtyping import Int
from torch import Tensor

from sightline.decoding import State, Step, StepOutput
from sightline.model import GPT, Recorder, Transformer


def step_of(model: Transformer | GPT) -> Step:
    """Return the step of a model that writes one token after another."""

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        return StepOutput(*model.step(ids[:, None], cache))

    return step


def attentive_step_of(model: Transformer) -> Step:
    """Return the step that also tells where in the source the last layer looked, which is slower."""
    point = last_cross_attention(model)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        recorder = Recorder(point)
        logits, after = model.step(ids[:, None], cache, probe=recorder)
        return StepOutput(logits, after, recorder[point].mean(dim=1)[:, 0])  # R H 1 S -> R S

    return step


def last_cross_attention(model: Transformer) -> str:
    """Return the name of the point where the last layer's looks at the source can be seen."""
    return f"decoder.{model.config.n_decoder_layers - 1}.cross_attention.weights"
