"""The results page's table of temperatures is the one made from the file kept in docs/results."""

import temperatures_table

from exfam_studies.common.rows import Row, write_rows


def cells(folder, rows):
    write_rows(folder / "a.json", "efa-temperature", rows)
    lines = temperatures_table.render(folder / "a.json").splitlines()
    assert all(line.count("|") == len(temperatures_table.COLUMNS) + 1 for line in lines)
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


def test_without_a_file_there_is_a_sentence(tmp_path):
    assert temperatures_table.render(tmp_path / "missing.json") == temperatures_table.EMPTY


def test_a_line_holds_what_a_model_reached(tmp_path):
    shared = {"task": "temperature-same-day", "cpu_seconds": 4.04}
    rows = [
        Row(model="efa-site", metric="mse", value=8.25, sd=0.1, paper=11.5, **shared),
        Row(model="efa-site", metric="coverage-90", value=0.884, **shared),
        Row(model="efa-site", metric="mse", value=1.0, settings={"days": "few"}, **shared),
        Row(model="kriging", metric="mse", value=9.0, **shared),
        Row(model="kriging", metric="nats", value=2.5, **shared),
        Row(model="truth", metric="mse", value=7.0, task="temperature-same-day"),
    ]
    assert cells(tmp_path, rows) == [
        ["same-day", "efa-site", "**8.250 ± 0.100**", "", "", "", "88 %", "11.5", "4.0"],
        ["same-day", "kriging", "9.000", "", "**2.500**", "", "", "", "4.0"],
        ["same-day", "truth", "7.000", "", "", "", "", "", ""],
    ]


def test_one_number_of_neighbors_is_shown_and_draws_have_places_of_their_own(tmp_path):
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
    assert [line[:3] for line in cells(tmp_path, rows)] == [
        ["simulated, a, lags 0", "latent-factor-k5", "**5.000**"],
        ["simulated, b, lags 0", "latent-factor-k1", "**1.000**"],
    ]
