import csv
import io
import os
import re
import signal
import sys

import numpy as np
import pytest

from cli.cases import COLUMNS, SMALL, ratings, write_csv
from exfam import EFA, Categorical, Gaussian, Marginal, Ordinal, ShrunkOffset, load, read
from exfam.cli import main
from exfam.efa.plan import hold_out_groups
from exfam.training.history import EpochProgress

STARS = ("--value", "stars", "--family", "ordinal(n=5, start=1)")
N_ROWS = len(ratings())
QUICK = (*SMALL, "--max-epochs", "2")


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_command_fits_what_the_library_fits(run, place, tmp_path):
    words = [*COLUMNS, *STARS, *QUICK, "--seed", "3"]
    status, _, _ = run("fit", place / "ratings.csv", *words, "-o", tmp_path / "m")
    assert status == 0
    here = EFA(
        group="user", order="time", item="movie", value="stars", family=Ordinal(5, start=1),
        embed_dim=4, head_dim=2, n_layers=1, head_hidden_dim=4, max_epochs=2, seed=3,
    ).fit(place / "ratings.csv")  # fmt: skip
    there = load(tmp_path / "m")
    assert there.get_params() == here.get_params()
    file = place / "ratings.csv"
    assert np.array_equal(there.log_prob(file), here.log_prob(file))
    assert there.history_.to_dict()["validation_nats"] == here.history_.to_dict()["validation_nats"]


def test_the_table_has_the_scores_of_model_and_baselines_on_the_held_out_groups(
    run, place, tmp_path
):
    words = [*COLUMNS, "--value", "stars", *QUICK, "--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", place / "ratings.csv", *words)
    assert status == 0
    groups = read(place / "ratings.csv", group="user", order="time", item="movie", value="stars")
    train, held_out = hold_out_groups(
        groups, np.ones(len(groups), dtype=bool), fraction=0.1, seed=0
    )
    assert f"on {len(held_out)} held-out groups" in err and f"{N_ROWS} rows" in err
    names = {"group": "user", "item": "movie", "value": "stars"}
    rows = {row["model"]: row for row in table(out)}
    model = load(tmp_path / "m")
    fitted = {
        "EFA": model,
        "Marginal": Marginal(**names, support="hard").fit(train),
        "Marginal by item": Marginal(**names, support="hard", by_item=True).fit(train),
    }
    assert model.support_ == "hard" and set(rows) == {*fitted, "ShrunkOffset"}
    for name, each in fitted.items():
        parts = each.score_parts(held_out)
        assert float(rows[name]["nats"]) == pytest.approx(each.score(held_out), abs=1e-12)
        assert float(rows[name]["nats_items"]) == pytest.approx(parts["items"], abs=1e-12)
        assert float(rows[name]["nats_stars"]) == pytest.approx(parts["stars"], abs=1e-12)
    offset = ShrunkOffset(**names).fit(train)
    assert float(rows["ShrunkOffset"]["nats_stars"]) == pytest.approx(offset.score(held_out))
    assert rows["ShrunkOffset"]["nats"] == "" and rows["Marginal"]["epochs"] == ""
    assert int(rows["EFA"]["epochs"]) == 2 and float(rows["EFA"]["seconds"]) > 0


def test_a_baseline_that_cannot_be_is_left_out_and_reported(run, place, tmp_path):
    words = [*COLUMNS, *STARS, "--model", "marginal", "-o", tmp_path / "m", "--format", "csv"]
    _, out, _ = run("fit", place / "ratings.csv", *words)
    assert [row["model"] for row in table(out)] == ["Marginal"]
    words = [*COLUMNS, *STARS, *QUICK, "-o", tmp_path / "n", "--format", "csv"]
    _, out, err = run("fit", place / "ratings.csv", *words)
    assert [row["model"] for row in table(out)] == ["EFA", "Marginal", "Marginal by item"]
    assert "ShrunkOffset is left out: `family` must be determined by its mean" in err


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("efa", ["--attributes", "genre", "--known", "genre"], "EFA"),
        ("latent-factor", ["--dim", "3", "--max-epochs", "1"], "LatentFactor"),
        ("marginal", ["--by-item", "--smoothing", "2"], "Marginal"),
        ("shrunk-offset", ["--k", "2"], "ShrunkOffset"),
    ],
)
def test_every_model_is_fitted_and_saved(run, tmp_path, model, words, message):
    rows = [(*row, "ab"[row[3] % 2]) for row in ratings()]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "movie", "time", "stars", "genre"))
    small = QUICK if model == "efa" else []
    common = [*COLUMNS, "--value", "stars", *small, *words, "-o", tmp_path / "m"]
    status, out, err = run("fit", file, "--model", model, *common)
    assert status == 0, err
    assert out.splitlines()[1].startswith(message)
    fitted = load(tmp_path / "m")
    assert type(fitted).__name__ == message
    for word, value in zip(words, words[1:], strict=False):
        if word.startswith("--") and not value.startswith("--"):
            assert str(getattr(fitted, word[2:].replace("-", "_"))).startswith(value)


def test_several_values_have_a_family_each(run, tmp_path):
    rows = [(*row, 2.5 * row[3]) for row in ratings()]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "movie", "time", "stars", "price"))
    words = ["--value", "stars", "--value", "price", *QUICK, "-o", tmp_path / "m"]
    families = "{stars: 'categorical(5, start=1)', price: {name: gaussian, scale: 2}}"
    status, out, err = run("fit", file, *COLUMNS, *words, "--family", families)
    assert status == 0, err
    assert "nats_price" in out.splitlines()[0]
    result = load(tmp_path / "m").schema_.families
    assert result["stars"] == Categorical(5, start=1)
    assert result["price"].family == Gaussian(2.0)  # on standardized prices


def test_a_configuration_is_as_good_as_words(run, place, tmp_path):
    words = [*COLUMNS, *STARS, *QUICK]
    output = ["-o", tmp_path / "a"]
    status, out, _ = run("fit", place / "ratings.csv", *words, *output, "--print_config")
    assert status == 0 and not (tmp_path / "a").exists()
    (tmp_path / "run.yaml").write_text(out)
    assert run("fit", "--config", tmp_path / "run.yaml")[0] == 0
    more = ["-o", tmp_path / "b", "--seed", "1"]
    assert run("fit", "--config", tmp_path / "run.yaml", *more)[0] == 0
    assert load(tmp_path / "a").seed == 0 and load(tmp_path / "b").seed == 1


def test_validation_may_be_a_file(run, tmp_path):
    train = write_csv(tmp_path / "train.csv", ratings(0))
    held_out = write_csv(tmp_path / "valid.csv", ratings(1))
    words = [*COLUMNS, *STARS, *QUICK, "--format", "csv", "-o", tmp_path / "m"]
    status, out, err = run("fit", train, *words, "--validation", held_out)
    assert status == 0 and "on 30 held-out groups" in err
    fitted = load(tmp_path / "m")
    assert float(table(out)[0]["nats"]) == pytest.approx(fitted.score(held_out), abs=1e-12)
    best = fitted.history_.best.validation_nats
    assert float(table(out)[0]["nats"]) == pytest.approx(-best, abs=1e-4)


def test_a_prepared_folder_needs_no_columns(run, place, tmp_path):
    words = [*COLUMNS, "--value", "stars"]
    status, out, err = run("prepare", place / "ratings.csv", *words, "-o", tmp_path / "p")
    assert status == 0 and out == "" and f"{N_ROWS} rows" in err
    assert run("fit", tmp_path / "p", *STARS[2:], *QUICK, "-o", tmp_path / "a")[0] == 0
    words = [*COLUMNS, *STARS, *QUICK, "-o", tmp_path / "b"]
    assert run("fit", place / "ratings.csv", *words)[0] == 0
    here, there = load(tmp_path / "a"), load(tmp_path / "b")
    assert here.get_params() == there.get_params()
    assert here.score(place / "ratings.csv") == there.score(place / "ratings.csv")
    status, _, err = run("fit", tmp_path / "p", "--group", "movie", "-o", tmp_path / "c")
    assert status == 2 and "`--group` must be as" in err


def test_what_was_met_in_the_file_is_reported(run, tmp_path):
    rows = [*ratings(), ("zoe", "Alien", 5, ""), ("zoe", "Dune", 5, 3), ("zoe", "Dune", 5, 3)]
    file = write_csv(tmp_path / "r.csv", rows)
    words = [*COLUMNS, *STARS, *QUICK, "-o", tmp_path / "m"]
    status, _, err = run("fit", file, *words)
    assert status == 2 and err.count("\n") == 1 and "`--duplicates` must be 'drop' or" in err
    status, _, err = run("fit", file, *words, "--duplicates", "drop")
    assert status == 0
    assert err.splitlines()[0] == (
        f"{file}: {N_ROWS + 3} rows, 31 groups, 6 items; 1 row tied in order; 1 row "
        "dropped as duplicates; 1 row without a value"
    )


def test_the_place_is_checked_before_anything_is_read(run, place, tmp_path):
    words = ["fit", "nowhere.csv", "--group", "user", "--item", "movie", "-o"]
    status, _, err = run(*words, place / "model")
    assert status == 2 and "`--output` must be free, got a saved model" in err
    assert "Pass --overwrite to replace it." in err
    assert "nowhere.csv" in run(*words, place / "model", "--overwrite")[2]
    status, _, err = run(*words, place / "ratings.csv")
    assert "`--output` must be free or a saved model, got something else" in err
    status, _, err = run(*words, place / "ratings.csv" / "m")
    assert status == 2 and "ratings.csv is a file" in err


@pytest.fixture
def interrupts():
    """Ctrl-C as a terminal has it, though a shell may have started the tests without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c(monkeypatch, *, after):
    drawn = EpochProgress.draw

    def draw(self, rows, **fraction):
        drawn(self, rows, **fraction)
        if len(rows) == after:
            os.kill(os.getpid(), signal.SIGINT)
            monkeypatch.setattr(EpochProgress, "draw", drawn)

    monkeypatch.setattr(EpochProgress, "draw", draw)


def test_ctrl_c_keeps_the_best_epoch(run, place, tmp_path, monkeypatch, interrupts):
    press_ctrl_c(monkeypatch, after=2)
    words = [*COLUMNS, *STARS, *SMALL, "-o", tmp_path / "m"]
    status, out, err = run("fit", place / "ratings.csv", *words)
    assert status == 130 and "EFA" in out
    assert "interrupted: the best weights so far are kept" in err and "saved in" in err
    assert len(load(tmp_path / "m").history_) == 2


def test_ctrl_c_before_the_first_epoch_ends_saves_nothing(
    run, place, tmp_path, monkeypatch, interrupts
):
    press_ctrl_c(monkeypatch, after=0)
    words = [*COLUMNS, *STARS, *SMALL, "--batch-size", "2", "-o", tmp_path / "m"]
    status, out, err = run("fit", place / "ratings.csv", *words)
    assert status == 130 and out == ""
    assert err.splitlines()[-1] == "exfam fit: interrupted"
    assert not (tmp_path / "m").exists()


def test_ctrl_c_in_a_second_member_keeps_the_first(run, place, tmp_path, monkeypatch, interrupts):
    calls = []
    drawn = EpochProgress.draw

    def draw(self, rows, **fraction):
        drawn(self, rows, **fraction)
        calls.append(len(rows))
        if len(calls) > 1 and calls[-2] and not calls[-1]:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EpochProgress, "draw", draw)
    words = [*COLUMNS, *QUICK, "--ensemble", "3", "--batch-size", "2", "-o", tmp_path / "m"]
    assert run("fit", place / "ratings.csv", *words)[0] == 130
    assert len(load(tmp_path / "m").members_) == 1


def test_a_file_needs_the_column_of_groups(run, place, tmp_path):
    status, _, err = run("fit", place / "ratings.csv", "--item", "movie", "-o", tmp_path / "m")
    assert status == 2 and "`--group` must name the column of groups to read" in err
    status, _, err = run("fit", place / "ratings.csv", "--group", "user", "-o", tmp_path / "m")
    assert status == 2 and "`--item` or `--value` must name columns to learn" in err


def test_a_model_is_no_place_for_a_prepared_folder(run, place):
    status, _, err = run("prepare", place / "ratings.csv", *COLUMNS, "-o", place / "model")
    assert status == 2 and "`--output` must be free or a prepared folder" in err
    status, _, err = run("score", place / "ratings.csv", place / "model")
    assert status == 2 and "`MODEL` must be a folder with a saved model, got a file" in err


def test_facts_are_shown_at_once_on_a_terminal_and_after_success_elsewhere(
    place, tmp_path, monkeypatch, capsys
):
    words = ["fit", str(place / "ratings.csv"), *COLUMNS, "--value", "stars", *QUICK]
    words += ["--family", "bernoulli", "-o", str(tmp_path / "m")]
    assert main(words) == 2 and capsys.readouterr().err.startswith("exfam fit: `stars` must be")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "30 groups, 6 items" in lines[0] and lines[-1].startswith("exfam fit: `stars` must be")


def test_scores_of_what_was_seen_and_baselines_that_are_ahead_are_reported(run, place, tmp_path):
    file, model = place / "ratings.csv", tmp_path / "m"
    words = ["--group", "user", "--item", "movie", "--value", "stars", *QUICK, "-o", model]
    status, _, err = run("fit", file, *words, "--learning-rate", "1e-9")
    assert status == 0
    assert re.search(
        r"(Marginal|Marginal by item|ShrunkOffset) is ahead of EFA by \d+\.\d{3} nats( of 'stars')?"
        r" on held-out groups: use it \(--model [\w -]+\), or give EFA more data",
        err,
    )
    status, _, err = run("score", model, file)
    assert status == 0 and re.search(r"(\d+) of \1 groups are among those that the model was", err)
    assert "--train FILE, the data of the fit, says whether a cheap baseline is ahead" in err
    err = run("score", model, file, "--train", file)[2]
    assert "nothing is compared: the model has seen all groups in its fit" in err
    new = [("new " + user, *rest) for user, *rest in ratings(seed=1)]
    status, out, err = run("score", model, write_csv(tmp_path / "new.csv", new), "--train", file)
    assert status == 0 and out.splitlines()[0].split()[:2] == ["part", "nats"]
    assert re.search(
        r"^EFA has -\d+\.\d+ nats per observation of 'items' and 'stars' on 30", err, re.M
    )
    assert re.search(r"^Marginal has -\d+\.\d+ nats per observation of 'items' and", err, re.M)
    assert re.search(r" is ahead of EFA by \d+\.\d{3} nats.* on 30 groups: use it \(--model", err)


def test_the_format_of_dates_is_kept_with_the_model(run, tmp_path):
    rows = [[f"u{k % 8}", f"0{1 + k // 8}/02/2024", "xyz"[k % 3]] for k in range(32)]
    file = write_csv(tmp_path / "r.csv", rows, ("user", "when", "movie"))
    words = ["--group", "user", "--order", "when", "--item", "movie", "--model", "marginal"]
    status, _, err = run("fit", file, *words, "-o", tmp_path / "m")
    assert status == 2 and "Name the right one in `--date-format`" in err
    words += ["--date-format", "%d/%m/%Y"]
    assert run("fit", file, *words, "-o", tmp_path / "m")[0] == 0
    status, out, err = run("score", tmp_path / "m", file)
    assert status == 0, err
    assert run("score", tmp_path / "m", file, "--date-format", "%m/%d/%Y")[1] == out
    assert run("score", tmp_path / "m", file, "--date-format", "%Y/%m/%d")[0] == 2
