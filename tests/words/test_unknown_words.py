"""Words that a model does not know are left out of its score, and said to be."""

import numpy as np
import pytest

from exfam import CBOW, DataError, ExfamWarning, PMIFactorization, SkipGram
from exfam.reading.text import prepare_text

TEXT = ["a b a c", "c b a", "b c a b", "d c d", "d a d b"] * 4
PASSES = {"dim": 4, "min_count": 1, "epochs": 1, "threads": 1, "subsample": 0.0, "progress": False}
MODELS = {
    "skip-gram": lambda: SkipGram(**PASSES),
    "cbow": lambda: CBOW(**PASSES),
    "softmax": lambda: CBOW(**PASSES, likelihood="softmax"),
    "pmi": lambda: PMIFactorization(dim=2, min_count=1),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return MODELS[request.param]().fit(TEXT)


@pytest.mark.parametrize("form", [list, prepare_text])
def test_one_warning_counts_them_and_the_score_is_of_the_others(fitted, form, tmp_path):
    given = ["a b x c", "y b a", "z z z"]
    text = given if form is list else form(given, min_count=1)
    with pytest.warns(ExfamWarning, match="5 of the 10 words of `X` are unknown") as said:
        score = fitted.score(text)
    assert len(said) == 1 and np.isfinite(score)
    # PMI keeps the places of words without vectors; the others close the gap.
    others = ["a b x c", "y b a"] if isinstance(fitted, PMIFactorization) else ["a b c", "b a"]
    if isinstance(fitted, PMIFactorization):
        with pytest.warns(ExfamWarning, match="2 of the 7 words"):
            assert fitted.score(others) == pytest.approx(score)
    else:
        assert fitted.score(others) == pytest.approx(score)


def test_a_text_of_known_words_has_a_score_without_a_warning(fitted):
    assert np.isfinite(fitted.score(["a b c d"]))


def test_a_text_of_unknown_words_alone_is_refused(fitted):
    with pytest.raises(
        DataError, match="must have words of the vocabulary|must hold at least one pair"
    ):
        fitted.score(["x y", "z"])
