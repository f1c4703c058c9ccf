"""Hostile model folders: each case damages a good folder and names the file that must be refused, and why."""

import json
import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path], object]
WEIGHTS, CONFIG, TOKENIZER, GENERATION = "model.safetensors", "config.json", "tokenizer.json", "generation.json"
TARGETS, WORDS = "target_tokenizer.json", "words.txt"
CASES: dict[str, tuple[Damage, str, str]] = {}
PICKLE = b"\x80\x04cos\nsystem\n(S'touch canary'\ntR."


def case(name: str, file: str, reason: str, damage: Damage) -> None:
    CASES[f"{file}: {name}"] = (damage, file, reason)


def bytes_of(file: str, data: bytes) -> Damage:
    return lambda folder: (folder / file).write_bytes(data)


def edit_json(file: str, change: Callable[[dict], object]) -> Damage:
    def damage(folder: Path) -> None:
        entries = json.loads((folder / file).read_text())
        change(entries)
        (folder / file).write_text(json.dumps(entries))

    return damage


def with_text(file: str, old: str, new: str) -> Damage:
    def damage(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))

    return damage


def with_header(change: Callable[[dict], object]) -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        text = change(header)
        encoded = text.encode() if isinstance(text, str) else json.dumps(header).encode()
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(encoded)) + encoded + data[8 + length :])

    return damage


def with_tensors(change: Callable[[dict], object]) -> Damage:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        change(tensors)
        save_file(tensors, folder / WEIGHTS)

    return damage


def instead(file: str, make: Callable[[Path], object]) -> Damage:
    def damage(folder: Path) -> None:
        (folder / file).unlink()
        make(folder / file)

    return damage


def zip_archive(file: str) -> Damage:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", PICKLE)

    return instead(file, make)


def make_socket(path: Path) -> None:
    # A socket's own address may be no longer than a hundred bytes: it is made from within its folder.
    before = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(before)


def sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


for file in (CONFIG, TOKENIZER, GENERATION, WEIGHTS):
    case("pickle", file, "is a pickle", bytes_of(file, PICKLE))
    case("zip", file, "is a zip archive", zip_archive(file))
    case("GGUF", file, "is a GGUF file", bytes_of(file, b"GGUF" + bytes(100)))
    case("HTML", file, "is a web page", bytes_of(file, b"<!DOCTYPE html><html>not found</html>"))
    case("LFS pointer", file, "is a Git LFS pointer", bytes_of(file, b"version https://git-lfs.github.com/spec/v1\n"))
    case("empty", file, "is empty", bytes_of(file, b""))
    case("one byte", file, "is not", bytes_of(file, b"x"))
    case(
        "link out of the folder", file, "is a symbolic link", instead(file, lambda path: path.symlink_to("/etc/passwd"))
    )
    case("endless device", file, "is a symbolic link", instead(file, lambda path: path.symlink_to("/dev/zero")))
    case("pipe", file, "is a pipe", instead(file, os.mkfifo))
    case("socket", file, "cannot be read", instead(file, make_socket))
    case("directory", file, "is a directory", instead(file, lambda path: path.mkdir()))
for file in (CONFIG, TOKENIZER, WEIGHTS):
    case("missing", file, "is missing", instead(file, lambda path: None))
for file in (CONFIG, TOKENIZER, GENERATION):
    case("50 MB", file, "the maximum is", bytes_of(file, b'{"a": "' + b"x" * 50_000_000 + b'"}'))
    case("10 GB", file, "the maximum is", instead(file, sparse(10**10)))
    case("deep nesting", file, "nested too deeply", bytes_of(file, b'{"a":' * 100_000))
    case("many objects", file, "more than 100,000", bytes_of(file, b'{"a":[' + b"{}," * 200_000 + b"{}]}"))
    case("list", file, "not an object", bytes_of(file, b"[1, 2]"))
    case("null", file, "not an object", bytes_of(file, b"null"))
    case("UTF-16", file, "not UTF-8", bytes_of(file, '{"format": 1}'.encode("utf-16")))
    case("byte order mark", file, "BOM", bytes_of(file, b'\xef\xbb\xbf{"format": 1}'))
    case("NaN", file, "NaN is not a JSON number", bytes_of(file, b'{"format": NaN}'))
    case("blanks", file, "not JSON", bytes_of(file, b" " * 100))
for file in (CONFIG, GENERATION):
    case("duplicate key", file, "duplicate key 'format'", with_text(file, '"format": 2', '"format": 2, "format": 2'))
    case("newer format", file, "update with pip", edit_json(file, lambda entries: entries.update(format=3)))
    case("absurd format", file, "newer than this", with_text(file, '"format": 2', f'"format": 2{"0" * 4000}'))
    case("endless number", file, "4300 digits", with_text(file, '"format": 2', f'"format": 2{"0" * 5000}'))
    case("format of no kind", file, "must be an integer", edit_json(file, lambda entries: entries.update(format="one")))
    case("format true", file, "must be an integer", edit_json(file, lambda entries: entries.update(format=True)))
    case("no format", file, "has no .format.", edit_json(file, lambda entries: entries.pop("format")))

MODEL_SETTINGS: dict[str, tuple[object, str]] = {
    "n_layers": (10**9, "n_layers must be between"),
    "d_model": (-8, "d_model must be between"),
    "n_heads": (0, "n_heads must be between"),
    "vocab_size": (10**30, "vocab_size must be between"),
    "d_ff": (2.5, "2.5 is not a whole number"),
    "bias": ("yes", "'yes' is not true or false"),
    "dropout": ("nan", "'nan' is not a number"),
    "activation": ("rellu", "did you mean relu"),
    "positions": ([], "is not one of"),
    "max_length": (10**12, "max_length must be between"),
    "n_layer": (1, "did you mean 'n_layers'"),
    "norm_eps": (-1.0, "norm_eps must be between"),
}
for key, (value, reason) in MODEL_SETTINGS.items():
    change = edit_json(CONFIG, lambda entries, key=key, value=value: entries["model"].update({key: value}))
    case(f"{key} = {value}", CONFIG, reason, change)
case("infinite number", CONFIG, "is not a finite number", with_text(CONFIG, '"dropout": 0.1', '"dropout": 1e999'))
case("no model", CONFIG, "must have strings", edit_json(CONFIG, lambda entries: entries.pop("model")))
case(
    "architecture list",
    CONFIG,
    "must have strings",
    edit_json(CONFIG, lambda entries: entries.update(architecture=["gpt"])),
)
case("architecture unknown", CONFIG, "did you mean 'gpt'", edit_json(CONFIG, lambda e: e.update(architecture="gpt2")))
case("unknown entry", CONFIG, "unknown entry", edit_json(CONFIG, lambda entries: entries.update({"a\nb" * 99: 1})))
case(
    "a thousand settings",
    CONFIG,
    "implausible settings",
    edit_json(CONFIG, lambda e: e["model"].update({str(i): 1 for i in range(1000)})),
)
case(
    "endless name",
    CONFIG,
    "implausible settings",
    edit_json(CONFIG, lambda entries: entries["model"].update({"n" * 500_000: 1})),
)
case("endless list", CONFIG, "is a list of", edit_json(CONFIG, lambda e: e["model"].update(heads=["x"] * 9_999)))
case("role unknown", TOKENIZER, "unknown role", edit_json(CONFIG, lambda e: e["special_tokens"].update(end_of="a")))
case(
    "role without token",
    TOKENIZER,
    "not in the vocabulary",
    edit_json(CONFIG, lambda e: e["special_tokens"].update(end="xyzzy")),
)
case(
    "roles list", CONFIG, "must be an object", edit_json(CONFIG, lambda entries: entries.update(special_tokens=["pad"]))
)
case(
    "layers beyond the file",
    WEIGHTS,
    "too few for the 1,024 layers",
    edit_json(CONFIG, lambda e: e["model"].update(n_layers=1024)),
)
case(
    "wider than the file", WEIGHTS, "of the wrong shape", edit_json(CONFIG, lambda e: e["model"].update(d_model=65_536))
)

case(
    "unknown setting",
    GENERATION,
    "did you mean 'beam_size'",
    edit_json(GENERATION, lambda entries: entries.update(beams=2)),
)
case(
    "negative",
    GENERATION,
    "beam_size must be between",
    edit_json(GENERATION, lambda entries: entries.update(beam_size=-1)),
)
case(
    "id outside",
    GENERATION,
    "contains the id 99,999",
    edit_json(GENERATION, lambda entries: entries.update(bad_words=[[99_999]])),
)
case("endless list", GENERATION, "is a list of", edit_json(GENERATION, lambda e: e.update(bad_words=[[1]] * 5_000)))

case(
    "version",
    TOKENIZER,
    "Unknown tokenizer version",
    edit_json(TOKENIZER, lambda entries: entries.update(version="9.0")),
)
case(
    "larger than the model",
    TOKENIZER,
    "does not fit the model's vocab_size",
    edit_json(CONFIG, lambda e: e["model"].update(vocab_size=100)),
)
case(
    "smaller than the model",
    TOKENIZER,
    "does not fit the model's vocab_size",
    edit_json(CONFIG, lambda e: e["model"].update(vocab_size=50_000)),
)
case(
    "impossible merge",
    TOKENIZER,
    "forms no token",
    edit_json(TOKENIZER, lambda e: e["model"]["merges"].append(["no" * 50, "ne"])),
)
case("junk", TOKENIZER, "more than 2,000,000", bytes_of(TOKENIZER, b'{"model": {"x": [' + b"1," * 15_000_000 + b"1]}}"))

FIRST = "decoder.final_norm.bias"
case("header of 2⁶³ bytes", WEIGHTS, "not a safetensors file", bytes_of(WEIGHTS, struct.pack("<Q", 2**63) + b"{}" * 50))
case(
    "header larger than the file",
    WEIGHTS,
    "not a safetensors file",
    bytes_of(WEIGHTS, struct.pack("<Q", 200) + b"{}" * 50),
)
case(
    "header of 101 MB",
    WEIGHTS,
    "the maximum is",
    bytes_of(WEIGHTS, struct.pack("<Q", 101_000_000) + b"{" + b" " * 101_000_000),
)
case("header of many objects", WEIGHTS, "more than 100,000", with_header(lambda h: '{"a":[' + "{}," * 200_000 + "{}]}"))
case("header that is no object", WEIGHTS, "not a safetensors", with_header(lambda header: "[]"))
case("header nested", WEIGHTS, "nested too deeply", with_header(lambda header: '{"a":' * 100_000))
case("10 GB of nothing", WEIGHTS, "not a safetensors", instead(WEIGHTS, sparse(10**10)))
case(
    "trailing junk",
    WEIGHTS,
    "9 extra bytes after its weights",
    lambda folder: bytes_of(WEIGHTS, (folder / WEIGHTS).read_bytes() + b"trailing!")(folder),
)
case(
    "duplicate key",
    WEIGHTS,
    "duplicate key",
    with_header(lambda h: json.dumps(h)[:-1] + f', "{FIRST}": {json.dumps(h[FIRST])}}}'),
)
case("newer format", WEIGHTS, "update with pip", with_header(lambda h: h["__metadata__"].update(sightline_format="3")))
case(
    "format of no kind",
    WEIGHTS,
    "is not a number",
    with_header(lambda h: h["__metadata__"].update(sightline_format="٣x")),
)
case("metadata list", WEIGHTS, "is not a number", with_header(lambda header: header.update(__metadata__=[])))
case("missing tensor", WEIGHTS, f"missing: {FIRST}$", with_tensors(lambda tensors: tensors.pop(FIRST)))
case(
    "missing tensors",
    WEIGHTS,
    "missing: .*, .*, .* and [0-9]+ more",
    with_tensors(lambda t: [t.pop(n) for n in list(t)[1:]]),
)
case(
    "extra tensor",
    WEIGHTS,
    "not part of the model: ../../etc/passwd",
    with_tensors(lambda t: t.update({"../../etc/passwd": torch.zeros(1)})),
)
case(
    "endless name", WEIGHTS, "not part of the model: x", with_tensors(lambda t: t.update({"x" * 10**6: torch.zeros(1)}))
)
case("name of two lines", WEIGHTS, r"'a\\nb'", with_tensors(lambda tensors: tensors.update({"a\nb": torch.zeros(1)})))
case(
    "wrong shape",
    WEIGHTS,
    r"final_norm.bias \[9\] instead of \[8\]",
    with_tensors(lambda t: t.update({FIRST: torch.zeros(9)})),
)
case("double precision", WEIGHTS, "is of type F64", with_tensors(lambda t: t.update({FIRST: torch.zeros(8).double()})))
case(
    "whole numbers",
    WEIGHTS,
    "is of type I8",
    with_tensors(lambda t: t.update({FIRST: torch.zeros(8, dtype=torch.int8)})),
)
for name, number in {"NaN": torch.nan, "infinity": torch.inf, "minus infinity": -torch.inf}.items():
    case(name, WEIGHTS, "holds NaN or infinity", with_tensors(lambda t, number=number: t[FIRST].fill_(number)))
    halves = with_tensors(lambda t, number=number: t.update({FIRST: torch.full((8,), number).half()}))
    case(f"{name} in half precision", WEIGHTS, "holds NaN or infinity", halves)
ENTRIES: dict[str, tuple[dict, str]] = {
    "negative shape": ({"shape": [-8]}, "not lists of whole numbers"),
    "boolean shape": ({"shape": [True]}, "not lists of whole numbers"),
    "overflowing shape": ({"shape": [2**62, 2**62]}, "does not match its shape"),
    "shape beyond 64 bits": ({"shape": [2**70]}, "not lists of whole numbers"),
    "offsets reversed": ({"data_offsets": [32, 0]}, "does not match its shape"),
    "offsets beyond the file": ({"data_offsets": [2**40, 2**40 + 32]}, "does not start where"),
    "offsets missing": ({"data_offsets": []}, "not lists of whole numbers"),
    "unknown entry": ({"code": "import os"}, "must have dtype, shape and data_offsets"),
    "type of no kind": ({"dtype": 5}, "is of type 5"),
    "type list": ({"dtype": ["F32"]}, "is of type"),
}
for name, (entry, reason) in ENTRIES.items():
    case(name, WEIGHTS, reason, with_header(lambda header, entry=entry: header[FIRST].update(entry)))
case(
    "overlap",
    WEIGHTS,
    "does not start where",
    with_header(lambda h: h[FIRST].update(data_offsets=h["decoder.final_norm.weight"]["data_offsets"])),
)
case("entry that is a number", WEIGHTS, "must have dtype", with_header(lambda header: header.update({FIRST: 3})))

TASK_CONFIGS: dict[str, tuple[object, str]] = {
    "list": (["translation"], "must be an object with a"),
    "text": ("translation", "must be an object with a"),
    "no task": ({}, "task is missing"),
    "task that is no name": ({"task": "../model"}, "is not a valid name of a task"),
    "task list": ({"task": []}, "is not text"),
    "unknown entry": ({"task": "language-model", "languges": []}, "did you mean 'languages'"),
    "language that is none": ({"task": "translation", "languages": ["<2de>"]}, "is not a valid language name"),
    "language of two lines": ({"task": "translation", "languages": ["a\nb"]}, "is not a valid language name"),
    "language twice": ({"task": "translation", "languages": ["de", "de"]}, "contains a name twice"),
    "languages of numbers": ({"task": "translation", "languages": [1]}, "1 is not text"),
    "languages that are text": ({"task": "translation", "languages": "de"}, "is not a list"),
    "endless languages": ({"task": "translation", "languages": ["x"] * 99_999}, "is a list of 99,999"),
    "endless label": ({"task": "classification", "labels": ["x" * 10_000]}, "has 10,000 characters"),
    "context_turns of nothing": ({"task": "language-model", "context_turns": 0}, "context_turns must be between 1 and"),
    "many entries": ({str(i): 1 for i in range(500)}, "implausible settings"),
}
for name, (entry, reason) in TASK_CONFIGS.items():
    case(
        f"task_config: {name}",
        CONFIG,
        reason,
        edit_json(CONFIG, lambda entries, entry=entry: entries.update(task_config=entry)),
    )
case(
    "target roles list",
    CONFIG,
    "must be an object",
    edit_json(CONFIG, lambda e: e.update(target_special_tokens=["pad"])),
)


def without_targets(folder: Path) -> None:
    edit_json(CONFIG, lambda entries: entries.update(target_special_tokens={"pad": "<pad>"}))(folder)


def with_targets(folder: Path) -> None:
    (folder / TARGETS).write_bytes((folder / TOKENIZER).read_bytes())


case("missing", TARGETS, "is missing, although config.json lists", without_targets)
case("one vocabulary", TARGETS, "is not expected", with_targets)
case("pickle", TARGETS, "is a pickle", bytes_of(TARGETS, PICKLE))
case("list", TARGETS, "not an object", bytes_of(TARGETS, b"[]"))
case("no tokenizer", TARGETS, "is not a tokenizer", bytes_of(TARGETS, b'{"format": 1}'))
case("50 MB", TARGETS, "the maximum is", bytes_of(TARGETS, b'{"a": "' + b"x" * 50_000_000 + b'"}'))
case("pipe", TARGETS, "is a pipe", lambda folder: os.mkfifo(folder / TARGETS))

LISTS: dict[str, tuple[bytes, str]] = {
    "pickle": (PICKLE, "is not text: byte 0 is not UTF-8"),
    "UTF-16": ("the\ncat\n".encode("utf-16"), "is not UTF-8"),
    "lone surrogate": (b"\xed\xa0\x80\n", "is not UTF-8"),
    "control": (b"the\nc\x00at\n", "line 2 is not a single word"),
    "escape": (b"\x1b[2J\n", "line 1 is not a single word"),
    "blank within": (b"the cat\n", "line 1 is not a single word: 'the cat'"),
    "blank of another kind": ("the\u2003cat\n".encode(), "line 1 is not a single word"),
    "line of another kind": ("the\u2028cat\n".encode(), "line 1 is not a single word"),
    "Windows": (b"the\r\ncat\r\n", "line 1 is not a single word"),
    "nothing but a line": (b"\n", "line 1 is empty"),
    "empty line": (b"the\n\ncat\n", "line 2 is empty"),
    "empty": (b"", "is empty"),
    "truncated": (b"the\ncat", "does not end with a line break"),
    "twice": (b"the\ncat\nthe\n", "contains a word twice"),
    "endless word": (b"x" * 2_000_000 + b"\n", "has 2,000,000 characters"),
    "too many": (b"x\n" * 9_000_000, "more than 200,000 lines"),
    "30 MB": (b"x\n" * 15_000_000, "the maximum is"),
    "web page": (b"<!DOCTYPE html>\n", "line 1 is not a single word"),
}
for name, (data, reason) in LISTS.items():
    case(name, WORDS, reason, bytes_of(WORDS, data))
case("pipe", WORDS, "is a pipe", lambda folder: os.mkfifo(folder / WORDS))
case("directory", WORDS, "is a directory", lambda folder: (folder / WORDS).mkdir())
case("link", WORDS, "is a symbolic link", lambda folder: (folder / WORDS).symlink_to("/etc/passwd"))
case("10 GB", WORDS, "the maximum is", lambda folder: sparse(10**10)(folder / WORDS))
