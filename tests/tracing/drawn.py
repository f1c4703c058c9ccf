"""Traces of any length made by hand, with every part that can be drawn."""

import numpy as np

from sightline.tracing import (
    Alignment,
    Candidate,
    HeadAblation,
    Link,
    LogitLens,
    Node,
    Step,
    Token,
    TokenizedText,
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


def tokenized(n: int, texts: tuple[str, ...]) -> TokenizedText:
    """A text of n tokens, repeating the given ones."""
    tokens, text = [], ""
    for index in range(n):
        piece = texts[index % len(texts)]
        tokens.append(Token(index % 50, piece, len(text), len(text) + len(piece)))
        text += piece
    return TokenizedText(text, tuple(tokens))


def drawn_trace(n: int, texts: tuple[str, ...] = PLAIN, *, seed: int = 0) -> Trace:
    """A translation of n tokens into n tokens, with some heads that attend sharply."""
    random = np.random.default_rng(seed)
    source, written = tokenized(n, texts), tokenized(n - 1, texts)
    end = len(written.text)
    target = TokenizedText(written.text, (*written.tokens, Token(2, "</s>", end, end, special=True)))
    inputs = TokenizedText(written.text, (Token(1, "<s>", 0, 0, special=True), *written.tokens))

    def weights(*, causal: bool) -> np.ndarray:
        scores = random.normal(0, 2, (HEADS, n, n))
        scores += 4 * np.exp(-np.abs(np.subtract.outer(np.arange(n), np.arange(n)))) * random.random((HEADS, 1, 1)) * 2
        if causal:
            scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        return (shares / shares.sum(axis=2, keepdims=True)).astype(np.float32)

    activations = {f"encoder.{layer}.self_attention.weights": weights(causal=False) for layer in range(LAYERS)}
    for layer in range(LAYERS):
        activations[f"decoder.{layer}.self_attention.weights"] = weights(causal=True)
        activations[f"decoder.{layer}.cross_attention.weights"] = weights(causal=False)
    steps = []
    for row, token in enumerate(target.tokens):
        shares = np.sort(random.dirichlet(np.full(8, 0.3)))[::-1]
        others = [Candidate(60 + k, texts[k % len(texts)], float(share)) for k, share in enumerate(shares[1:])]
        chosen = Candidate(token.id, token.text, float(shares[0]))
        steps.append(Step(row, (chosen, *others), 0, 0, float(np.log(shares[0]))))
    return Trace(
        family="transformer",
        interface="Seq2Seq",
        task="translation",
        predicts="tokens",
        model={"d_model": 16, "n_heads": HEADS, "n_encoder_layers": LAYERS, "n_decoder_layers": LAYERS},
        source=source,
        target=target,
        inputs=inputs,
        steps=tuple(steps),
        activations=activations,
        finish_reason="eos",
        tree=tree(target, n, random),
        alignment=Alignment(alignment(source, target), f"decoder.{LAYERS - 1}.cross_attention"),
        logit_lens=logit_lens(target, n, random, texts),
        head_ablation=HeadAblation(
            tuple(name.removesuffix(".weights") for name in activations),
            random.normal(-0.1, 0.5, (len(activations), HEADS, n)).astype(np.float32),
        ),
    )


def alignment(source: TokenizedText, target: TokenizedText) -> tuple[Link, ...]:
    """Links from every target word to the source word at the same index."""
    pairs = zip(source.words(), target.words(), strict=False)
    return tuple(Link(ours.start, ours.end, theirs.start, theirs.end, 0.625) for ours, theirs in pairs)


def tree(target: TokenizedText, n: int, random: np.random.Generator) -> Tree:
    """A beam of three: the target, and two that are dropped at every step."""
    nodes: list[Node] = []
    parent = None
    total = 0.0
    for step, token in enumerate(target.tokens):
        total -= 0.25
        fate = "finished" if step == n - 1 else "alive"
        rank = 0 if step == n - 1 else None
        nodes.append(Node(step, parent, token.id, token.text, -0.25, total, total / (step + 1), fate, rank, step))
        index = len(nodes) - 1
        nodes += [Node(step, parent, 70 + k, f" {k}", -3.0, total - 3, total - 3, "pruned", None, step) for k in (0, 1)]
        parent = index
    weights = random.dirichlet(np.ones(n), (HEADS, n)).astype(np.float32)
    return Tree(tuple(nodes), {f"decoder.{LAYERS - 1}.cross_attention.weights": weights})


def logit_lens(target: TokenizedText, n: int, random: np.random.Generator, texts: tuple[str, ...]) -> LogitLens:
    """Three likely tokens after each layer."""
    ids = random.integers(0, 50, (LAYERS, n, 3))
    ids[-1, :, 0] = [token.id for token in target.tokens]
    names = {str(id_): texts[id_ % len(texts)] for id_ in range(60)} | {"2": "</s>"}
    shares = np.sort(random.dirichlet(np.ones(4), (LAYERS, n)), axis=2)[:, :, :0:-1].astype(np.float32)
    return LogitLens("decoder", tuple(range(n)), ids, shares, shares[:, :, 0], names)
