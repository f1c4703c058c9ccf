"""Learning rate schedules: pure functions of the step, which counts from 1.

A resumed run needs nothing but its step. In a run of a given time, steps of the schedule are not whole (`time_budget`).
"""

import math

from sightline.training.settings import TrainingSettings


def learning_rate(settings: TrainingSettings, step: float | int, *, d_model: int) -> float:
    """Return the learning rate at a step of the schedule."""
    peak, warmup = settings.learning_rate or 0.0, settings.warmup_steps
    end, floor = settings.max_steps or 0, settings.min_lr_ratio
    if settings.schedule == "noam":
        return noam(step, d_model=d_model, warmup=warmup)
    if settings.schedule == "inverse_square_root":
        return inverse_square_root(step, peak=peak, warmup=warmup)
    if settings.schedule == "cosine":
        return cosine(step, peak=peak, warmup=warmup, end=end, floor=floor)
    if settings.schedule == "linear":
        return linear(step, peak=peak, warmup=warmup, end=end, floor=floor)
    return constant(step, peak=peak, warmup=warmup)


def noam(step: float | int, *, d_model: int, warmup: int) -> float:
    """Return d^−0.5 · min(step^−0.5, step · warmup^−1.5) (Vaswani et al. 2017, 5.3)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))


def inverse_square_root(step: float | int, *, peak: float, warmup: int) -> float:
    """Rise to the peak, then fall with the square root of the step: the shape of noam with any peak."""
    return peak * min(warmup_fraction(step, warmup), math.sqrt(max(warmup, 1) / step))


def cosine(step: float | int, *, peak: float, warmup: int, end: int, floor: float = 0.0) -> float:
    """Rise to the peak, then fall to `floor` times the peak along half a cosine."""
    remaining = (1 + math.cos(math.pi * decay_fraction(step, warmup, end))) / 2
    return peak * warmup_fraction(step, warmup) * (floor + (1 - floor) * remaining)


def linear(step: float | int, *, peak: float, warmup: int, end: int, floor: float = 0.0) -> float:
    """Rise to the peak, then fall to `floor` times the peak along a line."""
    return peak * warmup_fraction(step, warmup) * (floor + (1 - floor) * (1 - decay_fraction(step, warmup, end)))


def constant(step: float | int, *, peak: float, warmup: int) -> float:
    """Rise to the peak and stay there."""
    return peak * warmup_fraction(step, warmup)


def warmup_fraction(step: float | int, warmup: int) -> float:
    """Return how much of the warmup is done, from 0 to 1."""
    return min(1.0, step / warmup) if warmup else 1.0


def decay_fraction(step: float | int, warmup: int, end: int) -> float:
    """Return how much of the decay after the warmup is done, from 0 to 1."""
    return min(1.0, max(0.0, (step - warmup) / (end - warmup)))
