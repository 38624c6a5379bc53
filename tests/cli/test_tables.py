"""Models of tables on the command line do what the library does."""

import csv
import io
import json
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.dummy import DummyClassifier

from cli.cases import write_csv
from exfam import MaskedTableClassifier, cli, load
from exfam.cli.fit import form
from exfam.cli.signatures import MODELS
from exfam.tables.estimator.plan import split_rows

HEADER = ("age", "km", "fuel", "price", "sold")
TINY = (
    "--embed-dim", "4", "--n-heads", "2", "--head-dim", "2", "--ordinal", "true",
    "--extra-masking", "0.5", "--max-epochs", "2",
)  # fmt: skip
NAMES = {"table": "MaskedTable", "table-classifier": "MaskedTableClassifier"}
LEAN = {
    "embed_dim": 4, "n_heads": 2, "head_dim": 2, "ordinal": True, "extra_masking": 0.5,
    "max_epochs": 2, "progress": True,
}  # fmt: skip


def cars(n, seed):
    """Rows of used cars, every eighth cell missing in one of three ways."""
    rng = np.random.default_rng(seed)
    age = rng.gamma(3.0, 2.5, n).round(1)
    km = (age * 14).round().astype(int)
    fuel = rng.choice(["diesel", "electric", "petrol"], n)
    price = np.exp(3.3 - 0.1 * age + rng.normal(0.0, 0.1, n)).round(1)
    sold = np.where(age + rng.normal(0.0, 2.0, n) < 7, "yes", "no")
    rows = [list(row) for row in zip(age, km, fuel, price, sold, strict=True)]
    for row, folder in np.argwhere(rng.random((n, 5)) < 0.12):
        rows[row][folder] = ("", "NA", "nan")[row % 3]
    return rows


def frame(file):
    """The table as pandas reads it, with whole numbers that have gaps."""
    return pd.read_csv(file).astype({"km": "Int64"})


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def numbers(rows, name):
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `cars.csv`, `new.csv` and a model of each sort, by the example of its help."""
    folder = tmp_path_factory.mktemp("cars")
    write_csv(folder / "cars.csv", cars(160, 0), HEADER)
    write_csv(folder / "new.csv", cars(40, 1), HEADER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name, model in MODELS.items() if model.reads == "tables"]:
            _, _, *words = form(["--model", name]).example.split()
            words[words.index("-o") + 1] = name
            assert cli.main(["fit", *words, *TINY]) == 0
    return folder


def split(rows, response="sold"):
    return rows.drop(columns=response), rows[response]


def test_the_command_fits_what_the_library_fits(folder):
    here = MaskedTableClassifier(**LEAN).fit(*split(frame(folder / "cars.csv")))
    there = load(folder / "table-classifier")
    assert there.get_params() == here.get_params() and there.response_ == "sold"
    new = split(frame(folder / "new.csv"))[0]
    assert np.array_equal(there.predict_proba(new), here.predict_proba(new))
    arrow = pa.Table.from_pandas(frame(folder / "cars.csv"))
    again = MaskedTableClassifier(**LEAN).fit(arrow.drop_columns(["sold"]), arrow.select(["sold"]))
    assert again.response_ == "sold"
    assert np.array_equal(again.predict_proba(new), here.predict_proba(new))


def test_scores_of_labels_stand_beside_those_of_the_marginal_distribution(run, folder, tmp_path):
    words = ["--model", "table-classifier", "--response", "sold", *TINY, "-o", tmp_path / "m"]
    more = ["--validation-fraction", "0.25", "--format", "csv"]
    status, out, err = run("fit", folder / "cars.csv", *words, *more)
    assert status == 0, err
    rows = frame(folder / "cars.csv")
    kept, held = split_rows(rows["sold"].notna().to_numpy(), fraction=0.25, seed=0)
    assert f"on {len(held)} held-out rows" in err and "160 rows, 5 columns" in err
    X, y = split(rows.iloc[held])
    fitted, result = load(tmp_path / "m"), {row["model"]: row for row in table(out)}
    ours, marginal = result["MaskedTableClassifier"], result["Marginal"]
    assert float(ours["nats"]) == pytest.approx(fitted.log_score(X, y), abs=1e-9)
    assert float(ours["accuracy"]) == pytest.approx(fitted.score(X, y), abs=1e-12)
    assert int(ours["epochs"]) == len(fitted.history_) and marginal["epochs"] == ""
    expected_rows = split(rows.iloc[kept].dropna(subset="sold"))
    dummy = DummyClassifier(strategy="prior").fit(*expected_rows)
    proba = pd.DataFrame(dummy.predict_proba(X), columns=dummy.classes_, index=y.index)
    nats = np.mean([np.log(proba.loc[row, label]) for row, label in y.items()])
    assert float(marginal["nats"]) == pytest.approx(nats, abs=1e-6)
    assert float(marginal["accuracy"]) == pytest.approx(dummy.score(X, y))


def test_scores_of_numbers_stand_beside_those_of_the_marginal_distribution(run, folder, tmp_path):
    words = ["--model", "table-regressor", "--response", "price", *TINY, "-o", tmp_path / "m"]
    more = ["--validation", folder / "new.csv", "--format", "csv", "--family", "gaussian"]
    status, out, err = run("fit", folder / "cars.csv", *words, *more)
    assert status == 0 and "on 40 held-out rows" in err, err
    price = frame(folder / "cars.csv")["price"].dropna()
    X, y = split(frame(folder / "new.csv").dropna(subset="price"), "price")
    ours, marginal = table(out)
    fitted = load(tmp_path / "m")
    assert float(ours["nats"]) == pytest.approx(fitted.log_score(X, y), abs=1e-6)
    assert float(ours["r2"]) == pytest.approx(fitted.score(X, y), abs=1e-6)
    wanted = norm(price.mean(), price.std(ddof=0)).logpdf(y).mean()
    assert float(marginal["nats"]) == pytest.approx(wanted, abs=1e-4)
    wanted = 1 - np.square(y - price.mean()).sum() / np.square(y - y.mean()).sum()
    assert float(marginal["r2"]) == pytest.approx(wanted, abs=1e-4)


def test_scores_of_training_rows_are_called_so(run, folder, tmp_path):
    words = ["--model", "table", *TINY, "-o", tmp_path / "m", "--format", "csv"]
    status, out, err = run("fit", folder / "cars.csv", *words, "--ignore", "sold")
    assert status == 0 and "on 160 training rows; higher is better" in err
    assert "Training rows flatter flexible models: nothing is compared" in err
    assert "is ahead of" not in err
    ours, marginal = table(out)
    fitted = load(tmp_path / "m")
    assert fitted.features_ == HEADER[:4] and "accuracy" not in ours
    X = frame(folder / "cars.csv")[list(HEADER[:4])]
    assert float(ours["nats"]) == pytest.approx(fitted.score(X), abs=1e-6)
    assert float(marginal["nats"]) != float(ours["nats"])


def test_trials_and_columns_of_names_are_reported(run, tmp_path):
    rows = [[*row, f"car {k}"] for k, row in enumerate(cars(60, 2))]
    file = write_csv(tmp_path / "r.csv", rows, (*HEADER, "name"))
    quick = [*TINY[:6], "--extra-masking", "0", "--max-epochs", "1"]
    words = ["--model", "table-classifier", "--response", "sold", "--target", "ordinal"]
    kinds = ["--kinds", "{sold: [no, yes], fuel: [diesel, petrol, electric]}"]
    status, _, err = run("fit", file, *words, *kinds, *quick, "-o", tmp_path / "m")
    assert status == 0, err
    assert "column 'name' has 60 labels in 60 rows: `--ignore name` leaves it out" in err
    fitted = load(tmp_path / "m")
    best = max(trial.nats for trial in fitted.trials_ if trial.recipe == fitted.recipe_)
    assert f"{best:.6g} nats on training rows that its own trials held out" in err
    assert fitted.vocabulary_["fuel"].tolist() == ["diesel", "petrol", "electric"]


@pytest.mark.parametrize("family", ["binned", "gamma", "student-t"])
def test_the_distribution_of_a_response_is_chosen(run, folder, tmp_path, family):
    words = ["--model", "table-regressor", "--response", "price", "--family", family, *TINY]
    more = ["--families", "{km: gamma}", "-o", tmp_path / "m"]
    rows = [row for row in cars(60, 3) if row[1] != 0]
    file = write_csv(tmp_path / "r.csv", rows, HEADER)
    status, _, err = run("fit", file, *words, *more)
    assert status == 0, err
    result = json.loads(run("info", tmp_path / "m", "--format", "json")[1])
    families = {each["name"]: each["family"] for each in result["columns"]}
    assert families["price"] == {"binned": "histogram"}.get(family, family)
    assert families["km"] == "gamma" and result["response"] == "price"


def test_scores_are_the_model_s(run, folder):
    file, rows = folder / "new.csv", frame(folder / "new.csv")
    for name, response, measure in (
        ("table-classifier", "sold", "accuracy"),
        ("table-regressor", "price", "r2"),
    ):
        model = load(folder / name)
        X, y = split(rows.dropna(subset=response), response)
        (result,) = table(run("score", folder / name, file, "--format", "csv")[1])
        assert (result["part"], int(result["targets"])) == (response, len(y)) and len(y) < 40
        assert float(result["nats"]) == pytest.approx(model.log_score(X, y), abs=1e-6)
        assert float(result[measure]) == pytest.approx(model.score(X, y), abs=1e-6)
        per_row = table(run("score", folder / name, file, "--per-row", "--format", "csv")[1])
        wanted = model.log_scores(*split(rows, response))
        assert np.allclose(numbers(per_row, "nats"), wanted, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["table", "table-classifier"])
def test_new_rows_are_compared_with_the_marginal_distribution(run, folder, name):
    words = ["score", folder / name, folder / "new.csv"]
    assert "--train FILE, the data of the fit, says" in run(*words)[2]
    status, _, err = run(*words, "--train", folder / "cars.csv")
    assert status == 0
    ours, theirs = map(float, re.findall(r"^\w+ has (-\d\S+) nats .* on \d+ rows$", err, re.M))
    ahead = "Marginal is ahead of Masked" if theirs > ours else "is ahead of all baselines on"
    assert ahead in err
    status, _, err = run(
        "score", folder / name, folder / "cars.csv", "--train", folder / "cars.csv"
    )
    assert status == 0 and "nothing is compared: the model has seen all rows" in err


def test_a_joint_model_scores_every_column(run, folder):
    file, model = folder / "new.csv", load(folder / "table")
    rows = {
        row["part"]: row
        for row in table(run("score", folder / "table", file, "--format", "csv")[1])
    }
    expected_rows = frame(file)
    assert set(rows) == {"all", *HEADER}
    assert float(rows["all"]["nats"]) == pytest.approx(model.score(expected_rows), abs=1e-6)
    assert {
        name: int(rows[name]["targets"]) for name in HEADER
    } == expected_rows.notna().sum().to_dict()
    assert rows["fuel"]["r2"] == "" and rows["km"]["accuracy"] == ""
    per_row = table(run("score", folder / "table", file, "--per-row", "--format", "csv")[1])
    assert np.allclose(
        numbers(per_row, "nats"), model.pseudo_log_likelihood(expected_rows), atol=1e-5
    )


def test_predictions_are_the_model_s(run, folder):
    file, expected_rows = folder / "new.csv", frame(folder / "new.csv")
    classifier, regressor = load(folder / "table-classifier"), load(folder / "table-regressor")
    X, Z = split(expected_rows)[0], split(expected_rows, "price")[0]
    words = ["predict", folder / "table-classifier", file, "--format", "csv"]
    rows = table(run(*words)[1])
    assert [row["predicted_sold"] for row in rows] == classifier.predict(X).tolist()
    assert [row["sold"] for row in rows] == expected_rows["sold"].fillna("").tolist()
    rows = table(run(*words, "--proba")[1])
    result = np.stack([numbers(rows, f"sold={label}") for label in classifier.classes_], -1)
    assert np.allclose(result, classifier.predict_proba(X), atol=1e-12) and np.ptp(result) > 0
    rows = table(run(*words, "--of", "km")[1])
    distribution = classifier.conditional(["km"], given=expected_rows).predict_dist("km")
    assert np.allclose(numbers(rows, "km_mean"), distribution.mean, rtol=1e-5)
    words = ["predict", folder / "table-regressor", file, "--format", "csv"]
    assert np.allclose(numbers(table(run(*words)[1]), "price_mean"), regressor.predict(Z))
    distribution = regressor.predict_dist(Z)
    rows = table(run(*words, "--interval", "0.8")[1])
    assert np.allclose(numbers(rows, "price_low"), distribution.interval(0.8)[0])
    assert np.allclose(numbers(rows, "price_high"), distribution.interval(0.8)[1])
    rows = table(run(*words, "--quantiles", "0.25", "0.5")[1])
    assert np.allclose(numbers(rows, "price_q0.25"), distribution.quantile(0.25))


def test_a_joint_model_predicts_all_columns_and_fills_the_missing_cells(run, folder):
    file, model = folder / "new.csv", load(folder / "table")
    expected_rows = frame(file)
    words = ["predict", folder / "table", file, "--format", "csv"]
    rows, filled = table(run(*words)[1]), table(run(*words, "--fill")[1])
    wanted = model.impute(expected_rows).frame
    holes = expected_rows.isna()
    assert list(filled[0]) == ["row", *HEADER] and holes.to_numpy().sum() > 5
    for name in ("age", "km", "price"):
        assert np.allclose(numbers(filled, name), wanted[name].astype(float), rtol=1e-5)
        result = numbers(rows, f"{name}_mean")[holes[name]]
        assert np.allclose(result, wanted[name][holes[name]].astype(float), rtol=1e-5)
    for name in ("fuel", "sold"):
        assert [row[name] for row in filled] == wanted[name].tolist()
    assert list(table(run(*words, "--interval", "0.5")[1])[0])[1::2] == [
        "age_low", "km_low", "price_low"
    ]  # fmt: skip


def test_files_of_other_kinds_are_read_the_same(run, folder, tmp_path):
    expected_rows = frame(folder / "new.csv")
    expected_rows.drop(columns="sold").to_parquet(tmp_path / "new.parquet")
    lines = [{k: v for k, v in row.items() if v == v} for row in expected_rows.to_dict("records")]
    lines = [{k: v for k, v in row.items() if v is not pd.NA} for row in lines]
    (tmp_path / "new.jsonl").write_text("\n".join(json.dumps(row) for row in lines))
    expected_rows.to_csv(tmp_path / "indexed.csv")
    query = f"SELECT * FROM '{tmp_path / 'new.parquet'}'"
    words = ["predict", folder / "table-classifier"]
    wanted = table(run(*words, folder / "new.csv", "--format", "csv")[1])
    for source in ("new.parquet", "new.jsonl", "indexed.csv", query):
        file = source if source == query else tmp_path / source
        status, out, err = run(*words, file, "--format", "csv")
        assert status == 0, err
        got = [row["predicted_sold"] for row in table(out)]
        assert got == [row["predicted_sold"] for row in wanted]


def test_contributions_add_up_to_the_logits(run, folder):
    file, model = folder / "new.csv", load(folder / "table-classifier")
    words = ["explain", folder / "table-classifier", file, "--format", "csv"]
    proba = model.predict_proba(split(frame(file))[0])
    for more in ([], ["--per-head"]):
        rows = pd.DataFrame(table(run(*words, *more, "--rows", "[0, 7]")[1]))
        assert set(rows["row"]) == {"0", "7"}
        for row, cells in rows.groupby("row"):
            weights = cells["weight"].astype(float)
            assert weights.sum() == pytest.approx(2 if more else 1, abs=1e-5)
            added = cells[["sold=no", "sold=yes"]].astype(float).sum()
            assert np.allclose(softmax(added), proba[int(row)], atol=1e-5)
            assert "(nothing)" in set(cells["column"]) and "sold" not in set(cells["column"])
    top = pd.DataFrame(table(run(*words, "--top", "1")[1]))
    assert len(top) == 40 and top["weight"].astype(float).min() > 0.1
    rows = table(run("explain", folder / "table", file, "--of", "km", "--format", "csv")[1])
    assert list(rows[0])[-2:] == ["km_output1", "km_output2"]


def test_a_label_that_training_did_not_have(run, folder, tmp_path):
    rows = [*cars(5, 4), [3.0, 40, "steam", 9.0, "yes"]]
    file = write_csv(tmp_path / "r.csv", rows, HEADER)
    words = ["predict", folder / "table-classifier", file, "--format", "csv"]
    status, out, err = run(*words, "--unknown", "error")
    assert status == 2 and out == "" and err.count("\n") == 1
    assert "got 'steam' at row 5 in" in err and "r.csv" in err and "pass --unknown unk" in err
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(*words)
    assert status == 0 and len(table(out)) == 6
    assert (
        "warning: 1 of 6 rows" in err and "1 of column 'fuel', such as 'steam' at row 5, are" in err
    )
    assert "Pass --unknown error to refuse them." in err


@pytest.mark.parametrize("how", ["%d/%m/%Y", '{when: "%d/%m/%Y"}', "config"])
def test_dates_are_read_as_named(run, tmp_path, how):
    rows = [[f"0{1 + k % 9}/0{1 + k % 7}/2024", k % 5] for k in range(40)]
    file = write_csv(tmp_path / "r.csv", rows, ("when", "y"))
    words = ["--model", "table-regressor", "--response", "y", *TINY, "-o", tmp_path / "m"]
    status, _, err = run("fit", file, *words)
    assert status == 2 and "Name the right one in `--date-format`" in err
    named = ["--date-format", how]
    if how == "config":
        (tmp_path / "c.yaml").write_text('date_format: "%d/%m/%Y"\n')
        named = ["--config", tmp_path / "c.yaml"]
    status, _, err = run("fit", file, *words, *named)
    assert status == 0, err
    assert load(tmp_path / "m").schema_.dates[0].date_format == "%d/%m/%Y"


def test_columns_are_read_as_in_training(run, folder, tmp_path):
    rows = [[k, ("7", "x8", "12")[k % 3], ("no", "yes")[k % 2]] for k in range(30)]
    file = write_csv(tmp_path / "r.csv", rows, ("size", "code", "sold"))
    words = ["--model", "table-classifier", "--response", "sold", *TINY, "-o", tmp_path / "m"]
    assert run("fit", file, *words)[0] == 0
    # All codes look like numbers here, and the column of sizes is empty.
    new = write_csv(tmp_path / "n.csv", [["", "7"], ["", "12"]], ("size", "code"))
    status, out, err = run("predict", tmp_path / "m", new, "--format", "csv")
    assert status == 0 and [row["row"] for row in table(out)] == ["0", "1"], err
    new = write_csv(tmp_path / "n.csv", [["3", "7"], ["3o", "7"]], ("size", "code"))
    status, _, err = run("predict", tmp_path / "m", new)
    assert status == 2 and "got '3o' at row 1 of column 'size' in" in err
    new = write_csv(tmp_path / "n.csv", [["3"], ["4"]], ("size",))
    status, _, err = run("predict", tmp_path / "m", new)
    assert status == 2 and "must have the columns of training, got" in err and "'code'" in err


@pytest.mark.parametrize(
    ("command", "model", "words", "message"),
    [
        ("recommend", "table", [], "must be of groups, not of tables, got MaskedTable. Use `exfam"),
        ("report", "table", ["-o", "page.html"], "not of tables, got MaskedTable. Use `exfam sc"),
        ("predict", "table-classifier", ["--interval", "0.5"], "needs a column of numbers, got 's"),
        ("predict", "table-regressor", ["--proba"], "needs a column of labels, got 'pr"),
        ("predict", "table", ["--of", "sky"], "`--of` must be a column of the model, one of 'age'"),
        ("predict", "table", ["--fill", "--proba"], "`--proba` must stand alone, got --fill"),
        ("predict", "table", ["--fill", "--of", "km"], "`--fill` must stand alone, got --of"),
        ("predict", "table", ["--interval", "1"], "`--interval` must be strictly between 0 and 1"),
        ("explain", "table", [], "`--of` must name the column to explain, got none."),
        ("explain", "table-classifier", ["--rows", "x"], "must be rows of the file, 0 .. 39, got"),
        ("explain", "table-classifier", ["--groups", "a"], "must be left out for a model of tab"),
        ("score", "table", ["--unknown", "ignore"], "`--unknown` must be error or unk for a model"),
        ("score", "table", ["--duplicates", "drop"], "`--duplicates` must be keep for a model of"),
        ("score", "table", ["--memory-limit", "1GB"], "`--memory-limit` must be left out for a"),
    ],
)  # fmt: skip
def test_what_a_table_lacks_is_reported(
    run, folder, tmp_path, monkeypatch, command, model, words, message
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(command, folder / model, folder / "new.csv", *words)
    assert status == 2 and out == "" and err.count("\n") == 1 and message in err, err


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("classifier", [], "`--response COLUMN` must be given."),
        ("classifier", ["--response", "solt"], "`--response` must name a column of .*cars.csv"),
        ("classifier", ["--response", "price"], "`--response` must hold labels, got .* at row "),
        ("regressor", ["--response", "sold"], "must be numeric, got 'no' at row .*'sold' in"),
        ("classifier", ["--response", "sold", "--kinds", "count"], "`--kinds` must be written as"),
        ("classifier", ["--response", "sold", "--kinds", "{km: odd}"], "kinds.*must be one of"),
        ("classifier", ["--response", "sold", "--ignore", "sky"], "`--ignore` must name columns"),
        ("classifier", ["--response", "sold", "--families", "{km: zipf}"], "`--families` must be"),
        ("classifier", ["--response", "sold", "--group", "fuel"], "`--group` must be an option of"),
        ("classifier", ["--response", "sold", "--max-epochs", "few"], "a whole number or auto"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_reported(run, folder, tmp_path, model, words, message):
    status, out, err = run(
        "fit", folder / "cars.csv", "--model", f"table-{model}", *words, "-o", tmp_path / "m"
    )
    assert status == 2 and out == "" and err.count("\n") == 1
    assert re.search(message, err), err


def test_files_that_hold_too_little_are_reported(run, folder, tmp_path):
    only = write_csv(tmp_path / "only.csv", [["yes"], ["no"]], ("sold",))
    words = ["--model", "table-classifier", "--response", "sold", "-o", tmp_path / "m"]
    status, _, err = run("fit", only, *words)
    assert status == 2 and "`FILE` must have a column besides the response 'sold', got none" in err
    few = write_csv(tmp_path / "few.csv", [row[:4] for row in cars(5, 5)], HEADER[:4])
    status, _, err = run("score", folder / "table-classifier", few)
    assert status == 2 and "`FILE` must have the response 'sold' to score, got" in err
    none = write_csv(tmp_path / "none.csv", [[*row[:4], ""] for row in cars(5, 5)], HEADER)
    status, _, err = run("score", folder / "table-classifier", none)
    assert status == 2 and "`FILE` must hold a cell to score, got none in" in err
    other = write_csv(tmp_path / "other.csv", [["a"]], ("sky",))
    status, _, err = run("predict", folder / "table", other)
    assert status == 2 and "`FILE` must have a column to read, got none in" in err


def test_options_of_tables_are_none_of_groups(run, tmp_path):
    rows = [[f"u{k // 4}", k % 4, 1 + k % 3] for k in range(40)]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "movie", "stars"))
    words = ["--group", "user", "--item", "movie", "--model", "marginal", "-o", tmp_path / "m"]
    assert run("fit", file, *words)[0] == 0
    status, _, err = run("predict", tmp_path / "m", file, "--fill")
    assert status == 2 and "`--fill` must be left out for a model of groups, got True" in err
    status, _, err = run("explain", tmp_path / "m", file, "--rows", "0")
    assert status == 2 and "`--rows` must be left out for a model of groups, got ['0']" in err
