"""Error responses: one exception and one JSON body for everything that can go wrong.

The body is OpenAI's: `{"error": {"message", "type", "param", "code"}}`. It never repeats what the client sent: that
could be anything, and the response must always be valid JSON.
"""

import json
import re

from sightline.errors import RefusedError

UNKNOWN_NAME = re.compile(r"""\b(unknown [a-z ]+?) (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""An unknown name, as `unknown_name` quotes it."""
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
    """A refused request, with the status and the message for the client.

    May be raised anywhere below the server; `retry_after` is in seconds.
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
        """Return the JSON for the client, in ASCII, which can always be encoded."""
        entries = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": entries}).encode("ascii")

    def all_headers(self) -> dict[str, str]:
        """Return the headers, without those every response has."""
        retry = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**self.headers, **retry}


def refusal(error: RefusedError) -> Problem:
    """Return the package's own error message as a problem, without unknown names that the client sent."""
    return Problem(400, without_names(str(error)), param=getattr(error, "option", None), code=error.code)


def without_names(message: str) -> str:
    """Return a message without the unknown names that it repeats."""
    return UNKNOWN_NAME.sub(r"\1", message)


def plain_name(name: object) -> str | None:
    """Return a name from a client if it is a plain word that is safe to repeat, else None."""
    text = str(name)
    return text if PLAIN_NAME.fullmatch(text) else None
