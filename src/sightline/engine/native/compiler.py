"""Find the library of the native engine, or compile it with the system's compiler into the user's cache.

A library is only loaded from a place where nobody but this user could have put it. Its name holds a hash of all it
depends on, so that another version, compiler or processor never meets it; several processes may compile at once.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sightline.errors import SightlineError
from sightline.runtime import cache_folder
from sightline.storage import fsync

SOURCE = Path(__file__).with_name("transformer.c")
FLAGS = (
    "-O3",
    "-std=gnu11",
    "-ffp-contract=off",  # a sum is rounded the same way in every instruction set
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-fPIC",
    "-pthread",
)
"""No -march: the file holds its kernels for every instruction set, and chooses when it runs."""
COMPILERS = ("cc", "gcc", "clang")
TIMEOUT = 300
MAX_REASON = 200


class NativeUnavailableError(SightlineError):
    """The native engine cannot be used here; the message says why."""


@dataclass(frozen=True)
class Build:
    """Where the library is, or why there is none."""

    path: Path | None = None
    reason: str | None = None


def find_compiler() -> str | None:
    """Return the path of the C compiler: $CC, or the system's."""
    names = (os.environ["CC"],) if os.environ.get("CC") else COMPILERS
    return next((path for name in names if (path := shutil.which(name))), None)


def suffix() -> str:
    """Return how the name of a library ends here."""
    return ".dylib" if sys.platform == "darwin" else ".so"


def source_hash() -> str:
    """Return the hash of the source and the flags: a library that was built elsewhere must be of this one."""
    return hashlib.sha256(b"\0".join([SOURCE.read_bytes(), *map(str.encode, FLAGS)])).hexdigest()[:16]


def processor_features() -> str:
    """Return the architecture, and what this processor says it can do."""
    found = ""
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{sysconfig.get_platform()} {platform.machine()} {found}"


def cache_key(compiler: str) -> str:
    """Return the hash of source, flags, compiler and processor."""
    program = Path(compiler).resolve()
    status = program.stat()
    parts = (source_hash(), str(program), str(status.st_size), str(status.st_mtime_ns), processor_features())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def prebuilt_path(folder: Path = SOURCE.parent) -> Path:
    """Return where a wheel has the library."""
    return folder / f"transformer-{source_hash()}{suffix()}"


def compile_library(compiler: str, path: Path) -> None:
    """Compile the library; a process that is killed, or another that compiles too, leaves no half of it."""
    descriptor, name = tempfile.mkstemp(prefix=f"{path.stem}-", suffix=".tmp", dir=path.parent)
    os.close(descriptor)
    new = Path(name)
    try:
        command = [compiler, *FLAGS, "-shared", "-o", str(new), str(SOURCE), "-lm"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)  # noqa: S603
        if run.returncode:
            lines = run.stderr.strip().splitlines() or [f"it ended with {run.returncode}"]
            problem = next((line for line in lines if "error" in line), lines[-1])
            raise NativeUnavailableError(f"the compiler {compiler} failed: {problem[:MAX_REASON]}")
        new.chmod(0o755)
        fsync(new)
        new.replace(path)
    except subprocess.TimeoutExpired:
        raise NativeUnavailableError(f"the compiler {compiler} did not finish within {TIMEOUT} seconds") from None
    finally:
        new.unlink(missing_ok=True)


def find_danger(*paths: Path, may_be_roots: bool = False) -> str | None:
    """Return why nothing must be loaded from there: others could have written it."""
    owners = {os.getuid(), 0} if may_be_roots else {os.getuid()}
    for path in paths:
        status = path.stat()
        if status.st_uid not in owners:
            return f"{path} belongs to another user"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"{path} can be written by other users"
    return None


def find_or_compile() -> Build:
    """Return the library of the installed package, that of the cache, or a new one; else one line that says why not."""
    if os.name != "posix":
        return Build(reason="the native engine needs a POSIX system")
    try:
        prebuilt, refused = prebuilt_path(), ""
        if prebuilt.exists():
            danger = find_danger(prebuilt.parent, prebuilt, may_be_roots=True)
            if danger is None:
                return Build(prebuilt)
            refused = f"; the library of this package is not used, since {danger}"
        compiler = find_compiler()
        if compiler is None:
            return Build(reason=f"no C compiler was found (cc, gcc or clang, or what $CC names){refused}")
        folder = cache_folder() / "native"
        path = folder / f"transformer-{cache_key(compiler)}{suffix()}"
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if danger := find_danger(folder):
                return Build(reason=danger)
            compile_library(compiler, path)
        danger = find_danger(folder, path)
        return Build(None, danger) if danger else Build(path)
    except NativeUnavailableError as error:
        return Build(reason=str(error))
    except OSError as error:
        return Build(reason=f"the library could not be built: {error.strerror or error} ({error.filename})")


@dataclass(frozen=True)
class Loaded:
    """The loaded library, or why there is none."""

    library: ctypes.CDLL | None
    path: Path | None
    reason: str | None


@cache
def load_library() -> Loaded:
    """Find or compile the library and load it, once in a process; a failure is not tried again."""
    build = find_or_compile()
    if build.path is None:
        return Loaded(None, None, build.reason)
    try:
        return Loaded(ctypes.CDLL(str(build.path)), build.path, None)
    except OSError as error:  # a home that nothing may be run from
        return Loaded(None, build.path, f"the library could not be loaded: {str(error)[:MAX_REASON]}")
