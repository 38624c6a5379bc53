"""What no table can answer is refused with an error of ours, whatever it is."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.tables.data.columns import Column, label_array
from tables.table_estimator_cases import (
    FRAME,
    JOINT,
    KINDS,
    RESPONSES,
    SUPERVISED,
    fitted,
    make,
)

TESTS = Path(__file__).parent.parent


def test_wrong_questions():
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    result = subprocess.run(
        [sys.executable, "-m", "tables.wrong_questions"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


@pytest.mark.parametrize("kind", SUPERVISED)
@pytest.mark.parametrize("y", [5, None, [[1, 2]], np.zeros((80, 2)), "a", {"a": 1}], ids=repr)
def test_responses_that_are_none(kind, y):
    model = fitted(kind)
    calls = [lambda: make(kind).fit(FRAME, y)]
    if y is not None:
        calls += [lambda: model.score(FRAME, y), lambda: model.log_score(FRAME, y)]
    for call in calls:
        with pytest.raises(ExfamError, match="`y`|response"):
            call()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [1e308, -1e308, 1e-308, 5e-324])
def test_numbers_at_the_ends_of_what_there_is(kind, value):
    frame = FRAME.assign(height=np.where(np.arange(len(FRAME)) % 2, value, 1.0))
    model = make(kind, max_epochs=1).fit(frame, RESPONSES[kind])
    for X in (frame, frame.assign(height=-value)):
        assert np.isfinite(model.log_prob(X)).all()
        assert np.isfinite(model.conditional(["height"], given=X).predict_dist("height").mean).all()


@pytest.mark.parametrize("order", [5, np.array(5), [["height"]]])
def test_questions_name_columns_as_they_are(order):
    with pytest.raises(DataError, match="`order` must be a list of names of columns, got"):
        fitted(JOINT).log_prob(FRAME[:2], order=order)


def test_a_column_is_made_of_labels_or_of_knots():
    column = Column("size", "ordinal", labels=label_array(["S", "M"]))
    with pytest.raises(ValueError, match="'size' must have labels or knots"):
        Column.from_config(column.to_config() | {"labels": None})
    with pytest.raises(ValueError, match="'size' must be one list, got a nested one"):
        Column.from_config(column.to_config() | {"labels": [["S"], ["M"]]})
