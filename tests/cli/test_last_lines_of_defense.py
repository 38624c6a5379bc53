"""Errors for what cannot be brought about from outside on every machine."""

import numpy as np
import pytest

from cli.cases import COLUMNS, SMALL, ratings, write_csv
from exfam import cli
from exfam.checks import ExfamError
from exfam.cli import scoreboard
from exfam.cli import writable as places
from exfam.cli.sorts.groups import mean_parts


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    # Root may write everywhere.
    monkeypatch.setattr(places.os, "access", lambda path, mode: False)
    with pytest.raises(ExfamError, match="`--output` must lie where you may write, got .*model"):
        places.check_may_write("--output", tmp_path / "model")


def test_nothing_to_score():
    with pytest.raises(ExfamError, match="`FILE` must hold at least one observation to score"):
        mean_parts({"item": np.array([np.nan, np.nan])})


def test_the_path_of_a_saved_model_is_named_where_its_scores_fail(tmp_path, monkeypatch, capsys):
    def fail(*_, **__):
        raise ExfamError("Scores must be numbers, got none.")

    monkeypatch.setattr(scoreboard, "scoreboard", fail)
    file = write_csv(tmp_path / "ratings.csv", ratings())
    model = tmp_path / "model"
    words = [*COLUMNS, *SMALL, "--max-epochs", "1", "--progress", "false", "-o", str(model)]
    assert cli.main(["fit", str(file), *words]) == 2
    result = capsys.readouterr().err
    assert result.count("\n") == 1
    assert f"got none. The model is saved in {model}." in result
    assert model.is_dir()
