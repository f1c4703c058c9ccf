"""How much of everything one client may ask for: one table, from which errors and command-line options are made."""

import dataclasses
from typing import Any

from sightline.serving.problem import Problem
from sightline.settings import Checks


def limit(default: int | float, flag: str, help: str, *, lowest: int | float = 1) -> Any:  # noqa: A002 - as in settings
    """Define one limit: its default, the option that changes it, and what it is for."""
    return dataclasses.field(default=default, metadata={"flag": flag, "help": help, "lowest": lowest})


@dataclasses.dataclass(frozen=True)
class Limits:
    """Every limit of the server. Where `lowest` is 0, 0 means "no limit of its own"."""

    body_bytes: int = limit(1 << 20, "--max-body-bytes", "largest body of a request, in bytes")
    header_bytes: int = limit(
        16 << 10, "--max-header-bytes", "largest head of a request (address and headers), in bytes"
    )
    header_fields: int = limit(64, "--max-header-fields", "most header fields of a request")
    prompt_tokens: int = limit(
        0, "--max-prompt-tokens", "most tokens of a prompt; 0: as many as the model takes", lowest=0
    )
    new_tokens: int = limit(2048, "--max-new-tokens", "most tokens one request may have written")
    choices: int = limit(4, "--max-choices", "most answers to one prompt (n)")
    stop_sequences: int = limit(8, "--max-stop-sequences", "most stop sequences of a request")
    batch: int = limit(64, "--max-batch", "most texts in one request")
    beams: int = limit(16, "--max-beams", "widest beam a request may ask for")
    queue: int = limit(64, "--max-queue", "most requests that may wait for the model")
    rows: int = limit(64, "--max-rows", "most texts the models write at once (each beam counts)")
    connections: int = limit(1024, "--max-connections", "most clients connected at once")
    requests_per_minute: int = limit(
        0, "--max-requests-per-minute", "requests a minute for each key or address; 0: any", lowest=0
    )
    tokens_per_minute: int = limit(
        0, "--max-tokens-per-minute", "tokens a minute for each key or address; 0: any", lowest=0
    )
    request_seconds: int | float = limit(120.0, "--request-seconds", "longest time for one request", lowest=0.01)
    header_seconds: int | float = limit(
        10.0, "--header-seconds", "longest time to send the head of a request", lowest=0.01
    )
    body_seconds: int | float = limit(30.0, "--body-seconds", "longest time to send the body of a request", lowest=0.01)
    write_seconds: int | float = limit(
        30.0, "--write-seconds", "longest time to take what was written so far", lowest=0.01
    )
    keep_alive_seconds: int | float = limit(
        5.0, "--keep-alive-seconds", "how long an idle connection stays open", lowest=0.01
    )
    stop_seconds: int | float = limit(
        30.0, "--stop-seconds", "how long requests may go on when the server is stopped", lowest=0
    )

    def __post_init__(self) -> None:
        checks = Checks()
        for field in dataclasses.fields(self):
            value, lowest = getattr(self, field.name), field.metadata["lowest"]
            checks.that(
                not isinstance(value, bool) and isinstance(value, int | float) and lowest <= value < 1 << 40,
                f"{field.metadata['flag']} must be at least {lowest:,}",
            )
        checks.done()

    def flag(self, name: str) -> str:
        """Return the command-line option that changes a limit."""
        field = next(field for field in dataclasses.fields(self) if field.name == name)
        return str(field.metadata["flag"])

    def exceeded(self, name: str, given: int, *, param: str, most: int | None = None) -> Problem:
        """Return the refusal of more than a limit allows: both numbers, and the option that raises it."""
        allowed = getattr(self, name) if most is None else most
        return Problem(
            400,
            f"{param}: {given:,} is more than the {allowed:,} this server allows ({self.flag(name)} raises it)",
            param=param,
            code=f"{name}_exceeded",
        )

    def check(self, name: str, given: int, *, param: str) -> None:
        """Refuse more than a limit allows."""
        if given > getattr(self, name):
            raise self.exceeded(name, given, param=param)


def overloaded(limits: Limits, *, retry_after: int = 1) -> Problem:
    """Return the answer to a request for which there is no room in the queue."""
    return Problem(
        503,
        f"{limits.queue:,} requests are waiting already: try again later ({limits.flag('queue')} lets more wait)",
        code="overloaded",
        retry_after=retry_after,
    )
