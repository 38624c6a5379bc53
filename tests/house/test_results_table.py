"""The results page's table of results is the one made from the files kept in docs/results."""

import results_table

from exfam_studies.common.rows import Row, write_rows


def test_without_files_there_is_a_sentence(tmp_path):
    assert results_table.render(tmp_path) == results_table.EMPTY
    assert results_table.render(tmp_path / "missing") == results_table.EMPTY


def test_a_line_holds_all_models_of_a_task_and_marks_the_best(tmp_path):
    shared = {"task": "synthetic-causal", "metric": "mse"}
    rows = [
        Row(model="efa", value=1.03, sd=0.001, paper=1.033, cpu_seconds=5.04, **shared),
        Row(model="efa-ensemble", value=1.02, **shared),
        Row(model="latent-factor", value=2.0, settings={"intercept": True}, **shared),
        Row(model="latent-factor", value=4.5, paper=4.519, **shared),
        Row(model="marginal", value=2.2, **shared),
        Row(model="efa", task="synthetic-causal", metric="mean-given-1", value=1.0),
    ]
    write_rows(tmp_path / "efa-synthetic.json", "efa-synthetic", rows)
    head, _, *lines = results_table.render(tmp_path).splitlines()
    assert head.count("|") == len(results_table.COLUMNS) + 1
    assert lines == [
        "| synthetic-causal |  | mse | 1.0300 ± 0.0010<br>**1.0200** (ensemble) "
        "| 2.0000 (intercept True)<br>4.5000 | 2.2000 (marginal) "
        "| 1.033 / 4.519 | 5.0 |"
    ]


def test_settings_that_must_agree_have_lines_of_their_own(tmp_path):
    rows = [
        Row(
            task="t",
            metric="nats",
            model="efa",
            value=1.0,
            settings={"support": support, "split": split},
        )
        for support in ("all", "exclusion")
        for split in ("paper", "correct")
    ]
    write_rows(tmp_path / "a.json", "efa-movielens-items", rows)
    lines = results_table.render(tmp_path).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[2:5:2]] for line in lines]
    assert cells == [
        ["support all", "1.0000"],
        ["support exclusion", "1.0000"],
    ]


def rating(family, *, version="v1", model="efa", metric="nats", **more):
    settings = {"family": family, "split": "paper", **more.pop("settings", {})}
    task = f"movielens-ratings-{version}-causal"
    return Row(task=task, model=model, metric=metric, settings=settings, **more)


def test_exact_figures_are_of_the_family_that_validation_chose(tmp_path):
    interval = {"low": -0.2, "high": 0.1, "against": "binomial"}
    difference = {"value": -0.05, "metric": results_table.DIFFERENCE, "settings": interval}
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
    write_rows(tmp_path / "a.json", "efa-movielens-ratings", rows)
    task = "movielens-ratings"
    assert results_table.render(tmp_path).splitlines()[2:] == [
        f"| {task}-v1-causal | family poisson | paper-loss | 0.5000 |  |  |  |  |",
        f"| {task}-v2-causal | family poisson | paper-loss | 0.5000 |  |  |  |  |",
        f"| {task}-causal |  | nats | **0.9000** (binomial) "
        "| 2.0000 (notebook, poisson v1) |  |  |  |",
        f"| {task}-causal | family binomial | nats-difference | -0.0500 [-0.2, 0.1] |  |  |  |  |",
    ]


def test_files_with_tables_of_their_own_are_left_out(tmp_path):
    row = Row(task="temperature-same-day", model="efa-site", metric="mse", value=8.5)
    write_rows(tmp_path / results_table.ELSEWHERE[1], "efa-temperature", [row])
    assert results_table.render(tmp_path) == results_table.EMPTY


def test_a_known_noise_needs_no_nats_beside_the_error(tmp_path):
    rows = [
        Row(task=task, metric=metric, model="efa", value=1.0)
        for task, metric in [("a", "mse"), ("a", "nats"), ("b", "nats")]
    ]
    write_rows(tmp_path / "a.json", "efa-synthetic", rows)
    lines = results_table.render(tmp_path).splitlines()[2:]
    assert [(line.split("|")[1].strip(), line.split("|")[3].strip()) for line in lines] == [
        ("a", "mse"),
        ("b", "nats"),
    ]
