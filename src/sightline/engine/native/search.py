"""Whole searches in one call of the C file: greedy and beam search over many texts, without torch.

The batch stays full: as one text is done, the next one takes its place. Results are those of `sightline.decoding`, and
no text's depends on the others.
"""

import ctypes
from collections.abc import Sequence
from itertools import chain

import numpy as np

from sightline.decoding.hypothesis import Hypothesis
from sightline.decoding.settings import DecodingSettings, FinishReason
from sightline.engine.native import library
from sightline.engine.native.library import address
from sightline.engine.native.model import CancelFlag, NativeModel, check_ids, pack_texts
from sightline.errors import InputError, SettingsError, SightlineError

MAX_ROWS = 64
"""Hypotheses that each thread extends at once: more would serve no weight better, and leave the cache sooner."""

MAX_RESULT_TOKENS = 1 << 25
"""Tokens that there is room for in the results of a call: 256 MB of memory, most of it never touched."""

FINISH_REASONS: dict[int, FinishReason] = {1: "eos", 2: "length"}
NOT_FINITE, NOTHING_FOUND, TOO_LONG = 1, 2, 3
"""Errors of single texts, as C numbers them."""

PLAIN = DecodingSettings()
FOLLOWED = ("beam_size", "n_best", "length_penalty", "max_new_tokens")
"""Settings that this search follows. Those of sampling have no effect without `do_sample`."""
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed", "include_prompt")


class NativeSearchError(SightlineError):
    """A text could not be generated."""


class Progress:
    """How many texts are done; any thread may ask while the search runs."""

    def __init__(self) -> None:
        self.value = np.zeros(1, dtype=np.int32)

    @property
    def n_done(self) -> int:
        """Texts that are done."""
        return int(self.value[0])


def find_unsupported_setting(settings: DecodingSettings) -> str | None:
    """Return the name of a setting that needs a search of `sightline.decoding`, or None if this one follows all."""
    names = (name for name in vars(PLAIN) if name not in (*FOLLOWED, *SAMPLING))
    return next((name for name in names if getattr(settings, name) != getattr(PLAIN, name)), None)


def search(
    model: NativeModel,
    texts: Sequence[Sequence[int]],
    settings: DecodingSettings,
    *,
    first_ids: Sequence[int],
    end_ids: Sequence[int],
    max_new_tokens: Sequence[int] | None = None,
    max_rows: int = MAX_ROWS,
    threads: int | None = None,
    cancel: CancelFlag | None = None,
    progress: Progress | None = None,
) -> list[list[Hypothesis]]:
    """Return up to `n_best` hypotheses for each text, best first.

    `texts` are sources, or the prompts of a GPT without their last id; `first_ids` are fed after them. If cancelled,
    texts that were not done have no hypotheses.
    """
    if name := find_unsupported_setting(settings):
        raise SettingsError(f"the native search does not know {name}: use the searches of sightline.decoding")
    if not texts:
        return []
    limits = list_limits(settings, texts, first_ids, max_new_tokens)
    step = max(1, MAX_RESULT_TOKENS // (max(limits) * settings.n_best))
    if len(texts) > step:  # one call after another
        return list(
            chain.from_iterable(
                search(
                    model, texts[at : at + step], settings, first_ids=first_ids[at : at + step], end_ids=end_ids,
                    max_new_tokens=limits[at : at + step], max_rows=max_rows, threads=threads, cancel=cancel,
                    progress=progress,
                )
                for at in range(0, len(texts), step)
            )
        )  # fmt: skip
    # Long texts first: at the end the threads then have little left to wait for.
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    packed = pack_texts([texts[index] for index in order])
    config = model.native_config
    model.check_texts(packed, config.source_vocab_size if model.has_encoder else config.target_vocab_size)
    first, ends = (np.asarray(ids, dtype=np.int32) for ids in ([first_ids[i] for i in order], sorted(set(end_ids))))
    check_ids(first, model.vocab_size, "ids")
    check_ids(ends, model.vocab_size, "end_ids")
    own_limits = np.asarray([limits[index] for index in order], dtype=np.int32)
    results = np.zeros(len(texts), dtype=np.int64)
    np.cumsum(own_limits[:-1].astype(np.int64) * settings.n_best, out=results[1:])
    n_tokens = int(results[-1]) + int(own_limits[-1]) * settings.n_best
    tokens, log_probs = np.empty(n_tokens, dtype=np.int32), np.empty(n_tokens, dtype=np.float32)
    lengths, reasons = (np.zeros((len(texts), settings.n_best), dtype=np.int32) for _ in range(2))
    scores = np.zeros((len(texts), settings.n_best), dtype=np.float64)
    counts, errors, error_lengths = (np.zeros(len(texts), dtype=np.int32) for _ in range(3))
    cancel, progress = cancel or CancelFlag(), progress or Progress()
    model.library.search(
        ctypes.byref(
            library.Request(
                model=model.handle,
                n_sentences=len(texts),
                beam_size=settings.beam_size,
                n_best=settings.n_best,
                max_rows=max_rows,
                n_ends=len(ends),
                n_threads=threads or model.choose_threads(len(texts)),
                length_penalty=settings.length_penalty,
                ids=address(packed.ids),
                offsets=address(packed.offsets),
                first_ids=address(first),
                limits=address(own_limits),
                end_ids=address(ends),
                results=address(results),
                tokens=address(tokens),
                log_probs=address(log_probs),
                lengths=address(lengths),
                reasons=address(reasons),
                scores=address(scores),
                counts=address(counts),
                errors=address(errors),
                error_lengths=address(error_lengths),
                cancel=address(cancel.value),
                n_done=address(progress.value),
            )
        )
    )
    raise_first_error(order, errors.tolist(), error_lengths.tolist(), model)
    found: list[list[Hypothesis]] = [[] for _ in texts]
    for place, index in enumerate(order):
        for rank in range(int(counts[place])):
            length = int(lengths[place, rank])
            at = int(results[place]) + rank * int(own_limits[place])
            token_log_probabilities = tuple(log_probs[at : at + length].tolist())
            found[index].append(
                Hypothesis(
                    ids=tuple(tokens[at : at + length].tolist()),
                    log_probability=sum(token_log_probabilities),
                    score=float(scores[place, rank]),
                    token_log_probabilities=token_log_probabilities,
                    finish_reason=FINISH_REASONS[int(reasons[place, rank])],
                )
            )
    return found


def list_limits(
    settings: DecodingSettings,
    texts: Sequence[Sequence[int]],
    first_ids: Sequence[int],
    max_new_tokens: Sequence[int] | None,
) -> list[int]:
    """Return the maximum number of tokens for each text; raise if the lists do not match."""
    for name, values in (("first_ids", first_ids), ("max_new_tokens", max_new_tokens)):
        if values is not None and len(values) != len(texts):
            raise InputError(f"{name} are for {len(values)} texts, texts are {len(texts)}")
    limits = [min(settings.max_new_tokens, own) for own in max_new_tokens or [settings.max_new_tokens] * len(texts)]
    if min(limits) < 1:
        raise InputError(f"max_new_tokens must be 1 or more, not {min(limits)}")
    return limits


def raise_first_error(order: list[int], errors: list[int], lengths: list[int], model: NativeModel) -> None:
    """Raise the error of the first text that has one."""
    failed = sorted(
        (index, error, length) for index, error, length in zip(order, errors, lengths, strict=True) if error
    )
    if not failed:
        return
    index, error, length = failed[0]
    if error == TOO_LONG:
        model.check_length((model.config.max_length or 0) + 1)
    if error == NOTHING_FOUND:
        raise InputError(f"sentence {index + 1}: no token is allowed after {length} tokens")
    raise NativeSearchError(
        f"the model's logits for sentence {index + 1} are not numbers (NaN, +∞ or all −∞) after {length} tokens; "
        "its weights are damaged or its training diverged"
    )
