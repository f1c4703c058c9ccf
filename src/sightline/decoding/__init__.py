"""Choose ids through a step function; knows no model, no tokenizer and no text.

`search` does it all; `stream` gives the tokens as they come; `search_beams` can also tell how it got there; `Together`
lets searches of different times and kinds share every step.
"""

from sightline.decoding.beam import BeamResult, search_beams
from sightline.decoding.history import BeamHistory, BeamNode
from sightline.decoding.hypothesis import Finish, Hypothesis
from sightline.decoding.move import Move, Search, Stride, drive
from sightline.decoding.request import Request
from sightline.decoding.search import search, search_for, stream
from sightline.decoding.settings import DecodingSettings
from sightline.decoding.step import State, Step, StepOutput
from sightline.decoding.together import Advance, SharedState, Together

__all__ = [
    "Advance",
    "BeamHistory",
    "BeamNode",
    "BeamResult",
    "DecodingSettings",
    "Finish",
    "Hypothesis",
    "Move",
    "Request",
    "Search",
    "SharedState",
    "State",
    "Step",
    "StepOutput",
    "Stride",
    "Together",
    "drive",
    "search",
    "search_beams",
    "search_for",
    "stream",
]
