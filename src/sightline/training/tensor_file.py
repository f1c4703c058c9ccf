"""Tensors by name in a safetensors file, read one at a time by the reader that trusts no file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from torch import Tensor

from sightline.bundle.header import Header, read_header
from sightline.bundle.source import open_regular
from sightline.bundle.weights import not_finite, read_tensor
from sightline.errors import ModelFileError


@dataclass(frozen=True)
class TensorFile:
    """An open file whose header has been checked."""

    path: Path
    file: FileIO
    header: Header

    def read(self, name: str, *, finite: bool = True) -> Tensor:
        """Read one tensor into memory of its own, refusing NaN and infinity unless `finite` is not asked for."""
        stored = self.header.tensors[name]
        try:
            self.file.seek(self.header.start + stored.begin)
            tensor = read_tensor(self.file, stored, self.path)
        except OSError as error:
            raise ModelFileError(self.path, f"cannot be read: {error.strerror}") from None
        if finite and not_finite(tensor):
            raise ModelFileError(self.path, f"{name} holds NaN or infinity: the training that made it had gone wrong")
        return tensor

    def read_all(self, *, finite: bool = True) -> dict[str, Tensor]:
        """Read every tensor."""
        return {name: self.read(name, finite=finite) for name in self.header.tensors}


@contextmanager
def opened(path: Path) -> Iterator[FileIO]:
    """Open a file that must be there."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing")
    with file:
        yield file


@contextmanager
def opened_tensors(path: Path) -> Iterator[TensorFile]:
    """Open a safetensors file that must be there."""
    with opened(path) as file:
        yield TensorFile(path, file, read_header(file, path))
