"""A warning where far more cells are missing than a fit has seen."""

import warnings

import pytest

import exfam
from exfam.checks import ExfamWarning
from tables.table_estimator_cases import EVERY, FRAME, JOINT, RESPONSES, fit, table_frame

WHOLE = table_frame(missing=0.0)[0]
GAPS = table_frame(missing=0.4)[0]
EMPTIER = WHOLE[:10].copy()
EMPTIER.iloc[[2, 7], 1:] = None


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


@EVERY
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (GAPS, "4.% of the cells .* lacked 0%"),
        # Nine cells of one row were too few to be reported.
        (EMPTIER, "2 of 10 rows of `X` lack far more"),
    ],
)
def test_far_more_missing_cells_than_in_training_are_counted_once(kind, X, message, tmp_path):
    model = fit(kind, WHOLE)
    model.save(tmp_path / "model")
    for estimator in (model, exfam.load(tmp_path / "model")):
        for call in calls(estimator):
            with pytest.warns(ExfamWarning, match=message) as result:
                call(X)
            assert len(result) == 1


@EVERY
def test_as_many_as_in_training_or_a_few_are_fine(kind):
    model, used_to = fit(kind, WHOLE), fit(kind, GAPS)
    hiding = fit(kind, WHOLE, extra_masking=1.0)
    before = fit(kind, WHOLE)
    config = before._state()[0]
    del config["most_missing"]  # as in models saved before rows were counted
    before._restore(config, {}, before.vocabulary_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in calls(model):
            call(FRAME)  # 10 % are missing
            call(GAPS[:3])
        for other in (used_to, hiding):
            other.log_prob(GAPS)
            other.log_prob(EMPTIER)
        before.log_prob(EMPTIER)
