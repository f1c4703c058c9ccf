"""Run one forward pass and build the trace that the options ask for."""

from collections.abc import Sequence

from sightline.config import to_mapping
from sightline.decoding import BeamHistory
from sightline.decoding.settings import FinishReason
from sightline.model.registry import family_of, interface_of
from sightline.tracing.ablation import ablate_each_head, ablation_actions, check_ablated_heads
from sightline.tracing.beam_tree import (
    ExpandedPrefixes,
    Tree,
    build_tree,
    compute_hypothesis_attention,
    hypothesis_attention_bytes,
)
from sightline.tracing.likelihood import Choice, IdToText, build_steps
from sightline.tracing.logit_lens import compute_logit_lens
from sightline.tracing.passes import Actions, DecoderPass, Pass, capture
from sightline.tracing.plan import Plan, TraceOptions
from sightline.tracing.tokenized_text import EMPTY_TEXT, TokenizedText, build_alignment
from sightline.tracing.trace import Trace


def build_interventions(forward_pass: Pass, options: TraceOptions) -> Actions:
    """Return the actions that ablate the heads the options name; refuse heads the model does not have."""
    n_heads = forward_pass.model.config.n_heads
    return ablation_actions(check_ablated_heads(options.ablate_heads, forward_pass.points(), n_heads))


def run_trace(
    forward_pass: Pass,
    options: TraceOptions,
    choices: Sequence[Choice],
    *,
    source: TokenizedText,
    target: TokenizedText = EMPTY_TEXT,
    inputs: TokenizedText = EMPTY_TEXT,
    task: str | None = None,
    forced: bool = False,
    finish_reason: FinishReason | None = None,
    name: IdToText,
    forbidden: Sequence[int] = (),
    history: BeamHistory | None = None,
    context: Sequence[int] = (),
) -> Trace:
    """Run a forward pass over texts whose tokens are known already, and return its trace.

    `name` gives the text of an id; `forbidden` ids are no candidates. `history` is that of the beam search that found
    the target, after the ids of `context`.
    """
    config = forward_pass.model.config
    plan = Plan.of(forward_pass.points(), options, n_heads=config.n_heads)
    ablated = check_ablated_heads(options.ablate_heads, plan.points, config.n_heads)
    interventions = ablation_actions(ablated)
    tree, expanded = build_tree(history, name) if history is not None else (None, ExpandedPrefixes([]))
    extra = hypothesis_attention_bytes(plan, expanded, n_context=len(context)) if options.hypotheses else 0
    plan.check_limit(options, extra=extra)
    aligned_by = getattr(forward_pass.model, "cross_attention_point", None)
    captured = capture(
        forward_pass,
        plan,
        interventions=interventions,
        layers=options.logit_lens and forward_pass.has_logits,
        mean_of=aligned_by,
    )
    options.progress("captured", 1, 1)
    steps = build_steps(forward_pass, captured.hidden, choices, k=options.candidates, name=name, forbidden=forbidden)
    if tree is not None and options.hypotheses and isinstance(forward_pass, DecoderPass):
        attention = compute_hypothesis_attention(
            forward_pass, plan, expanded, context=context, interventions=interventions
        )
        tree = Tree(tree.nodes, attention)
    scalars = {key: value for key, value in to_mapping(config).items() if not isinstance(value, list | tuple)}
    return Trace(
        family=family_of(config).name,
        interface=interface_of(config).__name__,
        task=task,
        predicts=forward_pass.predicts,
        model=scalars,  # type: ignore[arg-type]
        source=source,
        target=target,
        inputs=inputs,
        steps=steps,
        activations=captured.arrays,
        heads=plan.heads,
        forced=forced,
        finish_reason=finish_reason,
        ablated_heads=ablated,
        tree=tree,
        alignment=(
            build_alignment(captured.mean_attention, source, target, name=str(aligned_by).removesuffix(".weights"))
            if captured.mean_attention is not None
            else None
        ),
        logit_lens=(
            compute_logit_lens(forward_pass, captured.layers, steps, k=options.candidates, name=name)
            if captured.layers
            else None
        ),
        head_ablation=(
            ablate_each_head(forward_pass, steps, interventions=interventions, progress=options.progress)
            if options.head_ablation and steps and config.n_heads
            else None
        ),
    )
