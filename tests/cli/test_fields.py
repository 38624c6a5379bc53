"""Models of fields on the command line report what the library reports."""

import json
import re

import numpy as np
import pytest

from cli.cases import numbers, table, write_csv
from exfam import FieldClimatology, FieldEFA, FieldKriging, cli, load
from exfam.fields.plan import plan_field_fit
from exfam.simulators import simulate_field

N_SITES = 5
COLUMNS = {"time": "day", "site": "station", "coordinates": "[lat, lon]", "value": "celsius"}
WORDS = [word for name, column in COLUMNS.items() for word in (f"--{name}", column)]
WORDS += ["--missing", "-99"]
TINY = (
    "--embed-dim", "4", "--n-heads", "1", "--head-dim", "2", "--head-hidden-dim", "0",
    "--feed-forward-dim", "0", "--read-out-heads", "0", "--max-epochs", "2",
)  # fmt: skip
HEADER = ("day", "station", "lat", "lon", "celsius")
NAMES = COLUMNS | {"coordinates": ("lat", "lon"), "missing": (-99.0,)}


def weather(n_days=24, seed=0):
    """Rows of day, station, site, value: some empty, some -99, in no order."""
    drawn = simulate_field(N_SITES, n_days, season=0.0, missing=0.1, seed=seed)
    rows = [list(row.values()) for row in drawn.frame.to_pylist()]
    for k, row in enumerate(rows):
        row[-1] = (-99 if k % 2 else "") if row[-1] is None else row[-1]
    return [rows[k] for k in np.random.default_rng(seed).permutation(len(rows))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `weather.csv` and a small `model` of it, both of which are only read."""
    folder = tmp_path_factory.mktemp("weather")
    file = write_csv(folder / "weather.csv", weather(), HEADER)
    words = [*WORDS, *TINY, "--lags", "1", "-o", str(folder / "model")]
    assert cli.main(["fit", str(file), "--model", "field-efa", *words]) == 0
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return load(folder / "model")


def test_the_command_fits_what_the_library_fits(run, folder, model):
    here = FieldEFA(
        **NAMES, lags=1, embed_dim=4, n_heads=1, head_dim=2, head_hidden_dim=0,
        feed_forward_dim=0, read_out_heads=0, max_epochs=2, progress=False,
    ).fit(folder / "weather.csv")  # fmt: skip
    expected = here.get_params() | {"family": model.family}
    assert model.get_params() | {"progress": False} == expected
    file = folder / "weather.csv"
    assert np.array_equal(model.predict(file), here.predict(file))
    facts = json.loads(run("info", folder / "model", "--format", "json")[1])
    assert (facts["sites"], facts["lags"]) == (N_SITES, 1)


def test_the_table_has_the_scores_on_the_last_maps(run, folder, tmp_path):
    words = [*WORDS, *TINY, "--base", "none", "--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", folder / "weather.csv", "--model", "field-efa", *words)
    assert status == 0, err
    rows = {row["model"]: row for row in table(out)}
    fitted = load(tmp_path / "m")
    plan = plan_field_fit(fitted, folder / "weather.csv", validation=None, checkpoint=None)
    assert f"on {len(plan.validation)} held-out maps" in err and "24 times x 5 sites" in err
    expected = {
        "FieldEFA": fitted,
        "FieldClimatology": FieldClimatology(**NAMES).fit(plan.train),
        "FieldKriging": FieldKriging(**NAMES).fit(plan.train),
    }
    assert set(rows) == set(expected)
    for name, estimator in expected.items():
        score = estimator.score(plan.validation)
        assert float(rows[name]["nats"]) == pytest.approx(score, abs=1e-9)
    assert int(rows["FieldEFA"]["epochs"]) == 2 and rows["FieldKriging"]["epochs"] == ""


def test_counts_stand_alone(results, tmp_path):
    rows = [[*row[:4], k % 7] for k, row in enumerate(weather(8))]
    file = write_csv(tmp_path / "birds.csv", rows, HEADER)
    words = [*WORDS, *TINY, "--family", "poisson", "-o", tmp_path / "m"]
    rows = results("fit", file, "--model", "field-efa", *words)
    assert [row["model"] for row in rows] == ["FieldEFA"]


def test_scores_and_predictions_are_the_model_s(results, folder, model):
    file = folder / "weather.csv"
    dist = model.predict_dist(file)
    value = np.array([row[-1] if row[-1] not in ("", -99) else np.nan for row in weather()])
    (row,) = results("score", folder / "model", file)
    assert float(row["nats"]) == pytest.approx(model.score(file), abs=1e-5)
    assert float(row["crps"]) == pytest.approx(np.nanmean(dist.crps(value)))
    assert int(row["targets"]) == np.isfinite(value).sum() < len(value)
    rows = results("score", folder / "model", file, "--per-row")
    assert np.allclose(numbers(rows, "nats"), model.log_prob(file), atol=1e-5, equal_nan=True)
    assert np.allclose(numbers(rows, "crps"), dist.crps(value), equal_nan=True)
    names = [(str(row[0]), row[1], str(k)) for k, row in enumerate(weather())]
    assert [(row["day"], row["station"], row["row"]) for row in rows] == names
    words = ["predict", folder / "model", file]
    rows = results(*words, "--interval", "0.8")
    low, high = dist.interval(0.8)
    for name, wanted in {"mean": dist.mean, "sd": dist.sd, "low": low, "high": high}.items():
        assert np.array_equal(numbers(rows, f"celsius_{name}"), wanted) and np.ptp(wanted) > 0
    rows = results(*words, "--quantiles", "0.25", "0.5")
    assert np.array_equal(numbers(rows, "celsius_q0.25"), dist.quantile(0.25))


def test_a_new_site_is_predicted(results, folder, tmp_path, model):
    rows = weather(2)
    file = write_csv(tmp_path / "r.csv", [*rows, [rows[0][0], "new", 40.0, -100.0, ""]], HEADER)
    last = results("predict", folder / "model", file)[-1]
    assert last["station"] == "new" and float(last["celsius_mean"]) == model.predict(file)[-1]


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("recommend", [], "`MODEL` must be of groups, not of fields, got FieldEFA. Use `exfam pre"),
        ("predict", ["--quantiles", "0.5", "0"], "`--quantiles` must be strictly between 0 and 1"),
        ("score", ["--unknown", "unk"], "`--unknown` must be left out for a model of fields, got"),
    ],
)
def test_what_a_field_has_not_is_refused(refusal, folder, command, words, message):
    assert message in refusal(command, folder / "model", folder / "weather.csv", *words)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_that_is_not_named_is_an_error(refusal, folder, tmp_path, name):
    at = WORDS.index(f"--{name}")
    words = [*WORDS[:at], *WORDS[at + 2 :], "--model", "field-ridge", "-o", tmp_path / "m"]
    line = refusal("fit", folder / "weather.csv", *words)
    assert re.search(f"`--{name}` must name a column to read .*weather.csv", line)


def test_what_is_wrong_in_a_file_or_its_options_is_named(refusal, folder, tmp_path):
    rows = weather(4)
    file = write_csv(tmp_path / "r.csv", [*rows, rows[0]], HEADER)
    words = [*WORDS, "--model", "field-climatology", "-o", tmp_path / "m"]
    line = refusal("fit", file, *words)
    assert "`FILE` must have one row for each time and site" in line and "r.csv" in line
    line = refusal("fit", file, *words, "--duplicates", "drop")
    assert "`--duplicates` must be an option of `exfam fit --model field-climatology`" in line
    file = write_csv(tmp_path / "r.csv", [[*row[:4], ""] for row in rows], HEADER)
    line = refusal("score", folder / "model", file)
    assert "`FILE` must hold at least one observed value to score" in line


def test_what_a_mean_is_made_of_adds_up_to_it(run, folder, model, tmp_path):
    file = folder / "weather.csv"
    status, out, err = run("explain", folder / "model", file, "--format", "csv")
    assert status == 0, err
    sums: dict = {}
    for row in table(out):
        key = row["time"], row["site"]
        sums[key] = sums.get(key, 0.0) + float(row["added"])
    rows = table(run("predict", folder / "model", file, "--format", "csv")[1])
    means = {(row["day"], row["station"]): float(row["celsius_mean"]) for row in rows}
    assert sums.keys() == means.keys()
    assert all(sums[key] == pytest.approx(means[key], abs=1e-3) for key in sums)
    day = next(iter(means))[0]
    words = ("--groups", day, "--top", "1", "--format", "csv")
    few = table(run("explain", folder / "model", file, *words)[1])
    assert {row["time"] for row in few} == {day}
    short: dict = {}
    for row in few:
        short[row["site"]] = short.get(row["site"], 0.0) + float(row["added"])
    assert short == pytest.approx({site: sums[day, site] for site in short}, abs=1e-6)
    assert {row["context"] for row in few} >= {"(normal)", "(others)", "(attention)"}


def test_a_network_alone_is_explained_by_its_weights(run, folder, tmp_path):
    file = folder / "weather.csv"
    alone = (*WORDS, *TINY, "--base", "none", "-o", tmp_path / "m")
    assert run("fit", file, "--model", "field-efa", *alone)[0] == 0
    for words in ((), ("--per-head",)):
        rows = table(run("explain", tmp_path / "m", file, "--format", "csv", *words)[1])
        sums: dict = {}
        for row in rows:
            key = row["time"], row["site"], row.get("layer"), row.get("head")
            sums[key] = sums.get(key, 0.0) + float(row["weight"])
        assert list(sums.values()) == pytest.approx([1.0] * len(sums), abs=1e-5)


def test_explanations_that_cannot_be_given_are_refused(run, folder, tmp_path):
    file = folder / "weather.csv"
    for words, message in (
        (("--groups", "1999-01-01"), "`--groups` must name times of the file, got '1999-01-01'"),
        (("--rows", "0"), "`--rows` must be left out for a model of fields, got"),
    ):
        _, _, err = run("explain", folder / "model", file, *words)
        assert message in err
    for name in ("kriging", "gaussian"):
        words = ("--model", f"field-{name}", *WORDS, "-o", tmp_path / name[0])
        assert run("fit", file, *words)[0] == 0
    heads = run("explain", tmp_path / "g", file, "--per-head")[2]
    assert "`--per-head` must be left out for a model without attention weights" in heads
    assert "must be a FieldGaussian or a FieldEFA" in run("explain", tmp_path / "k", file)[2]


def test_a_page_about_a_field_is_written(run, folder, tmp_path):
    page = tmp_path / "page.html"
    status, _, err = run("report", folder / "model", folder / "weather.csv", "-o", page)
    assert status == 0 and f"written to {page}" in err
    assert "How good" in page.read_text(encoding="utf-8")
