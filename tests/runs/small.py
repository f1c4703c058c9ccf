"""Corpora of a few lines for every task, and settings for a run of one second."""

import hashlib
import json
from pathlib import Path

from sightline import bundle

TINY = {
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.d_ff": 32,
    "tokenizer.vocab_size": 300,
    "training.batch_tokens": 600,
    "training.max_steps": 6,
    "training.validate_every": 3,
    "training.checkpoint_every": 2,
    "training.log_every": 1,
    "decoding.max_new_tokens": 12,
}
LAYERS = {
    "translation": {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1},
    "chat": {"model.n_encoder_layers": 1, "model.n_decoder_layers": 1},
}
WORDS = ("red", "green", "blue", "one", "two", "three", "cat", "dog", "bird")


def sentence(number: int) -> str:
    return " ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 4 + number % 3))


def write_corpus(folder: Path, task: str, n: int = 60) -> Path:
    """Write the training set of a task."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [sentence(number) for number in range(n)]
    if task == "translation":
        path, lines = folder / "pairs.tsv", [f"{s}\t{s.upper()} {i}" for i, s in enumerate(sentences)]
    elif task == "chat":
        path = folder / "dialogues.jsonl"
        lines = [json.dumps({"turns": [s, f"you said {s}", "yes", "good"]}) for s in sentences]
    elif task == "classification":
        path, lines = folder / "labeled.tsv", [f"{s} {i}\t{WORDS[i % 3]}" for i, s in enumerate(sentences)]
    else:
        path, lines = folder / "text.txt", [s if i % 5 else f"{s}\n" for i, s in enumerate(sentences)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def overrides(folder: Path, task: str, **more: object) -> dict[str, object]:
    """Return settings for a run of a second."""
    return {**TINY, **LAYERS.get(task, {"model.n_layers": 1}), "data.train": str(write_corpus(folder, task)), **more}


def weights_of(run: Path) -> str:
    """Return a digest of the weights of a run's model."""
    digest = hashlib.sha256()
    for name, parameter in sorted(bundle.load(run).model.named_parameters()):
        digest.update(name.encode() + parameter.detach().numpy().tobytes())
    return digest.hexdigest()
