"""Rows of results: their form, their tables and where they are kept."""

import json
from dataclasses import replace

import numpy as np
import pytest

from exfam import EFA, Gaussian
from exfam.checks import DataError, ExfamError
from exfam_studies.common.documentation.pages import KEPT
from exfam_studies.common.harness import Options
from exfam_studies.common.kept import Key, Measured, Store, kept_seeds, metric_rows
from exfam_studies.common.printed import best_rows, print_rows
from exfam_studies.common.provenance import Run, changed_parameters
from exfam_studies.common.rows import Row, read_rows, row_over_seeds, write_rows
from exfam_studies.common.word_corpus import read_corpus

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


KEY = Key(("cbow", "dim-30"), 1)
# Estimators of exfam, by the beginning of the names that rows give them.
FITTED = ("efa", "latent-factor", "masked-table", "sgns", "cbow-softmax", "lstm")
DUMP = """<mediawiki xml:lang="en">
<page>
<title>Not this</title>
<text xml:space="preserve">'''Anarchism''' is a [[political philosophy|philosophy]].
The end</text>
</page>
"""


def measured():
    figures = {"nats": 1.5, "mse": None, "validation-nats": 2.5}
    return Measured(figures, {"losses": np.array([1.0, np.inf])}, {"steps": 7}, cpu_seconds=3.0)


def test_a_kept_result_is_read_as_it_was_written(tmp_path):
    kept = Store(tmp_path).measured(KEY, measured)
    again = Store(tmp_path).measured(KEY, lambda: pytest.fail("measured again"))
    assert (tmp_path / "cbow" / "dim-30" / "01.json").is_file()
    assert again.key == KEY and again.figures == kept.figures == measured().figures
    assert again.cpu_seconds == 3.0 and again.details == {"steps": 7}
    np.testing.assert_array_equal(again.arrays["losses"], [1.0, np.inf])
    store = Store()
    assert store.get(KEY) is None
    assert store.measured(KEY, measured) is store.get(KEY)
    for content in ("", "[]", '{"figures": {}, "cpu_seconds": 1}'):
        (tmp_path / KEY.path).write_text(content)
        with pytest.raises(DataError, match=r"`folder` must hold results as they were .*01\.json"):
            Store(tmp_path).get(KEY)


def test_rows_are_over_seeds_and_need_the_figure_of_every_seed():
    def measure(seed):
        figures = {"nats": 1.0 + 2 * seed, "validation-nats": 2.0} | ({} if seed else {"mse": 1.0})
        return Measured(figures, details={"steps": 7 + 2 * seed})

    kept = kept_seeds(Store(), ("a",), 2, measure)
    nats, mse = metric_rows(Row(task="t", model="a", metric=""), kept)
    assert (nats.value, nats.validation, nats.n_seeds, nats.steps) == (2.0, 2.0, 2, 8)
    assert nats.cpu_seconds >= 0 and (mse.value, mse.n_seeds) == (None, 2)
    assert [row.metric for row in metric_rows(nats, kept, ["mse"])] == ["mse"]


@pytest.mark.parametrize("path", sorted(KEPT.rglob("*.json")), ids=lambda path: path.stem)
def test_every_figure_that_the_documentation_shows_has_its_run_and_settings(path):
    if path.parent != KEPT:
        runs = [Run(**json.loads(path.read_text(encoding="utf-8"))["run"])]
    else:
        rows = read_rows(path)
        runs = [row.run for row in rows]
        for row in rows:
            if row.model.startswith(FITTED) and None not in (row.value, row.cpu_seconds):
                assert row.parameters.get("estimator"), (row.task, row.model, row.metric)
    assert all(run.date and run.commit and run.versions and run.machine for run in runs)


@pytest.mark.parametrize("fast", [False, True])
def test_experiments_of_words_take_dumps(tmp_path, fast):
    dump = tmp_path / "enwiki.xml"
    dump.write_text(DUMP)
    options = Options(corpus=dump, folder=tmp_path / "kept", fast=fast)
    first, again = (read_corpus(options, min_count=1) for _ in range(2))
    words = [first.vocabulary.words[code] for code in first.tokens if code >= 0]
    assert words == ["anarchism", "is", "a", "philosophy", "the", "end"]
    assert first.tokens.tolist() == again.tokens.tolist()
