import os
import re
import signal

import numpy as np
import pytest

from cli.cases import COLUMNS, QUICK, SMALL, STARS, ratings, table, write_csv
from exfam import EFA, Categorical, Gaussian, LatentFactor, Marginal, Ordinal, load, read
from exfam.efa.held_out import hold_out_groups
from exfam.training.progress import EpochProgress

N_ROWS = len(ratings())


def test_the_command_fits_what_the_library_fits(run, folder, tmp_path):
    file = folder / "ratings.csv"
    # Groups that the command scores a model on enter no base.
    words = [*COLUMNS, *STARS, *QUICK, "--seed", "3", "--base", "none", "-o", tmp_path / "m"]
    assert run("fit", file, *words)[0] == 0
    here = EFA(
        base="none",
        group="user", order="time", item="movie", value="stars", family=Ordinal(5, start=1),
        embed_dim=4, head_dim=2, n_layers=1, head_hidden_dim=4, max_epochs=2, seed=3,
    ).fit(file)  # fmt: skip
    there = load(tmp_path / "m")
    assert there.get_params() == here.get_params()
    assert np.array_equal(there.log_prob(file), here.log_prob(file))
    assert there.history_.to_dict()["validation_nats"] == here.history_.to_dict()["validation_nats"]


def test_the_table_has_the_scores_of_model_and_baselines_on_the_held_out_groups(
    run, folder, tmp_path
):
    words = [*COLUMNS, "--value", "stars", "--family", "gaussian", *QUICK]
    words += ["--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", folder / "ratings.csv", *words)
    assert status == 0
    groups = read(folder / "ratings.csv", group="user", order="time", item="movie", value="stars")
    everyone = np.ones(len(groups), dtype=bool)
    train, held_out = hold_out_groups(groups, everyone, fraction=0.1, seed=0, items=True)
    assert f"on {len(held_out)} held-out groups" in err and f"{N_ROWS} rows" in err
    names = {"group": "user", "item": "movie", "value": "stars"}
    rows = {row["model"]: row for row in table(out)}
    model = load(tmp_path / "m")
    fitted = {
        "EFA": model,
        "Marginal": Marginal(**names, support="hard").fit(train),
        "Marginal by item": Marginal(**names, support="hard", by_item=True).fit(train),
    }
    assert model.support_ == "hard" and set(rows) == {*fitted, "Levels"}
    for name, estimator in fitted.items():
        parts = estimator.score_parts(held_out)
        assert float(rows[name]["nats"]) == pytest.approx(estimator.score(held_out), abs=1e-12)
        assert float(rows[name]["nats_items"]) == pytest.approx(parts["items"], abs=1e-12)
        assert float(rows[name]["nats_stars"]) == pytest.approx(parts["stars"], abs=1e-12)
    levels = LatentFactor(**names, parts="values", dim=0).fit(train)
    assert float(rows["Levels"]["nats_stars"]) == pytest.approx(levels.score(held_out))
    assert rows["Levels"]["nats"] == "" and rows["Marginal"]["epochs"] == ""
    assert int(rows["EFA"]["epochs"]) == 2 and float(rows["EFA"]["seconds"]) > 0


def test_a_baseline_that_cannot_be_is_left_out_and_reported(run, folder, tmp_path):
    stars = ["--value", "stars", "--family", "Ordinal(65)"]
    words = [*COLUMNS, *stars, *QUICK, "-o", tmp_path / "n", "--format", "csv"]
    _, out, err = run("fit", folder / "ratings.csv", *words)
    assert [row["model"] for row in table(out)] == ["EFA", "Marginal", "Marginal by item"]
    assert "Levels is left out: `dim` must be at least 1 for items, and for values without" in err


@pytest.mark.parametrize(
    ("model", "words", "parameters"),
    [
        ("efa", ["--attributes", "genre", "--known", "genre", *QUICK], {"known": "genre"}),
        ("latent-factor", ["--dim", "3", "--max-epochs", "1"], {"dim": 3, "max_epochs": 1}),
        ("marginal", ["--by-item", "--smoothing", "2"], {"by_item": True, "smoothing": 2.0}),
        ("latent-factor", ["--parts", "values", "--dim", "0"], {"dim": 0}),
    ],
)
def test_every_model_is_fitted_and_saved(results, tmp_path, model, words, parameters):
    rows = [(*row, "ab"[row[3] % 2]) for row in ratings()]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "movie", "time", "stars", "genre"))
    common = [*COLUMNS, "--value", "stars", "-o", tmp_path / "m"]
    first, *_ = results("fit", file, "--model", model, *common, *words)
    fitted = load(tmp_path / "m")
    assert type(fitted).__name__ == first["model"]
    assert parameters.items() <= fitted.get_params().items()


def test_several_values_have_a_family_each(results, tmp_path):
    rows = [(*row, 2.5 * row[3]) for row in ratings()]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "movie", "time", "stars", "price"))
    words = ["--value", "stars", "--value", "price", *QUICK, "-o", tmp_path / "m"]
    families = "{stars: 'categorical(5, start=1)', price: {name: gaussian, scale: 2}}"
    assert "nats_price" in results("fit", file, *COLUMNS, *words, "--family", families)[0]
    chosen = load(tmp_path / "m").schema_.families
    assert chosen["stars"] == Categorical(5, start=1)
    assert chosen["price"].family == Gaussian(2.0)  # on standardized prices


def test_validation_may_be_a_file(run, tmp_path):
    train = write_csv(tmp_path / "train.csv", ratings(0))
    held_out = write_csv(tmp_path / "valid.csv", ratings(1))
    words = [*COLUMNS, *STARS, *QUICK, "--base", "none", "--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", train, *words, "--validation", held_out)
    assert status == 0 and "on 30 held-out groups" in err
    fitted, nats = load(tmp_path / "m"), float(table(out)[0]["nats"])
    assert nats == pytest.approx(fitted.score(held_out), abs=1e-12)
    assert nats == pytest.approx(-fitted.history_.best.validation_nats, abs=1e-4)


def test_a_prepared_folder_needs_no_columns(run, folder, tmp_path, refusal):
    file = folder / "ratings.csv"
    words = [*COLUMNS, "--value", "stars", "-o", tmp_path / "p"]
    status, out, err = run("prepare", file, *words)
    assert status == 0 and out == "" and f"{N_ROWS} rows" in err
    assert run("fit", tmp_path / "p", *STARS[2:], *QUICK, "-o", tmp_path / "a")[0] == 0
    there, here = load(tmp_path / "a"), load(folder / "model")
    assert here.get_params() == there.get_params()
    assert here.score(file) == there.score(file)
    line = refusal("fit", tmp_path / "p", "--group", "viewer", "-o", tmp_path / "c")
    assert "`--group` must be as" in line


def test_what_was_met_in_the_file_is_reported(run, tmp_path, refusal):
    rows = [*ratings(), ("zoe", "Alien", 5, ""), ("zoe", "Dune", 5, 3), ("zoe", "Dune", 5, 3)]
    file = write_csv(tmp_path / "r.csv", rows)
    words = ["fit", file, *COLUMNS, *STARS, *QUICK, "-o", tmp_path / "m"]
    assert "`--duplicates` must be 'drop' or" in refusal(*words)
    status, _, err = run(*words, "--duplicates", "drop")
    assert status == 0
    assert err.splitlines()[0] == (
        f"{file}: {N_ROWS + 3} rows, 31 groups, 6 items; 1 row tied in order; 1 row "
        "dropped as duplicates; 1 row without a value"
    )


def test_paths_are_checked_before_anything_is_read(refusal, folder):
    words = ["fit", "nowhere.csv", "--group", "user", "--item", "movie", "-o"]
    line = refusal(*words, folder / "model")
    assert "`--output` must be free, got a saved model" in line
    assert "Pass --overwrite to replace it." in line
    assert "nowhere.csv" in refusal(*words, folder / "model", "--overwrite")
    line = refusal(*words, folder / "ratings.csv")
    assert "`--output` must be free or a saved model, got something else" in line
    assert "ratings.csv is a file" in refusal(*words, folder / "ratings.csv" / "m")
    line = refusal("prepare", folder / "ratings.csv", *COLUMNS, "-o", folder / "model")
    assert "`--output` must be free or a prepared folder" in line
    line = refusal("score", folder / "ratings.csv", folder / "model")
    assert "`MODEL` must be a saved model, got a file" in line


@pytest.fixture
def interrupt(monkeypatch):
    """Presses Ctrl-C, once, as soon as the numbers of epochs drawn so far are as wanted."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(wanted):
        epochs, drawn = [], EpochProgress.draw

        def draw(self, rows, **fraction):
            drawn(self, rows, **fraction)
            epochs.append(len(rows))
            if wanted(epochs):
                monkeypatch.setattr(EpochProgress, "draw", drawn)
                os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(EpochProgress, "draw", draw)

    yield press
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_keeps_the_best_epoch_and_the_members_before(run, folder, tmp_path, interrupt):
    interrupt(lambda epochs: epochs[-1] == 2)
    words = ["fit", folder / "ratings.csv", *COLUMNS, *SMALL, "--batch-size", "2", "-o"]
    status, out, err = run(*words, tmp_path / "m")
    assert status == 130 and "EFA" in out
    assert "interrupted: the best weights so far are kept" in err and "saved in" in err
    assert len(load(tmp_path / "m").history_) == 2
    interrupt(lambda epochs: epochs[-2:] == [2, 0])
    assert run(*words, tmp_path / "n", "--ensemble", "3", "--max-epochs", "2")[0] == 130
    assert len(load(tmp_path / "n").members_) == 1
    interrupt(lambda epochs: epochs[-1] == 0)
    status, out, err = run(*words, tmp_path / "o")
    assert status == 130 and out == "" and not (tmp_path / "o").exists()
    assert err.splitlines()[-1] == "exfam fit: interrupted"


def test_a_file_needs_columns(refusal, folder, tmp_path):
    words = ["fit", folder / "ratings.csv", "-o", tmp_path / "m"]
    line = refusal(*words, "--item", "movie")
    assert "`--group` must name the column of groups to read" in line
    line = refusal(*words, "--group", "user")
    assert "`--item` or `--value` must name columns to learn" in line
    line = refusal(*words, "--group", "user", "--item", "movie", "--direction", "causal")
    assert "`--order` must be given for --direction causal" in line and "--order rows" in line


def test_scores_of_what_was_seen_and_baselines_that_are_ahead_are_reported(run, folder, tmp_path):
    file, model = folder / "ratings.csv", tmp_path / "m"
    words = ["--group", "user", "--item", "movie", "--value", "stars", *QUICK, "-o", model]
    # Without a base, and not trained, it is behind whatever counts.
    err = run("fit", file, *words, "--learning-rate", "1e-9", "--base", "none")[2]
    assert re.search(
        r"(Marginal|Marginal by item|Levels) is ahead of EFA by \d+\.\d{3} nats( of 'stars')?"
        r" on held-out groups: use it \(--model [\w -]+\), or give EFA more data",
        err,
    )
    err = run("score", model, file)[2]
    assert re.search(r"(\d+) of \1 groups are among those that the model was", err)
    assert "--train FILE, the data of the fit, says whether a cheap baseline is ahead" in err
    err = run("score", model, file, "--train", file)[2]
    assert "nothing is compared: the model has seen all groups in its fit" in err
    new = [("new " + user, *rest) for user, *rest in ratings(seed=1)]
    _, out, err = run("score", model, write_csv(tmp_path / "new.csv", new), "--train", file)
    assert out.splitlines()[0].split()[:2] == ["part", "nats"]
    for name in ("EFA", "Marginal"):
        line = rf"^{name} has -\d+\.\d+ nats per observation of 'items' and 'stars' on 30 groups$"
        assert re.search(line, err, re.M)
    assert re.search(r" is ahead of EFA by \d+\.\d{3} nats.* on 30 groups: use it \(--model", err)


def test_the_format_of_dates_is_kept_with_the_model(run, tmp_path, refusal):
    rows = [[f"u{k % 8}", f"0{1 + k // 8}/02/2024", "xyz"[k % 3]] for k in range(32)]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "when", "movie"))
    words = ["--group", "user", "--order", "when", "--item", "movie", "--model", "marginal"]
    words = ["fit", file, *words, "-o", tmp_path / "m"]
    assert "Name the right one in `--date-format`" in refusal(*words)
    assert run(*words, "--date-format", "%d/%m/%Y")[0] == 0
    status, out, err = run("score", tmp_path / "m", file)
    assert status == 0, err
    assert run("score", tmp_path / "m", file, "--date-format", "%m/%d/%Y")[1] == out
    assert run("score", tmp_path / "m", file, "--date-format", "%Y/%m/%d")[0] == 2
