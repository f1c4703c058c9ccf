"""Traces of any length made by hand, with every part that can be drawn."""

import numpy as np

from sightline.tracing import (
    Alignment,
    Candidate,
    Knockouts,
    Link,
    Node,
    Passage,
    Readout,
    Step,
    Token,
    Trace,
    Tree,
)

PLAIN = ("the", " un", "likely", " cat", " sat", " on", " a", " mat", ",", " twice")
RIGHT_TO_LEFT = ("السلام", " عليكم", " يا", " صديقي", " שלום", " עולם")
UNSPACED = ("今天", "天气", "很", "好", "，", "我们", "去", "公园")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--",
    "\u202eevil",
    "\u2028",
    "&lt;b&gt;",
    "\ud800",
    "${alert(1)}",
    "'\"`",
    "x" * 300,
    "\x00",
    "",
)
LAYERS, HEADS = 2, 4


def passage(n: int, texts: tuple[str, ...]) -> Passage:
    """A passage of n tokens, going round the texts."""
    tokens, text = [], ""
    for place in range(n):
        piece = texts[place % len(texts)]
        tokens.append(Token(place % 50, piece, len(text), len(text) + len(piece)))
        text += piece
    return Passage(text, tuple(tokens))


def drawn_trace(n: int, texts: tuple[str, ...] = PLAIN, *, seed: int = 0) -> Trace:
    """A translation of n tokens into n tokens with heads that look sharply here and there."""
    random = np.random.default_rng(seed)
    source, written = passage(n, texts), passage(n - 1, texts)
    end = len(written.text)
    target = Passage(written.text, (*written.tokens, Token(2, "</s>", end, end, special=True)))
    inputs = Passage(written.text, (Token(1, "<s>", 0, 0, special=True), *written.tokens))

    def weights(*, causal: bool) -> np.ndarray:
        scores = random.normal(0, 2, (HEADS, n, n))
        scores += 4 * np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n)))) * random.random((HEADS, 1, 1)) * 2
        if causal:
            scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        return (shares / shares.sum(axis=2, keepdims=True)).astype(np.float32)

    probes = {f"encoder.{layer}.self_attention.weights": weights(causal=False) for layer in range(LAYERS)}
    for layer in range(LAYERS):
        probes[f"decoder.{layer}.self_attention.weights"] = weights(causal=True)
        probes[f"decoder.{layer}.cross_attention.weights"] = weights(causal=False)
    steps = []
    for row, token in enumerate(target.tokens):
        shares = np.sort(random.dirichlet(np.full(8, 0.3)))[::-1]
        others = [Candidate(60 + k, texts[k % len(texts)], float(share)) for k, share in enumerate(shares[1:])]
        chosen = Candidate(token.id, token.text, float(shares[0]))
        steps.append(Step(row, (chosen, *others), 0, 0, float(np.log(shares[0]))))
    return Trace(
        family="transformer",
        task="translation",
        model={"d_model": 16, "n_heads": HEADS, "n_encoder_layers": LAYERS, "n_decoder_layers": LAYERS},
        source=source,
        target=target,
        inputs=inputs,
        steps=tuple(steps),
        probes=probes,
        finish="end",
        tree=tree(target, n, random),
        alignment=Alignment(alignment(source, target), f"decoder.{LAYERS - 1}.cross_attention"),
        readout=readout(target, n, random, texts),
        knockouts=Knockouts(
            tuple(name.removesuffix(".weights") for name in probes),
            random.normal(-0.1, 0.5, (len(probes), HEADS, n)).astype(np.float32),
        ),
    )


def alignment(source: Passage, target: Passage) -> tuple[Link, ...]:
    """Links from every word of the target to the word of the source at the same place."""
    pairs = zip(source.words(), target.words(), strict=False)
    return tuple(Link(ours.start, ours.end, theirs.start, theirs.end, 0.625) for ours, theirs in pairs)


def tree(target: Passage, n: int, random: np.random.Generator) -> Tree:
    """A beam of three: the target, and two that are dropped at every step."""
    nodes: list[Node] = []
    parent = None
    total = 0.0
    for step, token in enumerate(target.tokens):
        total -= 0.25
        fate = "finished" if step == n - 1 else "alive"
        rank = 0 if step == n - 1 else None
        nodes.append(Node(step, parent, token.id, token.text, -0.25, total, total / (step + 1), fate, rank, step))
        place = len(nodes) - 1
        nodes += [Node(step, parent, 70 + k, f" {k}", -3.0, total - 3, total - 3, "pruned", None, step) for k in (0, 1)]
        parent = place
    looked = random.dirichlet(np.ones(n), (HEADS, n)).astype(np.float32)
    return Tree(tuple(nodes), {f"decoder.{LAYERS - 1}.cross_attention.weights": looked})


def readout(target: Passage, n: int, random: np.random.Generator, texts: tuple[str, ...]) -> Readout:
    """Three likely tokens after each layer."""
    ids = random.integers(0, 50, (LAYERS, n, 3))
    ids[-1, :, 0] = [token.id for token in target.tokens]
    names = {str(id_): texts[id_ % len(texts)] for id_ in range(60)} | {"2": "</s>"}
    shares = np.sort(random.dirichlet(np.ones(4), (LAYERS, n)), axis=2)[:, :, :0:-1].astype(np.float32)
    return Readout("decoder", tuple(range(n)), ids, shares, shares[:, :, 0], names)
