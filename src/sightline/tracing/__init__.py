"""What a model did with a text, made visible.

    trace       the Trace: tokens, probes, steps, and what was found out about them; saved, loaded, as JSON
    passage     a text as tokens and words            step       one decision and its candidates
    tree        all that a beam looked at             alignment  which words looked at which
    readout     the top tokens after every layer      knockouts  what each head is worth

    look        makes all of these from one pass of a model, as `wishes` ask; `passes` are one for each family

A trace is made by the `.trace()` of a pipeline, holds plain numbers and texts, and knows no model.
"""

from sightline.tracing.alignment import Alignment, Link
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.likelihood import Choice
from sightline.tracing.look import Sighting, interventions_of, look
from sightline.tracing.passage import Passage, Token, Word
from sightline.tracing.passes import BertPass, GPTPass, Pass, TransformerPass
from sightline.tracing.readout import Readout
from sightline.tracing.search import remembered_search
from sightline.tracing.step import Candidate, Step
from sightline.tracing.trace import Trace
from sightline.tracing.tree import Node, Tree
from sightline.tracing.wishes import DEFAULT, EVERYTHING, Wishes
from sightline.tracing.word_attention import WordAttention

__all__ = [
    "DEFAULT",
    "EVERYTHING",
    "Alignment",
    "BertPass",
    "Candidate",
    "Choice",
    "GPTPass",
    "Knockouts",
    "Link",
    "Node",
    "Pass",
    "Passage",
    "Readout",
    "Sighting",
    "Step",
    "Token",
    "Trace",
    "TransformerPass",
    "Tree",
    "Wishes",
    "Word",
    "WordAttention",
    "interventions_of",
    "look",
    "remembered_search",
]
