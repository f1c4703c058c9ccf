"""Every family learns something real, by the recipes as they are shipped, and shows it on examples it has not seen."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

import sightline

pytestmark = pytest.mark.slow

LETTERS = "abcdefghij"


def trained(recipe: str, settings: dict[str, object], out: Path):
    """Train as a person does, by the command, which is not slowed down by the checks of the tests; open the model."""
    values = [f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "sightline.cli.main", "train", recipe, *values, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return sightline.load(out)


def strings(n: int, *, seed: int, shortest: int = 4) -> list[str]:
    chance = random.Random(seed)  # noqa: S311
    return ["".join(chance.choices(LETTERS, k=chance.randint(shortest, 9))) for _ in range(n)]


def split(n: int, *, shortest: int = 4) -> tuple[list[str], list[str]]:
    """Return strings to learn from, and others to ask."""
    learned = strings(n, seed=1, shortest=shortest)
    return learned, sorted(set(strings(300, seed=2)) - set(learned))[:200]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("name", "task"), [("copy", lambda s: s), ("reverse", lambda s: s[::-1])])
def test_a_transformer_learns_to(name, task, tmp_path):
    learned, asked = split(12_000)
    settings = {
        "data.train": write(tmp_path / "pairs.tsv", [f"{s}\t{task(s)}" for s in learned]),
        "tokenizer.kind": "characters",
        "model.d_model": 64, "model.n_heads": 4, "model.d_ff": 256,
        "model.n_encoder_layers": 2, "model.n_decoder_layers": 2, "model.dropout": 0.0,
        "training.max_steps": 1500, "training.batch_tokens": 3000, "training.bucket_window": 1,
        "training.learning_rate": 0.003,
    }  # fmt: skip
    model = trained("translation", settings, tmp_path / "run")
    outputs = model.translate(asked, beam_size=1)
    right = sum(output == task(s) for output, s in zip(outputs, asked, strict=True))
    assert right / len(asked) >= 0.99, name


@pytest.mark.parametrize(("name", "task"), [("copy", lambda s: s), ("reverse", lambda s: s[::-1])])
def test_a_gpt_learns_to(name, task, tmp_path):
    """Without a cross-attention it must find out where the copy begins: short strings, which show it, come first to be
    understood (without them it may not be found in thousands of updates).
    """
    learned, asked = split(20_000, shortest=1)
    settings = {
        "data.train": write(tmp_path / "text.txt", [f"{s}>{task(s)}" for s in learned]),
        "data.document_separator": "line",
        "tokenizer.kind": "characters",
        "model.d_model": 64, "model.n_heads": 4, "model.d_ff": 256, "model.n_layers": 4,
        "model.dropout": 0.0, "model.max_length": 64, "model.positions": "rope",
        "training.max_steps": 3000, "training.batch_tokens": 3000, "training.learning_rate": 0.001,
    }  # fmt: skip
    model = trained("language-model", settings, tmp_path / "run")
    found = model.continuations([f"{s}>" for s in asked], settings=model.settings(do_sample=False, max_new_tokens=12))
    right = sum(texts[0].text == task(s) for texts, s in zip(found, asked, strict=True))
    assert right / len(asked) >= 0.99, name


SINGULAR = {"cat": "sleeps", "dog": "barks", "bird": "sings", "fish": "swims"}
PLURAL = {"cats": "sleep", "dogs": "bark", "birds": "sing", "fishes": "swim"}


def grammar(n: int, *, seed: int) -> list[str]:
    """Each noun has its verb, in its number; what stands between them says nothing about it."""
    chance = random.Random(seed)  # noqa: S311
    pairs = [*SINGULAR.items(), *PLURAL.items()]
    lines = []
    for _ in range(n):
        noun, verb = chance.choice(pairs)
        color, place = chance.choice(["red", "old", "small", "gray"]), chance.choice(["here", "there", "outside"])
        lines.append(f"the {color} {noun} {chance.choice(['often', 'never', 'always'])} {verb} {place} .")
    return lines


def test_a_bert_finds_the_hidden_words_of_a_toy_grammar(tmp_path):
    settings = {
        "data.train": write(tmp_path / "text.txt", grammar(6000, seed=1)),
        "tokenizer.kind": "words", "tokenizer.vocab_size": 400,
        "model.d_model": 64, "model.n_heads": 4, "model.d_ff": 256, "model.n_layers": 3, "model.dropout": 0.0,
        "model.heads": ["mlm"], "model.max_length": 32,
        "training.max_steps": 1200, "training.batch_tokens": 3000, "training.learning_rate": 0.002,
    }  # fmt: skip
    model = trained("masked-language-model", settings, tmp_path / "run")
    verbs = SINGULAR | PLURAL
    right = 0
    asked = [(noun, adverb) for noun in verbs for adverb in ("often", "never", "always")]
    for noun, adverb in asked:
        (gap,) = model.fill(f"the red {noun} {adverb} [MASK] here .", n=1)
        right += gap.candidates[0].token.strip() == verbs[noun]
    assert right / len(asked) >= 0.95


def test_a_classifier_learns_what_only_the_order_of_words_tells(tmp_path):
    """ "a before b" or "b before a": the same words, so that counting them does not help."""
    chance = random.Random(3)  # noqa: S311
    lines = []
    for _ in range(6000):
        words = chance.choices(["one", "two", "three", "four", "five"], k=chance.randint(3, 8))
        first, second = sorted(chance.sample(range(len(words) + 1), 2))
        order = chance.choice(["sun moon", "moon sun"]).split()
        words[first:first] = [order[0]]
        words[second + 1 : second + 1] = [order[1]]
        lines.append(f"{' '.join(words)}\t{'day' if order[0] == 'sun' else 'night'}")
    settings = {
        "data.train": write(tmp_path / "labeled.tsv", lines[:5500]),
        "tokenizer.kind": "words", "tokenizer.vocab_size": 400,
        "model.d_model": 64, "model.n_heads": 4, "model.d_ff": 256, "model.n_layers": 3, "model.dropout": 0.0,
        "training.max_steps": 1500, "training.batch_tokens": 3000, "training.learning_rate": 0.001,
        "training.bucket_window": 1,
    }  # fmt: skip
    model = trained("classification", settings, tmp_path / "run")
    asked = [line.split("\t") for line in lines[5500:]]
    found = model.classify([text for text, _ in asked])
    right = sum(classification.label == label for classification, (_, label) in zip(found, asked, strict=True))
    assert right / len(asked) >= 0.98


def test_the_chat_recipe_answers_a_greeting(tmp_path):
    pytest.importorskip("chatterbot_corpus", reason="the chat recipe learns from the package chatterbot-corpus")
    chat = trained("chat", {}, tmp_path / "run").conversation()
    answer = chat.say("Hi how are you").lower()
    assert any(word in answer for word in ("well", "good", "fine", "great", "okay", "hello", "hi")), answer
    assert len(chat.turns) == 2
