"""`NativeModel` and `NativeState`: handles of the C file. Every array is checked here, before C is reached."""

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float32, Int32, Int64
from numpy import ndarray

from sightline.engine.native import library
from sightline.engine.native.library import address, open_library
from sightline.engine.native.weights import (
    Arrays,
    arrange,
    describe,
    find_unsupported,
    read_folder,
    rope_frequencies,
)
from sightline.errors import InputError, SettingsError
from sightline.model.config import BlockConfig, ModelConfig
from sightline.runtime import THREAD_VARIABLES, cpu_quota, default_threads

Precision: TypeAlias = Literal["int8", "fp32"]
BITS: dict[str, int] = {"int8": 8, "fp32": 32}

MAX_THREADS = 64
SHARE = 1 << 20
"""Bytes of weights that each thread should have to itself in a step of a single text, about what the cache of its core
holds: with less, waiting for one another costs more than it gives."""


def count_threads() -> int:
    """Return how many threads to compute with: those set for the process, else its cores, within its limits."""
    if (count := default_threads()) is not None:
        return min(count, MAX_THREADS)
    if (text := os.environ.get(THREAD_VARIABLES[0], "")).isdecimal() and int(text):
        return min(int(text), MAX_THREADS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, cpu_quota() or cores, MAX_THREADS)


N_TABLES = 10
"""Tensors of the two embeddings, which come first."""


class NativeModel:
    """A model in C: its weights packed, in int8 or as floats. It may be used from several threads at once."""

    def __init__(
        self,
        config: ModelConfig,
        arrays: Arrays,
        *,
        precision: Precision = "int8",
        instruction_set: str | None = None,
        threads: int | None = None,
    ) -> None:
        if reason := find_unsupported(config):
            raise SettingsError(reason)
        assert isinstance(config, BlockConfig)  # noqa: S101 - for the type checker
        if precision not in BITS:
            raise SettingsError(f"precision must be int8 or fp32, not {precision}")
        self.library = open_library()
        self.config, self.precision, self.threads = config, precision, threads or count_threads()
        tensors = arrange(config, arrays)
        # Embeddings, which C reads from where they are: copies, so that nothing else is kept, and nobody changes them.
        copies = {id(table): table.copy() for table in tensors[:N_TABLES] if table is not None}
        self._tables = tensors[:N_TABLES] = [copies.get(id(table)) for table in tensors[:N_TABLES]]
        self.n_weights = sum(tensor.size for tensor in tensors[10:] if tensor is not None)
        described = (library.Tensor * len(tensors))(*map(describe_tensor, tensors))
        frequencies = np.ascontiguousarray(rope_frequencies(config.rope)) if config.positions == "rope" else None
        self.native_config = describe(config, bits=BITS[precision])
        number = self.library.choose(instruction_set)
        self.instruction_set = self.library.compiled[number]
        self.handle = self.library.create_model(
            ctypes.byref(self.native_config), described, address(frequencies), number, self.threads
        )
        self.owner = Owner(self.handle, self.library.free_model, keeps=self._tables)
        self.step_bytes = int(self.library.step_bytes(self.handle))

    @classmethod
    def load(cls, folder: Path | str, *, precision: Precision = "int8", threads: int | None = None) -> "NativeModel":
        """Load a model folder, without torch."""
        manifest, arrays = read_folder(Path(folder))
        return cls(manifest.config, arrays, precision=precision, threads=threads)

    def choose_threads(self, n_texts: int) -> int:
        """Return how many threads serve that many texts best: a small model decodes a single text on one."""
        return self.threads if n_texts > 1 else min(self.threads, -(-self.step_bytes // SHARE))

    @property
    def vocab_size(self) -> int:
        """Number of tokens that it predicts."""
        return int(self.native_config.target_vocab_size)

    @property
    def has_encoder(self) -> bool:
        """Whether it reads sources."""
        return bool(self.native_config.n_encoder_layers)

    @property
    def has_decoder(self) -> bool:
        """Whether it predicts tokens."""
        return bool(self.native_config.n_decoder_layers)

    def encode(
        self, texts: Sequence[Sequence[int]], *, segments: Sequence[Sequence[int]] | None = None
    ) -> Float32[ndarray, "N E"]:
        """Return the encoder's output for every token, one text after the other."""
        self._require(self.has_encoder, "has no encoder")
        packed = pack_texts(texts)
        self.check_texts(packed, self.native_config.source_vocab_size)
        own = None
        if segments is not None:
            own = pack_texts(segments)
            if not np.array_equal(own.offsets, packed.offsets):
                raise InputError("segments must be as many as the tokens of each text")
            check_ids(own.ids, max(1, self.native_config.n_segments), "segments")
        hidden = np.empty((len(packed.ids), self.config.d_model), dtype=np.float32)
        self.library.encode(
            self.handle, address(packed.ids), None if own is None else address(own.ids), address(packed.offsets),
            len(texts), self.choose_encoder_threads(len(packed.ids)), address(hidden),
        )  # fmt: skip
        return hidden

    def choose_encoder_threads(self, n_tokens: int) -> int:
        """Return how many threads read that many tokens best."""
        return 1 if n_tokens * self.n_weights <= SMALL_READING else self.threads

    def read(self, prompts: Sequence[Sequence[int]]) -> "NativeState":
        """Read sources, or the prompts of a GPT; return a state with one row each."""
        self._require(self.has_decoder, "predicts no tokens")
        packed = pack_texts(prompts)
        if self.has_encoder:
            self.check_texts(packed, self.native_config.source_vocab_size)
            call = self.library.read_sources
        else:
            self.check_texts(packed, self.native_config.target_vocab_size)
            call = self.library.read_prompts
        threads = self.choose_encoder_threads(len(packed.ids))
        return NativeState(self, call(self.handle, address(packed.ids), address(packed.offsets), len(prompts), threads))

    def check_texts(self, packed: "PackedTexts", vocab_size: int) -> None:
        """Raise if an id is outside the vocabulary, or a text is too long."""
        check_ids(packed.ids, vocab_size, "ids")
        if len(packed.offsets) > 1:
            self.check_length(int(np.diff(packed.offsets).max()))

    def check_length(self, length: int) -> None:
        """Raise if a text has more tokens than the model can take."""
        if self.config.max_length is not None and length > self.config.max_length:
            raise InputError(
                f"{length:,} tokens are more than this model can take ({self.config.max_length:,}): shorten the text"
            )

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise SettingsError(f"this model {problem}")


SMALL_READING = 1 << 27
"""Products of tokens and weights, up to which one thread reads: others may not be awake before it is done."""


class Owner:
    """Frees a handle of C when it goes; what it keeps goes after it, whatever order a garbage collection has.

    At the end of the process nothing is freed: a thread may still be computing. Nor is it after a fork, in the new
    process, where the helpers of a model do not exist and locks may be held by nobody.
    """

    def __init__(self, handle: int, free: Callable[[int], None], *, keeps: object) -> None:
        self._finalizer = weakref.finalize(self, release, handle, free, os.getpid(), keeps)
        self._finalizer.atexit = False

    def give_away(self) -> None:
        """Leave the handle to another owner."""
        self._finalizer.detach()


def release(handle: int, free: Callable[[int], None], process: int, keeps: object) -> None:  # noqa: ARG001 - kept till here
    """Free a handle in the process that made it."""
    if os.getpid() == process:
        free(handle)


class NativeState:
    """Rows of a model that is decoding: what each has seen. To be used by one thread at a time."""

    def __init__(self, model: NativeModel, handle: int) -> None:
        self.model, self.handle = model, handle
        self.owner = Owner(handle, model.library.free_state, keeps=model.owner)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.model.library.row_count(self.handle))

    @property
    def longest_row(self) -> int:
        """Tokens that the longest row has seen."""
        return int(self.model.library.longest_row(self.handle))

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source."""
        return int(self.model.library.longest_source(self.handle))

    def reorder(self, rows: Int32[ndarray, "R2"]) -> None:
        """Make row i what row `rows[i]` was."""
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.n_rows:
            raise ValueError(f"rows must lie between 0 and {self.n_rows - 1}")
        self.model.library.reorder(self.handle, address(rows), len(rows))

    def join(self, other: "NativeState") -> None:
        """Append the rows of another state, which may not be used again."""
        if other.model is not self.model or other is self:
            raise ValueError("only another state of the same model can be joined")
        other.owner.give_away()
        self.model.library.join(self.handle, other.handle)

    def check(self, ids: Int32[ndarray, "R"]) -> None:
        """Raise if these cannot be the newest tokens of all rows."""
        if len(ids) != self.n_rows:
            raise InputError(f"{len(ids)} rows of input cannot continue the {self.n_rows} rows of this cache")
        check_ids(ids, self.model.native_config.target_vocab_size, "ids")

    def step(self, ids: Int32[ndarray, "R"], *, attention: bool = False) -> "NativeOutput":
        """Feed the newest token of each row; return the logits of the next one, and attention to the sources."""
        self._check_step(ids)
        logits = np.empty((len(ids), self.model.vocab_size), dtype=np.float32)
        width = self.longest_source if attention else 0
        weights = np.zeros((len(ids), width), dtype=np.float32) if width else None
        self.model.library.step(
            self.handle, address(ids), self.model.choose_threads(len(ids)), 0, None, None, address(logits),
            address(weights), width,
        )  # fmt: skip
        return NativeOutput(logits, weights)

    def step_best(self, ids: Int32[ndarray, "R"], count: int) -> tuple[Int32[ndarray, "R k"], Float32[ndarray, "R k"]]:
        """Feed the newest token of each row; return the best next ones and their log-probabilities."""
        self._check_step(ids)
        count = min(count, self.model.vocab_size)
        best = np.empty((len(ids), count), dtype=np.int32)
        log_probs = np.empty((len(ids), count), dtype=np.float32)
        self.model.library.step(
            self.handle, address(ids), self.model.choose_threads(len(ids)), count, address(best), address(log_probs),
            None, None, 0,
        )  # fmt: skip
        return best, log_probs

    def greedy(
        self, ids: Int32[ndarray, "R"], n_steps: int, *, end_ids: Sequence[int] = (), cancel: "CancelFlag | None" = None
    ) -> tuple[Int32[ndarray, "T R"], Float32[ndarray, "T R"]]:
        """Run greedy steps until a row ends, or cancelled; return the tokens of each step, with log-probabilities."""
        self.check(ids)
        self.model.check_length(self.longest_row + n_steps)
        tokens = np.empty((n_steps, len(ids)), dtype=np.int32)
        log_probs = np.empty((n_steps, len(ids)), dtype=np.float32)
        ends = np.asarray(end_ids, dtype=np.int32)
        flag = cancel or CancelFlag()
        n_run = self.model.library.greedy(
            self.handle, address(ids), n_steps, self.model.choose_threads(len(ids)), address(ends), len(ends),
            address(flag.value), address(tokens), address(log_probs),
        )  # fmt: skip
        return tokens[:n_run], log_probs[:n_run]

    def _check_step(self, ids: Int32[ndarray, "R"]) -> None:
        self.check(ids)
        self.model.check_length(self.longest_row + 1)


@dataclass(frozen=True)
class NativeOutput:
    """Logits of a step, and attention to the sources if it was asked for."""

    logits: Float32[ndarray, "R V"]
    attention: Float32[ndarray, "R S"] | None


class CancelFlag:
    """Ends what it was given to before its next step; any thread may set it."""

    def __init__(self) -> None:
        self.value = np.zeros(1, dtype=np.int32)

    def cancel(self) -> None:
        """End it."""
        self.value[0] = 1

    @property
    def is_cancelled(self) -> bool:
        """Whether it was set."""
        return bool(self.value[0])


@dataclass(frozen=True)
class PackedTexts:
    """Texts one after the other, and where each begins."""

    ids: Int32[ndarray, "N"]
    offsets: Int64[ndarray, "B1"]


def pack_texts(texts: Sequence[Sequence[int]]) -> PackedTexts:
    """Return the ids of all texts in one array."""
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    try:
        ids = np.fromiter(chain.from_iterable(texts), dtype=np.int32, count=int(offsets[-1]))
    except OverflowError:
        raise InputError("ids must be below 2³¹") from None
    return PackedTexts(ids, offsets)


def check_ids(ids: Int32[ndarray, "..."], size: int, name: str) -> None:
    """Raise if an id is outside the vocabulary."""
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < size:
        raise InputError(f"{name} must lie between 0 and {size - 1:,}")


def describe_tensor(array: ndarray | None) -> library.Tensor:
    """Return where a tensor lies and how large it is."""
    if array is None:
        return library.Tensor(None, 0, 0)
    return library.Tensor(address(array), array.shape[0], array.shape[1] if array.ndim > 1 else 1)


def multiply(
    x: Float32[ndarray, "N I"],
    weights: Float32[ndarray, "O I"],
    bias: Float32[ndarray, "O"],
    *,
    precision: Precision = "int8",
    instruction_set: str | None = None,
) -> Float32[ndarray, "N O"]:
    """Return x W + b as the engine computes it: for tests of its products."""
    opened = open_library()
    out = np.empty((len(x), len(weights)), dtype=np.float32)
    opened.multiply(
        opened.choose(instruction_set), BITS[precision], address(x), len(x), address(weights), address(bias),
        x.shape[1], len(weights), address(out),
    )  # fmt: skip
    return out
