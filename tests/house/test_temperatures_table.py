"""The README's table of temperatures is the one made from the file kept in docs/results."""

import importlib.util

import pytest

from exfam.reproduce.rows import Row, write_rows
from house.sources import ROOT


@pytest.fixture(scope="module")
def script():
    path = ROOT / "docs/temperatures_table.py"
    spec = importlib.util.spec_from_file_location("temperatures_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(script, folder, rows):
    write_rows(folder / "a.json", "efa-temperature", rows)
    lines = script.render(folder / "a.json").splitlines()
    assert all(line.count("|") == len(script.COLUMNS) + 1 for line in lines)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_the_readme_has_the_table_of_the_file(script):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count(script.BEGIN) == text.count(script.END) == 1
    assert text == script.replace_block(text, script.render(script.RESULTS)), (
        "run: python docs/temperatures_table.py"
    )


def test_without_a_file_there_is_a_sentence(script, tmp_path):
    assert script.render(tmp_path / "missing.json") == script.EMPTY


def test_a_line_holds_what_a_model_reached(script, tmp_path):
    shared = {"task": "temperature-same-day", "cpu_seconds": 4.04}
    rows = [
        Row(model="efa-site", metric="mse", value=8.25, sd=0.1, paper=11.5, **shared),
        Row(model="efa-site", metric="coverage-90", value=0.884, **shared),
        Row(model="efa-site", metric="mse", value=1.0, settings={"days": "few"}, **shared),
        Row(model="kriging", metric="mse", value=9.0, **shared),
        Row(model="kriging", metric="nats", value=2.5, **shared),
        Row(model="truth", metric="mse", value=7.0, task="temperature-same-day"),
    ]
    assert cells(script, tmp_path, rows) == [
        ["same-day", "efa-site", "**8.250 ± 0.100**", "", "", "", "88 %", "11.5", "4.0"],
        ["same-day", "kriging", "9.000", "", "**2.500**", "", "", "", "4.0"],
        ["same-day", "truth", "7.000", "", "", "", "", "", ""],
    ]


def test_one_number_of_neighbors_is_shown_and_draws_have_places_of_their_own(script, tmp_path):
    rows = [
        Row(
            task="temperature-simulated",
            model=f"latent-factor-k{k}",
            settings={"k": k, "draw": draw, "lags": 0},
            metric="mse",
            value=float(k),
            validation=validation,
        )
        for draw, k, validation in [("a", 1, 3.0), ("a", 5, 2.0), ("b", 1, 1.0), ("b", 5, None)]
    ]
    assert [line[:3] for line in cells(script, tmp_path, rows)] == [
        ["simulated, a, lags 0", "latent-factor-k5", "**5.000**"],
        ["simulated, b, lags 0", "latent-factor-k1", "**1.000**"],
    ]


def test_the_block_is_replaced_as_a_whole(script):
    text = f"a\n{script.BEGIN}\nold\n{script.END}\nb\n"
    assert script.replace_block(text, "new") == f"a\n{script.BEGIN}\nnew\n{script.END}\nb\n"
