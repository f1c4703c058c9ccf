"""Randomly damaged files load or are refused; nothing else ever happens."""

import random
from pathlib import Path

import pytest

from sightline.bundle import Bundle, TaskConfig, load, save
from sightline.bundle.calibration import Bin, Calibration
from sightline.bundle.input_statistics import InputStatistics
from sightline.bundle.training_facts import InputExample, TrainingFacts
from sightline.decoding.settings import DecodingSettings
from sightline.errors import ModelFileError

from .tiny import TOKENIZER, tiny_model

FILES = (
    "config.json",
    "tokenizer.json",
    "generation.json",
    "model.safetensors",
    "words.txt",
    "target_tokenizer.json",
    "training.json",
)
CALIBRATION = Calibration("exact", DecodingSettings(), (Bin(-2.5, 40, 3), Bin(-0.5, 60, 50)))
INSERTIONS = (
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-1",
    b"9" * 30,
    b"null",
    b"1e400",
    b"\\ud800",
    b"\xff",
    b"\x00",
    b"true",
)


def damage(data: bytes, rng: random.Random) -> bytes:
    """Change, delete, repeat or insert bytes in a few places, most of them in the structured part."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(min(len(result), rng.choice((100, 4_000, 10**9)))) if result else 0
        length = rng.choice((1, 1, 4, 30))
        match rng.randrange(5):
            case 0:
                result[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del result[at : at + length]
            case 2:
                result[at:at] = rng.choice(INSERTIONS)
            case 3:
                result[at:at] = result[-at : -at + length] or b"x"
            case _:
                del result[len(result) - length * rng.choice((1, 50)) :]
    return bytes(result)


def refusal_of(folder: Path) -> str:
    try:
        load(folder)
    except ModelFileError as error:
        return str(error)
    return ""


def damage_and_load(folder: Path, rounds: int, seed: int) -> dict[str, int]:
    rng = random.Random(seed)  # noqa: S311
    originals = {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}
    outcomes = {"loaded": 0, "refused": 0}
    for _ in range(rounds):
        name = rng.choice(list(originals))
        (folder / name).write_bytes(damage(originals[name], rng))
        refusal = refusal_of(folder)
        assert len(refusal.splitlines()) <= 1
        outcomes["refused" if refusal else "loaded"] += 1
        (folder / name).write_bytes(originals[name])
    return outcomes


def test_damaged_files_load_or_are_refused(folder):
    outcomes = damage_and_load(folder, 600, seed=1)
    assert min(outcomes.values()) > 20


@pytest.fixture
def full_folder(tmp_path) -> Path:
    """A folder with all possible files."""
    model = tiny_model("transformer", target_vocab_size=TOKENIZER.vocab_size, tie_embeddings=False)
    task_config = TaskConfig("translation")
    save(
        Bundle(
            model,
            TOKENIZER,
            task_config=task_config,
            target_tokenizer=TOKENIZER,
            words=("the", "cat"),
            training=TrainingFacts(
                ("pairs.tsv",),
                20,
                3,
                {"bleu": 12.5},
                6,
                CALIBRATION,
                0.25,
                60,
                (InputExample("a cat"),),
                InputStatistics("AQ==", ("LATIN",)),
            ),
        ),
        tmp_path / "full",
    )
    return tmp_path / "full"


def test_damaged_files_of_a_full_folder_load_or_are_refused(full_folder):
    assert sorted(path.name for path in full_folder.iterdir()) == sorted([*FILES, "README.md"])
    outcomes = damage_and_load(full_folder, 400, seed=2)
    assert min(outcomes.values()) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_damaged_files_load_or_are_refused_searched_long(folder, seed):
    damage_and_load(folder, 10_000, seed=100 + seed)
