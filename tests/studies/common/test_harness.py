import importlib.util
import json
import sys
from types import ModuleType

import pytest

import exfam_studies.common.experiments
from exfam.checks import ExfamError
from exfam_studies.common.experiments import EXPERIMENTS, Experiment
from exfam_studies.common.harness import Options, load_experiment, reproduce
from exfam_studies.common.rows import Row


@pytest.fixture
def toy(monkeypatch):
    """An experiment that whose rows say what was requested."""
    module = ModuleType("exfam_toy_experiment")
    module.TASKS = ("one", "two")

    def run(options):
        seeds = options.n_seeds(5)
        tasks = [task for task in module.TASKS if options.wants(task)]
        return [
            Row(task=task, model="efa", metric="nats", value=1.0, n_seeds=seeds) for task in tasks
        ]

    def plot(rows, folder):
        (folder / "toy.svg").write_text(f"{len(rows)} rows")

    module.run, module.plot = run, plot
    monkeypatch.setitem(sys.modules, "exfam_toy_experiment", module)
    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("exfam_toy_experiment", "a toy"))
    return module


def test_rows_are_printed_written_and_plotted(toy, tmp_path, capsys):
    json_file, out = tmp_path / "rows.json", tmp_path / "new" / "plots"
    rows = reproduce("toy", options=Options(seeds=3, out=out), json=json_file)
    assert [row.task for row in rows] == ["one", "two"]
    printed = capsys.readouterr().out
    assert "toy: one" in printed and "toy: two" in printed
    assert (out / "toy.svg").read_text() == "2 rows"
    assert json_file.read_text() == (out / "toy.json").read_text()
    assert [row["n_seeds"] for row in json.loads(json_file.read_text())["rows"]] == [3, 3]


def test_an_experiment_need_not_plot(toy, tmp_path):
    del toy.plot
    reproduce("toy", options=Options(fast=True, out=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["toy.json"]


def test_only_the_named_tasks_run(toy):
    rows = reproduce("toy", options=Options(only=["two"], fast=True))
    assert [(row.task, row.n_seeds) for row in rows] == [("two", 1)]


def test_unknown_names_are_refused(toy):
    with pytest.raises(ExfamError, match="`name` must be one of 'efa-synthetic', .*, got 'none'"):
        reproduce("none", options=Options())
    with pytest.raises(ExfamError, match="`only` must be one of 'one', 'two', got 'three'"):
        reproduce("toy", options=Options(only=["one", "three"]))
    with pytest.raises(ExfamError, match="`seeds` must be a number > 0, got 0"):
        Options(seeds=0)


WRITTEN = [
    name
    for name, experiment in EXPERIMENTS.items()
    if importlib.util.find_spec(experiment.module) is not None
]


@pytest.mark.parametrize("name", WRITTEN)
def test_every_experiment_has_the_agreed_face(name):
    module = load_experiment(name)
    assert module.TASKS and len(set(module.TASKS)) == len(module.TASKS)
    assert callable(module.run)
    assert name == name.lower() and EXPERIMENTS[name].title


def test_the_table_is_the_one_the_command_line_lists(capsys):
    from exfam.cli import main

    assert main(["reproduce", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(exfam_studies.common.experiments.EXPERIMENTS)
