"""Interpretability: what a model computed for a text.

    trace           the Trace: tokens, activations, steps and analyses; saves, loads, exports JSON
    tokenized_text  a text as tokens and words, attention and alignment between words
    likelihood      a step: one decision and its candidates
    beam_tree       all hypotheses of a beam search
    logit_lens      the top tokens after every layer
    ablation        heads that are ablated, and the effect of ablating each

    run             builds a trace from one forward pass: `plan` has what to capture, `passes` one class per family
    serialization   a trace as JSON and on disk
    vectors         position encodings and PCA, to be drawn
    figures, page   a trace drawn by matplotlib, and in a browser

The `.trace()` of a pipeline makes a trace. A trace holds plain numbers and texts, and knows no model.
"""

from sightline.tracing.ablation import HeadAblation
from sightline.tracing.beam_tree import Node, Tree, search_with_history
from sightline.tracing.likelihood import Candidate, Choice, Step
from sightline.tracing.logit_lens import LogitLens
from sightline.tracing.passes import CausalLMPass, Seq2SeqPass, TextEncoderPass
from sightline.tracing.plan import EVERYTHING, TraceOptions
from sightline.tracing.run import build_interventions, run_trace
from sightline.tracing.tokenized_text import Alignment, Link, Token, TokenizedText, Word, WordAttention
from sightline.tracing.trace import Trace

__all__ = [
    "EVERYTHING",
    "Alignment",
    "Candidate",
    "CausalLMPass",
    "Choice",
    "HeadAblation",
    "Link",
    "LogitLens",
    "Node",
    "Seq2SeqPass",
    "Step",
    "TextEncoderPass",
    "Token",
    "TokenizedText",
    "Trace",
    "TraceOptions",
    "Tree",
    "Word",
    "WordAttention",
    "build_interventions",
    "run_trace",
    "search_with_history",
]
