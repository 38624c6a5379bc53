"""Similarities of column encodings."""

import json

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from exfam.checks import DataError, ExfamError
from exfam.tables.answers.similarity import column_similarity

NAMES = ["age", "height", "weight", "size", "none"]
VECTORS = np.random.default_rng(0).normal(size=(1, 5, 3)).astype(np.float32)
VECTORS[0, 3:] = [2.5 * VECTORS[0, 1] + 0.01, np.zeros(3)]
RESULT = column_similarity(VECTORS, NAMES)


def test_cosines_are_those_of_scikit_learn():
    expected = cosine_similarity(VECTORS[0].astype(np.float64))
    np.testing.assert_allclose(RESULT.cosine, expected, atol=1e-12)
    np.testing.assert_allclose(column_similarity(3 * VECTORS, NAMES).cosine, RESULT.cosine)
    plain = json.loads(json.dumps(RESULT.as_dict()))
    assert plain["size"]["height"] == pytest.approx(1, abs=1e-3) and plain["none"]["none"] == 0


def test_nearest_columns_of_another_table():
    nearest = [name for name, _ in RESULT.nearest("height", k=9)]
    assert nearest[0] == "size" and len(nearest) == 4
    here = RESULT.nearest("height", k=2, among=["age", "weight", "height"])
    assert {name for name, _ in here} == {"age", "weight"} and here[0][1] >= here[1][1]
    for name, among in (("mass", None), ("age", ["mass"])):
        with pytest.raises(DataError, match="must be one of the columns age, .* got 'mass'"):
            RESULT.nearest(name, k=1, among=among)
    with pytest.raises(ExfamError, match="`k` must be a number > 0"):
        RESULT.nearest("age", k=0)
