"""Warnings about settings that are unlikely to work, given before the run.

Each is a sentence with the numbers and what to do. Nothing is refused here: the user may know better.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sightline.model.config import ModelConfig
from sightline.model.interfaces import CausalLM
from sightline.model.registry import build, interface_of
from sightline.training.schedule import learning_rate
from sightline.training.settings import TrainingSettings

MAX_SCALED_RATE = 0.25
"""Peak learning rate times √d_model. The paper's is 1/√4,000 = 0.016; small models tolerate ten times that."""

MIN_RATE = 1e-6
NO_WARMUP_RATE = 1e-4
"""Peak learning rate below which even deep post-norm models need no warmup."""

DEEP, MIN_WARMUP_STEPS = 6, 100
MIN_EXAMPLES_PER_UPDATE = 4
MAX_EPOCHS = 200
MIN_TOKEN_COUNT, LARGE_VOCABULARY = 10, 1000
"""Mean occurrences of a token, for vocabularies that are not small."""

MAX_PARAMETERS_PER_TOKEN = 50


@dataclass(frozen=True)
class DataFacts:
    """Size of the training set and length of the run."""

    n_examples: int
    n_tokens: int
    """Per epoch, sources and targets."""
    longest: int
    """Tokens of the longest example."""
    batches_per_epoch: int
    total_steps: int | None
    """Updates of the whole run; None if time or patience ends it."""
    vocab_size: int


def recipe_warnings(
    training: TrainingSettings, model_config: ModelConfig, *, facts: DataFacts, device: str = "cpu"
) -> list[str]:
    """Return warnings about these settings for this data; usually none."""
    return [
        *check_limits(training, facts),
        *check_warmup(training, model_config, facts),
        *check_learning_rate(training, model_config),
        *check_validations(training, facts),
        *check_batch_size(training, model_config, facts),
        *check_vocabulary(facts),
        *check_model_size(model_config, facts),
        *check_label_smoothing(training, model_config),
        *check_r_drop(training, model_config),
        *check_machine(training, device),
    ]


def check_limits(training: TrainingSettings, facts: DataFacts) -> Iterator[str]:
    """Warn about a run without a limit, or with too many epochs."""
    ends = (training.max_steps, training.max_epochs, training.max_minutes, training.patience, facts.total_steps)
    if not any(ends):
        yield "this run has no limit: set max_steps, max_epochs, max_minutes or patience, or stop it with Ctrl-C"
    epochs = (facts.total_steps or 0) * training.gradient_accumulation / max(1, facts.batches_per_epoch)
    if epochs > MAX_EPOCHS:
        yield (
            f"{facts.total_steps:,} updates are {epochs:,.0f} epochs over only {facts.n_examples:,} examples: "
            "the model will overfit; use more data, fewer updates, or patience for early stopping"
        )


def check_warmup(training: TrainingSettings, config: ModelConfig, facts: DataFacts) -> Iterator[str]:
    """Warn about a warmup that is too long for the run, or too short for the model."""
    warmup, total = training.warmup_steps, facts.total_steps
    if total is not None and warmup > total / 2:
        yield (
            f"warmup_steps ({warmup:,}) takes up more than half of the run ({total:,} updates): "
            f"set warmup_steps to about a twentieth, {max(1, total // 20):,}, or raise max_steps"
        )
    depth = config.depth
    rate = peak_rate(training, config)
    is_post_norm = not getattr(config, "pre_norm", True)
    if is_post_norm and depth >= DEEP and warmup < MIN_WARMUP_STEPS and rate > NO_WARMUP_RATE:
        yield (
            f"{depth} post-norm layers hardly train with a warmup of only {warmup:,} updates: "
            "set warmup_steps to hundreds or thousands, or pre_norm to true"
        )


def check_learning_rate(training: TrainingSettings, config: ModelConfig) -> Iterator[str]:
    """Warn about a learning rate that is far too high or too low."""
    rate = peak_rate(training, config)
    max_rate = MAX_SCALED_RATE * config.d_model**-0.5
    advice = "raise warmup_steps" if training.schedule == "noam" else f"try {round_down(max_rate / 8):g}"
    if rate > max_rate:
        yield (
            f"the peak learning rate is {rate:.2g}, far too high for d_model {config.d_model:,} "
            f"(above {max_rate:.2g} most runs diverge): {advice}"
        )
    elif rate < MIN_RATE:
        yield f"the peak learning rate is {rate:.2g}: the weights will hardly change; 1e-4 is still a low rate"


def check_validations(training: TrainingSettings, facts: DataFacts) -> Iterator[str]:
    """Warn about validations that never happen, and about patience that can never run out."""
    total, every, patience = facts.total_steps, training.validate_every, training.patience
    if total is None:
        return
    if every > total:
        yield (
            f"validate_every ({every:,}) is longer than the run ({total:,} updates): the model is validated only "
            f"once, at the end; try {max(1, total // 8):,}"
        )
    elif patience is not None and training.best_metric == "last":
        yield "patience can never stop this run early: with best_metric last, every validation counts as an improvement"
    elif patience is not None and (patience + 1) * every >= total:
        yield (
            f"patience ({patience:,}) can never stop this run early: there are only {total // every:,} validations in "
            f"{total:,} updates, and the first is always the best so far; lower patience or validate_every"
        )


def check_batch_size(training: TrainingSettings, config: ModelConfig, facts: DataFacts) -> Iterator[str]:
    """Warn about batches of very few examples."""
    mean_length = min(facts.n_tokens / max(1, facts.n_examples), config.max_length or facts.n_tokens)
    n_examples = training.batch_tokens * training.gradient_accumulation / max(1.0, mean_length)
    if n_examples < MIN_EXAMPLES_PER_UPDATE:
        yield (
            f"an update has only {max(1.0, n_examples):.1f} examples on average, of about {mean_length:,.0f} tokens: "
            f"raise batch_tokens ({training.batch_tokens:,}) or, if memory is short, "
            f"gradient_accumulation ({training.gradient_accumulation:,})"
        )


def check_vocabulary(facts: DataFacts) -> Iterator[str]:
    """Warn about a vocabulary whose tokens are too rare to be learned."""
    mean_count = facts.n_tokens / max(1, facts.vocab_size)
    if mean_count < MIN_TOKEN_COUNT and facts.vocab_size > LARGE_VOCABULARY:
        suggested = max(LARGE_VOCABULARY, facts.n_tokens // (10 * MIN_TOKEN_COUNT) // 100 * 100)
        yield (
            f"a vocabulary of {facts.vocab_size:,} is too large for {facts.n_tokens:,} tokens of data: each occurs "
            f"{mean_count:.1f} times on average; set tokenizer.vocab_size to about {suggested:,}"
        )


def check_model_size(config: ModelConfig, facts: DataFacts) -> Iterator[str]:
    """Warn about a model that is large enough to memorize its data."""
    parameters = count_parameters(config)
    if parameters > MAX_PARAMETERS_PER_TOKEN * max(1, facts.n_tokens):
        yield (
            f"the model has {parameters:,} parameters for {facts.n_tokens:,} tokens of data: it can memorize "
            "them instead of generalizing; make it smaller (d_model, layers), or use more data"
        )


def check_label_smoothing(training: TrainingSettings, config: ModelConfig) -> Iterator[str]:
    """Warn about label smoothing in a language model."""
    if training.label_smoothing and interface_of(config) is CausalLM:
        yield (
            f"label_smoothing ({training.label_smoothing:g}) raises the perplexity of a language model: "
            "it is then not comparable with others; set label_smoothing to 0"
        )


def check_r_drop(training: TrainingSettings, config: ModelConfig) -> Iterator[str]:
    """Warn about R-Drop without dropout."""
    if training.r_drop and not (config.dropout or getattr(config, "attention_dropout", 0)):
        yield (
            f"r_drop ({training.r_drop:g}) runs every batch twice with different dropout, but dropout is 0: it only "
            "takes twice as long; set dropout, or r_drop to 0"
        )


def check_machine(training: TrainingSettings, device: str) -> Iterator[str]:
    """Warn about hardware that this machine lacks."""
    cores = usable_cores()
    if training.threads is not None and training.threads > cores:
        yield (
            f"threads ({training.threads:,}) is more than this machine's cores ({cores:,}) and slows training down: "
            f"set threads to {cores:,}, or leave it out"
        )
    if training.precision == "bfloat16" and not has_bfloat16(device):
        yield "this machine has no bfloat16 hardware, so bfloat16 is slower than float32: set precision to float32"


def peak_rate(training: TrainingSettings, config: ModelConfig) -> float:
    """Return the highest learning rate of any step: that at the end of the warmup."""
    return learning_rate(training, max(1, training.warmup_steps), d_model=config.d_model)


def count_parameters(config: ModelConfig) -> int:
    """Return the number of parameters of a model with this config, without allocating them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())


def round_down(rate: float) -> float:
    """Round to one significant digit."""
    return float(f"{rate:.0e}")


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_bfloat16(device: str) -> bool:
    """Tell whether a type of device has bfloat16 hardware; of Apple's GPUs torch does not say."""
    if device == "mps":
        return True
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch cannot tell
        return True
    capabilities = torch.cpu.get_capabilities()
    return any(bool(capabilities.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))
