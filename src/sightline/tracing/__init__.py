"""What a model did with a text, made visible.

    trace       the Trace: tokens, probes, steps, and what was found out about them; saved, loaded, as JSON
    passage     a text as tokens and words            step       one decision and its candidates
    tree        all that a beam looked at             alignment  which words looked at which
    readout     the top tokens after every layer      knockouts  what each head is worth

A trace is made by the `.trace()` of a pipeline, holds plain numbers and texts, and knows no model.
"""

from sightline.tracing.alignment import Alignment, Link
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.passage import Passage, Token, Word
from sightline.tracing.readout import Readout
from sightline.tracing.step import Candidate, Step
from sightline.tracing.trace import Trace
from sightline.tracing.tree import Node, Tree
from sightline.tracing.word_attention import WordAttention

__all__ = [
    "Alignment",
    "Candidate",
    "Knockouts",
    "Link",
    "Node",
    "Passage",
    "Readout",
    "Step",
    "Token",
    "Trace",
    "Tree",
    "Word",
    "WordAttention",
]
