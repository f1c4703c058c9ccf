"""Every hostile file is refused in one line that names it, quickly, and without using memory."""

import os
import sys
import time
from pathlib import Path

import pytest

from instants import MAY_FORK, told_by_child
from sightline.bundle import Bundle, load, save
from sightline.cli.main import main
from sightline.errors import ModelFileError

from .hostile import CASES
from .tiny import TOKENIZER, tiny_model

EVERY_CASE = pytest.mark.parametrize("name", CASES)
ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")


def memory(entry: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(entry))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(folder)
    return str(caught.value)


@EVERY_CASE
def test_hostile_file_is_refused_in_one_line_with_its_name(name, folder, monkeypatch, tmp_path):
    damage, file, reason = CASES[name]
    damage(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError, match=reason) as caught:
        load(folder)
    message = str(caught.value)
    assert message.startswith(str(folder / file))
    assert len(message.splitlines()) == 1
    assert len(message) < len(str(folder)) + 700
    assert not (tmp_path / "canary").exists()


@pytest.mark.slow
@EVERY_CASE
def test_hostile_file_is_refused_quickly(name, folder):
    CASES[name][0](folder)
    began = time.process_time()
    refusal(folder)
    assert time.process_time() - began < 2


def memory_taken(folder: Path) -> int:
    """Return by how much the process grows beyond the size of the files while they are refused."""
    size = sum(path.lstat().st_blocks * 512 for path in folder.iterdir())
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    refusal(folder)
    return memory("VmHWM") - before - size


@pytest.fixture(scope="module")
def memory_by_case(tmp_path_factory) -> dict[str, int]:
    """Return what each case takes, measured in a child: other threads of this process have memory of their own."""
    place, bundle = tmp_path_factory.mktemp("measured"), Bundle(tiny_model(), TOKENIZER)

    def measured() -> dict[str, int]:
        found = {}
        for number, (name, (spoil, _, _)) in enumerate(CASES.items()):
            save(bundle, place / str(number))
            spoil(place / str(number))
            found[name] = memory_taken(place / str(number))
        return found

    return told_by_child(measured, place / "told.json")


@MAY_FORK
@ON_LINUX
@EVERY_CASE
def test_hostile_file_takes_no_memory(name, memory_by_case):
    assert memory_by_case[name] <= 100_000_000


@EVERY_CASE
def test_hostile_file_makes_the_command_exit_with_2_and_one_line(name, folder, capfd):
    CASES[name][0](folder)
    capfd.readouterr()
    assert main(["info", str(folder)]) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.startswith(f"sightline: {folder}")
    assert errors.endswith("\n")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "tokenizer.json", "generation.json"])
def test_file_truncated_anywhere_is_refused(file, folder):
    data = (folder / file).read_bytes()
    for length in {*range(0, len(data) - 2, max(1, len(data) // 150)), len(data) - 2}:
        (folder / file).write_bytes(data[:length])
        assert refusal(folder).startswith(str(folder / file))


def test_unreadable_file_is_refused(folder, monkeypatch):
    """Permissions do not stop root, so the error of the system is simulated."""
    opened = os.open

    def denied(path, *args, **kwargs):
        if str(path).endswith("config.json"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    assert refusal(folder).endswith("config.json: cannot be read: Permission denied")


def test_file_that_shrinks_while_being_read_is_refused(folder, monkeypatch):
    path = folder / "model.safetensors"

    def shrinking(header, expected, where):
        os.truncate(path, path.stat().st_size - 40)

    monkeypatch.setattr("sightline.bundle.weights.check_tensors", shrinking)
    assert refusal(folder).endswith("became shorter while being read")


def test_missing_folder_is_reported(tmp_path):
    assert refusal(tmp_path / "none").endswith("none: no such model folder")


def test_file_instead_of_a_folder_is_reported(tmp_path):
    (tmp_path / "model").write_text("x")
    assert refusal(tmp_path / "model").endswith("model: is a file, not a model folder")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "", ".."])
def test_impossible_folder_name_is_refused(name, tmp_path):
    assert refusal(tmp_path / name)


def test_subnormal_weights_are_valid(folder, bundle):
    from sightline.bundle import save

    bundle.model.decoder.final_norm.bias.data.fill_(1e-42)
    save(bundle, folder)
    assert (load(folder).model.decoder.final_norm.bias == 1e-42).all()
