"""What OpenAI's responses have in common: usage, finish reasons, ids."""

import secrets
import time
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel

from sightline.decoding import FinishReason
from sightline.pipelines import GenerationJob
from sightline.serving.body import Body

OpenAIFinishReason = Literal["stop", "length"]


class Usage(BaseModel):
    """Token counts of a request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, jobs: Sequence[GenerationJob | None], *, completion_tokens: int | None = None) -> "Usage":
        """Count the tokens of finished jobs; `completion_tokens` if they were counted while streaming."""
        done = [job for job in jobs if job is not None]
        prompt = sum(len(job.ids) for job in done)
        if completion_tokens is None:
            completion_tokens = sum(len(hypothesis.ids) for job in done for hypothesis in job.search.hypotheses[0])
        return cls(prompt_tokens=prompt, completion_tokens=completion_tokens, total_tokens=prompt + completion_tokens)


class StreamOptions(Body):
    """What a stream sends besides its chunks."""

    include_usage: bool = False


def finish_reason(finish: FinishReason) -> OpenAIFinishReason:
    """Return the finish reason in OpenAI's terms."""
    return "length" if finish == "length" else "stop"


def new_id(kind: str) -> str:
    """Return a random id for a response."""
    return f"{kind}-{secrets.token_hex(12)}"


def now() -> int:
    """Return the Unix time in seconds."""
    return int(time.time())
