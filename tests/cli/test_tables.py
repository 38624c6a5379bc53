"""Models of tables on the command line do what the library does."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.dummy import DummyClassifier

from cli.cases import numbers, table, write_csv
from exfam import MaskedTableClassifier, cli, load
from exfam.cli.commands import form_of
from exfam.cli.signatures import MODELS
from exfam.cli.sorts.table_parts import output_names
from exfam.families import LogStudentT, RoundedRootStudentT, Scaled, SinhStudentT, StudentT
from exfam.tables.data import Column
from exfam.tables.estimator.plan import split_rows

pytestmark = pytest.mark.usefixtures("few_trees")

HEADER = ("age", "km", "fuel", "price", "sold")
TINY = (
    "--base", "none", "--embed-dim", "4", "--n-heads", "2", "--head-dim", "2", "--ordinal",
    "true", "--extra-masking", "0.5", "--max-epochs", "2",
)  # fmt: skip
LEAN = {
    "base": "none",
    "embed_dim": 4, "n_heads": 2, "head_dim": 2, "ordinal": True, "extra_masking": 0.5,
    "max_epochs": 2, "progress": True,
}  # fmt: skip
CLASSIFIER = ("--model", "table-classifier", "--response", "sold")
REGRESSOR = ("--model", "table-regressor", "--response", "price")


def cars(n, seed):
    """Rows of used cars, every eighth cell missing in one of three ways."""
    rng = np.random.default_rng(seed)
    age = rng.gamma(3.0, 2.5, n).round(1)
    km = (age * 14).round().astype(int)
    fuel = rng.choice(["diesel", "electric", "petrol"], n)
    price = np.exp(3.3 - 0.1 * age + rng.normal(0.0, 0.1, n)).round(1)
    sold = np.where(age + rng.normal(0.0, 2.0, n) < 7, "yes", "no")
    rows = [list(row) for row in zip(age, km, fuel, price, sold, strict=True)]
    for row, column in np.argwhere(rng.random((n, 5)) < 0.12):
        rows[row][column] = ("", "NA", "nan")[row % 3]
    return rows


def frame(file):
    """The table as pandas reads it, with whole numbers that have gaps."""
    return pd.read_csv(file).astype({"km": "Int64"})


def split(rows, response="sold"):
    return rows.drop(columns=response), rows[response]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `cars.csv`, `new.csv` and a model of each sort, by the example of its help."""
    folder = tmp_path_factory.mktemp("cars")
    write_csv(folder / "cars.csv", cars(160, 0), HEADER)
    write_csv(folder / "new.csv", cars(40, 1), HEADER)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name, model in MODELS.items() if model.reads == "tables"]:
            _, _, *words = form_of("fit", ["--model", name]).example.split()
            words[words.index("-o") + 1] = name
            assert cli.main(["fit", *words, *TINY]) == 0
    return folder


@pytest.fixture
def rows(folder):
    """The new rows, as pandas reads them."""
    return frame(folder / "new.csv")


def test_the_command_fits_what_the_library_fits(folder, rows):
    here = MaskedTableClassifier(**LEAN).fit(*split(frame(folder / "cars.csv")))
    there = load(folder / "table-classifier")
    assert there.get_params() == here.get_params() and there.response_ == "sold"
    arrow = pa.Table.from_pandas(frame(folder / "cars.csv"))
    again = MaskedTableClassifier(**LEAN).fit(arrow.drop_columns(["sold"]), arrow.select(["sold"]))
    assert again.response_ == "sold"
    new = split(rows)[0]
    for model in (there, again):
        assert np.array_equal(model.predict_proba(new), here.predict_proba(new))


def test_scores_of_labels_stand_beside_those_of_the_marginal_distribution(run, folder, tmp_path):
    words = [*CLASSIFIER, *TINY, "-o", tmp_path / "m", "--validation-fraction", "0.25"]
    status, out, err = run("fit", folder / "cars.csv", *words, "--format", "csv")
    assert status == 0, err
    rows = frame(folder / "cars.csv")
    kept, held = split_rows(rows["sold"].notna().to_numpy(), fraction=0.25, seed=0)
    assert f"on {len(held)} held-out rows" in err and "160 rows, 5 columns" in err
    X, y = split(rows.iloc[held])
    fitted = load(tmp_path / "m")
    ours, marginal = table(out)
    assert (ours["model"], marginal["model"]) == ("MaskedTableClassifier", "Marginal")
    assert float(ours["nats"]) == pytest.approx(fitted.log_score(X, y), abs=1e-9)
    assert float(ours["accuracy"]) == pytest.approx(fitted.score(X, y), abs=1e-12)
    assert int(ours["epochs"]) == len(fitted.history_) and marginal["epochs"] == ""
    learned = split(rows.iloc[kept].dropna(subset="sold"))
    dummy = DummyClassifier(strategy="prior").fit(*learned)
    proba = pd.DataFrame(dummy.predict_proba(X), columns=dummy.classes_, index=y.index)
    nats = np.mean([np.log(proba.loc[row, label]) for row, label in y.items()])
    assert float(marginal["nats"]) == pytest.approx(nats, abs=1e-6)
    assert float(marginal["accuracy"]) == pytest.approx(dummy.score(X, y))


def test_scores_of_numbers_stand_beside_those_of_the_marginal_distribution(
    results, folder, rows, tmp_path
):
    words = [*REGRESSOR, *TINY, "-o", tmp_path / "m", "--family", "gaussian"]
    more = ["--validation", folder / "new.csv"]
    ours, marginal = results("fit", folder / "cars.csv", *words, *more)
    price = frame(folder / "cars.csv")["price"].dropna()
    X, y = split(rows.dropna(subset="price"), "price")
    fitted = load(tmp_path / "m")
    assert float(ours["nats"]) == pytest.approx(fitted.log_score(X, y), abs=1e-6)
    assert float(ours["r2"]) == pytest.approx(fitted.score(X, y), abs=1e-6)
    wanted = norm(price.mean(), price.std(ddof=0)).logpdf(y).mean()
    assert float(marginal["nats"]) == pytest.approx(wanted, abs=1e-4)
    wanted = 1 - np.square(y - price.mean()).sum() / np.square(y - y.mean()).sum()
    assert float(marginal["r2"]) == pytest.approx(wanted, abs=1e-4)


def test_scores_of_training_rows_are_called_so(run, folder, tmp_path):
    words = ["--model", "table", *TINY, "-o", tmp_path / "m", "--ignore", "sold"]
    status, out, err = run("fit", folder / "cars.csv", *words, "--format", "csv")
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
    quick = [*TINY[:8], "--extra-masking", "0", "--max-epochs", "1", "--target", "ordinal"]
    kinds = ["--kinds", "{sold: [no, yes], fuel: [diesel, petrol, electric]}"]
    status, _, err = run("fit", file, *CLASSIFIER, *kinds, *quick, "-o", tmp_path / "m")
    assert status == 0, err
    assert "column 'name' has 60 labels in 60 rows: `--ignore name` leaves it out" in err
    fitted = load(tmp_path / "m")
    best = max(trial.nats for trial in fitted.trials_ if trial.recipe == fitted.recipe_)
    assert f"{best:.6g} nats on training rows that its own trials held out" in err
    assert fitted.vocabulary_["fuel"].tolist() == ["diesel", "petrol", "electric"]


def test_the_distributions_of_columns_are_chosen(run, tmp_path):
    file = write_csv(tmp_path / "r.csv", [row for row in cars(60, 3) if row[1] != 0], HEADER)
    words = [*REGRESSOR, "--family", "binned", *TINY, "--families", "{km: gamma}"]
    assert run("fit", file, *words, "-o", tmp_path / "m")[0] == 0
    result = json.loads(run("info", tmp_path / "m", "--format", "json")[1])
    families = {column["name"]: column["family"] for column in result["columns"]}
    assert (families["price"], families["km"]) == ("histogram", "gamma")
    assert result["response"] == "price"


@pytest.mark.parametrize(
    ("name", "response", "measure"),
    [("table-classifier", "sold", "accuracy"), ("table-regressor", "price", "r2")],
)
def test_scores_are_the_model_s(results, folder, rows, name, response, measure):
    file, model = folder / "new.csv", load(folder / name)
    X, y = split(rows.dropna(subset=response), response)
    (result,) = results("score", folder / name, file)
    assert (result["part"], int(result["targets"])) == (response, len(y)) and len(y) < 40
    assert float(result["nats"]) == pytest.approx(model.log_score(X, y), abs=1e-6)
    assert float(result[measure]) == pytest.approx(model.score(X, y), abs=1e-6)
    nats = numbers(results("score", folder / name, file, "--per-row"), "nats")
    wanted = model.log_scores(*split(rows, response))
    assert np.allclose(nats, wanted, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["table", "table-classifier"])
def test_new_rows_are_compared_with_the_marginal_distribution(run, folder, name):
    train = ["--train", folder / "cars.csv"]
    err = run("score", folder / name, folder / "new.csv", *train)[2]
    ours, theirs = map(float, re.findall(r"^\w+ has (-\d\S+) nats .* on \d+ rows$", err, re.M))
    ahead = "Marginal is ahead of Masked" if theirs > ours else "is ahead of all baselines on"
    assert ahead in err
    err = run("score", folder / name, folder / "cars.csv", *train)[2]
    assert "nothing is compared: the model has seen all rows" in err


def test_a_joint_model_scores_every_column(results, folder, rows):
    file, model = folder / "new.csv", load(folder / "table")
    parts = {row["part"]: row for row in results("score", folder / "table", file)}
    assert set(parts) == {"all", *HEADER}
    assert float(parts["all"]["nats"]) == pytest.approx(model.score(rows), abs=1e-6)
    targets = {name: int(parts[name]["targets"]) for name in HEADER}
    assert targets == rows.notna().sum().to_dict()
    assert parts["fuel"]["r2"] == "" and parts["km"]["accuracy"] == ""
    nats = numbers(results("score", folder / "table", file, "--per-row"), "nats")
    assert np.allclose(nats, model.pseudo_log_likelihood(rows), atol=1e-5)


def test_predictions_are_the_model_s(results, folder, rows):
    file = folder / "new.csv"
    classifier, regressor = load(folder / "table-classifier"), load(folder / "table-regressor")
    X, Z = split(rows)[0], split(rows, "price")[0]
    words = ["predict", folder / "table-classifier", file]
    predicted = results(*words)
    assert [row["predicted_sold"] for row in predicted] == classifier.predict(X).tolist()
    assert [row["sold"] for row in predicted] == rows["sold"].fillna("").tolist()
    predicted = results(*words, "--proba")
    proba = np.stack([numbers(predicted, f"sold={label}") for label in classifier.classes_], -1)
    assert np.allclose(proba, classifier.predict_proba(X), atol=1e-12) and np.ptp(proba) > 0
    distribution = classifier.conditional(["km"], given=rows).predict_dist("km")
    result = numbers(results(*words, "--of", "km"), "km_mean")
    assert np.allclose(result, distribution.mean, rtol=1e-5)
    words = ["predict", folder / "table-regressor", file]
    assert np.allclose(numbers(results(*words), "price_mean"), regressor.predict(Z))
    distribution = regressor.predict_dist(Z)
    ends = results(*words, "--interval", "0.8")
    for k, name in enumerate(("price_low", "price_high")):
        assert np.allclose(numbers(ends, name), distribution.interval(0.8)[k])
    levels = results(*words, "--quantiles", "0.25", "0.5")
    assert np.allclose(numbers(levels, "price_q0.25"), distribution.quantile(0.25))


def test_a_joint_model_predicts_all_columns_and_fills_the_missing_cells(results, folder, rows):
    words = ["predict", folder / "table", folder / "new.csv"]
    predicted, filled = results(*words), results(*words, "--fill")
    wanted = load(folder / "table").impute(rows).frame
    holes = rows.isna()
    assert list(filled[0]) == ["row", *HEADER] and holes.to_numpy().sum() > 5
    for name in ("age", "km", "price"):
        assert np.allclose(numbers(filled, name), wanted[name].astype(float), rtol=1e-5)
        result = numbers(predicted, f"{name}_mean")[holes[name]]
        assert np.allclose(result, wanted[name][holes[name]].astype(float), rtol=1e-5)
    for name in ("fuel", "sold"):
        assert [row[name] for row in filled] == wanted[name].tolist()
    ends = list(results(*words, "--interval", "0.5")[0])
    assert ends[1::2] == ["age_low", "km_low", "price_low"]


def test_contributions_add_up_to_the_logits(results, folder, rows):
    words = ["explain", folder / "table-classifier", folder / "new.csv"]
    proba = load(folder / "table-classifier").predict_proba(split(rows)[0])
    for more, total in ([], 1), (["--per-head"], 2):
        explained = pd.DataFrame(results(*words, *more, "--rows", "[0, 7]"))
        assert set(explained["row"]) == {"0", "7"}
        for row, cells in explained.groupby("row"):
            assert cells["weight"].astype(float).sum() == pytest.approx(total, abs=1e-5)
            added = cells[["sold=no", "sold=yes"]].astype(float).sum()
            assert np.allclose(softmax(added), proba[int(row)], atol=1e-5)
            assert "(nothing)" in set(cells["column"]) and "sold" not in set(cells["column"])
    top = pd.DataFrame(results(*words, "--top", "1"))
    assert len(top) == 40 and top["weight"].astype(float).min() > 0.1
    explained = results("explain", folder / "table", folder / "new.csv", "--of", "km")
    assert list(explained[0])[-2:] == ["km_output1", "km_output2"]


@pytest.fixture(scope="module")
def bases(folder):
    """The same folder, with models that have a base."""
    for name, words in (("sold", CLASSIFIER), ("prices", REGRESSOR), ("all", CLASSIFIER[:1])):
        options = words if name != "all" else ("--model", "table", "--ignore", "sold")
        path = str(folder / name)
        words = ["fit", str(folder / "cars.csv"), *options, "--fast", "true", "-o", path]
        assert cli.main(words) == 0
    return folder


@pytest.mark.parametrize("name", ["sold", "prices"])
def test_contributions_of_a_base_add_up_to_the_prediction(results, bases, rows, name):
    model, words = load(bases / name), ["explain", bases / name, bases / "new.csv"]
    explained = pd.DataFrame(results(*words, "--rows", "[0, 7]"))
    outputs = list(explained.columns[4:])
    known = split(rows, model.response_)[0]
    for row, cells in explained.groupby("row"):
        assert cells["column"].iloc[[0, -1]].tolist() == ["(average row)", "(rest)"]
        assert set(cells["column"][1:-1]) == set(HEADER) - {model.response_}
        assert (np.diff(cells["size"].astype(float)[1:-1]) <= 0).all()
        added = cells[outputs].astype(float).sum()
        if name == "sold":
            proba = model.predict_proba(known)[int(row)]
            assert outputs == ["sold=no", "sold=yes"]
            np.testing.assert_allclose(softmax(added), proba, atol=1e-9)
        else:
            median = model.predict_dist(known).quantile(0.5)[int(row)]
            wanted = np.log(median) if outputs == ["log_price"] else median
            assert outputs in (["price"], ["log_price"])
            np.testing.assert_allclose(added.iloc[0], wanted, rtol=1e-5)
    assert len(results(*words, "--rows", "[3]", "--top", "2")) == 4


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (Scaled(StudentT(), 3.0, 2.0), "km"),
        (Scaled(LogStudentT(), 0.0, 2.0), "log_km"),
        (RoundedRootStudentT(root=2), "root_km"),
        (SinhStudentT(bend=5.0), "asinh_km"),
    ],
    ids=str,
)
def test_outputs_are_called_by_their_scale(family, name):
    assert output_names(Column("km", "numeric", knots=np.array([0.0, 5.0])), family) == [name]


def test_answers_of_a_base_are_called_what_they_are(run, results, bases, rows):
    predicted = results("predict", bases / "all", bases / "new.csv")
    model = load(bases / "all")
    wanted = model.conditional(["km"], given=rows[list(HEADER[:4])]).predict_dist("km")
    (name,) = (name for name in predicted[0] if name.startswith("km_"))
    has_mean = model.families_[model.schema_.index("km")].has_mean
    assert name == ("km_mean" if has_mean else "km_median")
    np.testing.assert_allclose(numbers(predicted, name), wanted.center, rtol=1e-5)
    facts = json.loads(run("info", bases / "sold", "--format", "json")[1])
    assert {"linear", "trees"} < set(facts["base"]["sold"]) and facts["recipe"] is None


def test_a_base_has_no_heads(refusal, bases):
    words = ["explain", bases / "sold", bases / "new.csv", "--per-head"]
    assert "`--per-head` must be left out for a model with a base" in refusal(*words)


def test_a_label_that_training_did_not_have(refusal, folder, tmp_path):
    rows = [*cars(5, 4), [3.0, 40, "steam", 9.0, "yes"]]
    file = write_csv(tmp_path / "r.csv", rows, HEADER)
    line = refusal("predict", folder / "table-classifier", file, "--unknown", "error")
    assert "got 'steam' at row 5 in" in line and "r.csv" in line and "pass --unknown unk" in line


@pytest.mark.parametrize("how", ["%d/%m/%Y", '{when: "%d/%m/%Y"}'])
def test_dates_are_read_as_named(run, refusal, tmp_path, how):
    rows = [[f"0{1 + k % 9}/0{1 + k % 7}/2024", k % 5] for k in range(40)]
    file = write_csv(tmp_path / "r.csv", rows, ("when", "y"))
    words = [*REGRESSOR[:3], "y", *TINY, "-o", tmp_path / "m"]
    assert "Name the right one in `--date-format`" in refusal("fit", file, *words)
    assert run("fit", file, *words, "--date-format", how)[0] == 0
    assert load(tmp_path / "m").schema_.dates[0].date_format == "%d/%m/%Y"


def test_columns_are_read_as_in_training(run, results, refusal, tmp_path):
    rows = [[k, ("7", "x8", "12")[k % 3], ("no", "yes")[k % 2]] for k in range(30)]
    file = write_csv(tmp_path / "r.csv", rows, ("size", "code", "sold"))
    assert run("fit", file, *CLASSIFIER, *TINY, "-o", tmp_path / "m")[0] == 0
    # All codes look like numbers here, and the column of sizes is empty.
    new = write_csv(tmp_path / "n.csv", [["", "7"], ["", "12"]], ("size", "code"))
    assert [row["row"] for row in results("predict", tmp_path / "m", new)] == ["0", "1"]
    new = write_csv(tmp_path / "n.csv", [["3", "7"], ["3o", "7"]], ("size", "code"))
    line = refusal("predict", tmp_path / "m", new)
    assert "got '3o' at row 1 of column 'size' in" in line
    line = refusal("predict", tmp_path / "m", write_csv(tmp_path / "n.csv", [["3"]], ("size",)))
    assert "must have the columns of training, got" in line and "'code'" in line


@pytest.mark.parametrize(
    ("command", "model", "words", "message"),
    [
        ("recommend", "table", [], "must be of groups, not of tables, got MaskedTable. Use `exfam"),
        ("predict", "table-classifier", ["--interval", "0.5"], "needs a column of numbers, got 's"),
        ("predict", "table-regressor", ["--proba"], "needs a column of labels, got 'pr"),
        ("predict", "table", ["--of", "sky"], "`--of` must be a column of the model, one of 'age'"),
        ("predict", "table", ["--fill", "--of", "km"], "`--fill` must stand alone, got --of"),
        ("explain", "table", [], "`--of` must name the column to explain, got none."),
        ("explain", "table-classifier", ["--rows", "x"], "must be rows of the file, 0 .. 39, got"),
        ("explain", "table-classifier", ["--groups", "a"], "must be left out for a model of tab"),
        ("score", "table", ["--unknown", "ignore"], "`--unknown` must be error or unk for a model"),
        ("score", "table", ["--duplicates", "drop"], "`--duplicates` must be keep for a model of"),
    ],
)  # fmt: skip
def test_what_a_table_lacks_is_reported(refusal, folder, command, model, words, message):
    assert message in refusal(command, folder / model, folder / "new.csv", *words)


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("classifier", [], "`--response COLUMN` must be given."),
        ("classifier", ["--response", "solt"], "`--response` must name a column of .*cars.csv"),
        ("classifier", ["--response", "price"], "`--response` must hold labels, got .* at row "),
        ("regressor", ["--response", "sold"], "must be numeric, got 'no' at row .*'sold' in"),
        ("classifier", ["--response", "sold", "--kinds", "count"], "`--kinds` must be written as"),
        ("classifier", ["--response", "sold", "--ignore", "sky"], "`--ignore` must name columns"),
        ("classifier", ["--response", "sold", "--families", "{km: zipf}"], "`--families` must be"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_reported(refusal, folder, tmp_path, model, words, message):
    words = ["--model", f"table-{model}", *words, "-o", tmp_path / "m"]
    line = refusal("fit", folder / "cars.csv", *words)
    assert re.search(message, line), line


def test_files_that_hold_too_little_are_reported(refusal, folder, tmp_path):
    only = write_csv(tmp_path / "only.csv", [["yes"], ["no"]], ("sold",))
    line = refusal("fit", only, *CLASSIFIER, "-o", tmp_path / "m")
    assert "`FILE` must have a column besides the response 'sold', got none" in line
    few = write_csv(tmp_path / "few.csv", [row[:4] for row in cars(5, 5)], HEADER[:4])
    line = refusal("score", folder / "table-classifier", few)
    assert "`FILE` must have the response 'sold' to score, got" in line
    none = write_csv(tmp_path / "none.csv", [[*row[:4], ""] for row in cars(5, 5)], HEADER)
    line = refusal("score", folder / "table-classifier", none)
    assert "`FILE` must hold a cell to score, got none in" in line
    other = write_csv(tmp_path / "other.csv", [["a"]], ("sky",))
    line = refusal("predict", folder / "table", other)
    assert "`FILE` must have a column to read, got none in" in line
