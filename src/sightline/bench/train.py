"""`sightline bench train`: one training step against the same model in other libraries, on the same batch.

A step is forward, backward and update. All contenders have the same shape, tied embeddings, torch's fused Adam, memory
that is kept when freed, and dropout where ours has it (embeddings and sublayer outputs), so that each can use its
fastest attention kernel. Peers compute logits for padding too, and leave it out of the loss. Each is tried as it is,
compiled, and with bf16 autocast, and takes part at its fastest.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sightline.bench.contenders import OURS, Contender, Plan, Setting, with_arguments
from sightline.bench.growth import Growth, GrowthReport, measure_growth
from sightline.bench.levers import CHANGES, KEPT_MEMORY, LEVERS, PRODUCTS
from sightline.bench.limits import count_flops, describe_machine, gemm_rates
from sightline.bench.report import Limit, Report
from sightline.bench.shapes import Shape, padding_share, training_batch
from sightline.bench.worker import Job
from sightline.data.datasets.batch import Batch, PairBatch
from sightline.model.config import ModelConfig
from sightline.model.interfaces import CausalLM, Seq2Seq, TextEncoder
from sightline.model.registry import build, resolve
from sightline.runtime import (
    TRAINING_SPIN_COUNT,
    Products,
    choose_device,
    keep_freed_memory,
    limit_spinning,
    multiply_by,
)
from sightline.training.estimate import synchronize
from sightline.training.objective import Objective
from sightline.training.precision import choose_products, describe

PEERS: dict[type, dict[str, tuple[str, str]]] = {
    Seq2Seq: {
        "torch.nn.Transformer": ("torch", "sightline.bench.peers.torch_nn:TorchTransformer"),
        "HF Marian": ("transformers", "sightline.bench.peers.huggingface:HuggingFaceMarian"),
        "x-transformers": ("x_transformers", "sightline.bench.peers.x_transformers:XTransformers"),
    },
    TextEncoder: {"HF BERT": ("transformers", "sightline.bench.peers.huggingface:HuggingFaceBert")},
    CausalLM: {
        "nanoGPT": ("torch", "sightline.bench.peers.nanogpt:NanoGPT"),
        "HF GPT-2": ("transformers", "sightline.bench.peers.huggingface:HuggingFaceGPT2"),
    },
}
"""The same model in other libraries, by its interface: name → required package, and the class."""

PEER_SETTINGS = (
    Setting("fp32"),
    Setting("fp32, compiled", {"compiled": True}),
    Setting("bf16 autocast", {"autocast": True}),
)
PEER_DEFAULT = PEER_SETTINGS[:1]


OUR_JOB = "sightline.bench.train:our_job"


class Sightline(nn.Module):
    """Our model with packed batches and the loss of our runs."""

    def __init__(self, config: ModelConfig, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model: Any = build(config)
        self.objective = Objective(smoothing)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss."""
        loss = self.objective(self.model, batch)
        return loss.total / loss.count


def contenders(shape: Shape, *, tune: bool = True) -> list[Contender]:
    """Return ours and all peers; without `tune` peers run in plain fp32, uncompiled."""
    found = [Contender(OURS, OUR_JOB)]
    for name, (package, made) in PEERS[shape.interface].items():
        settings = with_arguments(PEER_SETTINGS if tune else PEER_DEFAULT, made=made)
        found.append(Contender(name, "sightline.bench.train:peer_job", (package,), settings))
    return found


def our_job(shape: dict[str, Any], *, without: str | None = None) -> Job:
    """Train as our runs do, or without one of the levers."""
    limit_spinning(TRAINING_SPIN_COUNT)
    if undo := CHANGES.get(str(without)):
        undo()
    wanted = Shape.of(shape)
    batch = training_batch(wanted)
    model = Sightline(wanted.config(), smoothing=0.1 if isinstance(batch, PairBatch) else 0.0)
    return training_job(model, wanted, without=without, by_run=True)


def run_products(model: nn.Module, run_batch: Callable[[], object]) -> Products:
    """Return the ways to multiply that a run of this model would choose, from a batch forward and backward.

    They are measured anew: what is cached may be from an hour when the machine was busy.
    """
    if next(model.parameters()).device.type != "cpu":
        return Products()
    products = choose_products(run_batch, use_cache=False)
    model.zero_grad(set_to_none=True)
    return products


def peer_job(shape: dict[str, Any], *, made: str, compiled: bool = False, autocast: bool = False) -> Job:
    """Train a peer's model."""
    wanted = Shape.of(shape)
    model: nn.Module = resolve(made)(wanted.config())
    if compiled:
        model.compile()
    return training_job(model, wanted, autocast=autocast)


def training_job(
    model: nn.Module, shape: Shape, *, autocast: bool = False, by_run: bool = False, without: str | None = None
) -> Job:
    """Return the job of one step; `by_run`: with the matrix products that a run of ours would choose."""
    if without != KEPT_MEMORY:
        keep_freed_memory()
    device = choose_device()
    batch = training_batch(shape).to(device)
    torch.manual_seed(1)
    model = model.to(device).train()
    products = run_products(model, lambda: model(batch).backward()) if by_run else Products()
    products = replace(products, **PRODUCTS.get(str(without), {}))
    step = training_step(model, batch, clip=shape.known.clip, autocast=autocast, products=products)
    facts: dict[str, Any] = {"weights": sum(weight.numel() for weight in model.parameters() if weight.requires_grad)}
    return Job(step, facts | ({"products": describe(products)} if by_run else {}))


def training_step(
    model: nn.Module, batch: Batch, *, clip: bool = False, autocast: bool = False, products: Products | None = None
) -> Callable[[], float]:
    """Return a function that does one training step and returns the loss; all contenders use torch's fused Adam."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    device = next(model.parameters()).device

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with multiply_by(products or Products()):
            with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
                loss = model(batch)
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        synchronize(device)
        return float(loss.detach())

    return step


def flops_of_step(shape: Shape) -> int:
    """Return the multiplications and additions of our step's matrix products."""
    batch = training_batch(shape)
    model = Sightline(shape.config(dropout=0.0))
    return count_flops(lambda: model(batch).backward())


def bench_train(shape: Shape, plan: Plan) -> Report:
    """Time a step of ours and of every peer at its fastest setting, beside what the products alone would take."""
    machine = describe_machine()
    results = plan.run(contenders(shape), shape.as_arguments())
    batch, rates, flops = training_batch(shape), gemm_rates(), flops_of_step(shape)
    limits = [
        Limit(f"its products alone in fp32 ({rates.fp32 / 1e9:,.0f} GFLOP/s)", flops / rates.fp32),
        Limit(f"its products alone in bf16 ({rates.bf16 / 1e9:,.0f} GFLOP/s)", flops / rates.bf16),
    ]
    about = f"Training step, {shape}: {batch.n_tokens:,} tokens, {padding_share(batch):.0%} padding"
    products = results[0].facts.get("products")
    return Report("train", about, results, machine, batch.n_tokens, limits, [f"  {products}"] if products else [])


def ablate_train(shape: Shape, plan: Plan) -> Report:
    """Time our step with everything, and without each of its levers: how much slower it is, that lever gives."""
    machine = describe_machine()
    undone = ((f"without {lever}", with_arguments((Setting(),), without=lever)) for lever in LEVERS)
    taking_part = [Contender(OURS, OUR_JOB), *(Contender(name, OUR_JOB, settings=one) for name, one in undone)]
    results = plan.run(taking_part, shape.as_arguments())
    return Report("train", f"What each lever gives: {shape}", results, machine, training_batch(shape).n_tokens)


def grow_train(shape: Shape, growth: Growth, plan: Plan) -> GrowthReport:
    """Follow a training step while one number of it grows; peers in plain fp32."""
    taking_part = contenders(shape, tune=False)
    about = f"Training step, {shape}"
    return measure_growth("train", about, growth, taking_part, partial(shape.arguments_with, growth.number), plan)
