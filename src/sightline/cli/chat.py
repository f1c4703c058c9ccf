"""`sightline chat`: chat in the terminal, or one reply per line of stdin."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from sightline.cli.options import SAMPLING, AsJson, EngineName, ModelFolder, open_pipeline, with_decoding
from sightline.cli.texts import add_location, put, put_json, put_line, read_blocks
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.pipelines import Chat

PROMPT, QUIT, RESET = "> ", "/quit", "/reset"
WELCOME = "Type a message. /reset clears the history, /quit (or Ctrl-D) ends.\n"


@with_decoding(*SAMPLING, after="model")
def chat(model: ModelFolder, as_json: AsJson = False, engine: EngineName = "torch", **decoding: object) -> None:
    """Chat with a model that keeps the history of the conversation.

    On a terminal, it prompts for messages; the arrow keys recall earlier ones. From a pipe or a file, each line gets
    one line of reply, in one conversation. /reset clears the history, /quit ends.

    \b
    Examples:
      sightline chat runs/chat
      printf 'Hi\\nHow are you?\\n' | sightline chat runs/chat
      sightline chat runs/chat --temperature 0.7 --seed 1
    """
    from sightline.pipelines import Chat

    session = ChatSession(open_pipeline(model, Chat, engine=engine), decoding)
    if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
        run_interactive(session)
        return
    for line in (text for block in read_blocks(None) for text in block):
        if line.text.strip() == QUIT:
            return
        try:
            reply = session.reply(line.text)
        except InputError as error:
            raise add_location(error, line) from None
        if as_json:
            put_json({"line": line.number, "message": line.text, "reply": reply})
        else:
            put_line(reply)


class ChatSession:
    """One conversation and its decoding options."""

    def __init__(self, model: "Chat", decoding: dict[str, object]) -> None:
        self._model, self._decoding = model, decoding
        self._conversation = model.conversation()

    def reply(self, line: str) -> str:
        """Return the reply to a line, which is empty for a blank line and for /reset."""
        if line.strip() == RESET:
            self._conversation = self._model.conversation()
            return ""
        return self._conversation.say(line, **self._decoding)


def run_interactive(session: ChatSession) -> None:
    """Chat on a terminal until the user quits; a message that is refused does not end the conversation."""
    sys.stderr.write(WELCOME)
    for line in read_typed_lines():
        try:
            reply = session.reply(line)
        except InputError as error:
            sys.stderr.write(f"{error}\n")
            continue
        if reply:
            put(f"{reply}\n")


def read_typed_lines() -> Iterator[str]:
    """Yield typed lines, with readline's editing keys if it is installed."""
    with suppress(ImportError):
        import readline  # noqa: F401  # importing it makes input() use it
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            put("\n")
            return
        if line.strip() == QUIT:
            return
        yield line
