import importlib
import json
import sys
from types import ModuleType

import pytest

from exfam.checks import ExfamError
from exfam_studies.common.experiments import EXPERIMENTS, title
from exfam_studies.common.harness import Options, reproduce
from exfam_studies.common.rows import Row


@pytest.fixture
def toy(monkeypatch):
    """An experiment whose rows say what was requested."""
    module = ModuleType("exfam_studies.toy")
    module.TASKS, module.PLOTTED = ("one", "two"), {"nats": None}

    def run(options):
        row = Row(task="", model="efa", metric="nats", value=1.0, n_seeds=options.n_seeds(5))
        tasks = [task for task in module.TASKS if options.wants(task)]
        return [Row(**{**vars(row), "task": task}) for task in tasks]

    module.run = run
    monkeypatch.setitem(sys.modules, "exfam_studies.toy", module)
    monkeypatch.setitem(EXPERIMENTS, "toy", "toy")
    return module


def test_rows_are_printed_written_and_plotted(toy, tmp_path, capsys):
    json_file, out = tmp_path / "rows.json", tmp_path / "new" / "plots"
    rows = reproduce("toy", options=Options(seeds=3, out=out), json=json_file)
    assert [row.task for row in rows] == ["one", "two"]
    printed = capsys.readouterr().out
    assert "toy: one" in printed and "toy: two" in printed
    assert {path.name for path in out.glob("*.png")} == {"toy-one-nats.png", "toy-two-nats.png"}
    assert json_file.read_text() == (out / "toy.json").read_text()
    assert [row["n_seeds"] for row in json.loads(json_file.read_text())["rows"]] == [3, 3]


def test_only_the_named_tasks_run(toy):
    rows = reproduce("toy", options=Options(only=["two"], fast=True))
    assert [(row.task, row.n_seeds) for row in rows] == [("two", 1)]
    assert not Options().wants("a", is_long=True) and Options(only=["a"]).wants("a", is_long=True)
    with pytest.raises(ExfamError, match="`name` must be one of 'efa-synthetic', .*, got 'none'"):
        reproduce("none", options=Options())
    with pytest.raises(ExfamError, match="`only` must be one of 'one', 'two', got 'three'"):
        reproduce("toy", options=Options(only=["one", "three"]))
    with pytest.raises(ExfamError, match="`seeds` must be a number > 0, got 0"):
        Options(seeds=0)


def test_every_experiment_has_the_agreed_face_and_is_listed(capsys):
    from exfam.cli import main

    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, line in zip(EXPERIMENTS, lines, strict=True):
        module = importlib.import_module(f"exfam_studies.{EXPERIMENTS[name]}")
        assert module.TASKS and len(set(module.TASKS)) == len(module.TASKS)
        assert callable(module.run) and title(name).endswith(".")
        assert line.split()[0] == name and line.endswith(title(name))
