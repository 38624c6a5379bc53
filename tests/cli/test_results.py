import contextlib
import csv
import io
import json
import sqlite3

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.cases import COLUMNS, MOVIES, SMALL, ratings, write_csv
from exfam import ExfamWarning, load


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def columns(rows, name):
    return np.array([float(row[name]) if row[name] else np.nan for row in rows])


@pytest.fixture(scope="module")
def model(place):
    return load(place / "model")


def test_the_score_is_the_model_s(run, place, model):
    status, out, err = run("score", place / "model", place / "ratings.csv", "--format", "json")
    assert status == 0 and "30 groups" in err
    result = {row["part"]: row for row in json.loads(out)}
    parts = model.score_parts(place / "ratings.csv")
    assert result["all"]["nats"] == pytest.approx(model.score(place / "ratings.csv"), abs=1e-12)
    assert {name: result[name]["nats"] for name in parts} == pytest.approx(parts, abs=1e-12)
    assert result["items"]["perplexity"] == pytest.approx(np.exp(-parts["items"]))
    assert {row["targets"] for row in result.values()} == {len(ratings())}


def test_log_probabilities_stand_beside_their_rows(run, place, model):
    words = [place / "model", place / "ratings.csv", "--per-row", "--format", "csv"]
    rows = table(run("score", *words)[1])
    assert [(row["user"], row["movie"], int(row["time"])) for row in rows] == [
        each[:3] for each in ratings()
    ]
    assert [int(row["row"]) for row in rows] == list(range(len(rows)))
    log_prob = model.log_prob(place / "ratings.csv")
    assert np.array_equal(columns(rows, "nats"), log_prob) and np.ptp(log_prob) > 0
    terms = columns(rows, "nats_items") + columns(rows, "nats_stars")
    assert np.allclose(terms, log_prob, atol=1e-12)


def test_predictions_are_the_model_s(run, place, model):
    words = ["predict", place / "model", file := place / "ratings.csv", "--format", "csv"]
    assert np.array_equal(columns(table(run(*words)[1]), "stars_mean"), model.predict(file))
    rows = table(run(*words, "--interval", "0.8")[1])
    ends = np.stack([columns(rows, "stars_low"), columns(rows, "stars_high")], -1)
    assert np.array_equal(ends, model.predict(file, interval=0.8))
    rows = table(run(*words, "--quantiles", "0.25", "0.5")[1])
    assert np.array_equal(columns(rows, "stars_q0.5"), model.predict(file, quantiles=[0.5])[:, 0])
    rows = table(run(*words, "--proba", "--of", "stars")[1])
    result = np.stack([columns(rows, f"stars={star}") for star in range(1, 6)], -1)
    assert np.array_equal(result, model.predict_proba(file, of="stars"))
    for of in ([], ["--of", "movie"], ["--of", "item"]):
        rows = table(run(*words, "--proba", *of)[1])
        result = np.stack([columns(rows, f"movie={movie}") for movie in MOVIES], -1)
        assert np.array_equal(result, model.predict_proba(file))


def test_a_model_of_items_predicts_items(run, place, tmp_path):
    file = place / "ratings.csv"
    words = [*COLUMNS, *SMALL, "--max-epochs", "1", "-o", tmp_path / "m"]
    assert run("fit", file, *words)[0] == 0
    rows = table(run("predict", tmp_path / "m", file, "--format", "csv")[1])
    assert [row["predicted_movie"] for row in rows] == load(tmp_path / "m").predict(file).tolist()
    status, _, err = run("predict", tmp_path / "m", file, "--interval", "0.5")
    assert status == 2 and "`--interval` needs a model with values" in err


def test_recommendations_are_the_model_s(run, place, model):
    words = [place / "model", file := place / "ratings.csv", "-k", "2", "--format", "csv"]
    rows = table(run("recommend", *words)[1])
    result = model.recommend(file, k=2).to_dict()
    assert [row["group"] for row in rows] == result["group"].tolist()
    assert [row["item"] for row in rows] == result["item"].tolist()
    assert np.array_equal(columns(rows, "probability"), result["probability"])
    assert [int(row["rank"]) for row in rows] == result["rank"].tolist()


def test_weights_are_the_model_s(run, place, model):
    words = ["explain", place / "model", file := place / "ratings.csv", "--format", "csv"]
    result = {each.group: each for each in model.explain(file)}
    anna = result["anna"]
    rows = table(run(*words, "--groups", "anna", "--per-head")[1])
    assert {row["group"] for row in rows} == {"anna"}
    for row in rows:
        weights = anna.weights[row["part"]][int(row["layer"]) - 1, int(row["head"]) - 1]
        centers = [k for k, name in enumerate(anna.centers) if name == row["center"]]
        contexts = [k for k, name in enumerate(anna.columns) if name == row["context"]]
        assert float(row["weight"]) in weights[np.ix_(centers, contexts)].astype(float)
    assert len(rows) == sum((weights > 0).sum() for weights in anna.weights.values())
    rows = table(run(*words)[1])
    sums = {}
    for row in rows:
        key = row["group"], row["part"], row["center"]
        sums[key] = sums.get(key, 0) + float(row["weight"])
    assert np.allclose(list(sums.values()), 1, atol=1e-5) and len(sums) == 2 * len(ratings())


def test_an_explanation_needs_attention_and_groups_that_are_there(run, place, tmp_path):
    status, _, err = run("explain", place / "model", place / "ratings.csv", "--groups", "zoe")
    assert status == 2 and "`--groups` must name groups of the file, got 'zoe'. It has" in err
    status, _, err = run("explain", place / "model", place / "ratings.csv", "--of", "stars")
    assert status == 2 and "`--of` must be left out for a model of groups, got 'stars'" in err
    status, _, err = run("explain", place / "model", place / "ratings.csv", "--top", "0")
    assert status == 2 and "`--top` must be a number > 0, got 0" in err
    file = place / "ratings.csv"
    run("fit", file, *COLUMNS, "--model", "marginal", "-o", tmp_path / "m")
    status, _, err = run("explain", tmp_path / "m", file)
    assert status == 2 and "`explain` needs EFA" in err


def test_info_shows_what_a_model_is(run, place, model):
    status, out, err = run("info", place / "model", "--format", "json")
    result = json.loads(out)
    assert status == 0 and err == ""
    assert result["estimator"] == "EFA" and result["items"] == len(MOVIES)
    assert result["families"] == {"stars": {"name": "ordinal", "n": 5, "start": 1}}
    assert result["parameters"]["embed_dim"] == 4 and result["parameters"]["position"] is None
    assert result["numbers"] == sum(each.numel() for each in model.members_[0].parameters())
    assert result["bytes"] == sum(file.stat().st_size for file in (place / "model").iterdir())
    assert result["history"][0]["epochs"] == 2 and result["format_version"] == 1
    rows = {
        row["name"]: row["value"]
        for row in table(run("info", place / "model", "--format", "csv")[1])
    }
    assert rows["parameters.embed_dim"] == "4" and rows["history.0.epochs"] == "2"


def test_info_shows_what_a_prepared_folder_is(run, place, tmp_path):
    words = [*COLUMNS, "--value", "stars", "-o", tmp_path / "p"]
    assert run("prepare", place / "ratings.csv", *words)[0] == 0
    result = json.loads(run("info", tmp_path / "p", "--format", "json")[1])
    assert (result["groups"], result["elements"], result["items"]) == (30, len(ratings()), 6)
    assert result["read_with"]["group"] == "user" and result["met_in_reading"]["ties"] == 0
    file = next((tmp_path / "p").glob("*.npy"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    status, _, err = run("info", tmp_path / "p")
    assert status == 2 and file.name in err


def test_prepared_folders_are_as_good_as_files(run, place, tmp_path, model):
    words = [*COLUMNS, "--value", "stars", "-o", tmp_path / "p"]
    assert run("prepare", place / "ratings.csv", *words)[0] == 0
    for words in (["score", "--per-row"], ["predict"], ["score"], ["recommend"]):
        both = [
            table(run(words[0], place / "model", data, *words[1:], "--format", "csv")[1])
            for data in (place / "ratings.csv", tmp_path / "p")
        ]
        assert [{**row, "time": 0} for row in both[0]] == [{**row, "time": 0} for row in both[1]]


@pytest.mark.filterwarnings("always:The data have .* never seen:exfam.ExfamWarning")
def test_unknown_items_are_reported_or_left_out(run, place, tmp_path, model):
    rows = [*ratings()[:20], ("anna", "Gigi", 99, 3)]
    file = write_csv(tmp_path / "r.csv", rows)
    status, out, err = run("score", place / "model", file, "--format", "csv")
    assert status == 0 and err.count("1 row of items never seen in training (1 label") == 1
    assert "such as 'Gigi'" in err and "leaves these rows out of its mean" in err
    assert {row["targets"] for row in table(out)} == {"20", "21"}
    status, _, err = run("score", place / "model", file, "--unknown", "error")
    assert status == 2 and "got 'Gigi' at row 20" in err and "--unknown ignore" in err
    words = ["predict", place / "model", file, "--format", "csv", "--unknown"]
    for choice in ("ignore", "unk"):
        result = table(run(*words, choice)[1])
        assert len(result) == 21 and result[20]["movie"] == "Gigi"
        model.unknown = choice
        with pytest.warns(ExfamWarning, match="1 row of items never seen in training"):
            expected = model.predict(file)
        assert np.array_equal(columns(result, "stars_mean"), expected, equal_nan=True)
    model.unknown = "unk"


def test_dropped_duplicates_have_a_row_without_a_prediction(run, place, tmp_path):
    rows = ratings()[:20]
    file = write_csv(tmp_path / "r.csv", [*rows, rows[3]])
    words = ["predict", place / "model", file, "--format", "csv"]
    status, _, err = run(*words)
    assert status == 2 and "`item` must not repeat in a group" in err
    result = table(run(*words, "--duplicates", "drop")[1])
    assert len(result) == 21 and result[20]["stars_mean"] == "" and result[3]["stars_mean"] != ""


def test_all_formats_hold_the_same(run, place, tmp_path):
    words = ["score", place / "model", place / "ratings.csv", "--per-row"]
    rows = table(run(*words, "--format", "csv")[1])
    records = json.loads(run(*words, "--format", "json")[1])
    assert [{name: str(value) for name, value in row.items()} for row in records] == rows
    assert run(*words, "-o", tmp_path / "r.parquet")[1] == ""
    assert pq.read_table(tmp_path / "r.parquet").to_pylist() == records
    for suffix in ("csv", "json", "txt"):
        assert run(*words, "-o", tmp_path / f"r.{suffix}")[0] == 0
        form = {"txt": "table"}.get(suffix, suffix)
        assert (tmp_path / f"r.{suffix}").read_text() == run(*words, "--format", form)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--interval", "0.5", "--proba"], "`--interval` must stand alone, got --proba"),
        (["--of", "stars"], "`--of` must come with --proba"),
        (["--interval", "1.5"], "`--interval` must be strictly between 0 and 1, got 1.5"),
        (["--proba", "--of", "price"], "`--of` must be one of 'item', 'stars', got 'price'"),
    ],
)
def test_what_cannot_be_predicted_is_reported(run, place, words, message):
    status, _, err = run("predict", place / "model", place / "ratings.csv", *words)
    assert status == 2 and message in err.splitlines()[-1]


def test_many_classes_are_recommended_instead(run, place, tmp_path, monkeypatch):
    monkeypatch.setattr("exfam.cli.sorts.group_answers.MOST_CLASSES", 5)
    status, _, err = run("predict", place / "model", place / "ratings.csv", "--proba")
    assert status == 2 and "Use `exfam recommend`" in err


def test_a_report_gets_model_data_and_options(run, place, tmp_path, monkeypatch):
    got = {}

    def write(model, data, **options):
        got.update(options, model=model, data=data)

    monkeypatch.setattr("exfam.report.model_report.write_report", write)
    file, page = place / "ratings.csv", tmp_path / "page.html"
    words = ["report", place / "model", file, "-o", page, "--title", "Ours", "--seed", "1"]
    status, out, err = run(*words, "--train", file, "--baselines", "no")
    assert status == 0 and out == "" and err.endswith(f"written to {page}\n")
    assert (got["path"], got["title"], got["seed"]) == (page, "Ours", 1)
    assert not got["baselines"] and len(got["data"]) == len(got["train"]) == 30
    assert run("report", place / "model", "-o", page)[0] == 0 and got["data"] is None
    assert run("report", place / "model", "-o", tmp_path)[0] == 2


def test_queries_patterns_and_folders_are_files_too(run, place, tmp_path, model):
    rows = ratings()
    database = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE ratings (user TEXT, movie TEXT, time INT, stars INT)")
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", rows)
    parts = tmp_path / "parts"
    parts.mkdir()
    write_csv(parts / "a.csv", rows[:50])
    write_csv(parts / "b.csv", rows[50:])
    query = f"SELECT * FROM '{place / 'ratings.csv'}'"
    for source in ([parts], [parts / "*.csv"], [query], ["ratings", "--database"]):
        more = [f"sqlite:///{database}"] if len(source) > 1 else []
        result = table(run("predict", place / "model", *source, *more, "--format", "csv")[1])
        assert np.array_equal(columns(result, "stars_mean"), model.predict(place / "ratings.csv"))
        assert [row["movie"] for row in result] == [row[1] for row in rows]


def test_an_impossible_observation_is_reported(run, place, tmp_path):
    words = [*COLUMNS, "--model", "marginal", "-o", tmp_path / "m"]
    assert run("fit", place / "ratings.csv", *words)[0] == 0
    model = load(tmp_path / "m")
    never = model.vocabulary_["item"].tolist().index("Alien")
    model.members_[0].item_part.log_frequency[never] = -np.inf
    model.save(tmp_path / "m", overwrite=True)
    status, out, err = run("score", tmp_path / "m", place / "ratings.csv", "--format", "json")
    assert status == 0 and json.loads(out)[0]["nats"] == "-Infinity"
    rows = [row for row, (_, movie, *_) in enumerate(ratings()) if movie == "Alien"]
    assert f"{len(rows)} observations of probability 0 under the model, the first at row" in err
