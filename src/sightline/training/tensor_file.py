"""Tensors by name in a safetensors file, read one at a time and safely from untrusted files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from torch import Tensor

from sightline.bundle.header import Header, read_header
from sightline.bundle.weights import has_non_finite, read_tensor
from sightline.errors import ModelFileError
from sightline.storage import open_regular


@dataclass(frozen=True)
class TensorFile:
    """An open safetensors file with a checked header."""

    path: Path
    file: FileIO
    header: Header

    def read(self, name: str, *, finite: bool = True) -> Tensor:
        """Read one tensor into its own memory; with `finite`, refuse NaN and infinity."""
        stored = self.header.tensors[name]
        try:
            self.file.seek(self.header.start + stored.begin)
            tensor = read_tensor(self.file, stored, self.path)
        except OSError as error:
            raise ModelFileError(self.path, f"cannot be read: {error.strerror}") from None
        if finite and has_non_finite(tensor):
            raise ModelFileError(self.path, f"{name} holds NaN or infinity: its training had diverged")
        return tensor

    def read_all(self, *, finite: bool = True) -> dict[str, Tensor]:
        """Read every tensor."""
        return {name: self.read(name, finite=finite) for name in self.header.tensors}


@contextmanager
def open_required(path: Path) -> Iterator[FileIO]:
    """Open a file that must exist."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing")
    with file:
        yield file


@contextmanager
def open_tensor_file(path: Path) -> Iterator[TensorFile]:
    """Open a safetensors file that must exist."""
    with open_required(path) as file:
        yield TensorFile(path, file, read_header(file, path))
