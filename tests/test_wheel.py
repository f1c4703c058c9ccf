"""What is installed is complete: built as a wheel, it works away from its source."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sightline.engine.native.compiler import find_compiler, prebuilt_path

ROOT = Path(__file__).parents[1]
SAVE_AND_LOAD = """
import sys
import sightline
from sightline.bundle import Bundle, load, save
from sightline.cli.main import main
from sightline.model import build
from sightline.model.registry import read_config
from sightline.data.tokenizers import train_bpe

tokenizer = train_bpe(["a wheel rolls"])
config = read_config("gpt", {"vocab_size": tokenizer.vocab_size, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1})
save(Bundle(build(config), tokenizer), sys.argv[1])
assert load(sys.argv[1]).tokenizer.decode(tokenizer.encode("rolls")) == "rolls"
print(sightline.__file__, flush=True)
sys.exit(main(["info", sys.argv[1]]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    run = subprocess.run(build, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return next(place.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """Unpack the wheel, which is what installing one means."""
    place = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(place)
    return place


def test_wheel_holds_every_file_of_the_package(wheel):
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "sightline").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= set(zipfile.ZipFile(wheel).namelist())
    assert "sightline/py.typed" in files


def test_wheel_brings_the_native_engine(wheel, installed, tmp_path):
    """Its library is used as it is: nothing is compiled where the package is installed."""
    if find_compiler() is None:
        pytest.skip("no C compiler: the wheel is pure Python")
    library = prebuilt_path(installed / "sightline" / "engine" / "native")
    assert library.exists()
    assert wheel.name.startswith("sightline-")
    assert "-py3-none-any" not in wheel.name
    code = "from sightline.engine.native.compiler import load_library; print(load_library().path)"
    environment = {**os.environ, "PYTHONPATH": str(installed), "CC": "/bin/false", "XDG_CACHE_HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.stdout == f"{library}\n", run.stderr


def test_wheel_without_a_compiler_is_pure_python(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    environment = {**os.environ, "CC": "no-such-compiler"}
    run = subprocess.run(build, env=environment, capture_output=True, text=True)
    assert "the wheel is without the native engine's library" in run.stdout + run.stderr
    [pure] = tmp_path.glob("*.whl")
    assert pure.name.endswith("-py3-none-any.whl")


def test_wheel_holds_nothing_but_the_package(wheel):
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"sightline", next(top for top in tops if top.endswith(".dist-info"))}


def test_installed_wheel_saves_loads_and_describes_a_model(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", SAVE_AND_LOAD, "model"]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    where, _, described = run.stdout.partition("\n")
    assert Path(where).is_relative_to(installed)
    assert "architecture: gpt" in described


def test_installed_wheel_has_the_command(installed):
    entry_points = next(installed.glob("*.dist-info")) / "entry_points.txt"
    assert "sightline = sightline.cli.main:main" in entry_points.read_text()
