"""Files that are never half written, and cannot harm when read: atomic folders, bounded reads, strict JSON, locks."""

import errno
import json
import math
import os
import re
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import NoReturn

from sightline.errors import InputError, JSONError, ModelFileError, RefusedError, SightlineError

try:
    import fcntl
except ImportError:  # not Unix
    fcntl = None  # type: ignore[assignment]

SWAP_ATTEMPTS = 10


@contextmanager
def replace_folder(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """Yield a new folder to write files into, and replace `folder` by it once they are written.

    A kill at any instant leaves the old folder or the new one, complete:

        1  write NAME.tmp-new, and sync it to disk
        2  rename NAME to NAME.tmp-old          (if there was one)
        3  rename NAME.tmp-new to NAME
        4  remove NAME.tmp-old

    The next save removes the leftovers of a killed one.

    A `shared` folder may be written by several processes at once, all of them the same content: each has its own
    temporary folder, and what a killed one left is removed only after `ABANDONED_AFTER`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if shared:
        remove_abandoned(folder)
        new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.tmp-", dir=folder.parent))
        old = temporary_folder(new, "old")
    else:
        new, old = temporary_folder(folder, "new"), temporary_folder(folder, "old")
        remove_folder(new)
        new.mkdir()
    try:
        yield new
        for path in sorted(new.iterdir()):
            fsync(path)
        fsync(new)
        for attempts_left in reversed(range(SWAP_ATTEMPTS if shared else 1)):
            try:
                swap_folders(new, folder, old)
                break
            except OSError:  # perhaps another process has swapped in its own at this moment
                if not attempts_left:
                    raise
        fsync(folder.parent)
    except BaseException:
        remove_folder(new)
        raise
    remove_folder(old)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a new file to write, and replace `path` by it once it is written: a kill leaves the old one or the new."""
    new = path.with_name(f"{path.name}.tmp-new")
    try:
        yield new
        fsync(new)
        new.replace(path)
        fsync(path.parent)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def swap_folders(new: Path, folder: Path, old: Path) -> None:
    """Swap the folders; if that fails halfway, swap back."""
    replaced = os.path.lexists(folder)
    if replaced:
        remove_folder(old)
        folder.rename(old)
    try:
        new.rename(folder)
    except BaseException:
        if replaced and not os.path.lexists(folder):
            old.rename(folder)
        raise


def current_folder(folder: Path) -> Path:
    """Return the folder with the contents: itself, or its old version if a save was killed between the renames.

    The old version is then complete, as it is removed only while the folder itself exists.
    """
    try:
        folder = folder.resolve()  # the old one is next to the folder itself, not next to a symlink to it
    except (OSError, RuntimeError, ValueError):
        return folder  # opening it will report what is wrong
    old = temporary_folder(folder, "old") if folder.name else folder
    return old if not os.path.lexists(folder) and os.path.lexists(old) else folder


def temporary_folder(folder: Path, part: str) -> Path:
    """Return the temporary path of the new or old folder."""
    return folder.with_name(f"{folder.name}.tmp-{part}")


def remove_folder(folder: Path) -> None:
    """Remove a folder with its contents; anything that cannot be removed is left for the next save."""
    shutil.rmtree(folder, ignore_errors=True)


ABANDONED_AFTER = 3600
"""Seconds without a write after which an unfinished shared folder is taken to belong to a killed process."""


def remove_abandoned(folder: Path) -> None:
    """Remove temporary folders left behind by killed processes."""
    for leftover in folder.parent.glob(f"{folder.name}.tmp-*"):
        with suppress(OSError):  # its process has just finished
            newest = max((path.stat().st_mtime for path in leftover.iterdir()), default=leftover.stat().st_mtime)
            if time.time() - newest > ABANDONED_AFTER:
                remove_folder(leftover)


ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r"})
"""Line breaks in a text that takes one line of a file."""


def write_file(path: Path, text: str) -> None:
    """Write a text to a file, whole or not at all: one that was there before stays until then."""
    new = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8", errors="surrogatepass", newline="\n")
        fsync(new)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise SightlineError(f"could not write {path}: {error.strerror or error}") from error


def fsync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, would survive a power failure."""
    if os.name != "posix" and path.is_dir():
        return  # Windows cannot open folders, and writes their entries through
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Never block on a pipe, never follow a symlink out of the folder.
SAFE_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

FILE_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path) -> FileIO | None:
    """Open a file for reading, or return None if it does not exist; refuse anything but a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | SAFE_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise ModelFileError(repr(str(path)), "is not a valid file name") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ModelFileError(path, "is a symbolic link: a model folder must contain the file itself") from None
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise ModelFileError(path, f"is {FILE_KINDS.get(kind, 'something else')}, not a file")
    return FileIO(descriptor, "rb")


def read_limited(file: FileIO, path: Path, *, max_bytes: int) -> bytes:
    """Return the contents of a file that must not have more than `max_bytes`, nor be of another format."""
    data = read_bytes(file, path, max_bytes=max_bytes)
    if kind := sniff(data[:64]):
        raise ModelFileError(path, f"is {kind}")
    return data


def read_bytes(file: FileIO, path: Path, *, max_bytes: int) -> bytes:
    """Return the contents of a file that must not have more than `max_bytes`."""
    if (size := os.fstat(file.fileno()).st_size) > max_bytes:
        raise ModelFileError(path, f"has {size:,} bytes; the maximum is {max_bytes:,}")
    data = bytearray()
    try:
        while chunk := file.read(max_bytes + 1 - len(data)):
            data += chunk
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    if len(data) > max_bytes:
        raise ModelFileError(path, f"grew beyond {max_bytes:,} bytes while being read")
    return bytes(data)


SIGNATURES = (
    (b"PK\x03\x04", "a zip archive (such as PyTorch's .pt and .bin)"),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer: the real file was not downloaded (git lfs pull)"),
    (b"<", "a web page or XML: the download failed"),
)

PICKLE_PROTOCOLS = range(2, 6)


def sniff(beginning: bytes) -> str | None:
    """Return the format of a file by its first bytes, if it is a known one that we do not read."""
    if not beginning.strip():
        return "empty" if not beginning else None
    if beginning[0] == 0x80 and len(beginning) > 1 and beginning[1] in PICKLE_PROTOCOLS:
        return "a pickle, which can execute arbitrary code: it is never opened"
    return next((kind for signature, kind in SIGNATURES if beginning.startswith(signature)), None)


MAX_JSON_BYTES = 100_000_000

# The largest tokenizers in use have about half a million lists and a million and a half commas.
MAX_MARKS = {b"{": 100_000, b"[": 1_000_000, b",": 2_000_000}
LONG_INTEGER = re.compile(r"[0-9]{19}")  # no shorter integer is too large


def parse_json(
    data: bytes,
    *,
    max_bytes: int = MAX_JSON_BYTES,
    max_depth: int | None = None,
    max_marks: Mapping[bytes, int] = MAX_MARKS,
    interoperable: bool = False,
) -> object:
    """Return what untrusted JSON says, or refuse it with a `JSONError`.

    Python's parser accepts duplicate keys and NaN, and spends up to thirty times the file's size on brackets and
    commas (`max_marks`). Without `max_depth`, nesting is limited by Python's stack.

    With `interoperable`, numbers that overflow and unpaired surrogates are refused too (I-JSON, RFC 7493), and 8.0 is
    the integer 8.
    """
    check_json_size(data, max_bytes, max_marks)
    text = decode_json(data)
    try:
        value = json.loads(
            text,
            object_pairs_hook=build_object,
            parse_constant=refuse_constant,
            parse_float=parse_float if interoperable else None,
            parse_int=parse_integer if interoperable and LONG_INTEGER.search(text) else None,
        )
    except RecursionError:
        raise too_deep() from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno:,}, column {error.colno:,}: {error.msg}"
        raise JSONError(f"this is not JSON: {error}", kind="syntax", detail=position) from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise JSONError(f"this is not JSON: {error}", kind="integer") from None
    if max_depth is not None and depth_exceeds(text, max_depth):
        raise too_deep()
    if interoperable and "\\u" in text:
        refuse_surrogates(value)
    return value


def parse_object(data: bytes) -> dict[str, object]:
    """Return the JSON object, refusing any other value."""
    value = parse_json(data)
    if not isinstance(value, dict):
        raise InputError("this JSON is not an object with named entries")
    return value


def check_json_size(data: bytes, max_bytes: int, max_marks: Mapping[bytes, int]) -> None:
    """Refuse JSON that would take too much memory to parse."""
    if len(data) > max_bytes:
        raise JSONError(f"this JSON has more than {max_bytes:,} bytes", kind="size")
    for mark, limit in max_marks.items():
        if data.count(mark) > limit:
            raise JSONError(f"this JSON has more than {limit:,} {mark.decode()!r}: too many for a model", kind="size")


def decode_json(data: bytes) -> str:
    """Return the bytes as text."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise JSONError("this is not JSON: it starts with a byte order mark (BOM)", kind="byte_order_mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"{error.start:,}"
        raise JSONError(f"this is not JSON: byte {byte} is not UTF-8", kind="encoding", detail=byte) from None


JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
BRACKETS_ONLY: dict[int, int | None] = {**dict.fromkeys(range(128)), **str.maketrans("[{]}", "[[]]")}


def depth_exceeds(text: str, max_depth: int) -> bool:
    """Return whether valid JSON is nested deeper; removes one level at a time, each in one fast pass."""
    if text.count("[") + text.count("{") <= max_depth:
        return False
    brackets = JSON_STRING.sub("", text).translate(BRACKETS_ONLY)
    for _ in range(max_depth):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "")
    return bool(brackets)


def too_deep() -> JSONError:
    """Return the refusal of JSON that is nested too deeply."""
    return JSONError("this JSON is nested too deeply", kind="depth")


def build_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object; refuse duplicate keys, of which two parsers could take different ones."""
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise JSONError(f"duplicate key {key[:60]!r}", kind="duplicate_key", detail=key)
        seen.add(key)
    return entries


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise JSONError(f"{name} is not a JSON number", kind="constant", detail=name)


EXACT_FLOAT_LIMIT = 1 << 53


def parse_float(digits: str) -> int | float:
    """Return the number, refusing one that overflows; in JSON 8.0 is the integer 8."""
    number = float(digits)
    if not math.isfinite(number):
        raise JSONError("a number in this JSON is too large", kind="number")
    return int(number) if number.is_integer() and abs(number) < EXACT_FLOAT_LIMIT else number


INT64_LIMIT = 1 << 63


def parse_integer(digits: str) -> int:
    """Return the integer, refusing one of more than 64 bits."""
    if len(digits) > 20 or not -INT64_LIMIT <= (number := int(digits)) < INT64_LIMIT:
        raise JSONError("an integer in this JSON is too large", kind="integer")
    return number


def refuse_surrogates(value: object) -> None:
    """Refuse unpaired surrogates anywhere: they are not characters and cannot be encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise JSONError("a text in this JSON has an unpaired surrogate", kind="surrogate") from None


RUN_LOCK = "run.lock"
"""One run per folder: held by a run while it lasts."""
SHARED_LOCK = ".turns.lock"
"""In a folder that several runs share: held by one of them while it writes."""
MAX_OWNER_BYTES = 1000


@contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Lock the folder for this run, or refuse at once, naming who holds it.

    The lock is flock, which the system releases when the process ends; the content of the file only says who holds it.
    The file is never removed: that would let a third run lock a new file while a second waits for the old one. Systems
    without flock do not lock.
    """
    path = folder / RUN_LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | SAFE_FLAGS, 0o644)
    except OSError as error:
        raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    try:
        acquire_lock(descriptor, folder)
        try:
            yield
        finally:
            with suppress(OSError):  # the lock is released anyway; a name left in the file would do no harm
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def wait_for_lock(folder: Path) -> Iterator[None]:
    """Wait for the lock of a shared folder and hold it; two runs must not encode one corpus at the same time.

    A folder that cannot be written is not locked.
    """
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context((folder / SHARED_LOCK).open("a")), fcntl.LOCK_EX)
        yield


def acquire_lock(descriptor: int, folder: Path) -> None:
    """Lock the open file and write the owner into it, over that of a killed run."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(
                f"{folder} is in use by {describe_holder(descriptor)}: "
                "wait until it ends, stop it, or choose another folder"
            ) from None
        except OSError as error:
            raise SightlineError(f"could not lock the folder {folder}: {error.strerror}") from error
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now().isoformat(" ", "seconds")}
    with suppress(OSError):  # a full disk: the lock holds without an owner, and the run will report the disk itself
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def describe_holder(descriptor: int) -> str:
    """Return who holds the lock, as far as the file tells."""
    try:
        entries = parse_object(os.pread(descriptor, MAX_OWNER_BYTES, 0))
    except (InputError, OSError):  # it holds the lock but has not written its name yet
        return "another run"
    pid, host, since = (str(entries.get(key, "?"))[:80] for key in ("pid", "host", "since"))
    return f"another run (process {pid} on {host}, since {since})"
