"""`NativeEngine`: a model in C as an `Engine`, so that every search of `sightline.decoding` runs on it."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Int32
from numpy import ndarray
from torch import Tensor

from sightline.decoding import Cancellation, Hypothesis, Request, StepNeeds, StepOutput, TokenCandidates
from sightline.engine.native.compiler import load_library
from sightline.engine.native.model import CancelFlag, NativeModel, NativeState, Precision
from sightline.engine.native.search import find_unsupported_setting, search
from sightline.engine.native.weights import find_unsupported
from sightline.errors import SettingsError
from sightline.model.interfaces import Model

DEVICE = torch.device("cpu")


def find_obstacle(model: Model) -> str | None:
    """Return why a model cannot run natively, in one sentence, or None if it can."""
    device = next(model.parameters()).device
    if device.type != "cpu":
        return f"the native engine computes on the CPU, and the model is on {device}"
    if reason := find_unsupported(model.config):
        return reason
    reason = load_library().reason
    return reason and f"the native engine cannot be used: {reason}"


class NativeEngine:
    """Runs a copy of a model in C, in int8 or with floats; the model itself may change or go."""

    def __init__(
        self,
        model: Model,
        *,
        precision: Precision = "int8",
        instruction_set: str | None = None,
        threads: int | None = None,
    ) -> None:
        if obstacle := find_obstacle(model):
            raise SettingsError(obstacle)
        arrays = {name: weight.detach().float().numpy() for name, weight in model.named_parameters()}
        self.model = NativeModel(
            model.config, arrays, precision=precision, instruction_set=instruction_set, threads=threads
        )
        self.cancellation = Cancellation()

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return DEVICE

    def prefill(self, prompts: Sequence[Sequence[int]]) -> "EngineState":
        """Read sources, or the prompts of a GPT."""
        return EngineState(self.model.read(prompts))

    def step(self, ids: Int[Tensor, "R"], state: "EngineState", needs: StepNeeds) -> StepOutput:
        """Feed the newest tokens; attention is the last layer's cross-attention, None for a model without one."""
        newest = as_numbers(ids)
        if needs.candidates is not None and not needs.attention:
            best, log_probs = state.rows.step_best(newest, needs.candidates)
            candidates = TokenCandidates(
                torch.from_numpy(best).long(), torch.from_numpy(log_probs), self.model.vocab_size
            )
            return StepOutput(None, state, None, candidates)
        output = state.rows.step(newest, attention=needs.attention and self.model.has_encoder)
        logits = torch.from_numpy(output.logits)
        attention = None if output.attention is None else torch.from_numpy(output.attention)
        if needs.candidates is None:
            return StepOutput(logits, state, attention)
        return StepOutput(None, state, attention, TokenCandidates.of(logits, needs.candidates))

    def search(self, prompts: Sequence[Sequence[int]], request: Request) -> list[list[Hypothesis]] | None:
        """Carry out a whole search in C; None for what it does not know: rules, sampling, stop strings, prefixes."""
        is_plain = not request.prefixes and request.is_complete is None
        if not is_plain or find_unsupported_setting(request.settings) is not None:
            return None
        request.check_vocabulary(self.model.vocab_size)
        flag, cancellation = CancelFlag(), request.cancellation or Cancellation()
        with cancellation.notify(flag.cancel):
            found = search(
                self.model,
                prompts,
                request.settings,
                first_ids=[context[-1] for context in request.contexts],
                end_ids=request.end_ids,
                max_new_tokens=request.limits,
                cancel=flag,
            )
        request.check_cancelled()
        return found

    def cancel(self) -> None:
        """End all searches in progress before their next step."""
        begun, self.cancellation = self.cancellation, Cancellation()
        begun.cancel()


class EngineState:
    """The rows of a model in C as a state that searches reorder and join."""

    def __init__(self, rows: NativeState) -> None:
        self.rows = rows

    def reorder(self, rows: Int[Tensor, "R2"]) -> "EngineState":
        """Make row i what row `rows[i]` was: only tables are copied, no keys and values."""
        self.rows.reorder(as_numbers(rows))
        return self

    def join(self, other: "EngineState") -> "EngineState":
        """Append the rows of another state, which may not be used again."""
        self.rows.join(other.rows)
        return self


def as_numbers(tensor: Int[Tensor, "R"]) -> Int32[ndarray, "R"]:
    """Return a tensor of ids or rows as C takes them."""
    return np.ascontiguousarray(tensor.numpy(), dtype=np.int32)
