"""Handmade traces over any tokens, with every number that a figure may show: drawing needs no model."""

from collections.abc import Sequence

import numpy as np

from sightline.tracing import Candidate, Node, Step, Token, TokenizedText, Trace, Tree

D, HEADS, LAYERS = 8, 2, 2
END = Token(2, "</s>", 0, 0, special=True)


def tokenized(texts: Sequence[str], *, end: bool = False, start: bool = False) -> TokenizedText:
    """Tokens with these texts."""
    tokens, at = [], 0
    for number, text in enumerate(texts):
        tokens.append(Token(10 + number, text, at, at + len(text)))
        at += len(text)
    whole = "".join(texts)
    first = (Token(1, "<s>", 0, 0, special=True),) if start else ()
    last = (Token(2, "</s>", at, at, special=True),) if end else ()
    return TokenizedText(whole, (*first, *tokens, *last))


def attention(rng: np.random.Generator, n_rows: int, n_keys: int, *, causal: bool = False) -> dict[str, np.ndarray]:
    """Every point of one attention, each computed from those before it."""
    query, key, value = (rng.normal(size=(HEADS, n, D)).astype(np.float32) * 1.6 for n in (n_rows, n_keys, n_keys))
    scores = query @ key.transpose(0, 2, 1)
    scaled = scores / np.float32(np.sqrt(D))
    places = np.linspace(0, 1, n_rows)[:, None] - np.linspace(0, 1, n_keys)  # some order, as in a real sentence
    scaled = scaled - np.float32(8) * np.abs(places).astype(np.float32)
    scores = scaled * np.float32(np.sqrt(D))
    seen = np.tril(np.ones((n_rows, n_keys), bool)) if causal else np.ones((n_rows, n_keys), bool)
    masked = np.where(seen, scaled, -np.inf).astype(np.float32)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return {
        "query": query, "key": key, "value": value, "scores": scores, "scaled": scaled, "masked": masked,
        "weights": weights, "head_outputs": weights @ value,
    }  # fmt: skip


def steps(target: TokenizedText, first_row: int = 0) -> tuple[Step, ...]:
    """A sure choice of every token."""
    return tuple(
        Step(first_row + number, (Candidate(token.id, token.text, 0.9),), 0, 0, float(np.log(0.9)))
        for number, token in enumerate(target.tokens)
    )


def beam(target: TokenizedText) -> Tree:
    """A beam of two: at each step the token, and another that is given up a step later."""
    nodes: list[Node] = []
    above: int | None = None
    for number, token in enumerate(target.tokens):
        last = number == len(target.tokens) - 1
        score = -0.1 * (number + 1)
        nodes.append(
            Node(number, above, token.id, token.text, -0.1, score, score, "finished" if last else "alive",
                 0 if last else None, number)
        )  # fmt: skip
        nodes.append(Node(number, above, 99, f" x{number}", -2.5, score - 2.4, score - 2.4, "pruned", None, number))
        above = len(nodes) - 2
    return Tree(tuple(nodes))


def translation(source: Sequence[str], target: Sequence[str], *, seed: int = 0) -> Trace:
    """The trace of an encoder–decoder over these tokens."""
    rng = np.random.default_rng(seed)
    read, written = tokenized(source), tokenized(target, end=True)
    inputs = TokenizedText(written.text, (Token(1, "<s>", 0, 0, special=True), *written.tokens[:-1]))
    n, m = len(read.tokens), len(written.tokens)
    activations: dict[str, np.ndarray] = {"encoder.embedding.positions": rng.normal(size=(n, 16)).astype(np.float32)}
    for layer in range(LAYERS):
        parts = {
            f"encoder.{layer}.self_attention": attention(rng, n, n),
            f"decoder.{layer}.self_attention": attention(rng, m, m, causal=True),
            f"decoder.{layer}.cross_attention": attention(rng, m, n),
        }
        activations |= {f"{name}.{point}": array for name, part in parts.items() for point, array in part.items()}
    sizes = {"d_model": 16, "n_heads": HEADS, "positions": "sinusoidal"}
    return Trace(
        "transformer", "Seq2Seq", "translation", "tokens", sizes, read, written, inputs, steps(written), activations,
        finish_reason="eos", tree=beam(written),
    )  # fmt: skip


def continuation(prompt: Sequence[str], target: Sequence[str], *, between: Sequence[str] = (), seed: int = 0) -> Trace:
    """The trace of a GPT; with special tokens `between`, one that answers its source instead of continuing it."""
    rng = np.random.default_rng(seed)
    read, written = tokenized(prompt), tokenized(target, end=True)
    special = [Token(3 + number, text, 0, 0, special=True) for number, text in enumerate(between)]
    inputs = TokenizedText(read.text + written.text, (*read.tokens, *special, *written.tokens[:-1]))
    n = len(inputs.tokens)
    activations = {
        f"decoder.{layer}.self_attention.{point}": array
        for layer in range(LAYERS)
        for point, array in attention(rng, n, n, causal=True).items()
    }
    return Trace(
        "gpt", "CausalLM", "language-model", "tokens", {"d_model": 16, "n_heads": HEADS}, read, written, inputs,
        steps(written, len(read.tokens) + len(special) - 1), activations, finish_reason="eos",
    )  # fmt: skip


def sentence(n: int) -> list[str]:
    """A sentence of so many tokens."""
    words = [
        "the",
        "little",
        "model",
        "looks",
        "at",
        "every",
        "word",
        "of",
        "the",
        "sentence",
        "before",
        "it",
        "writes",
        "the",
        "next",
        "one",
    ]
    return [f" {words[number % len(words)]}" for number in range(n)]


ODD = [
    "$x_1^2$",
    " <b>&amp;",
    "\\frac{1}",
    "%",
    "a\nb",
    "\t",
    " ",
    "\x00",
    "\ud800",
    "\u202eevil",
    "]]>",
    "_",
    "^",
    "'\"",
]
HEBREW = [" שלום", " עולם", " זה", " מודל", " קטן"]
ARABIC = [" مرحبا", " بالعالم", " هذا", " نموذج", " صغير"]
CJK = ["春", "は", "曙", "、", "模型", "很", "小", "한국어", "🙂"]
