"""A fit of words that ends in no numbers is refused, and leaves no model behind."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from exfam import CBOW, DataError, SkipGram
from exfam.checks import ExfamError
from exfam.vectors import WordVectors

TEXT = ["the cat sat on the mat", "the dog sat on the rug"] * 20
SMALL = {"dim": 4, "epochs": 1, "threads": 1, "progress": False, "min_count": 1}


@pytest.mark.parametrize("kind", [CBOW, SkipGram])
def test_vectors_that_are_no_numbers_are_no_fit(kind):
    model = kind(learning_rate=1e19, **SMALL)
    with pytest.raises(ExfamError, match=r"Word vectors must be below 1e\+18 .* `learning_rate`"):
        model.fit(TEXT[:12])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.score(TEXT)


def test_an_array_of_one_is_no_list():
    one = np.array("the")
    with pytest.raises(DataError, match="`words` must be a list of words"):
        WordVectors(("the",), np.ones((1, 2), np.float32)).codes(one)
    with pytest.raises(DataError, match="`source` must be a path"):
        CBOW(**SMALL).fit(one)
