"""Tiny models of every family, toy data that depend on three numbers, and a minimal training loop."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from sightline.model import GPT, Bert, Model, Transformer, build
from sightline.model.registry import read_config
from sightline.training.loss import projected_cross_entropy
from sightline.training.optimizer import ExponentialMovingAverage, make_optimizer
from sightline.training.schedule import learning_rate
from sightline.training.settings import TrainingSettings
from sightline.training.state import Progress, TrainingState

WORDS = 13
FAMILIES = ("transformer", "bert", "gpt")
LAYERS = {
    "transformer": {"n_encoder_layers": 1, "n_decoder_layers": 1},
    "bert": {"n_layers": 1, "heads": ["mlm"]},
    "gpt": {"n_layers": 1},
}
SIZES = {"vocab_size": WORDS, "d_model": 8, "n_heads": 2, "d_ff": 12, "max_length": 16, "dropout": 0.1}
BATCHES_IN_EPOCH = 7
RATES = {"schedule": "inverse_square_root", "learning_rate": 0.01, "warmup_steps": 3}
SETTINGS = TrainingSettings(
    optimizer="adamw", weight_decay=0.1, gradient_accumulation=3, grad_clip=1.0, ema_decay=0.9, seed=5, **RATES
)


def tiny_model(family: str = "gpt", *, seed: int = 0, **settings: object) -> Model:
    torch.manual_seed(seed)
    return build(read_config(family, {**SIZES, **LAYERS[family], **settings})).train()


def new_state(
    family: str = "gpt", settings: TrainingSettings = SETTINGS, *, seed: int = 0, **sizes: object
) -> TrainingState:
    model = tiny_model(family, seed=seed, **sizes)
    ema = ExponentialMovingAverage(model, decay=settings.ema_decay) if settings.ema_decay else None
    return TrainingState(model, make_optimizer(model, settings), ema, Progress(seed=settings.seed))


def batch(progress: Progress) -> tuple[Tensor, Tensor]:
    """Source and target at one position in the data; lengths vary between batches."""
    place = (progress.seed * 1000 + progress.epoch) * 1000 + progress.position
    generator = torch.Generator().manual_seed(place)
    length = 3 + place % 4
    source, target = torch.randint(0, WORDS, (2, 2, length + 1), generator=generator)
    return source, target


def summed_loss(model: Model, source: Tensor, target: Tensor, *, smoothing: float) -> Tensor:
    seen, labels = target[:, :-1], target[:, 1:].flatten()
    bias = None
    if isinstance(model, Transformer):
        hidden, output = model.decode(seen, model.encode(source)), model.output
    elif isinstance(model, Bert):
        hidden, output = model.heads["mlm"].features(model(seen)), model.heads["mlm"].output
        bias = output.bias
    else:
        assert isinstance(model, GPT)
        hidden, output = model.decode(seen), model.output
    return projected_cross_entropy(hidden.flatten(0, 1), output.weight, labels, bias=bias, smoothing=smoothing)


def advance_progress(progress: Progress) -> Progress:
    last = progress.position + 1 == BATCHES_IN_EPOCH
    return replace(
        progress,
        accumulated=progress.accumulated + 1,
        epoch=progress.epoch + last,
        position=0 if last else progress.position + 1,
    )


def train(state: TrainingState, settings: TrainingSettings, *, n_batches: int) -> list[str]:
    """Train on so many batches with gradient accumulation; return every loss to the last bit."""
    losses = []
    for _ in range(n_batches):
        source, target = batch(state.progress)
        loss = summed_loss(state.model, source, target, smoothing=settings.label_smoothing)
        loss.backward()
        losses.append(loss.item().hex())
        state.sums = replace(state.sums, pending_tokens=state.sums.pending_tokens + target[:, 1:].numel())
        state.progress = advance_progress(state.progress)
        if state.progress.accumulated == settings.gradient_accumulation:
            update(state, settings)
    return losses


def update(state: TrainingState, settings: TrainingSettings) -> None:
    step = state.progress.step + 1
    for _, parameter in state.optimizer.named_parameters():
        if parameter.grad is not None:
            parameter.grad /= state.sums.pending_tokens
    rate = learning_rate(settings, step, d_model=state.model.config.d_model)
    state.optimizer.update(step, learning_rate=rate, grad_clip=settings.grad_clip)
    state.optimizer.zero_grad()
    if state.ema is not None:
        state.ema.update(state.model, step)
    state.sums = replace(state.sums, pending_tokens=0)
    state.progress = replace(state.progress, step=step, accumulated=0)


def digest(tensors: Iterable[Tensor]) -> str:
    """Return a digest that differs if one bit differs."""
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def fingerprint(state: TrainingState) -> dict[str, str]:
    """Return the digest of everything a checkpoint must restore."""
    found = {kind: digest(tensors.values()) for kind, tensors in state.tensors().items()}
    return {**found, **{name: str(getattr(state, name)) for name in ("progress", "loop", "sums", "metrics")}}
