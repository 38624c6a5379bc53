"""A warning where far more cells are missing than a fit has seen."""

import warnings

import numpy as np
import pytest

import exfam
from exfam.checks import ExfamWarning
from tables.table_estimator_cases import FRAME, JOINT, KINDS, RESPONSES, make, table_frame

WHOLE = table_frame(missing=0.0)[0]
GAPS = table_frame(missing=0.4)[0]


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    return make(request.param, max_epochs=1).fit(WHOLE, RESPONSES[request.param])


def calls(model):
    y = RESPONSES[model.kind]
    yield lambda X: model.log_prob(X)
    if model.kind == JOINT:
        yield lambda X: model.score(X)
        return
    yield lambda X: model.predict(X)
    yield lambda X: model.predict_dist(X).mean
    yield lambda X: model.score(X, y[: len(X)])
    yield lambda X: model.log_score(X, y[: len(X)])


def test_far_more_missing_cells_than_in_training_are_counted_once(model, tmp_path):
    model.save(tmp_path / "model")
    for fitted in (model, exfam.load(tmp_path / "model")):
        for call in calls(fitted):
            with pytest.warns(ExfamWarning, match="4.% of the cells .* lacked 0%") as result:
                call(GAPS)
            assert len(result) == 1


def test_as_many_as_in_training_or_a_few_are_fine(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls(model):
            call(FRAME)  # 10 % are missing
            call(GAPS[:3])
        used_to = make(model.kind, max_epochs=1).fit(GAPS, RESPONSES[model.kind])
        hiding = make(model.kind, max_epochs=1, extra_masking=1.0).fit(WHOLE, RESPONSES[model.kind])
        for fitted in (used_to, hiding):
            fitted.log_prob(GAPS)


def test_columns_that_are_not_there_are_missing(model):
    model.missing_columns = "absent"
    with pytest.warns(ExfamWarning, match="60% of the cells of `X` are missing .240 of 400."):
        model.log_prob(WHOLE[["height", "city"]])
    model.missing_columns = "auto"
    assert np.isfinite(model.conditional(["height"]).predict_dist("height").mean).all()


def test_rows_far_emptier_than_any_of_training_are_counted(model, tmp_path):
    """Nine cells of one row were too few to be said."""
    model.save(tmp_path / "model")
    some = WHOLE[:10].copy()
    some.iloc[[2, 7], 1:] = None
    for fitted in (model, exfam.load(tmp_path / "model")):
        for call in calls(fitted):
            with pytest.warns(ExfamWarning, match="2 of 10 rows of `X` lack far more") as warned:
                call(some)
            assert len(warned) == 1
    used_to = make(model.kind, max_epochs=1).fit(GAPS, RESPONSES[model.kind])
    hiding = make(model.kind, max_epochs=1, extra_masking=1.0).fit(WHOLE, RESPONSES[model.kind])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fitted in (used_to, hiding):
            fitted.log_prob(some)


def test_a_model_saved_before_rows_were_counted_is_silent(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    config = loaded._state()[0]
    del config["most_missing"]
    loaded._restore(config, {}, loaded.vocabulary_)
    assert loaded.most_missing_ == 1.0
    some = WHOLE[:10].copy()
    some.iloc[2, 1:] = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.log_prob(some)
