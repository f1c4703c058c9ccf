"""Decoding steps: a model as the search calls it."""

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Int
from torch import Tensor

from sightline.decoding import State, Step, StepOutput
from sightline.model import GPT, ActivationCache, Hooks, Transformer
from sightline.model.hooks import NO_HOOKS, Action, NoHooks

Interventions = Mapping[str, Sequence[Action]]
"""Changes to activations during the forward pass, by hook point."""


def make_hooks(interventions: Interventions | None) -> NoHooks:
    """Return hooks that apply the interventions, or none."""
    return Hooks(interventions) if interventions else NO_HOOKS


def make_step(model: Transformer | GPT, interventions: Interventions | None = None) -> Step:
    """Return the decoding step of an autoregressive model."""
    hooks = make_hooks(interventions)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        return StepOutput(*model.step(ids[:, None], cache, hooks=hooks))

    return step


def make_step_with_attention(model: Transformer, interventions: Interventions | None = None) -> Step:
    """Return a slower decoding step that also returns the last layer's cross-attention."""
    point = last_cross_attention(model)

    def step(ids: Int[Tensor, "R"], state: State) -> StepOutput:
        cache: Any = state
        activations = ActivationCache(point, interventions=interventions)
        logits, after = model.step(ids[:, None], cache, hooks=activations)
        return StepOutput(logits, after, activations[point].mean(dim=1)[:, 0])  # R H 1 S -> R S

    return step


def last_cross_attention(model: Transformer) -> str:
    """Return the hook point of the last layer's cross-attention weights."""
    return f"decoder.{model.config.n_decoder_layers - 1}.cross_attention.weights"
