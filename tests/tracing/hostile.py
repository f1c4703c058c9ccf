"""Invalid traces: each case corrupts a good folder and gives the expected reason."""

import json
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

Spoil = Callable[[Path], object]
ENTRIES, ARRAYS = "trace.json", "trace.safetensors"
PICKLE = b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."
WEIGHTS = "activations/encoder.0.self_attention.weights"


def edit_entries(change: Callable[[dict], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        entries = json.loads((folder / ENTRIES).read_text())
        change(entries)
        (folder / ENTRIES).write_text(json.dumps(entries))

    return spoil


def edit_arrays(change: Callable[[dict], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        arrays = load_file(folder / ARRAYS)
        change(arrays)
        save_file(arrays, folder / ARRAYS)

    return spoil


def replace_bytes(file: str, data: bytes) -> Spoil:
    return lambda folder: (folder / file).write_bytes(data)


def instead(file: str, make: Callable[[Path], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / file).unlink()
        make(folder / file)

    return spoil


def at(entries: dict, *path: str | int) -> dict:
    """Return an inner part."""
    found = entries
    for name in path:
        found = found[name]
    return found


def put(value: object, *path: str | int) -> Spoil:
    """Put another value in a place of trace.json."""
    return edit_entries(lambda entries: at(entries, *path[:-1]).__setitem__(path[-1], value))


def rename_first(activation: str) -> Spoil:
    def change(entries: dict) -> None:
        entries["activations"] = {
            activation if i == 0 else name: v for i, (name, v) in enumerate(entries["activations"].items())
        }

    return edit_entries(change)


def header_of(entries: dict) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text


CASES: dict[str, tuple[Spoil, str]] = {
    "missing entries": (instead(ENTRIES, lambda path: None), "trace.json: is missing"),
    "missing arrays": (instead(ARRAYS, lambda path: None), "trace.safetensors: is missing"),
    "pickle entries": (replace_bytes(ENTRIES, PICKLE), "is a pickle"),
    "pickle arrays": (replace_bytes(ARRAYS, PICKLE), "is a pickle"),
    "web page": (replace_bytes(ENTRIES, b"<!DOCTYPE html>"), "is a web page"),
    "link": (instead(ENTRIES, lambda path: path.symlink_to("/etc/passwd")), "is a symbolic link"),
    "list": (replace_bytes(ENTRIES, b"[1]"), "not an object"),
    "deep": (replace_bytes(ENTRIES, b'{"a":' * 100_000), "nested too deeply"),
    "NaN": (replace_bytes(ENTRIES, b'{"format": NaN}'), "NaN is not a JSON number"),
    "many objects": (replace_bytes(ENTRIES, b'{"a":[' + b"{}," * 200_000 + b"{}]}"), "more than 100,000"),
    "cut off": (replace_bytes(ENTRIES, b'{"format": 1, "family": "gp'), "is not JSON"),
    "no format": (edit_entries(lambda entries: entries.pop("format")), 'has no "format"'),
    "newer format": (put(3, "format"), "update with pip"),
    "older format": (put(1, "format"), "has the format 1 of an older Sightline: trace the text again"),
    "format of no kind": (put("one", "format"), "must be an integer from 1"),
    "no family": (edit_entries(lambda entries: entries.pop("family")), "check family"),
    "extra entry": (put(1, "extra"), "check extra"),
    "no interface": (edit_entries(lambda entries: entries.pop("interface")), "check interface"),
    "family that is no name": (put("<b>", "family"), "family must be a name"),
    "interface that is no name": (put("Seq2Seq\n", "interface"), "interface must be a name"),
    "interface of other rows": (
        edit_entries(lambda entries: entries["inputs"]["tokens"].insert(0, entries["inputs"]["tokens"][0])),
        "the steps are not the last rows of the inputs",
    ),
    "prediction of no kind": (put("words", "predicts"), "trace.predicts must be one of tokens, masks, classes"),
    "prediction of nothing": (put(None, "predicts"), "predicts is null"),
    "prediction of classes in a target": (put("classes", "predicts"), "steps for .* target tokens"),
    "family of no kind": (put(["gpt"], "family"), "trace.family must be text"),
    "text of no kind": (put(5, "source", "text"), "trace.source.text must be text"),
    "token of no kind": (put("x", "source", "tokens", 0), r"trace.source.tokens\[0\] must have exactly 6 entries"),
    "token id of no kind": (put(True, "source", "tokens", 0, "id"), "id must be an integer"),
    "token beyond its text": (put(10**6, "source", "tokens", 0, "end"), r"source.tokens\[0\] is outside its text"),
    "token before its text": (put(-1, "target", "tokens", 0, "start"), r"target.tokens\[0\] is outside its text"),
    "tokens too few": (edit_entries(lambda entries: entries["source"]["tokens"].pop()), "does not fit the tokens"),
    "steps too few": (edit_entries(lambda entries: entries["steps"].pop()), "steps"),
    "row that is not there": (put(99, "steps", 0, "row"), "the steps are not the last rows of the inputs"),
    "candidate that is not there": (put(99, "steps", 0, "chosen"), r"steps\[0\] has an invalid row, candidate"),
    "no probability": (put(7.0, "steps", 0, "candidates", 0, "probability"), "or probability"),
    "infinite number": (
        lambda folder: (folder / ENTRIES).write_text(
            re.sub(
                r'"log_probability": -[0-9.e-]+', '"log_probability": -1e999', (folder / ENTRIES).read_text(), count=1
            )
        ),
        "log_probability must be a number",
    ),
    "endless number": (put(10**400, "steps", 0, "log_probability"), "log_probability must be a number"),
    "half a character": (put("\ud800", "source", "text"), "trace.source.text is not Unicode"),
    "name of half a character": (put(1, "model", "\ud800"), "is not Unicode"),
    "activation of an invalid name": (rename_first("<script>"), "'<script>' is not the name of a hook point"),
    "activation of another shape": (rename_first("encoder.0.feed_forward.norm"), "does not fit the tokens"),
    "array that is not there": (put({"array": "x"}, "activations", "y"), "has no array 'x'"),
    "array of no kind": (put({"array": ["x"]}, "activations", "y"), "has no array"),
    "array that is a list": (put([1.0], "activations", "y"), "trace.activations.y is not an array"),
    "array that is numbers": (
        put({"shape": [1], "data": [1]}, "activations", "y"),
        "trace.activations.y is not an array",
    ),
    "array twice": (put({"array": WEIGHTS}, "activations", "y"), "has no array"),
    "array of nothing": (
        edit_arrays(lambda arrays: arrays.update(x=np.ones(1, np.float32))),
        "'x' that nothing refers to",
    ),
    "NaN in an array": (edit_arrays(lambda arrays: arrays[WEIGHTS].fill(np.nan)), "contains NaN or infinity"),
    "infinity in an array": (edit_arrays(lambda arrays: arrays[WEIGHTS].fill(np.inf)), "contains NaN or infinity"),
    "array of other numbers": (
        edit_arrays(lambda arrays: arrays.update({WEIGHTS: arrays[WEIGHTS].astype(np.int64)})),
        "is of type I64",
    ),
    "array of another shape": (
        edit_arrays(lambda arrays: arrays.update({WEIGHTS: arrays[WEIGHTS][:, :1]})),
        "does not fit the tokens",
    ),
    "arrays cut off": (
        lambda folder: (folder / ARRAYS).write_bytes((folder / ARRAYS).read_bytes()[:-4]),
        "is truncated",
    ),
    "huge array": (
        replace_bytes(ARRAYS, header_of({"x": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}})),
        "is truncated",
    ),
    "parent that comes later": (put(40, "tree", "nodes", 0, "parent"), r"tree.nodes\[0\] does not continue"),
    "node that continues itself": (put(30, "tree", "nodes", 30, "parent"), r"tree.nodes\[30\] does not continue"),
    "fate of no kind": (put("lost", "tree", "nodes", 0, "fate"), "fate must be one of alive, finished, pruned"),
    "attention row that does not exist": (put(10**9, "tree", "nodes", 0, "row"), "does not fit its nodes"),
    "link outside the text": (put(10**6, "alignment", "links", 0, "source_end"), r"links\[0\] is outside its texts"),
    "text that is missing": (put({}, "logit_lens", "texts"), "logit_lens.texts has no text for the id"),
    "rows of a logit_lens": (put([10**6], "logit_lens", "rows"), "logit_lens.rows has a row"),
    "ids of no kind": (put({"shape": [1, 1, 1], "data": ["x"]}, "logit_lens", "ids"), "a shape and integers"),
    "ids of another number": (put({"shape": [9, 9, 9], "data": [1]}, "logit_lens", "ids"), "does not match its shape"),
    "ids of endless shape": (put({"shape": [10**9] * 9, "data": [1]}, "logit_lens", "ids"), "does not match its shape"),
    "attentions of a head ablation": (put(["a"], "head_ablation", "attentions"), "head_ablation.steps does not fit"),
    "heads that do not fit": (put([0, 1, 2, 3], "heads"), "does not fit"),
    "ablated head of no kind": (put({"x": ["y"]}, "ablated_heads"), "must be an integer"),
}
