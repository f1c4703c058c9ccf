"""The torch engine: a model of this package, with its own caches as states."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from sightline.data.datasets.batch import pad
from sightline.decoding import Cancellation, SharedState, State, StepNeeds, StepOutput, TokenCandidates
from sightline.errors import InputError
from sightline.model import ActivationCache, CausalLM, Hooks, Seq2Seq
from sightline.model.cache import INITIAL_CAPACITY
from sightline.model.hooks import NO_HOOKS, Action, NoHooks
from sightline.model.interfaces import Model
from sightline.model.registry import interface_of

Interventions = Mapping[str, Sequence[Action]]
"""Changes to activations during the forward pass, by hook point."""


class TorchEngine:
    """Runs a model eagerly, with interventions if a trace asks for them."""

    def __init__(self, model: Seq2Seq | CausalLM, *, interventions: Interventions | None = None) -> None:
        self.model = model
        self.interventions = interventions
        self.cancellation = Cancellation()
        self._hooks: NoHooks = Hooks(interventions) if interventions else NO_HOOKS
        self._modules = tuple(model.modules())
        self._prefill = PREFILLS[interface_of(model.config)]

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return self.model.output.weight.device

    def prefill(self, prompts: Sequence[Sequence[int]]) -> SharedState:
        """Read the prompts, as models of this interface do."""
        with inference_mode(self._modules):
            return self._prefill(self.model, prompts, self._hooks)

    def step(self, ids: Int[Tensor, "R"], state: State, needs: StepNeeds) -> StepOutput:
        """Feed the newest tokens; attention is the last layer's cross-attention, None for a model without one."""
        if torch.is_inference_mode_enabled() and not any([module.training for module in self._modules]):  # noqa: C419
            return self._step(ids, state, needs)  # usual: a search is in that mode, and a list is quick to look through
        with inference_mode(self._modules):
            return self._step(ids, state, needs)

    def _step(self, ids: Int[Tensor, "R"], state: State, needs: StepNeeds) -> StepOutput:
        point = cross_attention_point(self.model) if needs.attention else None
        hooks = self._hooks if point is None else ActivationCache(point, interventions=self.interventions)
        cache: Any = state
        logits, after = self.model.step(ids[:, None], cache, hooks=hooks)
        attention = None if point is None else hooks[point].mean(dim=1)[:, 0]  # type: ignore[index]  # R H 1 S -> R S
        if needs.candidates is None:
            return StepOutput(logits, after, attention)
        return StepOutput(None, after, attention, TokenCandidates.of(logits, needs.candidates))

    def cancel(self) -> None:
        """End all searches in progress before their next step."""
        begun, self.cancellation = self.cancellation, Cancellation()
        begun.cancel()


@contextmanager
def inference_mode(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Switch modules to evaluation mode without gradients, and back afterwards."""
    in_training = [module for module in modules if module.training]
    set_training(in_training, mode=False)
    try:
        with torch.inference_mode():
            yield
    finally:
        set_training(in_training, mode=True)


def set_training(modules: Sequence[nn.Module], *, mode: bool) -> None:
    """Set the mode of each module; a module's own `__setattr__` looks for parameters first, which costs every step."""
    for module in modules:
        object.__setattr__(module, "training", mode)


def cross_attention_point(model: Model) -> str | None:
    """Return the hook point of the attention that aligns target and source; None for a model without one."""
    point: str | None = getattr(model, "cross_attention_point", None)
    return point


def require_cross_attention(model: Model) -> str:
    """Return the hook point of the attention that aligns target and source; refuse a model without one."""
    point = cross_attention_point(model)
    if point is None:
        raise InputError(f"a {type(model).__name__} has no cross-attention, which alignment and coverage are read from")
    return point


def encode_sources(model: Seq2Seq, sources: Sequence[Sequence[int]], hooks: NoHooks) -> SharedState:
    """Encode sources; return the state of a decoder that has seen no target yet."""
    ids, lengths = pad(sources, device=model.output.weight.device)
    state: SharedState = model.start(model.encode(ids, lengths=lengths, packed=True, hooks=hooks))
    return state


def read_contexts(model: CausalLM, contexts: Sequence[Sequence[int]], hooks: NoHooks) -> SharedState:
    """Feed contexts, some of which may be empty."""
    longest = max(map(len, contexts), default=0)
    state: SharedState = model.start(len(contexts), capacity=longest + INITIAL_CAPACITY)
    if longest:
        ids, lengths = pad(contexts, device=model.output.weight.device)
        _, state = model.step(ids, state, lengths=lengths, hooks=hooks)
    return state


Prefill = Callable[[Any, Sequence[Sequence[int]], NoHooks], SharedState]
PREFILLS: dict[type, Prefill] = {Seq2Seq: encode_sources, CausalLM: read_contexts}
"""How models of an interface read prompts."""


def register_prefill(interface: type, prefill: Prefill) -> None:
    """Let models of an interface read prompts by this function of model, ids and hooks."""
    PREFILLS[interface] = prefill
