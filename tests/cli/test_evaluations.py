"""`exfam evaluate recommendations`, `recommend --groups`, and fits of recommenders that count."""

from pathlib import Path

import pytest

from cli.cases import COLUMNS, ratings, table, write_csv
from exfam import cli, evaluate_recommenders, load

STORED = Path(__file__).parents[1] / "stored" / "v2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file, and models of three kinds that were fitted to it by the command line."""
    folder = tmp_path_factory.mktemp("recommenders")
    file = str(write_csv(folder / "ratings.csv", ratings()))
    for kind in ("ease", "item-knn", "popularity"):
        words = ["fit", file, *COLUMNS, "--model", kind, "-o", str(folder / kind)]
        assert cli.main([*words, "--direction", "causal"]) == 0
    return folder


def run(capsys, *words):
    capsys.readouterr()
    status = cli.main([str(word) for word in words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def evaluate(capsys, folder, *words):
    file, model = folder / "ratings.csv", folder / "ease"
    more = [*words, "--format", "csv"]
    return run(capsys, "evaluate", "recommendations", model, file, *more)


def test_rows_are_those_of_python(folder, capsys):
    status, out, err = evaluate(capsys, folder, "-k", 2)
    assert status == 0 and "the best 2 of 6 items were recommended" in err
    (row,) = table(out)
    model = load(folder / "ease")
    scores = evaluate_recommenders(model, str(folder / "ratings.csv"), k=2)
    for measure, mean in scores.to_dict().items():
        if measure != "model":
            assert float(row[measure]) == pytest.approx(mean[0])
    assert row["model"] == str(folder / "ease")


def test_other_models_and_counting_stand_beside(folder, capsys):
    more = ["--beside", folder / "popularity", "--train", folder / "ratings.csv", "-k", 2]
    status, out, err = evaluate(capsys, folder, "--hide", "some", "--n", 1, "--seed", 3, *more)
    names = [row["model"] for row in table(out)]
    saved = [str(folder / "ease"), str(folder / "popularity")]
    assert status == 0 and names == [*saved, "Popularity", "ItemKNN"]
    assert err.count(" in ndcg@2") == 3 and "30 hidden items" in err


def test_what_is_asked_wrongly_is_said(folder, capsys):
    for words, message in (
        (["-k", 0], "`-k` must be"),
        (["--n", 0], "`--n` must be"),
        (["--share", 0.5], "`--share` must be given with --hide some alone, got 0.5. `--n` says"),
    ):
        status, _, err = evaluate(capsys, folder, *words)
        assert status == 2 and message in err
    status, _, err = evaluate(capsys, folder, "--beside", STORED / "skip-gram")
    assert status == 2 and "`--beside` must name models that recommend items, got SkipGram" in err


def test_only_named_groups_get_recommendations(folder, capsys):
    given = ["recommend", folder / "item-knn", folder / "ratings.csv", "-k", 2, "--format", "csv"]
    _, every, _ = run(capsys, *given)
    for words in (["--groups", "bert", "--groups", "anna"], ["--groups", "[bert, anna]"]):
        status, some, _ = run(capsys, *given, *words)
        rows = table(some)
        assert status == 0 and list(dict.fromkeys(row["group"] for row in rows)) == ["bert", "anna"]
        assert [row for row in table(every) if row["group"] == "anna"] == [
            row for row in rows if row["group"] == "anna"
        ]
    status, _, err = run(capsys, *given, "--groups", "nobody")
    assert status == 2 and "`--groups` must name groups of the file, got 'nobody'" in err


def test_similar_items_are_the_model_s(folder, capsys):
    given = ["similar", folder / "ease", "Alien", "Emma", "-k", 2, "--format", "csv"]
    status, out, _ = run(capsys, *given)
    expected = load(folder / "ease").similar_items(["Alien", "Emma"], k=2).to_dict()
    assert status == 0 and [row["similar"] for row in table(out)] == expected["similar"].tolist()
    for model, item, message in (
        (folder / "ease", "Jaws", "`ITEM` must be one seen in training, got 'Jaws'"),
        (folder / "popularity", "Alien", "needs a model that knows items apart, got Popularity"),
        (STORED / "skip-gram", "cat", "`MODEL` must be of groups with items, got SkipGram. Of wo"),
    ):
        status, _, err = run(capsys, "similar", model, item)
        assert status == 2 and message in err


def test_recommenders_that_count_have_no_options_of_values(folder, capsys):
    status, out, _ = run(capsys, "fit", "--model", "ease", "--help")
    options = [line.split()[0] for line in out.splitlines() if line.startswith("  --")]
    assert status == 0 and {"--ridge", "--item"} <= set(options)
    assert not {"--value", "--family", "--parts"} & set(options)
    status, out, _ = run(capsys, "info", folder / "ease", "--format", "csv")
    assert status == 0 and "settings.ridge" in out
