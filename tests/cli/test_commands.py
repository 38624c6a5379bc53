import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from exfam import __version__, cli
from exfam.checks import ExfamError
from exfam.cli import demo


def replace_demo(monkeypatch, action):
    monkeypatch.setattr(demo, "run", action)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ExfamError("`k` must be 1, got 2."), 2, "exfam demo: `k` must be 1, got 2.\n"),
        (ExfamError("two\n  lines"), 2, "exfam demo: two lines\n"),
        (FileNotFoundError(2, "No such file", "a.csv"), 2, "exfam demo: No such file: a.csv\n"),
        (OSError("no number"), 2, "exfam demo: no number\n"),
        (KeyboardInterrupt(), 130, "exfam demo: interrupted\n"),
        (MemoryError(), 2, "exfam demo: Memory must suffice, got less."),
    ],
)
def test_an_error_is_one_line_and_a_status(monkeypatch, capsys, error, status, message):
    def fail(_):
        raise error

    replace_demo(monkeypatch, fail)
    assert cli.main(["demo"]) == status
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


@pytest.mark.parametrize(
    "demand", [lambda: torch.zeros(2**55), lambda: torch.zeros(2**62), lambda: np.zeros(2**55)]
)
def test_numpy_and_torch_without_memory_are_reported_alike(monkeypatch, capsys, demand):
    replace_demo(monkeypatch, lambda _: demand())
    assert cli.main(["demo"]) == 2
    assert "Memory must suffice" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ZeroDivisionError("a bug"), RuntimeError("a bug")])
def test_our_own_bugs_are_not_hidden(monkeypatch, error):
    def fail(_):
        raise error

    replace_demo(monkeypatch, fail)
    with pytest.raises(type(error), match="a bug"):
        cli.main(["demo"])


def test_a_warning_is_one_line(monkeypatch, capsys):
    replace_demo(monkeypatch, lambda _: warnings.warn("beware\nof this", UserWarning, stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(["demo"]) == 0
    assert capsys.readouterr().err == "exfam demo: warning: beware of this\n"


def test_reproduce_passes_its_options_on(monkeypatch, tmp_path):
    got = {}
    monkeypatch.setattr(
        "exfam_studies.common.harness.reproduce", lambda name, **rest: got.update(name=name, **rest)
    )
    words = ["efa-synthetic", "--seeds", "2", "--fast", "--only", "a", "--only", "b"]
    files = ["--json", str(tmp_path / "x.json"), "--out", str(tmp_path)]
    assert cli.main(["reproduce", *words, *files]) == 0
    options = got["options"]
    assert (got["name"], options.seeds, options.fast) == ("efa-synthetic", 2, True)
    assert (options.only, options.out, got["json"]) == (("a", "b"), tmp_path, tmp_path / "x.json")


def test_an_unknown_experiment_is_reported_by_the_command(capsys):
    assert cli.main(["reproduce", "nothing"]) == 2
    assert "`--name` must be one of 'efa-synthetic'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "exfam: a command must be given"),
        (["nothing"], "exfam: `COMMAND` must be one of ours, got 'nothing'."),
        (["scor"], "Did you mean score?"),
        (["reproduce", "--seeds", "many"], "`--seeds` must be a whole number, got 'many'."),
    ],
)
def test_what_cannot_be_read_is_one_line(words, message, capsys):
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_the_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"exfam {__version__}\n"


def test_every_command_is_in_the_help(capsys):
    assert cli.main(["--help"]) == 0
    result = capsys.readouterr().out
    assert all(f"\n  {name} " in result for name in cli.commands())


@pytest.mark.parametrize("module", ["exfam", "exfam.cli"])
def test_modules_are_the_command_too(module):
    words = [sys.executable, "-m", module, "not-there"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "exfam: `COMMAND` must be one of ours" in done.stderr


def test_a_reader_who_leaves_is_no_error():
    command = f"{sys.executable} -m exfam reproduce --list"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command.split(), stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


HEAVY = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "duckdb"}


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--help"], {"pyarrow", "rich", "yaml"}),
        (["reproduce", "--list"], set()),
        (["reproduce", "--help"], set()),
        (["fit", "--help"], set()),
        (["fit", "--model", "table-classifier", "--help"], set()),
        (["fit", "--model", "shrunk-offset", "--print_config"], set()),
    ],
)
def test_help_loads_nothing_heavy(words, more):
    code = (
        f"import sys\nfrom exfam.cli import main\nmain({words!r})\n"
        f"print(sorted({HEAVY | more!r} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
