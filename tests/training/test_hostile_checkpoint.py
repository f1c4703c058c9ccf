"""A checkpoint that someone else made is refused in one line, and nothing is changed by the attempt."""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sightline.errors import ModelFileError
from sightline.training.checkpoint import load_checkpoint, save_checkpoint

from .toy import SETTINGS, fingerprint, new_state, train

PICKLE = b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."
MODEL, OPTIMIZER, STATE, SUMS = "model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"
Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    state = new_state()
    train(state, SETTINGS, n_batches=4)
    return save_checkpoint(state, tmp_path_factory.mktemp("good"), keep_checkpoints=1)


@pytest.fixture
def checkpoint(good, tmp_path) -> Path:
    return shutil.copytree(good, tmp_path / good.name)


def sign(folder: Path) -> None:
    """Make the list of digests agree with what the files have become, as an attacker would."""
    files = [path for path in sorted(folder.iterdir()) if path.name != SUMS and path.is_file()]
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


def bytes_of(file: str, data: bytes) -> Spoil:
    return lambda folder: (folder / file).write_bytes(data)


def edited(change: Callable[[dict], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        entries = json.loads((folder / STATE).read_text())
        change(entries)
        (folder / STATE).write_text(json.dumps(entries))

    return spoil


def with_tensors(file: str, change: Callable[[dict], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / file)
        change(tensors)
        save_file(tensors, folder / file)

    return spoil


def with_key_twice(folder: Path) -> None:
    data = (folder / MODEL).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = data[8 : 8 + length].rstrip()
    entry = b',"decoder.final_norm.bias":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    header = header[:-1] + entry
    (folder / MODEL).write_bytes(struct.pack("<Q", len(header)) + header + data[8 + length :])


BIAS = "decoder.final_norm.bias"
SIGNED: dict[str, tuple[str, str, Spoil]] = {
    "weights: pickle": (MODEL, "is a pickle", bytes_of(MODEL, PICKLE)),
    "weights: zip": (MODEL, "is a zip archive", bytes_of(MODEL, b"PK\x03\x04" + bytes(99))),
    "weights: empty": (MODEL, "is empty", bytes_of(MODEL, b"")),
    "weights: key twice": (MODEL, "duplicate key", with_key_twice),
    "weights: NaN": (MODEL, f"{BIAS} holds NaN", with_tensors(MODEL, lambda t: t[BIAS].fill_(torch.nan))),
    "weights: missing": (MODEL, f"missing: {BIAS}", with_tensors(MODEL, lambda t: t.pop(BIAS))),
    "weights: more": (MODEL, "not part of the model: x", with_tensors(MODEL, lambda t: t.update(x=torch.ones(2)))),
    "weights: shape": (MODEL, "of the wrong shape", with_tensors(MODEL, lambda t: t.update({BIAS: torch.ones(3)}))),
    "weights: whole numbers": (
        MODEL,
        "is of type I64",
        with_tensors(MODEL, lambda t: t.update({BIAS: torch.ones(8, dtype=torch.int64)})),
    ),
    "optimizer: unknown memory": (
        OPTIMIZER,
        "not part of the model",
        with_tensors(OPTIMIZER, lambda t: t.update({f"{BIAS}.max_exp_avg_sq": torch.ones(8)})),
    ),
    "optimizer: unknown parameter": (
        OPTIMIZER,
        "not part of the model",
        with_tensors(OPTIMIZER, lambda t: t.update({"nobody.step": torch.ones(())})),
    ),
    "optimizer: half a memory": (
        OPTIMIZER,
        f"missing: {BIAS}.exp_avg",
        with_tensors(OPTIMIZER, lambda t: t.pop(f"{BIAS}.exp_avg")),
    ),
    "optimizer: step of a wrong shape": (
        OPTIMIZER,
        "of the wrong shape",
        with_tensors(OPTIMIZER, lambda t: t.update({f"{BIAS}.step": torch.ones(8)})),
    ),
    "gradients: of nothing": (
        "gradients.safetensors",
        "not part of the model: x",
        with_tensors("gradients.safetensors", lambda t: t.update(x=torch.ones(2))),
    ),
    "average: missing": (
        "ema.safetensors",
        f"missing: {BIAS}",
        with_tensors("ema.safetensors", lambda t: t.pop(BIAS)),
    ),
    "state: not JSON": (STATE, "not JSON", bytes_of(STATE, b"{")),
    "state: a list": (STATE, "not an object", bytes_of(STATE, b"[]")),
    "state: deep": (STATE, "nested too deeply", bytes_of(STATE, b'{"a":' + b"[" * 100_000)),
    "state: large": (STATE, "the maximum is", bytes_of(STATE, b" " * 5_000_000)),
    "state: NaN": (STATE, "is not a JSON number", bytes_of(STATE, b'{"format": NaN}')),
    "state: no format": (STATE, 'has no "format"', edited(lambda e: e.pop("format"))),
    "state: later format": (STATE, "is newer than this Sightline", edited(lambda e: e.update(format=99))),
    "state: no progress": (STATE, 'must have an object as "progress"', edited(lambda e: e.pop("progress"))),
    "state: no ranks": (STATE, 'the state of every rank as "ranks"', edited(lambda e: e["ranks"].clear())),
    "state: random is text": (
        STATE,
        'rank 0 must have objects as "sums" and "random"',
        edited(lambda e: e["ranks"][0].update(random="x")),
    ),
    "state: another rank is text": (STATE, "rank 1 must have objects", edited(lambda e: e["ranks"].append("x"))),
    "state: step is text": (STATE, "step: '1' is not a whole number", edited(lambda e: e["progress"].update(step="1"))),
    "state: step below zero": (STATE, "step must be 0 or more", edited(lambda e: e["progress"].update(step=-1))),
    "state: unknown progress": (STATE, "unknown field 'x'", edited(lambda e: e["progress"].update(x=1))),
    "state: missing progress": (STATE, "progress: epoch is missing", edited(lambda e: e["progress"].pop("epoch"))),
    "state: no loop": (STATE, 'must have an object as "loop"', edited(lambda e: e.pop("loop"))),
    "state: unknown loop": (
        STATE,
        "loop: unknown field 'token' (did you mean 'tokens'?); tokens is missing",
        edited(lambda e: e["loop"].update(token=e["loop"].pop("tokens"))),
    ),
    "state: loop of text": (
        STATE,
        "loop: validated_step: '1' is not a whole number",
        edited(lambda e: e["loop"].update(validated_step="1")),
    ),
    "state: half a selection key": (
        STATE,
        "loop: best_selection_key must be two numbers, not 1",
        edited(lambda e: e["loop"].update(best_selection_key=[0.5])),
    ),
    "state: missing sums": (
        STATE,
        "sums of rank 0: pending_tokens is missing",
        edited(lambda e: e["ranks"][0]["sums"].pop("pending_tokens")),
    ),
    "state: sums below zero": (
        STATE,
        "window_tokens must be 0 or more, not -1",
        edited(lambda e: e["ranks"][0]["sums"].update(window_tokens=-1)),
    ),
    "state: metrics of lists": (STATE, "metrics must be numbers or text", edited(lambda e: e["metrics"].update(x=[]))),
    "state: no optimizer": (STATE, "must have a list of Adam, AdamW, Muon", edited(lambda e: e.pop("optimizer"))),
    "state: strange optimizer": (STATE, "must have a list of", edited(lambda e: e.update(optimizer=["\n" * 9, []]))),
    "state: no generators": (
        STATE,
        "rank 0: the states of the random generators are not valid",
        edited(lambda e: e["ranks"][0]["random"].clear()),
    ),
}
UNSIGNED: dict[str, tuple[str, str, Spoil]] = {
    "sums: missing": (SUMS, "is missing", lambda folder: (folder / SUMS).unlink()),
    "sums: empty": (SUMS, "is empty", bytes_of(SUMS, b"")),
    "sums: noise": (SUMS, "does not list", bytes_of(SUMS, b"\xff" * 500)),
    "sums: elsewhere": (SUMS, "does not list", bytes_of(SUMS, b"0" * 64 + b"  ../../etc/passwd\n")),
    "sums: no weights": (SUMS, "does not list", bytes_of(SUMS, b"0" * 64 + b"  state.json\n")),
    "sums: large": (SUMS, "the maximum is", bytes_of(SUMS, b"x" * 2_000_000)),
    "weights: endless": (MODEL, "extra bytes after its weights", lambda folder: os.truncate(folder / MODEL, 1 << 42)),
    "sums: wrong": (STATE, "is damaged", bytes_of(STATE, b"{}")),
    "weights: missing": (MODEL, "is missing", lambda folder: (folder / MODEL).unlink()),
    "weights: link": (MODEL, "is a symbolic link", lambda folder: replaced(folder / MODEL, link_elsewhere)),
    "weights: pipe": (MODEL, "is a pipe", lambda folder: replaced(folder / MODEL, os.mkfifo)),
    "weights: folder": (MODEL, "is a directory", lambda folder: replaced(folder / MODEL, os.mkdir)),
}


def replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def link_elsewhere(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def refused(checkpoint: Path, file: str, reason: str) -> None:
    state = new_state(seed=9)
    before = fingerprint(state)
    with pytest.raises(ModelFileError) as caught:
        load_checkpoint(state, checkpoint)
    message = str(caught.value)
    assert message.startswith(f"{checkpoint / file}: ")
    assert reason in message
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(checkpoint)) + 700
    assert fingerprint(state) == before


@pytest.mark.parametrize("name", SIGNED)
def test_hostile_checkpoint_is_refused_even_if_its_digests_agree(name, checkpoint, tmp_path, monkeypatch):
    file, reason, spoil = SIGNED[name]
    spoil(checkpoint)
    sign(checkpoint)
    monkeypatch.chdir(tmp_path)
    refused(checkpoint, file, reason)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", UNSIGNED)
def test_incomplete_checkpoint_is_refused(name, checkpoint):
    file, reason, spoil = UNSIGNED[name]
    spoil(checkpoint)
    refused(checkpoint, file, reason)
