"""Decoding: search for token ids through a step function; knows no model, no tokenizer and no text.

`search` runs any kind of decoding; `stream` yields tokens as they are chosen; `search_beams` can also return the beam's
history; `ContinuousBatch` lets searches of different kinds, started at different times, share every step.
"""

from sightline.decoding.beam import BeamHistory, search_beams
from sightline.decoding.continuous_batch import ContinuousBatch, SearchUpdate, SharedState
from sightline.decoding.interfaces import (
    FinishReason,
    Hypothesis,
    Search,
    State,
    Step,
    StepNeeds,
    StepOutput,
    StepResult,
    TokenCandidates,
)
from sightline.decoding.request import Cancellation, Request, SearchCancelledError
from sightline.decoding.search import search, search_for, stream
from sightline.decoding.settings import DecodingSettings

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
