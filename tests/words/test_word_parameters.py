"""Word models as scikit-learn's tools see them, without its base class."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from exfam.checks import ExfamError
from exfam.words import CBOW, PMIFactorization, SkipGram

SENTENCES = ["a b c a d", "d c b a", "b d a c"] * 20


@pytest.mark.parametrize("kind", [SkipGram, CBOW, PMIFactorization])
def test_clones_have_the_same_parameters_and_no_fit(kind):
    model = kind(dim=2, min_count=1)
    model.fit(SENTENCES)
    check_is_fitted(model)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.dim == 2
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
        check_is_fitted(copy)
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
        copy.score(SENTENCES)


def test_searches_choose_by_held_out_nats():
    model = SkipGram(dim=4, min_count=1, subsample=0.0, deterministic=True, progress=False)
    rates = {"learning_rate": [1e-9, 0.05]}
    search = GridSearchCV(model, rates, cv=2).fit(SENTENCES)
    assert search.best_params_ == {"learning_rate": 0.05}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_pipelines_take_them():
    model = make_pipeline(PMIFactorization(dim=2, min_count=1)).fit(SENTENCES)
    assert model.score(SENTENCES) < 0


def test_only_what_differs_is_shown():
    assert repr(SkipGram()) == "SkipGram()"
    assert repr(SkipGram(tie="reflection", dim=8)) == "SkipGram(dim=8, tie='reflection')"


def test_unknown_parameters_are_refused_and_nothing_is_set():
    model = SkipGram()
    with pytest.raises(
        ExfamError, match="`width` must be a parameter of SkipGram, which has min_count,"
    ):
        model.set_params(dim=8, width=3)
    assert model.dim == 200
    assert model.set_params(dim=8) is model
    assert model.get_params()["dim"] == 8
