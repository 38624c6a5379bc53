"""The results page's tables of shifted tables are those made from the kept files."""

import math

from shifted_tables_table import EMPTY, HEAD, HEAD_OF_CARS, render

from exfam_studies.common.rows import Row, write_rows

POOLED = {"bins": "pooled", "rule": "mean"}


def cells(text, head):
    lines = text.splitlines()
    assert all(line.count("|") == len(head) + 1 for line in lines)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def simulated(model, value, *, task="simulation-5-0.5-0.9", n=20, **more):
    settings = POOLED | more.pop("settings", {})
    told = {"metric": "mse", "sd": 0.2 * math.sqrt(n), "n_seeds": n} | more
    return Row(task=task, model=model, value=value, settings=settings, **told)


def test_without_files_there_is_a_sentence(tmp_path):
    assert render(tmp_path) == EMPTY


def test_a_setting_has_figures_of_the_mean_rule_with_standard_errors(tmp_path):
    rows = [
        simulated("masked-table", 1.5),
        simulated("masked-table", 9.0, settings={"rule": "argmax"}),
        simulated("masked-table", 0.4, metric="accuracy"),
        simulated("catboost", 1.0, n=2),
        simulated("ridge", 2.0),
        simulated("reference", 1.75, n=5),
        simulated("reference", 1.9, n=5, settings={"rule": "argmax"}, paper=2.355),
        simulated("masked-table", -0.25, metric="minus-mse", settings={"against": "reference"}),
        simulated("masked-table", 7.0, metric="minus-mse", settings={"against": "ridge"}),
    ]
    write_rows(tmp_path / "table-simulation.json", "table-simulation", rows)
    setting, pooled, trained = cells(render(tmp_path), HEAD)
    assert setting == [
        "5, 0.5, 0.9", "**1.50 ± 0.20**", "", "", "", "1.00 ± 0.20", "2.00 ± 0.20", "",
        "1.75 ± 0.20", "-0.25 ± 0.20", "2.355",
    ]  # fmt: skip
    # A mean over fewer data sets is no figure to set beside others; paired differences are.
    assert pooled[:2] == ["mean, pooled bins", "1.50"] and pooled[5] == pooled[8] == ""
    assert pooled[9] == "-0.25"
    assert trained == ["mean, training bins", *[""] * 10]


def test_means_are_of_models_that_have_all_settings(tmp_path):
    other = {"task": "simulation-1-0-0.1"}
    train = {"settings": {"bins": "train"}}
    rows = [
        simulated("masked-table", 1.0),
        simulated("masked-table", 4.0, **other),
        simulated("ridge", 2.0),
        simulated("ridge", 3.0, **train),
        simulated("ridge", 3.5, **train, **other),
    ]
    write_rows(tmp_path / "table-simulation.json", "table-simulation", rows)
    *settings, pooled, trained = cells(render(tmp_path), HEAD)
    assert [line[0] for line in settings] == ["5, 0.5, 0.9", "1, 0, 0.1"]
    assert (pooled[1], pooled[6]) == ("2.50", "") and (trained[1], trained[6]) == ("", "3.25")


def test_cars_have_both_rules_and_the_paper_s_figures(tmp_path):
    shared = {"task": "autompg", "model": "masked-table", "n_seeds": 20, "cpu_seconds": 1.26}
    argmax, train = {"bins": "pooled", "rule": "argmax"}, {"bins": "train", "rule": "argmax"}
    rows = [
        Row(metric="accuracy", settings=argmax, value=0.76, sd=0.02, paper=0.793, **shared),
        Row(metric="mse", settings=argmax, value=0.24, sd=0.02, paper=0.207, **shared),
        Row(metric="accuracy", settings=POOLED, value=0.77, sd=0.01, **shared),
        Row(metric="accuracy", settings=train, value=0.1, **shared),
        Row(task="autompg", model="ridge", metric="accuracy", settings=train, value=0.1),
        Row(task="autompg", model="tabnet", metric="accuracy", settings=argmax, paper=0.6),
    ]
    write_rows(tmp_path / "table-autompg.json", "table-autompg", rows)
    assert cells(render(tmp_path), HEAD_OF_CARS) == [
        ["masked-table", "0.760 ± 0.020", "0.240 ± 0.020", "0.770 ± 0.010", "",
         "0.793 / 0.207", "20", "1.3"],
        ["tabnet", "", "", "", "", "0.600", "", ""],
    ]  # fmt: skip
