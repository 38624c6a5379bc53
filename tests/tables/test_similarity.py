"""Similarities of column encodings."""

import json

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from exfam.checks import DataError, ExfamError
from exfam.tables.answers.similarity import column_similarity

NAMES = ["age", "height", "weight", "size", "none"]


@pytest.fixture
def positions():
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    vectors[3] = 2.5 * vectors[1] + 0.01
    vectors[4] = 0
    return vectors[None]


def test_cosines_are_those_of_scikit_learn(positions):
    result = column_similarity(positions, NAMES)
    expected = cosine_similarity(positions[0].astype(np.float64))
    np.testing.assert_allclose(result.cosine, expected, atol=1e-12)
    np.testing.assert_allclose(column_similarity(3 * positions, NAMES).cosine, result.cosine)


def test_nearest_columns_of_another_table(positions):
    result = column_similarity(positions, NAMES)
    assert result.nearest("height", k=1)[0][0] == "size"
    assert [name for name, _ in result.nearest("height", k=9)][0] == "size"
    assert len(result.nearest("height", k=9)) == 4
    here = result.nearest("height", k=2, among=["age", "weight", "height"])
    assert {name for name, _ in here} == {"age", "weight"} and here[0][1] >= here[1][1]


def test_it_is_plain_json(positions):
    result = json.loads(json.dumps(column_similarity(positions, NAMES).as_dict()))
    assert result["size"]["height"] == pytest.approx(1, abs=1e-3) and result["none"]["none"] == 0


def test_errors_say_what_is_wrong(positions):
    with pytest.raises(DataError, match="`names` must be as many as there are columns, 5, got 2"):
        column_similarity(positions, NAMES[:2])
    result = column_similarity(positions, NAMES)
    with pytest.raises(DataError, match="must be one of the columns age, .* got 'mass'"):
        result.nearest("mass", k=1)
    with pytest.raises(DataError, match="got 'mass'"):
        result.nearest("age", k=1, among=["mass"])
    with pytest.raises(ExfamError, match="`k` must be a number > 0"):
        result.nearest("age", k=0)
