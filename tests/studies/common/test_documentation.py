"""Tables in pages are those made from the files kept in docs/results, and say what rows have."""

import dataclasses
import math

import pytest

from exfam_studies.common import documentation
from exfam_studies.common.documentation import BLOCKS
from exfam_studies.common.documentation.overview import DIFFERENCE, overview
from exfam_studies.common.documentation.pages import Block
from exfam_studies.common.documentation.positions import TABLES
from exfam_studies.common.documentation.shifts import simulated, whole_rows
from exfam_studies.common.documentation.tables import temperatures
from exfam_studies.common.rows import Row, write_rows


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_page_has_the_tables_of_the_kept_files(block):
    text = block.page.read_text(encoding="utf-8")
    assert text.count(block.begin) == text.count(block.end) == 1
    assert text == block.filled(text), "run: python -m exfam_studies.common.documentation"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_without_files_there_are_sentences(block, tmp_path):
    text = block.render(tmp_path)
    assert "are kept here yet" in text and "|" not in text


def test_only_what_stands_between_the_markers_is_replaced(tmp_path, monkeypatch):
    block = Block(tmp_path / "page.md", "figures", lambda folder: "new")
    monkeypatch.setattr(documentation, "BLOCKS", (block,))
    block.page.write_text(f"a\n{block.begin}\nold\nlines\n{block.end}\nb\n", encoding="utf-8")
    for _ in range(2):
        documentation.write_tables()
        assert block.page.read_text(encoding="utf-8") == f"a\n{block.begin}\nnew\n{block.end}\nb\n"


def lines_of(table):
    """The lines of a table, each with a cell below each head."""
    head, lines = table
    assert all(len(line) == len(head) for line in lines)
    return lines


def wine(model, metric, value, *, error=0.02, **settings):
    settings = {"dropped": 0.0, "error": error} | settings
    return Row(task="wine", model=model, metric=metric, value=value, settings=settings)


def test_the_best_of_a_figure_on_whole_rows_is_bold_and_has_its_error():
    rows = [
        wine("masked-table", "accuracy", 0.51, rule="argmax"),
        wine("ridge", "accuracy", 0.52, rule="argmax"),
        wine("masked-table", "mse", 0.8, rule="mean"),
        wine("catboost-tuned", "mse", 0.9, rule="mean"),
        wine("masked-table", "minus-mse", -0.1, rule="mean", against="catboost-tuned"),
        wine("masked-table", "nats", 1.1),
        wine("ridge", "nats-mixed", 1.3),
        Row(task="wine", model="ridge", metric="nats", settings={"dropped": 0.0}),
    ]
    accuracy, mse, nats = lines_of(whole_rows(rows))
    assert accuracy == [
        "wine", "accuracy", "0.510 ± 0.020", "", "", "", "**0.520 ± 0.020**", *[""] * 6
    ]  # fmt: skip
    assert mse[2] == "**0.800 ± 0.020**" and mse[-1] == "-0.100 ± 0.020" and mse[-2] == ""
    assert nats[1:3] == ["nats", ""] and nats[6] == "**1.300 ± 0.020**"


POOLED = {"bins": "pooled", "rule": "mean"}


def simulation(model, value, *, task="simulation-5-0.5-0.9", n=20, **more):
    settings = POOLED | more.pop("settings", {})
    shared = {"metric": "mse", "sd": 0.2 * math.sqrt(n), "n_seeds": n} | more
    return Row(task=task, model=model, value=value, settings=settings, **shared)


def test_a_simulated_setting_has_figures_of_the_mean_rule_with_standard_errors():
    rows = [
        simulation("masked-table", 1.5),
        simulation("masked-table", 9.0, settings={"rule": "argmax"}),
        simulation("masked-table", 0.4, metric="accuracy"),
        simulation("catboost", 1.0, n=2),
        simulation("ridge", 2.0),
        simulation("reference", 1.75, n=5),
        simulation("reference", 1.9, n=5, settings={"rule": "argmax"}, paper=2.355),
        simulation("masked-table", -0.25, metric="minus-mse", settings={"against": "reference"}),
        simulation("masked-table", 7.0, metric="minus-mse", settings={"against": "ridge"}),
    ]
    setting, pooled, trained = lines_of(simulated(rows))
    assert setting == [
        "5, 0.5, 0.9", "**1.50 ± 0.20**", "", "", "", "1.00 ± 0.20", "2.00 ± 0.20", "",
        "1.75 ± 0.20", "-0.25 ± 0.20", "2.355",
    ]  # fmt: skip
    # A mean over fewer data sets is no figure to set beside others; paired differences are.
    assert pooled[:2] == ["mean, pooled bins", "1.50"] and pooled[5] == pooled[8] == ""
    assert pooled[9] == "-0.25"
    assert trained == ["mean, training bins", *[""] * 10]


def positions(name, rows):
    head, lines = TABLES[name](rows)
    return [list(head), *lines_of((head, lines))]


def test_the_layer_of_most_validation_accuracy_is_shown():
    shared = {"task": "Tense", "model": "tupe-both", "metric": "accuracy"}
    rows = [
        Row(task="Tense", model="examples", metric="count-test", value=96.0),
        Row(value=0.6, validation=0.9, settings={"layer": 1}, **shared),
        Row(value=0.8, validation=0.7, settings={"layer": 2}, **shared),
    ]
    assert positions("positions-linguistic", rows)[1] == ["Tense", "96", "60.0"]


def test_one_number_of_neighbors_is_shown_and_draws_have_lines_of_their_own():
    rows = [
        Row(
            task="temperature-simulated", model=f"latent-factor-k{k}", metric="mse",
            settings={"k": k, "draw": draw, "lags": 0}, value=float(k), validation=validation,
        )
        for draw, k, validation in [("a", 1, 3.0), ("a", 5, 2.0), ("b", 1, 1.0), ("b", 5, None)]
    ]  # fmt: skip
    assert [line[:3] for line in lines_of(temperatures(rows))] == [
        ["simulated, a, lags 0", "latent-factor-k5", "**5.000**"],
        ["simulated, b, lags 0", "latent-factor-k1", "**1.000**"],
    ]


def overview_lines(folder, name, rows):
    write_rows(folder / f"{name}.json", name, rows)
    return overview(folder).splitlines()[2:]


def test_a_line_of_the_overview_holds_all_models_of_a_task_and_marks_the_best(tmp_path):
    shared = {"task": "synthetic-causal", "metric": "mse"}
    rows = [
        Row(model="efa", value=1.03, sd=0.001, paper=1.033, cpu_seconds=5.04, **shared),
        Row(model="efa-ensemble", value=1.02, **shared),
        Row(model="latent-factor", value=2.0, settings={"intercept": True}, **shared),
        Row(model="latent-factor", value=4.5, paper=4.519, **shared),
        Row(model="marginal", value=2.2, **shared),
        Row(model="efa", task="synthetic-causal", metric="mean-given-1", value=1.0),
    ]
    assert overview_lines(tmp_path, "efa-synthetic", rows) == [
        "| synthetic-causal |  | mse | 1.0300 ± 0.0010<br>**1.0200** (ensemble) "
        "| 2.0000 (intercept True)<br>4.5000 | 2.2000 (marginal) "
        "| 1.033 / 4.519 | 5.0 |"
    ]


def test_the_overview_has_the_paper_s_split_and_no_nats_beside_errors(tmp_path):
    plain = Row(task="b", metric="nats", model="efa", value=1.0)
    rows = [
        dataclasses.replace(plain, settings={"support": support, "split": split})
        for support in ("all", "exclusion")
        for split in ("paper", "correct")
    ]
    rows += [dataclasses.replace(plain, task="a", metric=metric) for metric in ("mse", "nats")]
    lines = overview_lines(tmp_path, "efa-movielens-items", rows)
    assert [[cell.strip() for cell in line.split("|")[1:5]] for line in lines] == [
        ["b", "support all", "nats", "1.0000"],
        ["b", "support exclusion", "nats", "1.0000"],
        ["a", "", "mse", "1.0000"],
    ]


def rating(family, *, version="v1", model="efa", metric="nats", **more):
    settings = {"family": family, "split": "paper", **more.pop("settings", {})}
    task = f"movielens-ratings-{version}-causal"
    return Row(task=task, model=model, metric=metric, settings=settings, **more)


def test_exact_figures_are_of_the_family_that_validation_chose(tmp_path):
    interval = {"low": -0.2, "high": 0.1, "against": "binomial"}
    difference = {"value": -0.05, "metric": DIFFERENCE, "settings": interval}
    rows = [
        row
        for version, worse in (("v1", 0.0), ("v2", 0.1))
        for row in (
            rating("poisson", version=version, metric="paper-loss", value=0.5),
            rating("poisson", version=version, value=1.2 + worse, validation=1.2 + worse),
            rating("ordinal", version=version, value=0.8, validation=1.1),
            rating("binomial", version=version, value=0.9, validation=1.0),
            rating("binomial", version=version, **difference),
            *(
                rating("poisson", version=version, model=model, value=2 + worse, validation=2.0)
                for model in ("latent-factor-notebook", "latent-factor-printed")
            ),
        )
    ]
    task = "movielens-ratings"
    assert overview_lines(tmp_path, "efa-movielens-ratings", rows) == [
        f"| {task}-v1-causal | family poisson | paper-loss | 0.5000 |  |  |  |  |",
        f"| {task}-v2-causal | family poisson | paper-loss | 0.5000 |  |  |  |  |",
        f"| {task}-causal |  | nats | **0.9000** (binomial) "
        "| 2.0000 (notebook, poisson v1) |  |  |  |",
        f"| {task}-causal | family binomial | nats-difference | -0.0500 [-0.2, 0.1] |  |  |  |  |",
    ]
