import contextlib
import json
import sqlite3

import numpy as np
import pytest

from cli.cases import COLUMNS, MOVIES, SMALL, numbers, ratings, table, write_csv
from exfam import ExfamWarning, load
from exfam.checks import ExfamError
from exfam.cli.sorts.groups import mean_parts


@pytest.fixture
def model(folder):
    return load(folder / "model")


@pytest.fixture
def prepared(run, folder, tmp_path):
    words = [*COLUMNS, "--value", "stars", "-o", tmp_path / "p"]
    assert run("prepare", folder / "ratings.csv", *words)[0] == 0
    return tmp_path / "p"


def test_the_score_is_the_model_s(run, folder, model):
    file = folder / "ratings.csv"
    status, out, err = run("score", folder / "model", file, "--format", "json")
    assert status == 0 and "30 groups" in err
    result = {row["part"]: row for row in json.loads(out)}
    parts = model.score_parts(file)
    assert result["all"]["nats"] == pytest.approx(model.score(file), abs=1e-12)
    assert {name: result[name]["nats"] for name in parts} == pytest.approx(parts, abs=1e-12)
    assert result["items"]["perplexity"] == pytest.approx(np.exp(-parts["items"]))
    assert {row["targets"] for row in result.values()} == {len(ratings())}
    with pytest.raises(ExfamError, match="`FILE` must hold at least one observation to score"):
        mean_parts({"item": np.array([np.nan, np.nan])})


def test_log_probabilities_stand_beside_their_rows(results, folder, model):
    rows = results("score", folder / "model", folder / "ratings.csv", "--per-row")
    names = [(row["user"], row["movie"], int(row["time"]), int(row["row"])) for row in rows]
    assert names == [(*row[:3], k) for k, row in enumerate(ratings())]
    log_prob = model.log_prob(folder / "ratings.csv")
    assert np.array_equal(numbers(rows, "nats"), log_prob) and np.ptp(log_prob) > 0
    terms = numbers(rows, "nats_items") + numbers(rows, "nats_stars")
    assert np.allclose(terms, log_prob, atol=1e-12)


def test_predictions_are_the_model_s(results, folder, model):
    words = ["predict", folder / "model", file := folder / "ratings.csv"]

    def columns(names, *more):
        rows = results(*words, *more)
        return np.stack([numbers(rows, name) for name in names], -1)

    assert np.array_equal(columns(["stars_mean"])[:, 0], model.predict(file))
    ends = columns(["stars_low", "stars_high"], "--interval", "0.8")
    assert np.array_equal(ends, model.predict(file, interval=0.8))
    levels = columns(["stars_q0.25", "stars_q0.5"], "--quantiles", "0.25", "0.5")
    assert np.array_equal(levels, model.predict(file, quantiles=[0.25, 0.5]))
    stars = [f"stars={star}" for star in range(1, 6)]
    result = columns(stars, "--proba", "--of", "stars")
    assert np.array_equal(result, model.predict_proba(file, of="stars"))
    for of in ([], ["--of", "movie"], ["--of", "item"]):
        result = columns([f"movie={movie}" for movie in MOVIES], "--proba", *of)
        assert np.array_equal(result, model.predict_proba(file))


def test_a_model_of_items_predicts_items(run, results, refusal, folder, tmp_path):
    file = folder / "ratings.csv"
    words = [*COLUMNS, *SMALL, "--max-epochs", "1", "-o", tmp_path / "m"]
    assert run("fit", file, *words)[0] == 0
    rows = results("predict", tmp_path / "m", file)
    assert [row["predicted_movie"] for row in rows] == load(tmp_path / "m").predict(file).tolist()
    line = refusal("predict", tmp_path / "m", file, "--interval", "0.5")
    assert "`--interval` needs a model with values" in line


def test_recommendations_are_the_model_s(results, folder, model):
    rows = results("recommend", folder / "model", file := folder / "ratings.csv", "-k", "2")
    expected = model.recommend(file, k=2).to_dict()
    assert [row["group"] for row in rows] == expected["group"].tolist()
    assert [row["item"] for row in rows] == expected["item"].tolist()
    assert np.array_equal(numbers(rows, "probability"), expected["probability"])
    assert [int(row["rank"]) for row in rows] == expected["rank"].tolist()


def test_weights_are_the_model_s(results, folder, model):
    words = ["explain", folder / "model", file := folder / "ratings.csv"]
    (anna,) = (own for own in model.explain(file) if own.group == "anna")
    rows = results(*words, "--groups", "anna", "--per-head")
    rows = [row for row in rows if not row["part"].startswith("base")]
    assert {row["group"] for row in rows} == {"anna"}
    for row in rows:
        weights = anna.weights[row["part"]][int(row["layer"]) - 1, int(row["head"]) - 1]
        centers = [k for k, name in enumerate(anna.centers) if name == row["center"]]
        contexts = [k for k, name in enumerate(anna.columns) if name == row["context"]]
        assert float(row["weight"]) in weights[np.ix_(centers, contexts)].astype(float)
    assert len(rows) == sum((weights > 0).sum() for weights in anna.weights.values())
    sums = {}
    for row in results(*words):
        if not row["part"].startswith("base"):
            key = row["group"], row["part"], row["center"]
            sums[key] = sums.get(key, 0) + float(row["weight"])
    assert np.allclose(list(sums.values()), 1, atol=1e-5) and len(sums) == 2 * len(ratings())


def test_predicted_values_are_explained_part_by_part(results, folder, model):
    words = ["explain", folder / "model", file := folder / "ratings.csv"]
    rows = results(*words, "--of", "stars")
    why = model.explain_value(file)
    of_file = np.array([int(row["row"]) for row in rows])
    assert list(rows[0]) == [
        "row", "group", "item", "part", "context", "context_value", "by_level",
        "location", "center", "nats",
    ]  # fmt: skip
    for name, whole in (("center", why.center), ("nats", why.nats), ("location", why.location)):
        np.testing.assert_allclose(np.bincount(of_file, numbers(rows, name)), whole, atol=1e-5)
    some = results(*words, "--of", "stars", "--groups", "anna", "--top", "1")
    anna = [row for row in rows if row["group"] == "anna"]
    assert {row["row"] for row in some} == {row["row"] for row in anna}
    parts = [row["part"] for row in anna]
    assert [row["part"] for row in some if row["part"] != "value"] == [
        part for part in parts if part != "value"
    ]
    first = [row for k, row in enumerate(anna) if parts[k - 1 : k + 1] == ["level", "value"]]
    kept = [(row["row"], row["context"]) for row in some if row["part"] == "value"]
    assert kept and kept == [(row["row"], row["context"]) for row in first]
    sums = {}
    for row in results(*words, "--per-head"):
        if row["part"] == "base of stars":
            assert row["layer"] == row["head"] == "0"
            key = row["group"], row["center"]
            sums[key] = sums.get(key, 0) + float(row["weight"])
    centers = {(g, i): c for g, i, c in zip(why.groups, why.items, why.center, strict=True)}
    assert sums.keys() == centers.keys()
    np.testing.assert_allclose(list(sums.values()), [centers[key] for key in sums], atol=1e-5)


def test_info_shows_what_a_model_is(run, results, folder, model):
    result = json.loads(run("info", folder / "model", "--format", "json")[1])
    assert result["estimator"] == "EFA" and result["items"] == len(MOVIES)
    assert result["families"] == {"stars": {"name": "ordinal", "n": 5, "start": 1}}
    assert result["parameters"]["embed_dim"] == 4 and result["parameters"]["position"] is None
    assert result["numbers"] == sum(own.numel() for own in model.members_[0].parameters())
    assert result["bytes"] == sum(file.stat().st_size for file in (folder / "model").iterdir())
    assert result["history"][0]["epochs"] == 2 and result["format_version"] == 1
    rows = {row["name"]: row["value"] for row in results("info", folder / "model")}
    assert rows["parameters.embed_dim"] == "4" and rows["history.0.epochs"] == "2"


def test_info_shows_what_a_prepared_folder_is(run, refusal, prepared):
    result = json.loads(run("info", prepared, "--format", "json")[1])
    assert (result["groups"], result["elements"], result["items"]) == (30, len(ratings()), 6)
    assert result["read_with"]["group"] == "user" and result["met_in_reading"]["ties"] == 0
    file = next(prepared.glob("*.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert file.name in refusal("info", prepared)


def test_prepared_folders_are_as_good_as_files(results, folder, prepared):
    for command, *more in (["score", "--per-row"], ["predict"], ["score"], ["recommend"]):
        here, there = (
            [row | {"time": 0} for row in results(command, folder / "model", data, *more)]
            for data in (folder / "ratings.csv", prepared)
        )
        assert here == there


@pytest.mark.filterwarnings("always:The data have .* never seen:exfam.ExfamWarning")
def test_unknown_items_are_reported_or_left_out(run, results, folder, tmp_path, model):
    file = write_csv(tmp_path / "r.csv", [*ratings()[:20], ("anna", "Gigi", 99, 3)])
    status, out, err = run("score", folder / "model", file, "--format", "csv")
    assert status == 0 and err.count("1 row of items never seen in training (1 label") == 1
    assert "such as 'Gigi'" in err and "leaves these rows out of its mean" in err
    assert {row["targets"] for row in table(out)} == {"20", "21"}
    status, _, err = run("score", folder / "model", file, "--unknown", "error")
    assert status == 2 and "got 'Gigi' at row 20" in err and "--unknown ignore" in err
    for choice in ("ignore", "unk"):
        rows = results("predict", folder / "model", file, "--unknown", choice)
        assert len(rows) == 21 and rows[20]["movie"] == "Gigi"
        model.unknown = choice
        with pytest.warns(ExfamWarning, match="1 row of items never seen in training"):
            expected = model.predict(file)
        assert np.array_equal(numbers(rows, "stars_mean"), expected, equal_nan=True)


def test_dropped_duplicates_have_a_row_without_a_prediction(results, refusal, folder, tmp_path):
    rows = ratings()[:20]
    file = write_csv(tmp_path / "r.csv", [*rows, rows[3]])
    words = ["predict", folder / "model", file]
    assert "`item` must not repeat in a group" in refusal(*words)
    rows = results(*words, "--duplicates", "drop")
    assert len(rows) == 21 and rows[20]["stars_mean"] == "" and rows[3]["stars_mean"] != ""


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("predict", ["--interval", "0.5", "--proba"], "`--interval` must stand alone, got --proba"),
        ("predict", ["--of", "stars"], "`--of` must come with --proba"),
        ("predict", ["--proba", "--of", "price"], "`--of` must be one of 'item', 'stars', got 'pr"),
        ("predict", ["--fill"], "`--fill` must be left out for a model of groups, got True"),
        ("explain", ["--groups", "zoe"], "`--groups` must name groups of the file, got 'zoe'. It"),
        ("explain", ["--of", "price"], "`--of` must be one of 'stars', got 'price'"),
        (
            "explain",
            ["--of", "stars", "--next"],
            "`--of` must be given without --next, got 'stars'",
        ),
        ("explain", ["--top", "0"], "`--top` must be a number > 0, got 0"),
    ],
)
def test_what_cannot_be_answered_is_reported(refusal, folder, command, words, message):
    assert message in refusal(command, folder / "model", folder / "ratings.csv", *words)


def test_many_classes_are_recommended_instead(refusal, folder, monkeypatch):
    monkeypatch.setattr("exfam.cli.sorts.group_answers.MOST_CLASSES", 5)
    line = refusal("predict", folder / "model", folder / "ratings.csv", "--proba")
    assert "Use `exfam recommend`" in line


def test_a_report_gets_model_data_and_options(run, folder, tmp_path, monkeypatch):
    got = {}

    def write(model, data, **options):
        got.update(options, model=model, data=data)

    monkeypatch.setattr("exfam.report.model_report.write_report", write)
    file, page = folder / "ratings.csv", tmp_path / "page.html"
    words = ["report", folder / "model", file, "-o", page, "--title", "Ours", "--seed", "1"]
    status, out, err = run(*words, "--train", file, "--baselines", "no")
    assert status == 0 and out == "" and err.endswith(f"written to {page}\n")
    assert (got["path"], got["title"], got["seed"]) == (page, "Ours", 1)
    assert not got["baselines"] and len(got["data"]) == len(got["train"]) == 30
    assert run("report", folder / "model", "-o", page)[0] == 0 and got["data"] is None
    assert run("report", folder / "model", "-o", tmp_path)[0] == 2


def test_databases_and_patterns_are_files_too(results, folder, tmp_path, model):
    rows = ratings()
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE ratings (user TEXT, movie TEXT, time INT, stars INT)")
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", rows)
    write_csv(tmp_path / "a.csv", rows[:50])
    write_csv(tmp_path / "b.csv", rows[50:])
    database = ["ratings", "--database", f"sqlite:///{tmp_path / 'shop.db'}"]
    for source in ([tmp_path / "*.csv"], database):
        predicted = results("predict", folder / "model", *source)
        expected = model.predict(folder / "ratings.csv")
        assert np.array_equal(numbers(predicted, "stars_mean"), expected)
        assert [row["movie"] for row in predicted] == [row[1] for row in rows]


def test_baselines_cannot_be_explained_and_impossible_observations_are_reported(
    run, refusal, folder, tmp_path
):
    file = folder / "ratings.csv"
    assert run("fit", file, *COLUMNS, "--model", "marginal", "-o", tmp_path / "m")[0] == 0
    assert "`explain` needs EFA" in refusal("explain", tmp_path / "m", file)
    line = refusal("explain", tmp_path / "m", file, "--rows", "0")
    assert "`--rows` must be left out for a model of groups, got ['0']" in line
    model = load(tmp_path / "m")
    never = model.vocabulary_["item"].tolist().index("Alien")
    model.members_[0].item_part.log_frequency[never] = -np.inf
    model.save(tmp_path / "m", overwrite=True)
    status, out, err = run("score", tmp_path / "m", file, "--format", "json")
    assert status == 0 and json.loads(out)[0]["nats"] == "-Infinity"
    n = sum(movie == "Alien" for _, movie, *_ in ratings())
    assert f"{n} observations of probability 0 under the model, the first at row" in err
