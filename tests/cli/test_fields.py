"""Models of fields on the command line report what the library reports."""

import csv
import io
import json
import re

import numpy as np
import pytest

from cli.cases import COLUMNS, ratings, write_csv
from exfam import FieldClimatology, FieldEFA, FieldKriging, cli, load
from exfam.cli.signatures import MODELS
from exfam.fields.plan import plan_field_fit
from exfam.simulators import FieldSettings, simulate_field

N_SITES = 5
PLACES = ("--time", "day", "--site", "station", "--coordinates", "[lat, lon]")
VALUE = ("--value", "celsius", "--missing", "-99")
TINY = (
    "--embed-dim", "4", "--n-heads", "1", "--head-dim", "2", "--head-hidden-dim", "0",
    "--feed-forward-dim", "0", "--read-out-heads", "0", "--max-epochs", "2",
)  # fmt: skip
HEADER = ("day", "station", "lat", "lon", "celsius")
NAMES = {
    "time": "day", "site": "station", "coordinates": ("lat", "lon"), "value": "celsius",
    "missing": (-99.0,),
}  # fmt: skip


def weather(n_days=24, seed=0):
    """Rows of day, station, place, value: some empty, some -99, in no order."""
    drawn = simulate_field(
        N_SITES, n_days, settings=FieldSettings(season=0.0), missing=0.1, seed=seed
    )
    rows = [list(row.values()) for row in drawn.frame.to_pylist()]
    for place, row in enumerate(rows):
        row[-1] = (-99 if place % 2 else "") if row[-1] is None else row[-1]
    order = np.random.default_rng(seed).permutation(len(rows))
    return [rows[place] for place in order]


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def numbers(rows, name):
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with `weather.csv` and a small `model` of it, both of which are only read."""
    folder = tmp_path_factory.mktemp("weather")
    file = write_csv(folder / "weather.csv", weather(), HEADER)
    words = [*PLACES, *VALUE, *TINY, "--lags", "1", "-o", str(folder / "model")]
    assert cli.main(["fit", str(file), "--model", "field-efa", *words]) == 0
    return folder


@pytest.fixture(scope="module")
def model(place):
    return load(place / "model")


def test_the_command_fits_what_the_library_fits(place, model):
    here = FieldEFA(
        **NAMES, lags=1, embed_dim=4, n_heads=1, head_dim=2, head_hidden_dim=0,
        feed_forward_dim=0, read_out_heads=0, max_epochs=2, progress=False,
    ).fit(place / "weather.csv")  # fmt: skip
    assert {**model.get_params(), "progress": False} == {
        **here.get_params(), "family": model.family
    }  # fmt: skip
    assert np.array_equal(model.predict(place / "weather.csv"), here.predict(place / "weather.csv"))


def test_the_table_has_the_scores_on_the_last_maps(run, place, tmp_path):
    words = [*PLACES, *VALUE, *TINY, "--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", place / "weather.csv", "--model", "field-efa", *words)
    assert status == 0, err
    rows = {row["model"]: row for row in table(out)}
    fitted = load(tmp_path / "m")
    plan = plan_field_fit(fitted, place / "weather.csv", validation=None, checkpoint=None)
    assert plan.validation is not None
    assert f"on {len(plan.validation)} held-out maps" in err and "24 times x 5 sites" in err
    expected = {
        "FieldEFA": fitted,
        "FieldClimatology": FieldClimatology(**NAMES).fit(plan.train),
        "FieldKriging": FieldKriging(**NAMES).fit(plan.train),
    }
    assert set(rows) == set(expected)
    for name, estimator in expected.items():
        assert float(rows[name]["nats"]) == pytest.approx(
            estimator.score(plan.validation), abs=1e-9
        )
    assert int(rows["FieldEFA"]["epochs"]) == 2 and rows["FieldKriging"]["epochs"] == ""


@pytest.mark.parametrize(
    "name", [name for name, model in MODELS.items() if model.reads == "fields"]
)
def test_every_model_is_fitted_saved_and_used(run, place, tmp_path, name):
    small = {"field-efa": TINY, "field-latent-factor": ["--max-epochs", "2"]}.get(name, [])
    words = [*PLACES, *VALUE, *small, "-o", tmp_path / "m"]
    status, out, err = run("fit", place / "weather.csv", "--model", name, *words)
    assert status == 0, err
    assert out.splitlines()[1].startswith(MODELS[name].name)
    assert type(load(tmp_path / "m")).__name__ == MODELS[name].name
    status, out, err = run("score", tmp_path / "m", place / "weather.csv")
    assert status == 0, err
    assert json.loads(run("info", tmp_path / "m", "--format", "json")[1])["sites"] == N_SITES


def test_counts_stand_alone(run, tmp_path):
    rows = [[*row[:4], k % 7] for k, row in enumerate(weather(8))]
    file = write_csv(tmp_path / "birds.csv", rows, HEADER)
    words = [*PLACES, *VALUE, *TINY, "--family", "poisson", "-o", tmp_path / "m"]
    status, out, err = run("fit", file, "--model", "field-efa", *words, "--format", "csv")
    assert status == 0, err
    assert [row["model"] for row in table(out)] == ["FieldEFA"]


def test_new_maps_are_compared_with_baselines(run, place, tmp_path):
    file = place / "weather.csv"
    rows = [[*row[:4], float(row[4]) + 1] for row in weather() if row[4] not in ("", -99)]
    new = [[str(row[0]).replace("20", "21", 1), *row[1:]] for row in rows]
    words = ["score", place / "model", write_csv(tmp_path / "new.csv", new, HEADER)]
    assert "--train FILE, the data of the fit, says" in run(*words)[2]
    status, _, err = run(*words, "--train", file)
    assert status == 0, err
    assert (
        len(re.findall(r"^Field\w+ has -\d\S+ nats per observation of 'celsius'", err, re.M)) == 3
    )
    assert re.search(r"^(FieldEFA is ahead of all|Field\w+ is ahead of FieldEFA by)", err, re.M)
    err = run("score", place / "model", file, "--train", file)[2]
    assert "nothing is compared: the model has seen all maps in its fit" in err


def test_scores_are_the_model_s(run, place, model):
    file = place / "weather.csv"
    dist = model.predict_dist(file)
    value = np.array([row[-1] if row[-1] not in ("", -99) else np.nan for row in weather()])
    (row,) = table(run("score", place / "model", file, "--format", "csv")[1])
    assert float(row["nats"]) == pytest.approx(model.score(file), abs=1e-5)
    assert float(row["crps"]) == pytest.approx(np.nanmean(dist.crps(value)))
    assert int(row["targets"]) == np.isfinite(value).sum() < len(value)
    rows = table(run("score", place / "model", file, "--per-row", "--format", "csv")[1])
    assert np.allclose(numbers(rows, "nats"), model.log_prob(file), atol=1e-5, equal_nan=True)
    assert np.allclose(numbers(rows, "crps"), dist.crps(value), equal_nan=True)
    assert [each["station"] for each in rows] == [each[1] for each in weather()]
    assert [int(each["row"]) for each in rows] == list(range(len(rows)))


def test_predictions_are_the_model_s(run, place, model):
    file = place / "weather.csv"
    dist = model.predict_dist(file)
    words = ["predict", place / "model", file, "--format", "csv"]
    rows = table(run(*words, "--interval", "0.8")[1])
    assert [each["day"] for each in rows] == [str(each[0]) for each in weather()]
    low, high = dist.interval(0.8)
    for name, wanted in {"mean": dist.mean, "sd": dist.sd, "low": low, "high": high}.items():
        assert np.array_equal(numbers(rows, f"celsius_{name}"), wanted) and np.ptp(wanted) > 0
    rows = table(run(*words, "--quantiles", "0.25", "0.5")[1])
    assert np.array_equal(numbers(rows, "celsius_q0.25"), dist.quantile(0.25))


def test_a_new_place_is_predicted(run, place, tmp_path, model):
    rows = weather(2)
    file = write_csv(tmp_path / "r.csv", [*rows, [rows[0][0], "new", 40.0, -100.0, ""]], HEADER)
    rows = table(run("predict", place / "model", file, "--format", "csv")[1])
    assert rows[-1]["station"] == "new"
    assert numbers(rows, "celsius_mean")[-1] == model.predict(file)[-1]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("recommend", [], "`MODEL` must be of groups, not of fields, got FieldEFA. Use `exfam pre"),
        ("explain", [], "not of fields, got FieldEFA. Use FieldEFA.explain"),
        ("report", ["-o", "page.html"], "not of fields, got FieldEFA. Use `exfam score`"),
        ("predict", ["--proba"], "`--proba` must be left out for a model of fields, got True. Use"),
        ("predict", ["--interval", "1.5"], "`--interval` must be strictly between 0 and 1, got 1"),
        ("predict", ["--quantiles", "0.5", "0"], "`--quantiles` must be strictly between 0 and 1"),
        ("score", ["--unknown", "unk"], "`--unknown` must be left out for a model of fields, got"),
        ("score", ["--memory-limit", "1GB"], "`--memory-limit` must be left out for a model of"),
        ("score", ["--database", "sqlite:///a.db"], "`--database` must be left out"),
    ],
)
def test_what_a_field_has_not_is_refused(
    run, place, tmp_path, monkeypatch, command, words, message
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(command, place / "model", place / "weather.csv", *words)
    assert status == 2 and out == "" and err.count("\n") == 1 and message in err


@pytest.mark.parametrize("name", ["time", "site", "coordinates", "value"])
def test_a_column_that_is_not_named_is_an_error(run, place, tmp_path, name):
    words = [*PLACES, *VALUE]
    at = words.index(f"--{name}")
    del words[at : at + 2]
    output = ["--model", "field-ridge", "-o", tmp_path / "m"]
    status, _, err = run("fit", place / "weather.csv", *words, *output)
    assert status == 2 and re.search(f"`--{name}` must name a column to read .*weather.csv", err)


def test_what_is_wrong_in_a_file_is_named(run, tmp_path):
    rows = weather(4)
    file = write_csv(tmp_path / "r.csv", [*rows, rows[0]], HEADER)
    words = [*PLACES, *VALUE, "--model", "field-climatology", "-o", tmp_path / "m"]
    status, _, err = run("fit", file, *words)
    assert status == 2 and err.count("\n") == 1
    assert "`FILE` must have one row for each time and site" in err and "r.csv" in err


def test_nothing_to_score_is_an_error(run, place, tmp_path):
    rows = [[*row[:4], ""] for row in weather(2)]
    file = write_csv(tmp_path / "r.csv", rows, HEADER)
    status, _, err = run("score", place / "model", file)
    assert status == 2 and "`FILE` must hold at least one observed value to score" in err


def test_options_of_groups_are_none_of_fields(run, place, tmp_path):
    words = [*PLACES, *VALUE, "--model", "field-ridge", "-o", tmp_path / "m"]
    status, _, err = run("fit", place / "weather.csv", *words, "--duplicates", "drop")
    assert (
        status == 2 and "`--duplicates` must be an option of `exfam fit --model field-ridge`" in err
    )
    file = write_csv(tmp_path / "ratings.csv", ratings())
    status, _, err = run("fit", file, *COLUMNS, "--model", "field-ridge", "-o", tmp_path / "m")
    assert status == 2 and "`--group` must be an option of `exfam fit --model field-ridge`" in err
