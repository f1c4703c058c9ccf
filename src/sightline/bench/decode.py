"""`sightline bench decode`: generating with one model's weights, ours against other engines.

An encoder–decoder reads 25 tokens and writes 28, encoder included; a GPT continues 32 tokens by 28. The weights are
random and the same for all; no text ends by itself. Every engine's tokens are compared with ours.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from sightline.bench.contenders import OURS, Contender, Plan, Setting, with_arguments
from sightline.bench.growth import Growth, GrowthReport, measure_growth
from sightline.bench.limits import describe_machine, read_rate
from sightline.bench.report import Limit, Report
from sightline.bench.shapes import END, Shape, prompts, random_model
from sightline.bench.worker import Job
from sightline.decoding import DecodingSettings, Request, search
from sightline.engine import open_engine
from sightline.engine.native.model import BITS, NativeModel, Precision
from sightline.engine.native.search import search as native_search
from sightline.model.interfaces import CausalLM, Seq2Seq
from sightline.runtime import limit_spinning

PEERS = "sightline.bench.peers"
N_NEW = 28
"""Tokens that are generated."""
N_SOURCE, N_PROMPT = 25, 32
"""Tokens of a source, and of a prompt."""


def source_length(shape: Shape) -> int:
    """Return the tokens of each source or prompt."""
    return shape.length or (N_SOURCE if shape.interface is Seq2Seq else N_PROMPT)


def contenders(shape: Shape) -> list[Contender]:
    """Return ours and the peers that can run such a model."""
    threads = thread_settings()
    found = [
        Contender(OURS, "sightline.bench.decode:our_job"),
        *native_contenders(threads),
        Contender("HF generate", f"{PEERS}.huggingface:decoding_job", ("transformers",), threads),
    ]
    for bits, name in (("float32", "CTranslate2 fp32"), ("int8", "CTranslate2 int8")):
        settings = with_arguments(threads, compute_type=bits)
        found.append(Contender(name, f"{PEERS}.ctranslate2:decoding_job", ("ctranslate2",), settings))
    if shape.beam == 1:  # a beam over a bare graph would be our own search, not theirs
        for quantized, name in ((False, "onnxruntime fp32"), (True, "onnxruntime int8")):
            settings = with_arguments(threads, quantized=quantized)
            found.append(Contender(name, f"{PEERS}.onnx_runtime:decoding_job", ("onnxruntime", "onnx"), settings))
    if shape.interface is CausalLM and shape.beam == 1 and (shape.batch or 1) == 1:
        for kind in ("F32", "Q8_0"):
            build, settings = f"{PEERS}.llama_cpp:decoding_job", with_arguments(threads, kind=kind)
            found.append(Contender(f"llama.cpp {kind}", build, ("xllamacpp", "gguf"), settings))
    return found


def native_contenders(threads: tuple[Setting, ...]) -> Iterator[Contender]:
    """Yield our engine in C, in 32 and 8 bits."""
    for precision in BITS:
        settings = with_arguments(threads, precision=precision)
        yield Contender(f"{OURS} native {precision}", "sightline.bench.decode:native_job", ("torch",), settings)


def thread_settings() -> tuple[Setting, ...]:
    """Return the numbers of threads that are tried: one, and as many as there are cores."""
    counts = sorted({1, torch.get_num_threads()})
    return tuple(Setting(f"{count} thread{'s' * (count > 1)}", {}, count) for count in counts)


def our_job(shape: dict[str, Any], engine: str = "torch") -> Job:
    """Decode with one of our engines."""
    limit_spinning()
    wanted = Shape.of(shape)
    model = random_model(wanted)
    opened = open_engine(model, engine)
    texts = prompts(wanted, length=source_length(wanted))
    is_pair = wanted.interface is Seq2Seq
    settings = DecodingSettings(max_new_tokens=N_NEW, beam_size=wanted.beam, length_penalty=1.0)

    def run() -> list[list[int]]:
        # the last id of a context is fed first: a decoder has seen nothing but the source, a GPT all but that id
        contexts = [[END]] * len(texts) if is_pair else texts
        state = opened.prefill(texts if is_pair else [text[:-1] for text in texts])
        found = search(opened.step, state, Request(contexts, settings, end_ids=[END]))
        return [list(hypotheses[0].ids) for hypotheses in found]

    return Job(run, {"engine": engine})


def native_job(shape: dict[str, Any], *, precision: Precision) -> Job:
    """Decode with the engine in C: a whole search in one call."""
    wanted = Shape.of(shape)
    model = random_model(wanted)
    arrays = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    native = NativeModel(model.config, arrays, precision=precision)
    texts = prompts(wanted, length=source_length(wanted))
    settings = DecodingSettings(max_new_tokens=N_NEW, beam_size=wanted.beam, length_penalty=1.0)

    def run() -> list[list[int]]:
        # as above: a GPT is fed the last id of its prompt first
        read = texts if native.has_encoder else [text[:-1] for text in texts]
        first_ids = [END if native.has_encoder else text[-1] for text in texts]
        found = native_search(native, read, settings, first_ids=first_ids, end_ids=[END])
        return [list(hypotheses[0].ids) for hypotheses in found]

    return Job(run, {"precision": precision, "instruction_set": native.instruction_set})


def weight_bytes(shape: Shape) -> int:
    """Return the bytes of 32-bit weights that one decoder step reads, the looked-up embeddings apart."""
    model: Any = random_model(shape)
    weights = [weight for name, weight in model.named_parameters() if name.startswith(("decoder.", "output."))]
    if model.config.tie_embeddings:
        weights.append(model.output.weight)
    return sum(4 * weight.numel() for weight in {id(weight): weight for weight in weights}.values())


def same_tokens(ours: list[list[int]], theirs: list[list[int]]) -> tuple[int, int]:
    """Return how many tokens of another engine are ours, and of how many."""
    pairs = [pair for row, other in zip(ours, theirs, strict=False) for pair in zip(row, other, strict=False)]
    return sum(a == b for a, b in pairs), sum(map(len, ours))


def bench_decode(shape: Shape, plan: Plan) -> Report:
    """Time ours and every peer, compare their tokens with ours, and say what reading the weights alone would take."""
    machine = describe_machine()
    results = plan.run(contenders(shape), shape.as_arguments(), with_output=True)
    ours, n_rows = results[0].output, shape.batch or 1
    remarks = []
    for one in results[1:]:
        if ours and one.output:
            same, of = same_tokens(ours, one.output)
            remarks.append(f"  {one.name}: {same:,} of {of:,} tokens are ours")
    limits = []
    for name, share in (("fp32", 1), ("int8", 4)):
        n_bytes = weight_bytes(shape) // share
        rate = read_rate(n_bytes)
        what = f"reading the weights {N_NEW} times in {name} ({n_bytes / 1e6:,.1f} MB at {rate / 1e9:,.0f} GB/s)"
        limits.append(Limit(what, N_NEW * n_bytes / rate))
    about = f"Decoding, {shape}: {source_length(shape)} tokens read, {N_NEW} written"
    return Report("decode", about, results, machine, N_NEW * n_rows, limits, remarks)


def grow_decode(shape: Shape, growth: Growth, plan: Plan) -> GrowthReport:
    """Follow decoding while one number of it grows."""
    about = f"Decoding, {shape}: {N_NEW} tokens written"
    widest = replace(shape, beam=max(growth.values)) if growth.number == "beam" else shape
    return measure_growth(
        "decode", about, growth, contenders(widest), partial(shape.arguments_with, growth.number), plan
    )
