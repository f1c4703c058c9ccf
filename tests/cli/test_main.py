"""The program as a whole: options everywhere, exit codes, one line for what goes wrong."""

import os
import subprocess
import sys

import pytest

from sightline import __version__
from sightline.cli import main as program
from sightline.cli.main import main, move_common_options_first
from sightline.errors import InputError, SightlineError


@pytest.fixture
def failing(monkeypatch):
    """Let the command do nothing but raise what it is given."""

    def fail_with(error: BaseException) -> None:
        def run(arguments):
            raise error

        monkeypatch.setattr(program, "run", run)

    return fail_with


@pytest.mark.parametrize("arguments", [["--version"], ["info", "--version"], ["info", "nothing", "--version"]])
def test_version_is_printed_after_any_command(arguments, capsys):
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"sightline {__version__}\n"


def test_help_goes_to_stdout(capsys):
    assert main(["--help"]) == 0
    assert "info" in capsys.readouterr().out


def test_command_help_has_an_example(capsys):
    assert main(["info", "--help"]) == 0
    assert "Example: sightline info" in capsys.readouterr().out


def test_mistyped_command_names_the_nearest(capsys):
    assert main(["inof"]) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert "Did you mean 'info'?" in errors


@pytest.mark.parametrize(
    "arguments", [["info"], ["info", "a", "b"], ["info", "--jsn", "a"], ["--threads", "0", "info", "a"]]
)
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("error", "code"), [(SightlineError("no luck"), 1), (InputError("too long"), 2)])
def test_error_becomes_one_line_and_its_code(error, code, failing, capsys):
    failing(error)
    assert main(["info"]) == code
    assert capsys.readouterr().err == f"sightline: {error}\n"


def test_argument_at_fault_is_named_as_an_option(failing, capsys):
    failing(InputError("unknown language 'xx'", option="from_"))
    assert main(["info"]) == 2
    assert capsys.readouterr().err == "sightline: --from: unknown language 'xx'\n"


def test_error_with_a_line_break_stays_one_line(failing, capsys):
    failing(InputError("a\nb\x1b[31m"))
    main(["info"])
    assert capsys.readouterr().err == "sightline: a\\nb\\x1b[31m\n"


def test_debug_shows_the_traceback(failing, capsys):
    failing(InputError("too long"))
    assert main(["info", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_bug_is_called_a_bug(failing, capsys):
    failing(KeyError("x"))
    assert main(["info"]) == 1
    assert capsys.readouterr().err == "sightline: KeyError: 'x' (this is a bug; --debug shows where)\n"


def test_interrupt_ends_with_130(failing, capsys):
    failing(KeyboardInterrupt())
    assert main(["info"]) == 130
    assert capsys.readouterr() == ("", "")


def test_interrupt_within_a_command_ends_with_130(monkeypatch, capsys):
    def interrupt(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr("sightline.bundle.load", interrupt)
    assert main(["info", "model"]) == 130
    assert capsys.readouterr() == ("", "")


def test_reader_that_closes_the_pipe_is_no_error(model_folder):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "sightline.cli.main", "info", str(model_folder)]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (run.stderr, run.returncode) == ("", 1)


def test_python_m_sightline_is_the_program(capsys):
    run = subprocess.run([sys.executable, "-m", "sightline", "inof"], capture_output=True, text=True, check=False)
    assert main(["inof"]) == run.returncode == 2
    assert run.stdout == ""
    assert "Did you mean 'info'?" in run.stderr


@pytest.mark.parametrize(
    ("given", "sorted_"),
    [
        (["info", "m", "--threads", "2"], ["--threads", "2", "info", "m"]),
        (["info", "--threads=2", "m", "--debug"], ["--threads=2", "--debug", "info", "m"]),
        (["generate", "m", "--", "--debug"], ["generate", "m", "--", "--debug"]),
        (["info", "--threads"], ["--threads", "info"]),
        (["info", "m", "--device", "cpu"], ["--device", "cpu", "info", "m"]),
        (["info", "--device=cpu", "m"], ["--device=cpu", "info", "m"]),
    ],
)
def test_common_options_move_to_the_front(given, sorted_):
    assert move_common_options_first(given) == sorted_


def test_threads_reach_the_libraries(monkeypatch, model_folder, capsys):
    import torch

    before = torch.get_num_threads()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert main(["info", str(model_folder), "--threads", "3"]) == 0
    assert torch.get_num_threads() == 3
    assert os.environ["RAYON_NUM_THREADS"] == "3"
    torch.set_num_threads(before)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_device_is_chosen_by_every_command(where, model_folder, monkeypatch, capsys):
    chosen = []
    monkeypatch.setattr(program, "set_default_device", chosen.append)
    arguments = ["info", str(model_folder)]
    assert main([*arguments[:where], "--device", "mps", *arguments[where:]]) == 0
    assert main(arguments) == 0
    assert chosen == ["mps"]


def test_device_that_is_not_there_is_one_line(model_folder, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["embed", str(model_folder), "tiny", "--device", "cuda"]) == 2
    assert capsys.readouterr().err == (
        "sightline: --device: cuda cannot be used: torch finds no NVIDIA GPU here; choose cpu or auto\n"
    )
    assert main(["embed", str(model_folder), "tiny", "--device", "gpu"]) == 2
    assert "'auto', 'cpu', 'cuda', 'mps'" in capsys.readouterr().err
    assert main(["embed", str(model_folder), "tiny", "--device", "cpu"]) == 0
