"""The numbers that docs/walkthrough.md tells: a table for each place of it, and those that stand in its sentences.

Numbers are grouped; those of a group that is named like a figure stand in that figure too.
"""

import math
from typing import TypeAlias

import numpy as np

from making.story import DAY, LOOKING, LOOKING_ACROSS, LOOKING_BACK, MONTH, READ_MONTH, WRITTEN_MONTH, Story
from sightline.decoding.scores import length_penalty
from sightline.tracing.figures.calculation import chosen_sum, digits
from sightline.tracing.figures.label import label
from sightline.tracing.figures.stations import embedding_stations, layer_stations, size_of
from sightline.training.schedule import linear, paper

Facts: TypeAlias = dict[str, dict[str, str]]

SMOOTHING, ALPHA = 0.1, 0.6
"""Of the labels in training, and of the length penalty."""
PAPER_WIDTH, PAPER_WARMUP = 512, 4000
SHOWN = 5
"""Numbers of a vector that are written out."""


def facts(story: Story) -> Facts:
    """Return every number of the text, as it is written there."""
    trace = story.trace
    return {
        "embedding": sizes(story, embedding_stations(trace, "encoder"), MONTH),
        "calculation": attention_facts(story, DAY, **LOOKING),
        "layer": sizes(story, layer_stations(trace, "encoder", 0), DAY),
        "mask": attention_facts(story, READ_MONTH, **LOOKING_BACK),
        "across": attention_facts(story, WRITTEN_MONTH, **LOOKING_ACROSS),
        "attention": looked_at(story),
        "beam": beam_facts(story),
        "text": {
            "√d": f"{math.sqrt(width(story)):.2f}",
            "√d of a head": f"{math.sqrt(trace['encoder.0.self_attention.query'].shape[-1]):.2f}",
            "bent away": f"{np.mean(trace['encoder.0.feed_forward.hidden'][DAY] == 0):.0%}",
            **loss_facts(story),
            "log-probability": signed(story.searched.log_probability),
            "length penalty": f"{length_penalty(len(story.searched.target.tokens), ALPHA):.3f}",
        },
    }


def width(story: Story) -> int:
    """Return d_model."""
    return int(story.trace["encoder.embedding.output"].shape[1])


def signed(number: float) -> str:
    """Return a number with three decimals and a true minus."""
    return f"{number:.3f}".replace("-", "−")


def sizes(story: Story, names: dict[str, str], row: int) -> dict[str, str]:
    """Return how large a token's vector is at each station."""
    return {words: f"{size_of(story.trace[name][row]):.2f}" for words, name in names.items()}


def attention_facts(story: Story, row: int, *, attention: str, layer: int, head: int) -> dict[str, str]:
    """Return the way of the strongest key of a query from its score to its weight."""
    found = chosen_sum(story.trace, attention=attention, layer=layer, head=head, row=row)
    best = int(np.argmax(found.weights))
    return {
        "key": label(found.keys[best]),
        "score": digits(float(found.scores[best])),
        "scaled": digits(float(found.scaled[best])),
        "masked": digits(float(found.masked[-1])),
        "weight": f"{found.weights[best]:.3f}",
    }


def looked_at(story: Story) -> dict[str, str]:
    """Return what the chapter says of the mean of the last cross-attention: weights as the matrix writes them."""
    weights = story.trace.attention("decoder.1.cross_attention").mean(axis=0)
    rows = {"the month": WRITTEN_MONTH, "the full stop": WRITTEN_MONTH - 1}
    return {words: f"{weights[row].max():.2f}"[1:] for words, row in rows.items()}


def beam_facts(story: Story) -> dict[str, str]:
    """Return the score of what the beam found."""
    tree = story.searched.tree
    if tree is None or not tree.results():
        return {}
    return {"score": signed(tree.nodes[tree.results()[0]].score)}


def loss_facts(story: Story) -> dict[str, str]:
    """Return the loss of the sentence, plain and smoothed, and what would be least."""
    scores = story.logits.astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    right = np.array([logs[row, token.id] for row, token in enumerate(story.trace.target.tokens)])
    n_words = scores.shape[1]
    smoothed = -((1 - SMOOTHING) * right + SMOOTHING * logs.mean(axis=1))
    aim = 1 - SMOOTHING + SMOOTHING / n_words
    rest = SMOOTHING / n_words
    return {
        "loss": f"{-right.mean():.3f}",
        "perplexity": f"{math.exp(-right.mean()):.3f}",
        "smoothed loss": f"{smoothed.mean():.3f}",
        "least smoothed loss": f"{-(aim * math.log(aim) + (n_words - 1) * rest * math.log(rest)):.3f}",
        "aim": f"{aim:.4f}",
        "loss of a guess": f"{math.log(n_words):.2f}",
    }


def tables(story: Story) -> dict[str, str]:
    """Return the tables of the chapter, as Markdown."""
    return {
        "tokens": token_table(story),
        "embedding": embedding_table(story),
        "shapes": shape_table(story),
        "steps": step_table(story),
        "words": word_table(story),
        "learning rate": rate_table(story),
    }


def table(*rows: tuple[object, ...]) -> str:
    """Return rows as Markdown, the first as the heading."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def written(text: str) -> str:
    """Return a token as code, its blanks visible."""
    return f"`{text.replace(' ', '␣')}`"


def token_table(story: Story) -> str:
    """Return the tokens with their ids."""
    tokens = story.trace.source.tokens
    return table(
        ("position", *range(len(tokens))),
        ("token", *(written(token.text) for token in tokens)),
        ("id", *(token.id for token in tokens)),
    )


def embedding_table(story: Story) -> str:
    """Return the first numbers of the month's vectors."""
    rows = [
        (words, *(signed(float(number)) for number in story.trace[name][MONTH][:SHOWN]), "…")
        for words, name in embedding_stations(story.trace, "encoder").items()
    ]
    return table(("depth", *range(SHOWN), "…"), *rows)


def shape_table(story: Story) -> str:
    """Return how large everything is on its way through the first attention."""
    names = {
        "norm": "what enters", "query": "queries", "key": "keys", "value": "values", "scores": "dot products",
        "weights": "weights", "mixed": "weighted sums", "concatenated": "heads side by side", "output": "output",
    }  # fmt: skip
    shapes = {name: story.trace[f"encoder.0.self_attention.{name}"].shape for name in names}
    return table(("what", "shape"), *((names[name], " × ".join(map(str, shape))) for name, shape in shapes.items()))


def step_table(story: Story) -> str:
    """Return what was chosen at each step, and what else was likely."""
    rows = []
    for number, (step, read) in enumerate(zip(story.trace.steps, story.trace.inputs.tokens, strict=True)):
        others = [one for place, one in enumerate(step.candidates) if place != step.chosen][:3]
        told = ", ".join(f"{written(one.text)} {one.probability:.4f}" for one in others)
        rows.append((number + 1, written(read.text), written(step.choice.text), f"{step.choice.probability:.3f}", told))
    return table(("step", "reads", "writes", "probability", "next best"), *rows)


def word_table(story: Story) -> str:
    """Return which word looked at which."""
    alignment, source, target = story.trace.alignment, story.trace.source.text, story.trace.target.text
    links = alignment.links if alignment else ()
    rows = [
        (target[link.target_start : link.target_end], source[link.source_start : link.source_end], f"{link.weight:.3f}")
        for link in links
    ]
    return table(("written", "looked at", "weight"), *rows)


def rate_table(story: Story) -> str:
    """Return the learning rate at some steps, of the demo and of the paper."""
    training = story.journal["recipe"]["training"]
    warmup, end = training["warmup_steps"], training["max_steps"]
    ours = (1, warmup // 2, warmup, (warmup + end) // 2, end)
    theirs = (1, PAPER_WARMUP // 2, PAPER_WARMUP, 10 * PAPER_WARMUP, 25 * PAPER_WARMUP)
    peak = training["learning_rate"]
    return table(
        ("demo, step", *ours),
        ("learning rate", *(f"{linear(step, peak=peak, warmup=warmup, end=end):.2g}" for step in ours)),
        ("**paper, step**", *(f"**{step:,}**" for step in theirs)),
        ("learning rate", *(f"{paper(step, d_model=PAPER_WIDTH, warmup=PAPER_WARMUP):.2g}" for step in theirs)),
    )
