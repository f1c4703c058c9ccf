"""Warnings for settings that cannot work, or hardly will: said before the run, not found out after it.

Each is a sentence with the numbers and what to do. Nothing is refused here: a person may know better.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sightline.model.config import BlockConfig
from sightline.model.gpt import GPTConfig
from sightline.model.registry import build
from sightline.model.transformer import TransformerConfig
from sightline.training.schedule import learning_rate
from sightline.training.settings import TrainingSettings

HIGHEST_RATE = 0.25
"""Peak learning rate times √d_model. The paper's is 1/√4,000 = 0.016; small models live with ten times that."""

LOWEST_RATE = 1e-6
GENTLE_RATE = 1e-4
"""Peak learning rate below which even deep post-norm models need no warm-up."""

DEEP, SHORT_WARM_UP = 6, 100
FEW_EXAMPLES = 4
MOST_PASSES = 200
SELDOM, LARGE_VOCABULARY = 10, 1000
"""Times that a token should be seen on average; vocabularies that are small anyhow need not care."""

FAR_MORE_PARAMETERS = 50
"""Parameters for each token of the data."""


@dataclass(frozen=True)
class DataFacts:
    """What a run will read, and how long it will be."""

    n_examples: int
    n_tokens: int
    """Of one pass, read and written."""
    longest: int
    """Tokens of the longest example."""
    batches_per_epoch: int
    total_steps: int | None
    """Updates of the whole run; None where time or patience ends it."""
    vocab_size: int


def advice(training: TrainingSettings, model_config: BlockConfig, *, facts: DataFacts) -> list[str]:
    """Return what should be said about these settings for this data: nothing, as a rule."""
    return [
        *about_the_end(training, facts),
        *about_warm_up(training, model_config, facts),
        *about_the_rate(training, model_config),
        *about_validations(training, facts),
        *about_batches(training, model_config, facts),
        *about_the_vocabulary(facts),
        *about_the_size(model_config, facts),
        *about_smoothing(training, model_config),
        *about_agreement(training, model_config),
        *about_the_machine(training),
    ]


def about_the_end(training: TrainingSettings, facts: DataFacts) -> Iterator[str]:
    """Warn of a run that has no end, or reads the same data for ever."""
    ends = (training.max_steps, training.max_epochs, training.max_minutes, training.patience, facts.total_steps)
    if not any(ends):
        yield "nothing ends this run: set max_steps, max_epochs, max_minutes or patience, or stop it with Ctrl-C"
    passes = (facts.total_steps or 0) * training.accumulate / max(1, facts.batches_per_epoch)
    if passes > MOST_PASSES:
        yield (
            f"{facts.total_steps:,} updates are {passes:,.0f} passes over the same {facts.n_examples:,} examples: "
            "the model will know them by heart; use more data, fewer updates, or patience to stop in time"
        )


def about_warm_up(training: TrainingSettings, config: BlockConfig, facts: DataFacts) -> Iterator[str]:
    """Warn of a learning rate that rises for too long, or too abruptly for the model."""
    warmup, total = training.warmup_steps, facts.total_steps
    if total is not None and warmup > total / 2:
        yield (
            f"warmup_steps ({warmup:,}) takes up more than half of the run ({total:,} updates): "
            f"set warmup_steps to about a twentieth, {max(1, total // 20):,}, or raise max_steps"
        )
    depth = deepest_stack(config)
    rate = peak_rate(training, config)
    if config.norm_order == "post" and depth >= DEEP and warmup < SHORT_WARM_UP and rate > GENTLE_RATE:
        yield (
            f"{depth} layers with norm_order post hardly learn with a warm-up of only {warmup:,} updates: "
            "set warmup_steps to some hundreds or thousands, or norm_order to pre"
        )


def about_the_rate(training: TrainingSettings, config: BlockConfig) -> Iterator[str]:
    """Warn of steps that are far too large or too small."""
    rate = peak_rate(training, config)
    highest = HIGHEST_RATE * config.d_model**-0.5
    raised = "raise warmup_steps" if training.schedule == "paper" else f"try {round_down(highest / 8):g}"
    if rate > highest:
        yield (
            f"the learning rate rises to {rate:.2g}, far too high for a model {config.d_model:,} wide "
            f"(above {highest:.2g} few survive): {raised}"
        )
    elif rate < LOWEST_RATE:
        yield f"the learning rate never gets above {rate:.2g}: the weights will hardly move; 1e-4 is still careful"


def about_validations(training: TrainingSettings, facts: DataFacts) -> Iterator[str]:
    """Warn of validations that do not happen, and of patience that nothing can exhaust."""
    total, every, patience = facts.total_steps, training.validate_every, training.patience
    if total is None:
        return
    if every > total:
        yield (
            f"validate_every ({every:,}) is beyond the end of the run ({total:,} updates): the model is validated only "
            f"once, at the end; {max(1, total // 8):,} would show how it gets on"
        )
    elif patience is not None and (patience + 1) * every >= total:
        yield (
            f"patience ({patience:,}) can never end this run early: there are {total // every:,} validations in "
            f"{total:,} updates, and the first is always the best so far; lower patience or validate_every"
        )


def about_batches(training: TrainingSettings, config: BlockConfig, facts: DataFacts) -> Iterator[str]:
    """Warn of updates that see next to nothing of the data."""
    usual = min(facts.n_tokens / max(1, facts.n_examples), config.max_length or facts.n_tokens)
    seen = training.batch_tokens * training.accumulate / max(1.0, usual)
    if seen < FEW_EXAMPLES:
        yield (
            f"an update sees only {max(1.0, seen):.1f} examples on average, of about {usual:,.0f} tokens each: raise "
            f"batch_tokens ({training.batch_tokens:,}) or, where memory is short, accumulate ({training.accumulate:,})"
        )


def about_the_vocabulary(facts: DataFacts) -> Iterator[str]:
    """Warn of tokens that are too rare to be learned."""
    seen = facts.n_tokens / max(1, facts.vocab_size)
    if seen < SELDOM and facts.vocab_size > LARGE_VOCABULARY:
        fewer = max(LARGE_VOCABULARY, facts.n_tokens // (10 * SELDOM) // 100 * 100)
        yield (
            f"a vocabulary of {facts.vocab_size:,} is too large for {facts.n_tokens:,} tokens of data: each is seen "
            f"{seen:.1f} times on average; set tokenizer.vocab_size to about {fewer:,}"
        )


def about_the_size(config: BlockConfig, facts: DataFacts) -> Iterator[str]:
    """Warn of a model that could learn its data by heart."""
    parameters = count_parameters(config)
    if parameters > FAR_MORE_PARAMETERS * max(1, facts.n_tokens):
        yield (
            f"the model has {parameters:,} parameters for {facts.n_tokens:,} tokens of data: it can learn them by "
            "heart instead of what they have in common; make it smaller (d_model, layers), or use more data"
        )


def about_smoothing(training: TrainingSettings, config: BlockConfig) -> Iterator[str]:
    """Warn of a language model that is taught to be unsure."""
    if training.label_smoothing and isinstance(config, GPTConfig):
        yield (
            f"label_smoothing ({training.label_smoothing:g}) makes a language model unsure on purpose: its perplexity "
            "is then not comparable with others'; set label_smoothing to 0"
        )


def about_agreement(training: TrainingSettings, config: BlockConfig) -> Iterator[str]:
    """Warn of two readings that are the same."""
    if training.agreement and not (config.dropout or config.attention_dropout):
        yield (
            f"agreement ({training.agreement:g}) reads everything twice with other dropout, and there is none: it only "
            "takes twice as long; set dropout, or agreement to 0"
        )


def about_the_machine(training: TrainingSettings) -> Iterator[str]:
    """Warn of what this machine has not."""
    cores = usable_cores()
    if training.threads is not None and training.threads > cores:
        yield (
            f"threads ({training.threads:,}) are more than this machine's cores ({cores:,}): they would wait for one "
            f"another; set threads to {cores:,}, or leave it out"
        )
    if training.precision == "bfloat16" and not has_bfloat16():
        yield "this machine has no hardware for bfloat16: it is slower here than float32; set precision to float32"


def peak_rate(training: TrainingSettings, config: BlockConfig) -> float:
    """Return the highest learning rate of any step: that at the end of the warm-up."""
    return learning_rate(training, max(1, training.warmup_steps), d_model=config.d_model)


def deepest_stack(config: BlockConfig) -> int:
    """Return the layers of the deeper stack."""
    if isinstance(config, TransformerConfig):
        return max(config.n_encoder_layers, config.n_decoder_layers)
    return int(getattr(config, "n_layers", 0))


def count_parameters(config: BlockConfig) -> int:
    """Return how many parameters a model of this config has, without memory for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(config).parameters())


def round_down(rate: float) -> float:
    """Return one significant digit."""
    return float(f"{rate:.0e}")


def usable_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def has_bfloat16() -> bool:
    """Tell whether a graphics card, or else the processor, multiplies bfloat16 itself."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch cannot tell
        return True
    able = torch.cpu.get_capabilities()
    return any(bool(able.get(name)) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))
