"""Choose ids through a step function; knows no model, no tokenizer and no text.

`search` does it all; `stream` gives the tokens as they come; `search_beams` can also tell how it got there.
"""

from sightline.decoding.beam import BeamResult, search_beams
from sightline.decoding.history import BeamHistory, BeamNode
from sightline.decoding.hypothesis import Finish, Hypothesis
from sightline.decoding.request import Request
from sightline.decoding.search import search, stream
from sightline.decoding.settings import DecodingSettings
from sightline.decoding.step import State, Step, StepOutput
from sightline.decoding.walk import Stride

__all__ = [
    "BeamHistory",
    "BeamNode",
    "BeamResult",
    "DecodingSettings",
    "Finish",
    "Hypothesis",
    "Request",
    "State",
    "Step",
    "StepOutput",
    "Stride",
    "search",
    "search_beams",
    "stream",
]
