"""The numbers of docs/walkthrough.md: its tables, and the numbers in its prose.

Numbers are grouped; those of a group named like a figure also stand in that figure.
"""

import math
from typing import TypeAlias

import numpy as np

from making.example import CROSS_HEAD, DAY, DECODER_HEAD, ENCODER_HEAD, MONTH, READ_MONTH, WRITTEN_MONTH, Example
from sightline.decoding.hypothesis import length_penalty
from sightline.tracing.figures.calculation import digits, select_computation
from sightline.tracing.figures.canvas import token_label
from sightline.tracing.figures.residual_stream import embedding_stages, layer_stages, rms
from sightline.training.schedule import linear, noam

Facts: TypeAlias = dict[str, dict[str, str]]

SMOOTHING, ALPHA = 0.1, 0.6
"""Label smoothing in training, and the length penalty."""
PAPER_WIDTH, PAPER_WARMUP = 512, 4000
SHOWN = 5
"""Numbers of a vector that are shown."""


def collect_facts(example: Example) -> Facts:
    """Return every number of the text, as formatted there."""
    trace = example.trace
    return {
        "embedding": rms_facts(example, embedding_stages(trace, "encoder"), MONTH),
        "calculation": attention_facts(example, DAY, **ENCODER_HEAD),
        "layer": rms_facts(example, layer_stages(trace, "encoder", 0), DAY),
        "mask": attention_facts(example, READ_MONTH, **DECODER_HEAD),
        "across": attention_facts(example, WRITTEN_MONTH, **CROSS_HEAD),
        "attention": cross_attention_facts(example),
        "beam": beam_facts(example),
        "text": {
            "√d": f"{math.sqrt(width(example)):.2f}",
            "√d of a head": f"{math.sqrt(trace['encoder.0.self_attention.query'].shape[-1]):.2f}",
            "bent away": f"{np.mean(trace['encoder.0.feed_forward.hidden'][DAY] == 0):.0%}",
            **loss_facts(example),
            "log-probability": signed(example.searched.log_probability),
            "length penalty": f"{length_penalty(len(example.searched.target.tokens), ALPHA):.3f}",
        },
    }


def width(example: Example) -> int:
    """Return d_model."""
    return int(example.trace["encoder.embedding.output"].shape[1])


def signed(number: float) -> str:
    """Return a number with three decimals and a minus sign."""
    return f"{number:.3f}".replace("-", "−")


def rms_facts(example: Example, names: dict[str, str], row: int) -> dict[str, str]:
    """Return the RMS of a token's vector at each stage."""
    return {words: f"{rms(example.trace[name][row]):.2f}" for words, name in names.items()}


def attention_facts(example: Example, row: int, *, attention: str, layer: int, head: int) -> dict[str, str]:
    """Return the score, scaled score and weight of the key with the largest weight."""
    found = select_computation(example.trace, attention=attention, layer=layer, head=head, row=row)
    best = int(np.argmax(found.weights))
    return {
        "key": token_label(found.keys[best]),
        "score": digits(float(found.scores[best])),
        "scaled": digits(float(found.scaled[best])),
        "masked": digits(float(found.masked[-1])),
        "weight": f"{found.weights[best]:.3f}",
    }


def cross_attention_facts(example: Example) -> dict[str, str]:
    """Return the weights of the last cross-attention that the chapter mentions, formatted as in the matrix."""
    weights = example.trace.attention("decoder.1.cross_attention").mean(axis=0)
    rows = {"the month": WRITTEN_MONTH, "the full stop": WRITTEN_MONTH - 1}
    return {words: f"{weights[row].max():.2f}"[1:] for words, row in rows.items()}


def beam_facts(example: Example) -> dict[str, str]:
    """Return the score of the best result of the beam search."""
    tree = example.searched.tree
    if tree is None or not tree.results():
        return {}
    return {"score": signed(tree.nodes[tree.results()[0]].score)}


def loss_facts(example: Example) -> dict[str, str]:
    """Return the loss of the sentence, with and without label smoothing, and its minimum."""
    scores = example.logits.astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    target = np.array([logs[row, token.id] for row, token in enumerate(example.trace.target.tokens)])
    n_words = scores.shape[1]
    smoothed = -((1 - SMOOTHING) * target + SMOOTHING * logs.mean(axis=1))
    aim = 1 - SMOOTHING + SMOOTHING / n_words
    rest = SMOOTHING / n_words
    return {
        "loss": f"{-target.mean():.3f}",
        "perplexity": f"{math.exp(-target.mean()):.3f}",
        "smoothed loss": f"{smoothed.mean():.3f}",
        "least smoothed loss": f"{-(aim * math.log(aim) + (n_words - 1) * rest * math.log(rest)):.3f}",
        "aim": f"{aim:.4f}",
        "loss of a guess": f"{math.log(n_words):.2f}",
    }


def tables(example: Example) -> dict[str, str]:
    """Return the tables of the chapter, as Markdown."""
    return {
        "tokens": token_table(example),
        "embedding": embedding_table(example),
        "shapes": shape_table(example),
        "steps": step_table(example),
        "words": word_table(example),
        "learning rate": rate_table(example),
    }


def table(*rows: tuple[object, ...]) -> str:
    """Return rows as a Markdown table, the first as its heading."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def as_code(text: str) -> str:
    """Return a token as Markdown code, its spaces visible."""
    return f"`{text.replace(' ', '␣')}`"


def token_table(example: Example) -> str:
    """Return the tokens with their ids."""
    tokens = example.trace.source.tokens
    return table(
        ("position", *range(len(tokens))),
        ("token", *(as_code(token.text) for token in tokens)),
        ("id", *(token.id for token in tokens)),
    )


def embedding_table(example: Example) -> str:
    """Return the first numbers of the vectors of the month."""
    rows = [
        (words, *(signed(float(number)) for number in example.trace[name][MONTH][:SHOWN]), "…")
        for words, name in embedding_stages(example.trace, "encoder").items()
    ]
    return table(("depth", *range(SHOWN), "…"), *rows)


def shape_table(example: Example) -> str:
    """Return the shapes of the values in the first attention."""
    names = {
        "norm": "what enters", "query": "queries", "key": "keys", "value": "values", "scores": "dot products",
        "weights": "weights", "head_outputs": "weighted sums", "merged_heads": "heads side by side", "output": "output",
    }  # fmt: skip
    shapes = {name: example.trace[f"encoder.0.self_attention.{name}"].shape for name in names}
    return table(("what", "shape"), *((names[name], " × ".join(map(str, shape))) for name, shape in shapes.items()))


def step_table(example: Example) -> str:
    """Return the token chosen at each step, and the next likeliest."""
    rows = []
    for number, (step, read) in enumerate(zip(example.trace.steps, example.trace.inputs.tokens, strict=True)):
        others = [one for index, one in enumerate(step.candidates) if index != step.chosen][:3]
        runners_up = ", ".join(f"{as_code(one.text)} {one.probability:.4f}" for one in others)
        rows.append(
            (number + 1, as_code(read.text), as_code(step.choice.text), f"{step.choice.probability:.3f}", runners_up)
        )
    return table(("step", "input", "output", "probability", "next best"), *rows)


def word_table(example: Example) -> str:
    """Return the word alignment."""
    alignment, source, target = example.trace.alignment, example.trace.source.text, example.trace.target.text
    links = alignment.links if alignment else ()
    rows = [
        (target[link.target_start : link.target_end], source[link.source_start : link.source_end], f"{link.weight:.3f}")
        for link in links
    ]
    return table(("target word", "source word", "weight"), *rows)


def rate_table(example: Example) -> str:
    """Return the learning rate at some steps, of the demo and of the paper."""
    training = example.record["recipe"]["training"]
    warmup, end = training["warmup_steps"], training["max_steps"]
    ours = (1, warmup // 2, warmup, (warmup + end) // 2, end)
    theirs = (1, PAPER_WARMUP // 2, PAPER_WARMUP, 10 * PAPER_WARMUP, 25 * PAPER_WARMUP)
    peak = training["learning_rate"]
    return table(
        ("demo, step", *ours),
        ("learning rate", *(f"{linear(step, peak=peak, warmup=warmup, end=end):.2g}" for step in ours)),
        ("**paper, step**", *(f"**{step:,}**" for step in theirs)),
        ("learning rate", *(f"{noam(step, d_model=PAPER_WIDTH, warmup=PAPER_WARMUP):.2g}" for step in theirs)),
    )
