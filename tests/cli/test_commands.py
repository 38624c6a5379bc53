import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from exfam import __version__, cli
from exfam.checks import ExfamError
from exfam.cli.options import Form


@pytest.fixture
def run_instead(monkeypatch):
    """What `exfam demo` does, replaced by something else."""

    def replace(action):
        form = Form("demo", "Show", [], example="", run=lambda _: action())
        monkeypatch.setattr(sys.modules["exfam.cli.commands"], "form_of", lambda *_: form)

    return replace


def failing(error):
    def fail():
        raise error

    return fail


@pytest.mark.parametrize(
    ("action", "status", "message"),
    [
        (failing(ExfamError("two\n  lines")), 2, "exfam demo: two lines\n"),
        (failing(FileNotFoundError(2, "No such file", "a.csv")), 2, "demo: No such file: a.csv\n"),
        (failing(OSError("no number")), 2, "exfam demo: no number\n"),
        (failing(KeyboardInterrupt()), 130, "exfam demo: interrupted\n"),
        (lambda: torch.zeros(2**55), 2, "exfam demo: Memory must suffice, got less."),
        (lambda: torch.zeros(2**62), 2, "exfam demo: Memory must suffice, got less."),
        (lambda: np.zeros(2**55), 2, "exfam demo: Memory must suffice, got less."),
    ],
)
def test_an_error_is_one_line_and_a_status(run_instead, capsys, action, status, message):
    run_instead(action)
    assert cli.main(["demo"]) == status
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), RuntimeError("a bug")])
def test_our_own_bugs_are_not_hidden(run_instead, error):
    run_instead(failing(error))
    with pytest.raises(type(error), match="a bug"):
        cli.main(["demo"])


def test_a_warning_is_one_line(run_instead, capsys):
    run_instead(lambda: warnings.warn("beware\nof this", UserWarning, stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "exfam demo: warning: beware of this\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "exfam: a command must be given"),
        (["nothing"], "exfam: `COMMAND` must be one of ours, got 'nothing'."),
        (["scor"], "Did you mean score?"),
        (["reproduce", "nothing"], "`--name` must be one of 'efa-synthetic'"),
        (["reproduce", "--seeds", "many"], "`--seeds` must be a whole number, got 'many'."),
    ],
)
def test_what_cannot_be_read_is_one_line(words, message, capsys):
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_the_version_and_every_command_are_shown(capsys):
    assert cli.main(["--version"]) == cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"exfam {__version__}\n")
    assert all(f"\n  {name} " in out for name in cli.commands())


def test_a_reader_who_leaves_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "exfam", "reproduce", "--list"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


def test_help_loads_nothing_heavy():
    code = """
import sys
from exfam.cli import main
for line in ("--help", "reproduce --list", "reproduce --help", "fit --help",
             "fit --model table-classifier --help", "fit --model shrunk-offset --print_config"):
    heavy = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "duckdb"}
    heavy |= {"pyarrow", "rich", "yaml"} if line == "--help" else set()
    assert main(line.split()) == 0 and not heavy & set(sys.modules), line
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
