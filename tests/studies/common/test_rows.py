import json
from dataclasses import replace

import pytest

from exfam import EFA, Gaussian
from exfam.checks import DataError, ExfamError
from exfam_studies.common.printed import best_rows, print_rows
from exfam_studies.common.provenance import Run, changed_parameters
from exfam_studies.common.rows import Row, read_rows, row_over_seeds, write_rows

FULL = Row(
    task="movielens-items-causal", model="efa", metric="nats", value=3.14, sd=0.01, validation=3.2,
    settings={"support": "exclusion", "split": "paper", "n_layers": 2}, n_seeds=5,
    n_configurations=12, paper=3.444, cpu_seconds=5.0, steps=800,
    parameters={"estimator": "EFA", "support": "hard"},
    run=Run(commit="abc", date="2026-01-31", versions={"torch": "2"}, machine="one, 2 cores"),
)  # fmt: skip
NAMES = {
    "task", "model", "settings", "metric", "value", "sd", "validation", "n_seeds",
    "n_configurations", "paper", "cpu_seconds", "steps", "parameters", "run",
}  # fmt: skip


def test_the_json_has_exactly_the_agreed_names_and_is_read_again(tmp_path):
    bare = Row(task="t", model="popularity", metric="mrr", note="not installed")
    other = replace(FULL, run=replace(FULL.run, date="2026-02-01"))
    path = write_rows(tmp_path / "deep" / "rows.json", "x", [FULL, other, FULL, bare])
    written = json.loads(path.read_text())
    assert set(written) == {"experiment", "runs", "rows"} and len(written["runs"]) == 2
    assert [set(row) for row in written["rows"]] == [NAMES] * 4
    assert [row["run"] for row in written["rows"]] == [0, 1, 0, None]
    assert read_rows(path) == [FULL, other, FULL, replace(bare, note="")]
    whole = path.read_text()
    for text in ("", "[]", whole.replace('"run": 0', '"run": 5')):
        path.write_text(text)
        with pytest.raises(DataError, match=r"written by `exfam reproduce --json`.*rows\.json"):
            read_rows(path)


@pytest.mark.parametrize("name", ["value", "sd", "validation", "paper", "cpu_seconds"])
def test_a_figure_that_is_not_finite_is_refused(name):
    with pytest.raises(ExfamError, match=f"`{name}` must be finite or None, got nan for nats of m"):
        Row(**{"task": "t", "model": "m", "metric": "nats", name: float("nan")})


def test_a_single_seed_has_no_spread():
    row = row_over_seeds(FULL, values=[2.0], validations=[3.0], cpu_seconds=[1.5], steps=[7])
    assert (row.value, row.sd, row.validation, row.n_seeds) == (2.0, None, 3.0, 1)
    assert (row.cpu_seconds, row.steps, row.paper) == (1.5, 7, FULL.paper)
    assert row.is_of_one_seed and not FULL.is_of_one_seed
    assert not replace(row, settings={"members": 4}).is_of_one_seed


def row(model, value, metric="nats", support="all"):
    settings = {"support": support, "rate": model}
    return Row(task="t", model=model, settings=settings, metric=metric, value=value)


def test_the_best_is_sought_among_comparable_rows_in_the_metrics_own_direction():
    rows = [
        row("efa", 2.0), row("marginal", 1.0),
        row("efa", 2.0, support="exclusion"), row("marginal", 3.0, support="exclusion"),
        row("efa", 0.1, metric="ndcg@10"), row("popularity", 0.2, metric="ndcg@10"),
        row("efa", 5.0, metric="mean-given-1"), row("fm", 4.0, metric="mean-given-1"),
        row("bayes", 0.0), row("peer", None),
        row("alone", 9.0, metric="mse"),
    ]  # fmt: skip
    assert best_rows(rows) == {1, 2, 5}


def test_tasks_get_a_table_each_with_metrics_together_and_nothing_cut(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    rows = [row("a", 1.0), row("a", 0.5, metric="mse"), row("b", 2.0), row("b", 0.6, metric="mse")]
    long = Row(task="long", model="m" * 60, settings={"s" * 50: "v" * 50}, metric="nats", value=1.0)
    print_rows("x", [*rows, FULL, long])
    text = capsys.readouterr().out
    assert text.count("x: t\n") == 1 and text.count("x: movielens-items-causal\n") == 1
    words = text.replace("(nats, mse", "").split()
    metrics = [word for word in words if word in ("nats", "mse")]
    assert metrics == ["nats", "nats", "mse", "mse", "nats", "nats"]
    assert "1.0000*" in text and "2.0000*" not in text
    assert "m" * 60 in text and f"{'s' * 50}={'v' * 50}" in text
    assert "support=exclusion, split=paper, n_layers=2" in text


def test_settings_that_differ_from_the_defaults_are_found():
    model = EFA(encoding="none", family=Gaussian(scale=1.0), group_offset=True, seed=7)
    changed = {"encoding": "none", "family": "Gaussian(scale=1.0)", "group_offset": True}
    assert changed_parameters(model) == {"estimator": "EFA", **changed}
    assert changed_parameters(EFA()) == {"estimator": "EFA"}
