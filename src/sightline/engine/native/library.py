"""The functions of the C file and their signatures, for ctypes. Its structures are those of `transformer.c`."""

import ctypes
import os
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np

from sightline.engine.native.compiler import NativeUnavailableError, load_library
from sightline.errors import SettingsError

INSTRUCTION_SET = "SIGHTLINE_ISA"
"""Environment variable that names an instruction set, for tests."""


class Config(Structure):
    """The sizes and choices of a model."""

    _fields_ = (
        *(
            (name, c_int32)
            for name in (
                "n_encoder_layers", "n_decoder_layers", "d_model", "n_heads", "n_groups", "d_head", "d_ff",
                "source_vocab_size", "target_vocab_size", "n_segments", "activation", "positions", "max_length",
                "rms_norm", "pre_norm", "bits",
            )
        ),
        ("norm_eps", c_float),
        ("embedding_scale", c_float),
        ("rope_amplitude", c_float),
    )  # fmt: skip


class Tensor(Structure):
    """A matrix of floats, or none."""

    _fields_ = (("values", c_void_p), ("n_rows", c_int64), ("n_columns", c_int64))


class Request(Structure):
    """A whole search."""

    _fields_ = (
        ("model", c_void_p),
        *((name, c_int32) for name in ("n_sentences", "beam_size", "n_best", "max_rows", "n_ends", "n_threads")),
        ("length_penalty", c_double),
        *(
            (name, c_void_p)
            for name in (
                "ids", "offsets", "first_ids", "limits", "end_ids", "results", "tokens", "log_probs", "lengths",
                "reasons", "scores", "counts", "errors", "error_lengths", "cancel", "n_done",
            )
        ),
    )  # fmt: skip


SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "instruction_set": (c_char_p, (c_int32,)),
    "is_supported": (c_int32, (c_int32,)),
    "create_model": (c_void_p, (POINTER(Config), POINTER(Tensor), c_void_p, c_int32, c_int32)),
    "free_model": (None, (c_void_p,)),
    "step_bytes": (c_int64, (c_void_p,)),
    "encode": (None, (c_void_p, c_void_p, c_void_p, c_void_p, c_int32, c_int32, c_void_p)),
    "read_sources": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int32, c_int32)),
    "read_prompts": (c_void_p, (c_void_p, c_void_p, c_void_p, c_int32, c_int32)),
    "free_state": (None, (c_void_p,)),
    "row_count": (c_int32, (c_void_p,)),
    "longest_row": (c_int32, (c_void_p,)),
    "longest_source": (c_int32, (c_void_p,)),
    "reorder": (None, (c_void_p, c_void_p, c_int32)),
    "join": (None, (c_void_p, c_void_p)),
    "step": (
        None,
        (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_int32),
    ),
    "greedy": (
        c_int32,
        (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_int32, c_void_p, c_void_p, c_void_p),
    ),
    "search": (None, (POINTER(Request),)),
    "multiply": (
        None,
        (c_int32, c_int32, c_void_p, c_int32, c_void_p, c_void_p, c_int32, c_int32, c_void_p),
    ),
}


class Library:
    """The loaded functions, without their prefix, and the instruction sets they may use."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        self.functions: dict[str, Any] = {}
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(loaded, f"sightline_{name}")
            function.restype, function.argtypes = result, arguments
            self.functions[name] = function
        self.compiled: list[str] = []
        while name := self.functions["instruction_set"](len(self.compiled)):
            self.compiled.append(name.decode())
        self.supported = [name for index, name in enumerate(self.compiled) if self.functions["is_supported"](index)]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.functions[name]
        except KeyError:
            raise AttributeError(name) from None

    def choose(self, wanted: str | None = None) -> int:
        """Return the number of an instruction set: the best one, or that which is wanted by name."""
        name = wanted or os.environ.get(INSTRUCTION_SET) or self.supported[0]
        if name not in self.supported:
            raise SettingsError(f"instruction set {name} is not supported here: choose {', '.join(self.supported)}")
        return self.compiled.index(name)


def address(array: np.ndarray | None) -> int | None:
    """Return where an array begins; it must lie in one piece."""
    if array is None:
        return None
    if not array.flags.c_contiguous:
        raise ValueError("an array for C must be contiguous")
    return array.ctypes.data


@cache
def open_library() -> Library:
    """Return the library; raise if there is none."""
    loaded = load_library()
    if loaded.library is None:
        raise NativeUnavailableError(f"the native engine cannot be used: {loaded.reason}")
    return Library(loaded.library)
