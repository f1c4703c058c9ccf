"""The library is built once, loaded from safe places only, and where it cannot be built, one line says why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.engine.native import compiler
from sightline.engine.native.compiler import (
    NativeUnavailableError,
    compile_library,
    find_compiler,
    find_or_compile,
    load_library,
    prebuilt_path,
)
from sightline.engine.native.library import open_library

QUICK = "int sightline_quick(void) { return 7; }\n"
"""Compiles in no time."""


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache, and a source that compiles quickly."""
    source = tmp_path / "source" / "transformer.c"
    source.parent.mkdir()
    source.write_text(QUICK)
    monkeypatch.setattr(compiler, "SOURCE", source)
    monkeypatch.setattr(compiler, "prebuilt_path", lambda: tmp_path / "no such library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sightline" / "native"


def test_library_is_compiled_once(cache, monkeypatch):
    first = find_or_compile()
    assert first.reason is None
    assert first.path.parent == cache
    monkeypatch.setattr(compiler, "compile_library", None)
    assert find_or_compile() == first
    assert [path.name for path in cache.iterdir()] == [first.path.name]


@pytest.mark.parametrize("part", ["source", "flags", "features", "compiler"])
def test_whatever_it_depends_on_makes_another_library(part, cache, tmp_path, monkeypatch):
    before = find_or_compile().path
    if part == "source":
        compiler.SOURCE.write_text(QUICK + "/* changed */\n")
    elif part == "flags":
        monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-g"))
    elif part == "features":
        monkeypatch.setattr(compiler, "processor_features", lambda: "another processor")
    else:
        other = tmp_path / "mycc"
        other.write_text(f'#!/bin/sh\nexec "{find_compiler()}" "$@"\n')
        other.chmod(0o755)
        monkeypatch.setenv("CC", str(other))
    after = find_or_compile().path
    assert after is not None
    assert after != before


def test_no_compiler(cache, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert find_or_compile().reason == "no C compiler was found (cc, gcc or clang, or what $CC names)"


def test_failing_compiler_is_quoted_in_one_line(cache):
    compiler.SOURCE.write_text("int broken(\n")
    reason = find_or_compile().reason
    assert reason.startswith(f"the compiler {find_compiler()} failed: ")
    assert "error" in reason
    assert "\n" not in reason
    assert list(cache.iterdir()) == []


def test_compiler_that_never_ends(cache, tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setattr(compiler, "TIMEOUT", 0.01)
    cache.mkdir(parents=True)
    with pytest.raises(NativeUnavailableError, match="did not finish within"):
        compile_library(str(slow), cache / "library.so")
    assert list(cache.iterdir()) == []


def test_cache_that_cannot_be_written(cache, tmp_path, monkeypatch):
    """Where a folder should be is a file: true for any user, root too."""
    (tmp_path / "cache").write_text("")
    assert find_or_compile().reason.startswith("the library could not be built: ")


def test_home_that_nothing_may_be_run_from(cache, monkeypatch):
    """The system then refuses to map the file."""
    path = find_or_compile().path
    path.write_bytes(b"not a library")
    load_library.cache_clear()
    loaded = load_library()
    load_library.cache_clear()
    assert loaded.library is None
    assert loaded.reason.startswith("the library could not be loaded: ")


@pytest.mark.parametrize("which", ["file", "folder"])
def test_library_that_others_could_have_written_is_not_loaded(which, cache):
    path = find_or_compile().path
    danger = path if which == "file" else cache
    danger.chmod(0o777)
    assert find_or_compile().reason == f"{danger} can be written by other users"


def test_library_of_another_user_is_not_loaded(cache, monkeypatch):
    path = find_or_compile().path
    uid = os.getuid()
    monkeypatch.setattr(compiler.os, "getuid", lambda: uid + 1)
    assert find_or_compile().reason == f"{path.parent} belongs to another user"


def test_prebuilt_library_is_preferred(cache, tmp_path, monkeypatch):
    prebuilt = tmp_path / "installed" / "library.so"
    prebuilt.parent.mkdir()
    compile_library(find_compiler(), prebuilt)
    monkeypatch.setattr(compiler, "prebuilt_path", lambda: prebuilt)
    monkeypatch.setattr(compiler, "find_compiler", lambda: None)
    assert find_or_compile().path == prebuilt


def test_prebuilt_library_is_that_of_the_source():
    assert compiler.source_hash() in prebuilt_path().name


def test_two_processes_compile_at_once(tmp_path):
    """Each has a library afterwards, and nothing half-written is left behind."""
    code = "from sightline.engine.native.library import open_library; print(open_library().supported[-1])"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "CC": str(find_compiler())}
    command = [sys.executable, "-c", code]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == ["plain\n"] * 2
    assert len(list((tmp_path / "sightline" / "native").iterdir())) == 1


def test_library_that_is_not_there_is_an_error(monkeypatch):
    loaded = compiler.Loaded(None, None, "no C compiler was found")
    monkeypatch.setattr("sightline.engine.native.library.load_library", lambda: loaded)
    open_library.cache_clear()
    with pytest.raises(NativeUnavailableError, match="the native engine cannot be used: no C compiler was found"):
        open_library()
    open_library.cache_clear()


def test_compiler_is_the_systems(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    assert find_compiler() == next(path for name in compiler.COMPILERS if (path := shutil.which(name)))


def test_importing_compiles_nothing():
    modules = "compiler, library, model, search, weights"
    code = f"import sys; from sightline.engine.native import {modules}; print('torch' in sys.modules)"
    environment = {**os.environ, "XDG_CACHE_HOME": "/no such folder", "CC": "/bin/false"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout == "False\n", run.stderr
