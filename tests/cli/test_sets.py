"""Files whose rows have no order: shuffled ones score alike; what needs an order is refused."""

import csv
import io

import numpy as np
import pytest

from cli.cases import SMALL, ratings, write_csv

SET = ("--group", "user", "--item", "movie")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sets")
    rows = sorted(ratings(), key=lambda row: row[:2])
    write_csv(folder / "sorted.csv", rows)
    write_csv(
        folder / "shuffled.csv", [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]
    )
    return folder


def result(run, *words):
    status, out, err = run(*words, "--format", "csv")
    assert status == 0, err
    return list(csv.DictReader(io.StringIO(out)))


@pytest.mark.parametrize("model", ["efa", "latent-factor", "marginal", "shrunk-offset"])
def test_a_shuffled_file_scores_alike(run, folder, tmp_path, model):
    words = ["fit", folder / "sorted.csv", "--model", model, *SET, "--value", "stars"]
    words += SMALL if model == "efa" else []
    words += ["--max-epochs", "3"] if model in ("efa", "latent-factor") else []
    assert run(*words, "-o", tmp_path / "model")[0] == 0
    both = [
        result(run, "score", tmp_path / "model", folder / f"{name}.csv")
        for name in ("sorted", "shuffled")
    ]
    for one, other in zip(*both, strict=True):
        assert one["part"] == other["part"] and one["targets"] == other["targets"]
        assert float(one["nats"]) == pytest.approx(float(other["nats"]), abs=1e-6)
    assert {float(row["nats"]) for row in both[0]} != {0.0}


def test_causal_models_need_an_order(run, folder, tmp_path):
    words = ["fit", folder / "sorted.csv", *SET, *SMALL, "--max-epochs", "1"]
    words += ["--direction", "causal", "-o", tmp_path / "model"]
    status, _, err = run(*words)
    assert status == 2 and "`--order` must be given for --direction causal" in err
    assert "--order rows" in err and not (tmp_path / "model").exists()
    assert run(*words, "--order", "rows")[0] == 0
    one, other = (
        result(run, "score", tmp_path / "model", folder / f"{name}.csv")[0]["nats"]
        for name in ("sorted", "shuffled")
    )
    assert one != other


def test_rows_of_a_prepared_folder_may_be_in_order(run, folder, tmp_path):
    for name, order in (("sets", ()), ("rows", ("--order", "rows"))):
        words = ["prepare", folder / "sorted.csv", *SET, *order, "-o", tmp_path / name]
        assert run(*words)[0] == 0
    words = [*SMALL, "--max-epochs", "1", "--direction", "causal", "-o", tmp_path / "model"]
    assert run("fit", tmp_path / "sets", *words)[0] == 2
    assert run("fit", tmp_path / "sets", *words, "--order", "rows")[0] == 0
    assert run("fit", tmp_path / "rows", *words, "--overwrite")[0] == 0
    assert run("score", tmp_path / "model", tmp_path / "rows")[0] == 0


def test_a_column_called_rows_is_refused(run, tmp_path):
    header = ("user", "movie", "rows", "stars")
    file = write_csv(tmp_path / "r.csv", ratings(), header=header)
    status, _, err = run("fit", file, *SET, "--order", "rows", "-o", tmp_path / "model")
    assert status == 2 and "`--order` must not be 'rows' where a column has that name" in err
