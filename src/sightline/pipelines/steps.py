"""A model's step as a search knows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Int
from torch import Tensor

from sightline.decoding import State, Step, StepOutput
from sightline.model import GPT, Probe, Recorder, Transformer
from sightline.model.probe import IDLE, Action, Idle

Interventions = Mapping[str, Sequence[Action]]
"""What is done to a model's values while it works, by the names of the points."""


def probe_for(interventions: Interventions | None) -> Idle:
    """Return the probe that changes what is to be changed, the idle one where that is nothing."""
    return Probe(interventions) if interventions else IDLE


def step_of(model: Transformer | GPT, interventions: Interventions | None = None) -> Step:
    """Return the step of a model that writes one token after another."""
    probe = probe_for(interventions)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        return StepOutput(*model.step(ids[:, None], cache, probe=probe))

    return step


def attentive_step_of(model: Transformer, interventions: Interventions | None = None) -> Step:
    """Return the step that also tells where in the source the last layer looked, which is slower."""
    point = last_cross_attention(model)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        recorder = Recorder(point, interventions=interventions)
        logits, after = model.step(ids[:, None], cache, probe=recorder)
        return StepOutput(logits, after, recorder[point].mean(dim=1)[:, 0])  # R H 1 S -> R S

    return step


def last_cross_attention(model: Transformer) -> str:
    """Return the name of the point where the last layer's looks at the source can be seen."""
    return f"decoder.{model.config.n_decoder_layers - 1}.cross_attention.weights"
