"""Tables in pages are those made from the files kept in docs/results, and say what rows have."""

import pytest

from exfam_studies.common.documentation import BLOCKS
from exfam_studies.common.documentation.overview import DIFFERENCE, overview_lines
from exfam_studies.common.documentation.pages import Block
from exfam_studies.common.documentation.shifts import whole_rows
from exfam_studies.common.rows import Row


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_page_has_the_tables_of_the_kept_files(block):
    text = block.page.read_text(encoding="utf-8")
    assert text.count(block.begin) == text.count(block.end) == 1
    assert text == block.filled(text), "run: python -m exfam_studies.common.documentation"


def test_only_what_stands_between_the_markers_is_replaced(tmp_path):
    block = Block(tmp_path / "page.md", "figures", lambda: "new")
    block.page.write_text(f"a\n{block.begin}\nold\nlines\n{block.end}\nb\n", encoding="utf-8")
    for _ in range(2):
        block.write()
        assert block.page.read_text(encoding="utf-8") == f"a\n{block.begin}\nnew\n{block.end}\nb\n"


def wine(model, metric, value, **settings):
    settings = {"dropped": 0.0, "error": 0.02} | settings
    return Row(task="wine", model=model, metric=metric, value=value, settings=settings)


def test_the_best_of_a_figure_on_whole_rows_is_bold_and_has_its_error():
    rows = [
        wine("masked-table", "accuracy", 0.51, rule="argmax"),
        wine("ridge", "accuracy", 0.52, rule="argmax"),
        wine("masked-table", "mse", 0.8, rule="mean"),
        wine("masked-table", "minus-mse", -0.1, rule="mean", against="catboost-tuned"),
        wine("masked-table", "nats", 1.1),
        wine("ridge", "nats-mixed", 1.3),
    ]
    head, (accuracy, mse, nats) = whole_rows(rows)
    attention, ridge = head.index("attention network"), head.index("ridge")
    shown = {attention: "0.510 ± 0.020", ridge: "**0.520 ± 0.020**"}
    assert accuracy[:2] == ["wine", "accuracy"] and len(accuracy) == len(head)
    assert {k: cell for k, cell in enumerate(accuracy) if cell and k > 1} == shown
    assert mse[attention] == "**0.800 ± 0.020**" and mse[-2:] == ["", "-0.100 ± 0.020"]
    assert nats[1] == "nats" and nats[attention] == "" and nats[ridge] == "**1.300 ± 0.020**"


def shown_lines(rows):
    return [f"| {' | '.join(line)} |" for line in overview_lines(rows)]


def test_a_line_of_the_overview_holds_all_models_of_a_task_and_marks_the_best():
    shared = {"task": "synthetic-causal", "metric": "mse"}
    rows = [
        Row(model="efa", value=1.03, sd=0.001, paper=1.033, cpu_seconds=5.04, **shared),
        Row(model="efa-ensemble", value=1.02, **shared),
        Row(model="latent-factor", value=2.0, settings={"intercept": True}, **shared),
        Row(model="latent-factor", value=4.5, paper=4.519, **shared),
        Row(model="marginal", value=2.2, **shared),
        Row(model="marginal", value=0.1, settings={"split": "correct"}, **shared),
        Row(model="efa", task="synthetic-causal", metric="nats", value=1.0),
    ]
    assert shown_lines(rows) == [
        "| synthetic-causal |  | mse | 1.0300 ± 0.0010<br>**1.0200** (ensemble) "
        "| 2.0000 (intercept True)<br>4.5000 | 2.2000 (marginal) "
        "| 1.033 / 4.519 | 5.0 |"
    ]


def test_exact_figures_are_of_the_family_that_validation_chose():
    def rating(family, metric="nats", version="v1", model="efa", **more):
        settings = {"family": family, "split": "paper", **more.pop("settings", {})}
        task = f"movielens-ratings-{version}-causal"
        return Row(task=task, model=model, metric=metric, settings=settings, **more)

    interval = {"low": -0.2, "high": 0.1, "against": "binomial"}
    rows = [
        row
        for version, worse in (("v1", 0.0), ("v2", 0.1))
        for row in (
            rating("poisson", version=version, value=1.2 + worse, validation=1.2 + worse),
            rating("ordinal", version=version, value=0.8, validation=1.1),
            rating("binomial", version=version, value=0.9, validation=1.0),
            rating("binomial", DIFFERENCE, version, value=-0.05, settings=interval),
            rating("poisson", version=version, model="latent-factor-printed", value=2.0),
            rating("poisson", version=version, model="latent-factor", value=2 + worse),
        )
    ]
    task = "movielens-ratings-causal"
    assert shown_lines(rows) == [
        f"| {task} |  | nats | **0.9000** (binomial) | 2.0000 (poisson v1) |  |  |  |",
        f"| {task} | family binomial | nats-difference | -0.0500 [-0.2, 0.1] |  |  |  |  |",
    ]
