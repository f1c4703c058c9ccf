"""Where the random generators stand, as JSON and back: dropout must go on with the numbers it would have drawn."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.errors import InputError

NUMPY_WORDS = 624
"""Words of the Mersenne twister, which Python and NumPy use."""


@dataclass(frozen=True)
class RandomStates:
    """The states of every generator a run may draw from."""

    python: tuple[Any, ...]
    numpy: tuple[Any, ...]
    torch: Tensor
    cuda: tuple[Tensor, ...]
    """One for each graphics card."""

    @classmethod
    def now(cls) -> "RandomStates":
        """Return where the generators stand."""
        return cls(
            random.getstate(),
            tuple(np.random.get_state()),  # noqa: NPY002 - whoever draws from the global one shall go on too
            torch.get_rng_state(),
            tuple(torch.cuda.get_rng_state_all()),
        )

    def apply(self) -> None:
        """Put the generators there."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002
        torch.set_rng_state(self.torch)
        for index, state in enumerate(self.cuda[: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(state, index)

    def to_entries(self) -> dict[str, object]:
        """Return the states as JSON holds them."""
        _, words, gauss = self.python
        _, keys, position, has_gauss, cached = self.numpy
        return {
            "python": {"words": hex_of(words), "gauss": gauss},
            "numpy": {
                "words": hex_of(keys.tolist()),
                "position": int(position),
                "has_gauss": int(has_gauss),
                "cached": float(cached),
            },
            "torch": self.torch.numpy().tobytes().hex(),
            "cuda": [state.numpy().tobytes().hex() for state in self.cuda],
        }

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> "RandomStates":
        """Read the states, each tried on a generator of its own first, so that a bad one changes nothing."""
        try:
            python, numpy = entries["python"], entries["numpy"]
            states = cls(
                (random.Random.VERSION, tuple(words_of(python["words"])), gauss_of(python["gauss"])),
                ("MT19937", keys_of(numpy), position_of(numpy), int(numpy["has_gauss"]), float(numpy["cached"])),
                tensor_of(entries["torch"]),
                tuple(tensor_of(state) for state in entries["cuda"]),
            )
            random.Random().setstate(states.python)  # noqa: S311 - a trial, not a secret
            np.random.RandomState().set_state(states.numpy)
            torch.Generator().set_state(states.torch)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError):
            raise InputError("the states of the random generators are not what generators have") from None
        return states


def hex_of(words: Sequence[int]) -> str:
    """Write 32-bit words as text."""
    return np.asarray(words, dtype="<u4").tobytes().hex()


def words_of(text: str) -> list[int]:
    """Read 32-bit words."""
    words: list[int] = np.frombuffer(bytes.fromhex(text), dtype="<u4").tolist()
    return words


def keys_of(entries: Mapping[str, Any]) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Read NumPy's words, as many as it has."""
    words = words_of(entries["words"])
    if len(words) != NUMPY_WORDS:
        raise ValueError
    return np.asarray(words, dtype=np.uint32)


def position_of(entries: Mapping[str, Any]) -> int:
    """Read which word is next: NumPy itself would believe any number, and read there."""
    position = entries["position"]
    if type(position) is not int or not 0 <= position <= NUMPY_WORDS:
        raise ValueError
    return position


def gauss_of(value: object) -> float | None:
    """Read the second number of a pair that was drawn together, if one is left."""
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError
    return value


def tensor_of(text: str) -> Tensor:
    """Read the bytes of a generator of torch's."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
