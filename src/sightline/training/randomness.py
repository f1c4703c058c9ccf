"""States of the random generators, as JSON and back: a resumed run must draw the same numbers."""

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
    """The states of all generators a run may use."""

    python: tuple[Any, ...]
    numpy: tuple[Any, ...]
    torch: Tensor
    cuda: tuple[Tensor, ...]
    """One per GPU."""

    @classmethod
    def capture(cls) -> "RandomStates":
        """Return the current states."""
        return cls(
            random.getstate(),
            tuple(np.random.get_state()),  # noqa: NPY002 - users may draw from the global generator
            torch.get_rng_state(),
            tuple(torch.cuda.get_rng_state_all()),
        )

    def restore(self) -> None:
        """Set the generators to these states."""
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
            "python": {"words": to_hex(words), "gauss": gauss},
            "numpy": {
                "words": to_hex(keys.tolist()),
                "position": int(position),
                "has_gauss": int(has_gauss),
                "cached": float(cached),
            },
            "torch": self.torch.numpy().tobytes().hex(),
            "cuda": [state.numpy().tobytes().hex() for state in self.cuda],
        }

    @classmethod
    def from_entries(cls, entries: Mapping[str, Any]) -> "RandomStates":
        """Parse the states; each is tried on a new generator first, so that a bad one changes nothing."""
        try:
            python, numpy = entries["python"], entries["numpy"]
            states = cls(
                (random.Random.VERSION, tuple(from_hex(python["words"])), parse_gauss(python["gauss"])),
                ("MT19937", parse_keys(numpy), parse_position(numpy), int(numpy["has_gauss"]), float(numpy["cached"])),
                parse_tensor(entries["torch"]),
                tuple(parse_tensor(state) for state in entries["cuda"]),
            )
            random.Random().setstate(states.python)  # noqa: S311 - a trial, not a secret
            np.random.RandomState().set_state(states.numpy)
            torch.Generator().set_state(states.torch)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError):
            raise InputError("the states of the random generators are not valid") from None
        return states


def to_hex(words: Sequence[int]) -> str:
    """Encode 32-bit words as hex."""
    return np.asarray(words, dtype="<u4").tobytes().hex()


def from_hex(text: str) -> list[int]:
    """Decode 32-bit words."""
    words: list[int] = np.frombuffer(bytes.fromhex(text), dtype="<u4").tolist()
    return words


def parse_keys(entries: Mapping[str, Any]) -> "np.ndarray[Any, np.dtype[np.uint32]]":
    """Parse NumPy's words."""
    words = from_hex(entries["words"])
    if len(words) != NUMPY_WORDS:
        raise ValueError
    return np.asarray(words, dtype=np.uint32)


def parse_position(entries: Mapping[str, Any]) -> int:
    """Parse the index of the next word: NumPy itself would accept any number and read out of bounds."""
    position = entries["position"]
    if type(position) is not int or not 0 <= position <= NUMPY_WORDS:
        raise ValueError
    return position


def parse_gauss(value: object) -> float | None:
    """Parse the second number of a Gaussian pair, if one is left."""
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ValueError
    return value


def parse_tensor(text: str) -> Tensor:
    """Parse the bytes of a torch generator."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
