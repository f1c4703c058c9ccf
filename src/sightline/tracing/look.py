"""Look at one pass in every way that was wished for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sightline.decoding import BeamHistory
from sightline.tracing.ablation import knock_out_each
from sightline.tracing.capture import Actions, capture, knocked_out
from sightline.tracing.growth import Looks, attention_size, look_again, tree_of
from sightline.tracing.knockouts import Knockouts
from sightline.tracing.lens import read_out
from sightline.tracing.likelihood import Choice, Name, steps_of
from sightline.tracing.passes import DecoderPass, Pass, TransformerPass
from sightline.tracing.plan import Plan, silenced
from sightline.tracing.readout import Readout
from sightline.tracing.step import Step
from sightline.tracing.tree import Tree
from sightline.tracing.wishes import Wishes


@dataclass(frozen=True)
class Sighting:
    """What there was to see."""

    probes: dict[str, Float[np.ndarray, "..."]]
    heads: tuple[int, ...] | None
    knocked_out: dict[str, tuple[int, ...]]
    steps: tuple[Step, ...]
    readout: Readout | None
    knockouts: Knockouts | None
    tree: Tree | None
    mean_attention: Float[np.ndarray, "T S"] | None
    """Of the last cross-attention, over its heads, for the alignment of words."""


def interventions_of(work: Pass, wishes: Wishes) -> Actions:
    """Return what a wish to silence heads does to a model, having checked that it has them."""
    return knocked_out(silenced(wishes.knock_out, work.points(), work.model.config.n_heads))


def look(
    work: Pass,
    wishes: Wishes,
    choices: Sequence[Choice],
    *,
    name: Name,
    forbidden: Sequence[int] = (),
    history: BeamHistory | None = None,
    context: Sequence[int] = (),
) -> Sighting:
    """Run a pass and find out about it what is wished for; what it decided is known already.

    `name` spells what can be chosen, `forbidden` cannot be. `history` tells how a beam found it, after `context`.
    """
    n_heads = work.model.config.n_heads
    plan = Plan.of(work.points(), wishes, n_heads=n_heads)
    tree, looks = tree_of(history, name) if history is not None else (None, Looks([]))
    besides = attention_size(plan, looks, n_context=len(context)) if wishes.hypotheses else 0
    plan.announce(wishes, besides=besides)
    interventions = interventions_of(work, wishes)
    last = f"decoder.{work.n_layers - 1}.cross_attention.weights"
    caught = capture(
        work,
        plan,
        interventions=interventions,
        layers=wishes.readout and work.decides,
        mean_of=last if isinstance(work, TransformerPass) else None,
    )
    wishes.progress("captured", 1, 1)
    steps = steps_of(work, caught.hidden, choices, k=wishes.candidates, name=name, forbidden=forbidden)
    if tree is not None and wishes.hypotheses and isinstance(work, DecoderPass):
        attention = look_again(work, plan, looks, context=context, interventions=interventions)
        tree = Tree(tree.nodes, attention)
    return Sighting(
        probes=caught.arrays,
        heads=plan.heads,
        knocked_out=silenced(wishes.knock_out, work.points(), n_heads),
        steps=steps,
        readout=read_out(work, caught.layers, steps, k=wishes.candidates, name=name) if caught.layers else None,
        knockouts=(
            knock_out_each(work, steps, interventions=interventions, progress=wishes.progress)
            if wishes.knockouts and steps
            else None
        ),
        tree=tree,
        mean_attention=caught.mean_attention,
    )
