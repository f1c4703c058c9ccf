"""How to train: the knobs of every run, the section [training] of a recipe."""

from dataclasses import dataclass, field
from typing import Literal

from sightline.settings import Checks

OptimizerName = Literal["adam", "adamw", "muon"]
ScheduleName = Literal["paper", "inverse_square_root", "cosine", "linear", "constant"]
OnNonFinite = Literal["skip", "stop"]
Precision = Literal["float32", "bfloat16"]
BestBy = Literal["score", "loss", "last"]

MAX_SEED = 2**63 - 1
MOST_STEPS = 1_000_000_000


@dataclass(frozen=True)
class TrainingSettings:
    """One definition for every task; the defaults are the paper's (section 5)."""

    optimizer: OptimizerName = field(
        default="adam",
        metadata={"help": "adam: the paper's; adamw: with weight decay; muon: for hidden matrices, adamw for the rest"},
    )
    schedule: ScheduleName = field(
        default="paper",
        metadata={
            "help": "how the learning rate goes on after its warm-up; the paper's is made from the model's width"
        },
    )
    learning_rate: float | None = field(
        default=None, metadata={"help": "the highest learning rate; left out with the paper's schedule, which has none"}
    )
    final_learning_rate: float = field(
        default=0.0, metadata={"help": "where cosine and linear end, as a share of learning_rate"}
    )
    warmup_steps: int = field(default=4000, metadata={"help": "updates in which the learning rate rises from zero"})
    betas: tuple[float, ...] = field(
        default=(0.9, 0.98), metadata={"help": "how much of the gradient's and its square's running mean Adam keeps"}
    )
    epsilon: float = field(default=1e-9, metadata={"help": "what Adam adds before it divides"})
    momentum: float = field(default=0.95, metadata={"help": "how much of the gradient's running mean Muon keeps"})
    weight_decay: float = field(
        default=0.0, metadata={"help": "how much matrices shrink an update, times the learning rate; not with adam"}
    )
    label_smoothing: float = field(
        default=0.1, metadata={"help": "probability shared among all words instead of given to the right one"}
    )
    agreement: float = field(
        default=0.0,
        metadata={
            "help": "read each batch twice, with other dropout, and count this much that both answers agree (R-Drop)"
        },
    )
    batch_tokens: int = field(default=4096, metadata={"help": "tokens in a batch at most, padding counted"})
    window: int = field(
        default=65_536,
        metadata={"help": "examples sorted by length at once; fewer: batches are more mixed; more: less padding"},
    )
    accumulate: int = field(default=1, metadata={"help": "batches whose gradients are summed for one update"})
    clip_norm: float = field(
        default=0.0, metadata={"help": "longest gradient; a longer one is shortened to this; 0 for no limit"}
    )
    average_decay: float = field(
        default=0.0, metadata={"help": "how much a running average of the weights keeps an update; 0 for none"}
    )
    on_non_finite: OnNonFinite = field(
        default="skip", metadata={"help": "what NaN or infinity in a gradient does: skip that update, or stop the run"}
    )
    max_steps: int | None = field(default=None, metadata={"help": "updates at most"})
    max_epochs: float | None = field(default=None, metadata={"help": "passes over the data at most"})
    max_minutes: float | None = field(default=None, metadata={"help": "minutes at most, those before a resume counted"})
    validate_every: int = field(default=1000, metadata={"help": "updates between validations"})
    checkpoint_every: int = field(default=1000, metadata={"help": "updates between checkpoints"})
    log_every: int = field(default=50, metadata={"help": "updates between lines of the log"})
    patience: int | None = field(
        default=None, metadata={"help": "validations without a better score before the run ends; none: it goes on"}
    )
    keep_last: int = field(default=3, metadata={"help": "newest checkpoints that are kept, beside the best one"})
    snapshots: bool = field(
        default=False, metadata={"help": "keep the weights of steps 1, 2, 4, 8, …: they show how attention forms"}
    )
    best_by: BestBy = field(
        default="score",
        metadata={
            "help": "what makes a model the best so far: its score (BLEU, accuracy), its loss, or that it is the last"
        },
    )
    precision: Precision = field(
        default="float32", metadata={"help": "bfloat16 computes faster where the hardware has it, and slower elsewhere"}
    )
    compile: bool = field(
        default=False, metadata={"help": "let torch.compile make the layers faster; the first steps take minutes"}
    )
    seed: int = field(default=1, metadata={"help": "the same seed on the same machine gives the same model"})
    threads: int | None = field(default=None, metadata={"help": "threads that compute; none: as many as there are"})

    def __post_init__(self) -> None:
        checks = Checks()
        checks.types_of(self)
        self._check_rates(checks)
        self._check_amounts(checks)
        self._check_combinations(checks)
        checks.done()

    def _check_rates(self, checks: Checks) -> None:
        if self.learning_rate is not None:
            checks.between(1e-12, 10, learning_rate=self.learning_rate)
        checks.between(0, 1, final_learning_rate=self.final_learning_rate)
        checks.that(
            len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas),
            f"betas must be two numbers from 0 to below 1, not {self.betas}",
        )
        checks.between(1e-20, 1, epsilon=self.epsilon)
        checks.between(0, 0.9999, momentum=self.momentum)
        checks.between(0, 10, weight_decay=self.weight_decay)
        checks.between(0, 0.99, label_smoothing=self.label_smoothing)
        checks.between(0, 1e6, clip_norm=self.clip_norm)
        checks.between(0, 1000, agreement=self.agreement)
        checks.that(0 <= self.average_decay < 1, f"average_decay must be 0 or more, below 1, not {self.average_decay}")

    def _check_amounts(self, checks: Checks) -> None:
        checks.between(0, MOST_STEPS, warmup_steps=self.warmup_steps)
        checks.between(1, 1 << 30, batch_tokens=self.batch_tokens)
        checks.between(1, 1 << 40, window=self.window)
        checks.between(1, 100_000, accumulate=self.accumulate)
        intervals = {name: getattr(self, name) for name in ("validate_every", "checkpoint_every", "log_every")}
        checks.between(1, MOST_STEPS, **intervals)
        limits = {"max_steps": self.max_steps, "max_epochs": self.max_epochs, "max_minutes": self.max_minutes}
        for name, limit in limits.items():
            checks.that(
                limit is None or 0 < limit <= MOST_STEPS,
                f"{name} must be above 0 and at most {MOST_STEPS:,}, not {limit}",
            )
        checks.that(self.patience is None or self.patience >= 1, f"patience must be 1 or more, not {self.patience}")
        checks.between(1, 10_000, keep_last=self.keep_last)
        checks.between(0, MAX_SEED, seed=self.seed)
        checks.that(
            self.threads is None or 1 <= self.threads <= 1024,
            f"threads must be between 1 and 1,024, not {self.threads}",
        )

    def _check_combinations(self, checks: Checks) -> None:
        paper = self.schedule == "paper"
        checks.that(
            not paper or self.learning_rate is None,
            "the paper's schedule makes the learning rate from the model's width and warmup_steps: "
            "leave learning_rate out, or choose the schedule inverse_square_root",
        )
        checks.that(not paper or self.warmup_steps >= 1, "the paper's schedule needs warmup_steps of 1 or more, not 0")
        checks.that(paper or self.learning_rate is not None, f"the schedule {self.schedule} needs a learning_rate")
        ends = self.schedule in ("cosine", "linear")
        checks.that(
            not ends or self.max_steps is not None or self.max_epochs is not None,
            f"the schedule {self.schedule} ends with the run: say how many max_steps or max_epochs it has",
        )
        checks.that(
            not ends or self.max_steps is None or self.warmup_steps < self.max_steps,
            f"warmup_steps ({self.warmup_steps}) must be fewer than max_steps ({self.max_steps}): "
            "the learning rate would still rise when the run ends",
        )
        checks.that(
            ends or self.final_learning_rate == 0,
            f"final_learning_rate is where cosine and linear end; the schedule {self.schedule} does not",
        )
        checks.that(
            self.optimizer != "adam" or self.weight_decay == 0,
            "adam would mix weight_decay into its running means: choose the optimizer adamw for it",
        )
