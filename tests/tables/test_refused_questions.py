"""What models of tables refuse, whatever the kind of their columns."""

import re

import numpy as np
import pytest

from exfam.checks import DataError, ExfamError
from exfam.tables.data import decode
from tables.table_estimator_cases import CLASSIFIER, FRAME, REGRESSOR, RESPONSES, fitted, make


@pytest.mark.parametrize("value", [-1.0, 0.5, 1e6])
def test_only_codes_decode_to_labels(value):
    message = f"of 'city', whole numbers from 0, got {value:g} at row 1"
    with pytest.raises(ExfamError, match=re.escape(message)):
        decode(fitted(CLASSIFIER).schema_, "city", np.array([np.nan, value]))


def test_one_row_has_no_spread_to_explain():
    with pytest.raises(DataError, match="`y` must hold a response in two rows or more for R"):
        fitted(REGRESSOR).score(FRAME[:1], RESPONSES[REGRESSOR][:1])


def test_columns_without_names_are_matched_by_position():
    numbers = FRAME[["height", "visits"]].to_numpy(dtype=float)
    model = make(CLASSIFIER, kinds=None, max_epochs=1, missing_columns="absent")
    model.fit(numbers, RESPONSES[CLASSIFIER])
    assert model.features_ == ("x0", "x1") and len(model.predict(numbers)) == len(FRAME)
    with pytest.raises(DataError, match="`X` must have 2 columns where they are matched by po"):
        model.predict(numbers[:, :1])


def test_columns_without_vectors_are_not_compared():
    model = make(CLASSIFIER, encoding="rotary", max_epochs=1).fit(FRAME, RESPONSES[CLASSIFIER])
    with pytest.raises(ExfamError, match="`encoding` must give columns vectors to compare"):
        model.column_similarities()


def test_unequal_columns_share_no_categories():
    model = make(CLASSIFIER, categories="shared", max_epochs=1)
    with pytest.raises(ExfamError, match="`categories` must be 'per-column' unless all columns"):
        model.fit(FRAME, RESPONSES[CLASSIFIER])
