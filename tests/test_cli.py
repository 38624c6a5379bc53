import resource
import subprocess
import sys
from types import ModuleType

import pytest

from exfam import __version__, cli
from exfam.checks import ExfamError


def replace_command(monkeypatch, action):
    command = cli.COMMANDS["demo"]._replace(run=action)
    monkeypatch.setitem(cli.COMMANDS, "demo", command)


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (ExfamError("`k` must be 1, got 2."), 2, "exfam demo: `k` must be 1, got 2.\n"),
        (FileNotFoundError(2, "No such file", "a.csv"), 2, "a.csv"),
        (KeyboardInterrupt(), 130, "exfam demo: interrupted\n"),
    ],
)
def test_an_error_is_one_line_and_a_status(monkeypatch, capsys, error, status, told):
    def fail(_):
        raise error

    replace_command(monkeypatch, fail)
    assert cli.main(["demo"]) == status
    captured = capsys.readouterr()
    assert told in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_our_own_bugs_are_not_hidden(monkeypatch):
    def fail(_):
        raise ZeroDivisionError("a bug")

    replace_command(monkeypatch, fail)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli.main(["demo"])


def test_the_demo_gets_its_options(monkeypatch, tmp_path):
    got = {}
    module = ModuleType("exfam.reproduce.demo")
    module.run = lambda **options: got.update(options)
    monkeypatch.setitem(sys.modules, "exfam.reproduce.demo", module)
    assert cli.main(["demo", "--out", str(tmp_path), "--seed", "3"]) == 0
    assert got == {"out": tmp_path, "seed": 3}


def test_reproduce_passes_its_options_on(monkeypatch, tmp_path):
    got = {}
    monkeypatch.setattr(
        "exfam.reproduce.harness.reproduce", lambda name, **rest: got.update(name=name, **rest)
    )
    words = ["efa-synthetic", "--seeds", "2", "--fast", "--only", "a", "--only", "b"]
    files = ["--json", str(tmp_path / "x.json"), "--out", str(tmp_path)]
    assert cli.main(["reproduce", *words, *files]) == 0
    options = got["options"]
    assert (got["name"], options.seeds, options.fast) == ("efa-synthetic", 2, True)
    assert (options.only, options.out, got["json"]) == (("a", "b"), tmp_path, tmp_path / "x.json")


def test_an_unknown_experiment_is_told_by_the_command(capsys):
    assert cli.main(["reproduce", "nothing"]) == 2
    assert "`name` must be one of 'efa-synthetic'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["nothing"], ["reproduce", "--seeds", "many"]])
def test_what_cannot_be_read_is_a_usage_error(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert "usage: exfam" in capsys.readouterr().err


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"exfam {__version__}\n"


@pytest.mark.parametrize("module", ["exfam", "exfam.cli"])
def test_modules_are_the_command_too(module):
    words = [sys.executable, "-m", module, "reproduce", "not-there"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and "exfam reproduce: `name` must be" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["reproduce", "--list"], ["reproduce", "--help"]])
def test_help_is_quick_and_loads_nothing_heavy(words):
    code = (
        "import sys\nfrom exfam.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'sklearn', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )

    def cpu_seconds():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    times = []
    for _ in range(3):
        before = cpu_seconds()
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(cpu_seconds() - before)
    assert done.stdout.splitlines()[-1] == "[]"
    assert min(times) < 0.3
