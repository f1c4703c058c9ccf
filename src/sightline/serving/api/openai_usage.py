"""What OpenAI's answers have in common."""

import secrets
import time
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from sightline.decoding import Finish
from sightline.pipelines import Task
from sightline.serving.body import Body

FinishReason = Literal["stop", "length"]


class Usage(BaseModel):
    """Tokens that were read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, tasks: Sequence[Task | None], *, written: int | None = None) -> "Usage":
        """Count the tokens of tasks that are done; `written` where they were counted on the way."""
        done = [task for task in tasks if task is not None]
        read = sum(len(task.ids) for task in done)
        if written is None:
            written = sum(len(hypothesis.ids) for task in done for hypothesis in task.search.hypotheses[0])
        return cls(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


class StreamOptions(Body):
    """What a stream has besides its pieces."""

    include_usage: bool = False


def finish_reason(finish: Finish) -> FinishReason:
    """Return why a text ended, in OpenAI's words."""
    return "length" if finish == "length" else "stop"


def new_id(kind: str) -> str:
    """Return a name for an answer."""
    return f"{kind}-{secrets.token_hex(12)}"


def now() -> int:
    """Return the time in seconds."""
    return int(time.time())
