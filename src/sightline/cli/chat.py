"""`sightline chat`: a conversation in the terminal, or a reply for each line of stdin."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from sightline.cli.opening import opened
from sightline.cli.options import AsJson, Beam, MaxTokens, MinP, ModelFolder, Seed, Temperature, TopK, TopP, decoding
from sightline.cli.output import put, put_json, put_line
from sightline.cli.texts import placed, text_blocks
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.pipelines import Chat

PROMPT, QUIT, RESET = "> ", "/quit", "/reset"
WELCOME = "Say something. /reset forgets what was said, /quit (or Ctrl-D) ends.\n"


def chat(
    model: ModelFolder,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    beam: Beam = None,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Talk with a model that remembers what was said.

    On a terminal it asks for a line and answers it; the arrow keys bring earlier lines back. From a pipe or a file,
    each line gets one line of reply, in one conversation. /reset forgets what was said, /quit ends.

    \b
    Examples:
      sightline chat runs/chat
      printf 'Hi\\nHow are you?\\n' | sightline chat runs/chat
      sightline chat runs/chat --temperature 0.7 --seed 1
    """
    from sightline.pipelines import Chat

    talker = Talker(
        opened(model, Chat),
        decoding(max_tokens, temperature, top_k=top_k, top_p=top_p, min_p=min_p, beam=beam, seed=seed),
    )
    if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
        talk(talker)
        return
    for line in (text for block in text_blocks(None) for text in block):
        if line.text.strip() == QUIT:
            return
        try:
            reply = talker.answer(line.text)
        except InputError as error:
            raise placed(error, line) from None
        if as_json:
            put_json({"line": line.number, "message": line.text, "reply": reply})
        else:
            put_line(reply)


class Talker:
    """Answers lines, remembering what was said."""

    def __init__(self, model: "Chat", options: dict[str, object]) -> None:
        self._model, self._options = model, options
        self._conversation = model.conversation()

    def answer(self, line: str) -> str:
        """Return the reply to a line; a blank one has none, and neither has the command to forget."""
        if line.strip() == RESET:
            self._conversation = self._model.conversation()
            return ""
        return self._conversation.say(line, **self._options)


def talk(talker: Talker) -> None:
    """Converse on a terminal until its user has had enough; what cannot be answered is no reason to end."""
    sys.stderr.write(WELCOME)
    for line in typed_lines():
        try:
            reply = talker.answer(line)
        except InputError as error:
            sys.stderr.write(f"{error}\n")
            continue
        if reply:
            put(f"{reply}\n")


def typed_lines() -> Iterator[str]:
    """Yield what is typed, with the keys of readline where it is installed."""
    with suppress(ImportError):
        import readline  # noqa: F401  # importing it is what makes input() use it
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            put("\n")
            return
        if line.strip() == QUIT:
            return
        yield line
