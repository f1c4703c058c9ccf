"""Training settings: the hyperparameters of every run, section [training] of a recipe."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.config import Checks

OptimizerName = Literal["adam", "adamw", "muon"]
ScheduleName = Literal["noam", "inverse_square_root", "cosine", "linear", "constant"]
SCHEDULES_WITH_END: tuple[ScheduleName, ...] = ("cosine", "linear")
"""Schedules that reach their minimum with the last update, so that the length of the run must be known."""
OnNonFinite = Literal["skip", "stop"]
Precision = Literal["auto", "float32", "bfloat16"]
BestMetric = Literal["score", "loss", "last"]

MAX_SEED = 2**63 - 1
MAX_STEPS = 1_000_000_000


@dataclass(frozen=True)
class TrainingSettings:
    """One definition for every task; the defaults are those of Vaswani et al. 2017 (section 5)."""

    optimizer: OptimizerName = field(
        default="adam",
        metadata={
            "help": "optimizer: adam (the paper's), adamw (with weight decay), muon (adamw for all but hidden matrices)"
        },
    )
    schedule: ScheduleName = field(
        default="noam",
        metadata={
            "help": "learning rate schedule after the warmup; noam, the paper's, depends on d_model and warmup_steps"
        },
    )
    learning_rate: float | None = field(
        default=None, metadata={"help": "peak learning rate; leave it out with schedule noam, which has none"}
    )
    min_lr_ratio: float = field(
        default=0.0,
        metadata={"help": "minimum learning rate at the end of cosine and linear, as a share of learning_rate"},
    )
    warmup_steps: int = field(
        default=4000, metadata={"help": "warmup: updates in which the learning rate rises from zero"}
    )
    betas: tuple[float, ...] = field(
        default=(0.9, 0.98),
        metadata={"help": "Adam betas: decay rates of the running means of the gradient and its square"},
    )
    adam_eps: float = field(default=1e-9, metadata={"help": "Adam epsilon: added to the denominator"})
    momentum: float = field(
        default=0.95, metadata={"help": "Muon momentum: decay rate of the running mean of the gradient"}
    )
    weight_decay: float = field(
        default=0.0, metadata={"help": "weight decay of matrices per update, times the learning rate; not with adam"}
    )
    label_smoothing: float = field(
        default=0.1,
        metadata={
            "help": "label smoothing: probability spread over the vocabulary instead of given to the target token"
        },
    )
    r_drop: float = field(
        default=0.0,
        metadata={
            "help": "R-Drop weight: run each batch twice with different dropout and penalize the KL divergence; 0: off"
        },
    )
    batch_tokens: int = field(default=4096, metadata={"help": "batch size: maximum tokens per batch, padding included"})
    bucket_window: int = field(
        default=65_536,
        metadata={
            "help": "length bucketing: examples sorted by length at once; fewer: more mixed batches; more: less padding"
        },
    )
    gradient_accumulation: int = field(default=1, metadata={"help": "gradient accumulation: batches per update"})
    grad_clip: float = field(default=0.0, metadata={"help": "gradient clipping: maximum norm of the gradient; 0: off"})
    ema_decay: float = field(
        default=0.0, metadata={"help": "decay of the exponential moving average of the weights; 0: off"}
    )
    on_non_finite: OnNonFinite = field(
        default="skip",
        metadata={"help": "what to do if a gradient holds NaN or infinity: skip the update or stop the run"},
    )
    max_steps: int | None = field(default=None, metadata={"help": "maximum number of updates"})
    max_epochs: float | None = field(default=None, metadata={"help": "maximum number of epochs"})
    max_minutes: float | None = field(
        default=None,
        metadata={
            "help": "training time in minutes, including the time before a resume; decides the number of updates, and "
            "schedules with an end are fitted to it"
        },
    )
    validate_every: int = field(default=1000, metadata={"help": "updates between validations"})
    checkpoint_every: int = field(default=1000, metadata={"help": "updates between checkpoints"})
    log_every: int = field(default=50, metadata={"help": "updates between log lines"})
    patience: int | None = field(
        default=None,
        metadata={"help": "early stopping: validations without improvement before the run stops; none: off"},
    )
    keep_checkpoints: int = field(
        default=3, metadata={"help": "number of latest checkpoints to keep, besides the best one"}
    )
    snapshots: bool = field(
        default=False,
        metadata={"help": "save snapshots of the weights at steps 1, 2, 4, 8, …, to show how attention forms"},
    )
    best_metric: BestMetric = field(
        default="score",
        metadata={
            "help": "metric that selects the best model: score (BLEU, accuracy), validation loss, or last (the newest)"
        },
    )
    precision: Precision = field(
        default="auto",
        metadata={
            "help": "precision of matrix products; auto: each shape in the way that is fastest on this CPU, measured "
            "before the run, 16 bits among them; float32: as torch does by itself; bfloat16: nearly everything in 16 "
            "bits (autocast), for GPUs"
        },
    )
    compile: bool = field(
        default=False,
        metadata={"help": "compile the layers with torch.compile: faster, but the first steps take minutes"},
    )
    seed: int = field(
        default=1, metadata={"help": "random seed; the same seed on the same machine gives the same model"}
    )
    threads: int | None = field(
        default=None, metadata={"help": "number of CPU threads; none: all cores this process may use"}
    )

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        self._check_rates(checks)
        self._check_limits(checks)
        self._check_combinations(checks)
        checks.done()

    def _check_rates(self, checks: Checks) -> None:
        if self.learning_rate is not None:
            checks.between(1e-12, 10, learning_rate=self.learning_rate)
        checks.between(0, 1, min_lr_ratio=self.min_lr_ratio)
        checks.that(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas must be two numbers from 0 to below 1, not {self.betas}",
        )
        checks.between(1e-20, 1, adam_eps=self.adam_eps)
        checks.between(0, 0.9999, momentum=self.momentum)
        checks.between(0, 10, weight_decay=self.weight_decay)
        checks.between(0, 0.99, label_smoothing=self.label_smoothing)
        checks.between(0, 1e6, grad_clip=self.grad_clip)
        checks.between(0, 1000, r_drop=self.r_drop)
        checks.that(0 <= self.ema_decay < 1, f"ema_decay must be 0 or more, below 1, not {self.ema_decay}")

    def _check_limits(self, checks: Checks) -> None:
        checks.between(0, MAX_STEPS, warmup_steps=self.warmup_steps)
        checks.between(1, 1 << 30, batch_tokens=self.batch_tokens)
        checks.between(1, 1 << 40, bucket_window=self.bucket_window)
        checks.between(1, 100_000, gradient_accumulation=self.gradient_accumulation)
        intervals = {name: getattr(self, name) for name in ("validate_every", "checkpoint_every", "log_every")}
        checks.between(1, MAX_STEPS, **intervals)
        limits = {"max_steps": self.max_steps, "max_epochs": self.max_epochs, "max_minutes": self.max_minutes}
        for name, limit in limits.items():
            checks.that(
                limit is None or 0 < limit <= MAX_STEPS,
                f"{name} must be above 0 and at most {MAX_STEPS:,}, not {limit}",
            )
        checks.that(self.patience is None or self.patience >= 1, f"patience must be 1 or more, not {self.patience}")
        checks.between(1, 10_000, keep_checkpoints=self.keep_checkpoints)
        checks.between(0, MAX_SEED, seed=self.seed)
        checks.that(
            self.threads is None or 1 <= self.threads <= 1024,
            f"threads must be between 1 and 1,024, not {self.threads}",
        )

    def _check_combinations(self, checks: Checks) -> None:
        noam = self.schedule == "noam"
        checks.that(
            not noam or self.learning_rate is None,
            "schedule noam computes the learning rate from d_model and warmup_steps: "
            "leave learning_rate out, or use schedule inverse_square_root",
        )
        checks.that(not noam or self.warmup_steps >= 1, "schedule noam needs warmup_steps of 1 or more, not 0")
        checks.that(noam or self.learning_rate is not None, f"schedule {self.schedule} needs a learning_rate")
        has_end = self.schedule in SCHEDULES_WITH_END
        checks.that(
            not has_end or any((self.max_steps, self.max_epochs, self.max_minutes)),
            f"schedule {self.schedule} needs to know the length of the run: set max_steps, max_epochs or max_minutes",
        )
        checks.that(
            not has_end or self.max_steps is None or self.warmup_steps < self.max_steps,
            f"warmup_steps ({self.warmup_steps}) must be fewer than max_steps ({self.max_steps}): "
            "the learning rate would still be rising when the run ends",
        )
        checks.that(
            has_end or self.min_lr_ratio == 0,
            f"min_lr_ratio applies to cosine and linear only, not to schedule {self.schedule}",
        )
        checks.that(
            self.optimizer != "adam" or self.weight_decay == 0,
            "adam does not support weight_decay: use optimizer adamw",
        )
