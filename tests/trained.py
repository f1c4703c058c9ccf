"""Small models that have really learned something, for tests of what people see: trained once a run, in half a minute.

By the command, as a person does it, and in a process that is not slowed down by the checks of the tests. What they say
differs from processor to processor: a test may compare what two ways tell of one model, not wait for a certain word.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TINY = {"model.d_model": 64, "model.n_heads": 4, "model.d_ff": 128, "training.threads": 1}
QUICK = {"training.optimizer": "muon", "training.learning_rate": 0.01}
NOUNS = {"cat": "sleeps", "dog": "barks", "bird": "sings", "fish": "swims"}
NOUNS |= {"cats": "sleep", "dogs": "bark", "birds": "sing", "fishes": "swim"}


def toy_sentences(n: int) -> list[tuple[str, str]]:
    """Sentences in which each noun has its verb, and whether it is one animal or many."""
    chance = random.Random(1)  # noqa: S311
    found = []
    for _ in range(n):
        noun, verb = chance.choice([*NOUNS.items()])
        color, adverb = chance.choice(["red", "old", "small", "gray"]), chance.choice(["often", "never", "always"])
        number = "many" if noun.endswith("s") else "one"
        found.append((f"the {color} {noun} {adverb} {verb} {chance.choice(['here', 'there', 'outside'])} .", number))
    return found


def phrases(folder: Path) -> dict[str, object]:
    """The demo's phrases, in its six languages."""
    short = {"decoding.max_new_tokens": 24}  # of what is scored at the end, too, which takes as long as the training
    return {"training.max_steps": 160, "training.batch_tokens": 2500, **short, **QUICK, **TINY}


def writer(folder: Path) -> dict[str, object]:
    """Running text that never changes: the license. A document would make another model with every edit."""
    text = folder / "text.txt"
    text.write_text((ROOT / "LICENSE").read_text(encoding="utf-8"), encoding="utf-8")
    sizes = {"model.n_layers": 2, "model.max_length": 256, "tokenizer.vocab_size": 600}
    return {"data.train": text, "training.max_steps": 100, "training.batch_tokens": 1024, **sizes, **QUICK, **TINY}


def filler(folder: Path) -> dict[str, object]:
    """Hidden words of the toy sentences."""
    text = folder / "text.txt"
    text.write_text("\n".join(sentence for sentence, _ in toy_sentences(3000)), encoding="utf-8")
    sizes = {"model.n_layers": 2, "model.max_length": 64, "tokenizer.kind": "words", "tokenizer.vocab_size": 400}
    rate = {**QUICK, "training.learning_rate": 0.02, "model.dropout": 0.0, "model.heads": "mlm"}
    steps = {"training.max_steps": 250, "training.validate_every": 250}
    return {"data.train": text, **steps, "training.batch_tokens": 1024, **sizes, **rate, **TINY}


def classifier(folder: Path) -> dict[str, object]:
    """One animal, or many."""
    table = folder / "labeled.tsv"
    table.write_text("".join(f"{sentence}\t{number}\n" for sentence, number in toy_sentences(2000)), encoding="utf-8")
    sizes = {"model.n_layers": 2, "model.max_length": 64, "tokenizer.kind": "words", "tokenizer.vocab_size": 400}
    return {"data.train": table, "training.max_steps": 60, "training.batch_tokens": 2048, **sizes, **TINY}


def chat(folder: Path) -> dict[str, object]:
    """A few things that people say when they meet."""
    said = [("Hello", "Hi!"), ("Hi how are you", "I am well."), ("What is your name?", "I am a small model.")]
    said += [("Thank you", "You are welcome."), ("Bye", "See you soon."), ("Can you sing?", "Only a little.")]
    table = folder / "dialogues.tsv"
    table.write_text("".join(f"{turn}\t{reply}\n" for turn, reply in said * 20), encoding="utf-8")
    sizes = {"model.n_encoder_layers": 2, "model.n_decoder_layers": 2, "tokenizer.vocab_size": 350}
    rate = {"training.learning_rate": 0.003, "model.dropout": 0.0, "data.drop_duplicates": "false"}
    return {"data.train": table, "training.max_steps": 80, "training.batch_tokens": 512, **sizes, **rate, **TINY}


LESSONS: dict[str, tuple[str, Callable[[Path], dict[str, object]]]] = {
    "phrases": ("phrases", phrases),
    "gpt": ("language-model", writer),
    "bert": ("masked-language-model", filler),
    "classes": ("classification", classifier),
    "talk": ("chat", chat),
}


def train(name: str, folder: Path) -> None:
    """Train one of the models into a run folder."""
    recipe, lesson = LESSONS[name]
    data = folder.with_name(f"{folder.name}-data")
    data.mkdir(parents=True, exist_ok=True)
    settings = [f"{key}={value}" for key, value in lesson(data).items()]
    command = [sys.executable, "-m", "sightline", "train", recipe, *settings, "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
