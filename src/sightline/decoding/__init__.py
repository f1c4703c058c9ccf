"""Decoding: search for token ids through a step function; knows no model, no tokenizer and no text.

`search` runs any kind of decoding; `stream` yields tokens as they are chosen; `search_beams` can also return the beam's
history; `ContinuousBatch` lets searches of different kinds, started at different times, share every step.
"""

from typing import TYPE_CHECKING

from sightline.runtime import lazy_exports

if TYPE_CHECKING:
    from sightline.decoding.beam import BeamHistory, search_beams
    from sightline.decoding.continuous_batch import ContinuousBatch, SearchUpdate, SharedState
    from sightline.decoding.hypothesis import Hypothesis
    from sightline.decoding.interfaces import (
        Search,
        State,
        Step,
        StepNeeds,
        StepOutput,
        StepResult,
        TokenCandidates,
    )
    from sightline.decoding.request import Cancellation, Request, SearchCancelledError
    from sightline.decoding.settings import DecodingSettings, FinishReason
    from sightline.decoding.strategies import search, search_for, stream

__all__ = [
    "BeamHistory",
    "Cancellation",
    "ContinuousBatch",
    "DecodingSettings",
    "FinishReason",
    "Hypothesis",
    "Request",
    "Search",
    "SearchCancelledError",
    "SearchUpdate",
    "SharedState",
    "State",
    "Step",
    "StepNeeds",
    "StepOutput",
    "StepResult",
    "TokenCandidates",
    "search",
    "search_beams",
    "search_for",
    "stream",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "beam": ("BeamHistory", "search_beams"),
            "continuous_batch": ("ContinuousBatch", "SearchUpdate", "SharedState"),
            "hypothesis": ("Hypothesis",),
            "interfaces": ("Search", "State", "Step", "StepNeeds", "StepOutput", "StepResult", "TokenCandidates"),
            "request": ("Cancellation", "Request", "SearchCancelledError"),
            "strategies": ("search", "search_for", "stream"),
            "settings": ("DecodingSettings", "FinishReason"),
        },
    )  # fmt: skip
