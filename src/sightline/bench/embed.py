"""`sightline bench embed`: one vector for each text of a batch, the mean over its tokens, ours against other encoders.

Texts have a quarter of a length up to that length, as sentences do; the weights are random and the same for all.
"""

from functools import partial
from typing import Any

import torch

from sightline.bench.contenders import OURS, Contender, Plan, with_arguments
from sightline.bench.decode import PEERS, thread_settings
from sightline.bench.growth import Growth, GrowthReport, measure_growth
from sightline.bench.limits import describe_machine
from sightline.bench.report import Report
from sightline.bench.shapes import END, Shape, random_model
from sightline.bench.worker import Job
from sightline.data.datasets.batch import pad
from sightline.model.bert import mean_of_tokens
from sightline.runtime import limit_spinning


def texts(shape: Shape) -> list[list[int]]:
    """Draw texts of mixed length."""
    generator = torch.Generator().manual_seed(3)
    longest, count = shape.length or shape.known.length or 64, shape.batch or shape.known.batch
    lengths = torch.randint(max(1, longest // 4), longest + 1, (count,), generator=generator)
    lengths[0] = longest
    vocab_size = shape.config().vocab_size
    return [
        torch.randint(END + 1, vocab_size, (int(length),), generator=generator).tolist() for length in lengths.tolist()
    ]


def contenders() -> list[Contender]:
    """Return ours and the peers."""
    threads = thread_settings()
    found = [
        Contender(OURS, "sightline.bench.embed:our_job"),
        Contender("HF BERT", f"{PEERS}.huggingface:embedding_job", ("transformers",), threads),
    ]
    for bits, name in (("float32", "CTranslate2 fp32"), ("int8", "CTranslate2 int8")):
        settings = with_arguments(threads, compute_type=bits)
        found.append(Contender(name, f"{PEERS}.ctranslate2:embedding_job", ("ctranslate2",), settings))
    for quantized, name in ((False, "onnxruntime fp32"), (True, "onnxruntime int8")):
        settings = with_arguments(threads, quantized=quantized)
        found.append(Contender(name, f"{PEERS}.onnx_runtime:embedding_job", ("onnxruntime", "onnx"), settings))
    return found


def our_job(shape: dict[str, Any]) -> Job:
    """Embed as our pipelines do, packed."""
    limit_spinning()
    wanted = Shape.of(shape)
    model = random_model(wanted)
    ids, lengths = pad(texts(wanted))

    def run() -> list[list[float]]:
        with torch.inference_mode():
            mean = mean_of_tokens(model(ids, lengths=lengths, packed=True), lengths)
        first: list[list[float]] = mean[:, :4].tolist()
        return first

    return Job(run)


def largest_difference(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Return the largest difference between two encoders' vectors, of the numbers that are compared."""
    return float((torch.tensor(ours) - torch.tensor(theirs)).abs().max())


def bench_embed(shape: Shape, plan: Plan) -> Report:
    """Time ours and every peer, and compare their vectors with ours."""
    machine = describe_machine()
    results = plan.run(contenders(), shape.as_arguments(), with_output=True)
    ours = results[0].output
    remarks = [
        f"  {one.name}: the largest difference to our vectors is {largest_difference(ours, one.output):.1g}"
        for one in results[1:]
        if ours and one.output
    ]
    rows = texts(shape)
    tokens = sum(map(len, rows))
    about = f"Embedding, {shape}: {len(rows)} texts, {tokens:,} tokens"
    return Report("embed", about, results, machine, tokens, remarks=remarks)


def grow_embed(shape: Shape, growth: Growth, plan: Plan) -> GrowthReport:
    """Follow embedding while one number of it grows."""
    about = f"Embedding, {shape}"
    return measure_growth("embed", about, growth, contenders(), partial(shape.arguments_with, growth.number), plan)
