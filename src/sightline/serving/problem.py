"""What a client is told when something is wrong: one exception, one JSON body, whatever went wrong and wherever.

The body is the one that OpenAI's clients understand: `{"error": {"message", "type", "param", "code"}}`. It never
repeats what the client sent: that could be anything, and the answer must always be valid JSON.
"""

import json
import re

from sightline.errors import RefusedError

MADE_UP = re.compile(r"""\b(unknown [a-z ]+?) (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""A name nobody knows, as `unknown_name` quotes it."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,39}")

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Problem(Exception):  # noqa: N818 - not an error of ours
    """A request that is not fulfilled, with the status and the sentence for the client.

    Raise it anywhere below the server; `retry_after` is in seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 - the word of the format
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or TYPES.get(status, "invalid_request_error")
        self.param = param
        self.code = code
        self.retry_after = retry_after
        self.headers = headers or {}

    def body(self) -> bytes:
        """Return the JSON for the client, in ASCII: nothing in it can fail to be encoded."""
        entries = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": entries}).encode("ascii")

    def all_headers(self) -> dict[str, str]:
        """Return what goes before the body, apart from what every answer has."""
        retry = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**self.headers, **retry}


def refusal(error: RefusedError) -> Problem:
    """Return the sentence that the package has for people, without a name that the client has made up."""
    return Problem(400, MADE_UP.sub(r"\1", str(error)), code="refused")


def plain(name: object) -> str | None:
    """Return a name a client gave if it is an ordinary word that can be repeated, else None."""
    text = str(name)
    return text if PLAIN_NAME.fullmatch(text) else None
