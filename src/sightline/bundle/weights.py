"""Weights as safetensors: header, names, types and shapes are checked before any weight is read.

Writing uses the library, reading does not: `tensor_header` says why.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from io import FileIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from sightline.bundle.manifest import FORMAT, shorten
from sightline.bundle.tensor_header import FORMAT_KEY, Header, TensorInfo, read_header
from sightline.errors import ModelFileError
from sightline.model.config import ModelConfig
from sightline.model.interfaces import Model
from sightline.model.registry import build
from sightline.storage import open_regular

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Supported types, by their names in the header."""


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
            raise ModelFileError(self.path, f"{name} holds NaN or infinity: its training diverged")
        return tensor

    def read_all(self, *, finite: bool = True) -> dict[str, Tensor]:
        """Read every tensor."""
        return {name: self.read(name, finite=finite) for name in self.header.tensors}


@contextmanager
def open_tensor_file(path: Path) -> Iterator[TensorFile]:
    """Open a safetensors file that must exist."""
    with open_required(path) as file:
        yield TensorFile(path, file, read_header(file, path))


@contextmanager
def open_required(path: Path) -> Iterator[FileIO]:
    """Open a file that must exist."""
    if (file := open_regular(path)) is None:
        raise ModelFileError(path, "is missing")
    with file:
        yield file


def read_tensor(file: FileIO, info: TensorInfo, path: Path) -> Tensor:
    """Read the next tensor of the file."""
    memory = torch.empty(info.end - info.begin, dtype=torch.uint8)
    view = memoryview(memory.numpy())  # type: ignore[arg-type]
    while view:
        if not (count := file.readinto(view)):
            raise ModelFileError(path, "became shorter while being read")
        view = view[count:]
    return memory.view(DTYPES[info.dtype]).view(info.shape)


def has_non_finite(tensor: Tensor) -> bool:
    """Return whether any value is NaN or infinite: either shows in the minimum or maximum."""
    return tensor.numel() > 0 and not all(bool(extreme.isfinite()) for extreme in tensor.aminmax())


def read_model(config: ModelConfig, file: FileIO, path: Path, *, device: torch.device | str = "cpu") -> Model:
    """Build a model from its config and an open safetensors file, on a device, in evaluation mode."""
    try:
        header = read_header(file, path)
        check_layer_count(config, header, path)
        with torch.device("meta"), SkipInit():
            model = build(config)
        check_tensors(header, {name: tuple(p.shape) for name, p in model.named_parameters()}, path)
        tensors = TensorFile(path, file, header)
        weights = {name: tensors.read(name).to(device).float() for name in header.tensors}
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error.strerror}") from None
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    model.eval()
    return model


class SkipInit(TorchFunctionMode):
    """Skips in-place operations on tensors: weights about to be loaded need no initialization."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor unchanged where normal_, zeros_ or div_ would change it."""
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def check_layer_count(config: ModelConfig, header: Header, path: Path) -> None:
    """Refuse more layers than there are tensors, without building them."""
    n_layers = sum(getattr(config, field.name) for field in fields(config) if field.name.endswith("_layers"))
    if n_layers > len(header.tensors):
        raise ModelFileError(
            path, f"has {len(header.tensors):,} tensors, too few for the {n_layers:,} layers of config.json"
        )


def check_tensors(
    header: Header, expected: Mapping[str, tuple[int, ...]], path: Path, *, against: str = "config.json"
) -> None:
    """Refuse a file that does not contain exactly the weights of the model, listing the differences."""
    found = header.tensors
    problems = {
        "missing": [name for name in expected if name not in found],
        "not part of the model": [name for name in found if name not in expected],
        "of the wrong shape": [
            f"{name} {list(found[name].shape)} instead of {list(shape)}"
            for name, shape in expected.items()
            if name in found and found[name].shape != shape
        ],
    }
    messages = [f"{what}: {list_some(names)}" for what, names in problems.items() if names]
    if messages:
        raise ModelFileError(path, shorten(f"does not fit {against}: {'; '.join(messages)}"))


MAX_NAMED = 3


def list_some(names: Iterable[str]) -> str:
    """List the first few names, and count the rest."""
    given = [name if len(name) <= 100 else f"{name[:99]}…" for name in names]
    more = f" and {len(given) - MAX_NAMED:,} more" if len(given) > MAX_NAMED else ""
    return ", ".join(repr(name) if not name.isprintable() else name for name in given[:MAX_NAMED]) + more


def write_weights(model: Model, path: Path, *, like: Path) -> None:
    """Write a model's weights, tied ones once; unsupported types (float64) are written as 32-bit floats."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    weights = {name: weight if weight.dtype in DTYPES.values() else weight.float() for name, weight in weights.items()}
    write_tensors(weights, path, like=like)


def write_tensors(tensors: Mapping[str, Tensor], path: Path, *, like: Path) -> None:
    """Write named tensors; the file gets the permissions of `like`."""
    plain = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    save_file(plain, path, metadata={"format": "pt", FORMAT_KEY: str(FORMAT)})
    path.chmod(like.stat().st_mode)  # safetensors makes its files private to their owner
