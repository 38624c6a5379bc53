"""Labels that are floating-point numbers of any width."""

import numpy as np
import pytest

from exfam import Marginal
from exfam.checks import DataError


@pytest.mark.parametrize("width", [np.float16, np.float32, np.float64])
def test_whole_floats_are_labels(width):
    item = np.array([1, 2, 2, 3], dtype=width)
    model = Marginal(group="user", item="item").fit({"user": [0, 0, 1, 1], "item": item})
    assert model.vocabulary_["item"].tolist() == [1, 2, 3]


def test_floats_too_large_to_be_exact_are_refused():
    frame = {"user": [0, 0], "item": np.array([1, 2**60], dtype=np.float32)}
    with pytest.raises(DataError, match="must be below 2\\*\\*53 in size"):
        Marginal(group="user", item="item").fit(frame)
