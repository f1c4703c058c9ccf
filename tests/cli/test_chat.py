"""`sightline chat`: a reply for each line, in one conversation."""

import builtins
import json
import sys

import pytest

from sightline.errors import InputError
from sightline.pipelines import Chat
from sightline.tasks import load


@pytest.fixture
def model(folder):
    return folder("chat")


@pytest.fixture
def echoing(monkeypatch):
    """Make every reply the history before it."""

    def reply(self, history, **overrides):
        if history[-1] == "too long":
            raise InputError("that is too long")
        return "|".join(history) if history[-1].strip() else ""

    monkeypatch.setattr(Chat, "reply", reply)


@pytest.fixture
def typing(give, monkeypatch, capsys):
    """Type these lines on a terminal, then Ctrl-D (or what else is given)."""

    def type_(*lines: str, end: BaseException | None = None) -> None:
        pending = iter(lines)

        def typed(prompt: str) -> str:
            sys.stdout.write(prompt)
            line = next(pending, None)
            if line is None:
                raise end or EOFError
            return line

        give("").terminal = True
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setattr(builtins, "input", typed)

    return type_


def chat(model, capsys) -> tuple[int, str, str]:
    from sightline.cli.main import main

    return main(["chat", str(model)]), *capsys.readouterr()


def test_each_line_has_a_reply(sightline, model):
    talk = load(model).conversation()
    assert sightline("chat", model, stdin="tiny\nmodels\n").lines == [talk.say("tiny"), talk.say("models")]


def test_options_reach_the_search(sightline, model):
    reply = load(model).reply(["tiny"], temperature=1.5, seed=3, max_new_tokens=6)
    options = ["--temperature", 1.5, "--seed", 3, "--max-tokens", 6]
    assert sightline("chat", model, *options, stdin="tiny\n").lines == [reply]


def test_history_is_kept_until_reset(sightline, model, echoing):
    lines = sightline("chat", model, stdin="a\nb\n\n/reset\nc\n/quit\nd\n").lines
    assert lines == ["a", "a|a|b", "", "", "c"]


def test_line_breaks_of_a_reply_are_escaped(sightline, model, monkeypatch):
    monkeypatch.setattr(Chat, "reply", lambda self, history, **_: "one\ntwo")
    assert sightline("chat", model, stdin="a\n").lines == [r"one\ntwo"]


def test_json_has_message_and_reply(sightline, model, echoing):
    [line] = sightline("chat", model, "--json", stdin="hi\n").lines
    assert json.loads(line) == {"line": 1, "message": "hi", "reply": "hi"}


def test_refused_line_of_stdin_is_named(sightline, model, echoing):
    assert sightline("chat", model, stdin="a\ntoo long\n") == (2, "a\n", "sightline: stdin:2: that is too long\n")


def test_chat_on_a_terminal_lasts_until_the_end_of_input(model, echoing, typing, capsys):
    typing("a", "", "b")
    code, out, err = chat(model, capsys)
    assert (code, out) == (0, "> a\n> > a|a|b\n> \n")
    assert err == "Type a message. /reset clears the history, /quit (or Ctrl-D) ends.\n"


def test_reset_and_quit_on_a_terminal(model, echoing, typing, capsys):
    typing("a", " /reset ", "b", "/quit", "c")
    code, out, _ = chat(model, capsys)
    assert (code, out) == (0, "> a\n> > b\n> ")


def test_chat_on_a_terminal_continues_after_an_error(model, echoing, typing, capsys):
    typing("too long", "a")
    code, out, err = chat(model, capsys)
    assert (code, out) == (0, "> > a\n> \n")
    assert err.endswith("that is too long\n")


def test_interrupt_ends_with_130(model, echoing, typing, capsys):
    typing("a", end=KeyboardInterrupt())
    assert chat(model, capsys)[0] == 130


def test_translator_is_no_chat(sightline, folder):
    ran = sightline("chat", folder("translator"), stdin="a\n")
    assert (ran.code, ran.out) == (2, "")
    assert "use sightline translate" in ran.err
