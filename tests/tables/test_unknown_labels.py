"""Labels and missing cells that training did not have: taken as unknown, counted, never an end."""

import warnings

import numpy as np
import pandas as pd
import pytest

import exfam
from exfam.checks import DataError, ExfamWarning
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    EVERY,
    FRAME,
    JOINT,
    KINDS,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    SUPERVISED,
    WITH_RESPONSE,
    fit,
    fitted,
    table_frame,
)

NEW = FRAME[:6].assign(city=["Paris", "Bonn", "Lima", None, "Oslo", "Paris"])
AS_MISSING = NEW.assign(city=[None, "Bonn", None, None, "Oslo", None])
COUNTED = "3 of 6 rows hold labels .*: 3 of column 'city', such as 'Paris' at row 0, "
CALLS = [
    lambda model, X: model.log_prob(X),
    lambda model, X: model.experts(X).weights,
    lambda model, X: model.conditional(["height"], given=X).predict_dist("height").mean,
    lambda model, X: model.sample(2, given=X)["height"],
    lambda model, X: model.order_disagreement(X).log_prob,
]
SUPERVISED_CALLS = [
    lambda model, X: model.predict(X),
    lambda model, X: model.predict_dist(X).quantile(0.5),
    lambda model, X: model.score(X, RESPONSES[model.kind][:6]),
    lambda model, X: model.log_score(X, RESPONSES[model.kind][:6]),
]
CASES = [
    *((kind, call) for kind in KINDS for call in CALLS),
    *((kind, call) for kind in SUPERVISED for call in SUPERVISED_CALLS),
    (CLASSIFIER, lambda model, X: model.predict_proba(X)),
    (JOINT, lambda model, X: model.score(X)),
]


@pytest.mark.parametrize(("kind", "call"), CASES)
def test_unknown_labels_are_missing_cells_and_counted_once(kind, call):
    model = fitted(kind)
    with pytest.warns(ExfamWarning, match=COUNTED + "are taken as missing") as record:
        result = call(model, NEW)
    assert len(record) == 1
    np.testing.assert_array_equal(result, call(model, AS_MISSING))
    model.unknown = "error"
    with pytest.raises(DataError, match="'city' must hold labels seen in training, got 'Paris'"):
        call(model, NEW)


@EVERY
def test_filling_leaves_unknown_labels_as_they_are(kind):
    with pytest.warns(ExfamWarning, match=COUNTED + "stay as they are, and count as missing"):
        result = fitted(kind).impute(NEW)
    filled = result.frame["city"].tolist()
    assert [filled[row] for row in (0, 1, 2, 4, 5)] == ["Paris", "Bonn", "Lima", "Oslo", "Paris"]
    assert filled[3] in ("Bonn", "Oslo", "Rome")
    assert np.flatnonzero(result.filled["city"]).tolist() == [3]
    assert np.flatnonzero(np.isfinite(result.probability["city"])).tolist() == [3]


@EVERY
def test_whole_numbers_are_numbers(kind):
    """Hours of snow that training did not have are no labels that a model cannot know."""
    frame = FRAME[["height"]].assign(snow=np.resize([0, 2, 3], len(FRAME)))
    model = fit(kind, frame)
    assert model.schema_.column("snow").kind == "numeric"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nats, other = (model.log_prob(frame[:2].assign(snow=[n, 3])) for n in (1, 2))
    assert np.isfinite(nats).all() and nats[0] != other[0] and nats[1] == other[1]


def test_a_number_to_predict_may_be_whole():
    model = fit(REGRESSOR, y=np.resize([1, 2, 3], len(FRAME)))
    assert model.predict(FRAME).dtype == float
    assert np.isfinite(model.score(FRAME, [7] * 40 + [9] * 40))
    with pytest.raises(DataError, match="`y` must hold a response in two rows or more for R"):
        model.score(FRAME[:1], NUMBER[:1])


def test_unknown_classes_are_wrong_and_no_part_of_the_log_score():
    model, y = fitted(CLASSIFIER), CLASS[:6].where(np.arange(6) != 2, "none")
    with pytest.warns(ExfamWarning, match="1 of column 'tier', such as 'none' at row 2, count "):
        result = model.score(FRAME[:6], y)
    right = model.predict(FRAME[:6]) == y.to_numpy()
    assert result == right.mean() and not right[2]
    with pytest.warns(ExfamWarning, match="such as 'none' at row 2, are left out: their prob"):
        result = model.log_score(FRAME[:6], y)
    known = [0, 1, 3, 4, 5]
    assert result == pytest.approx(model.log_score(FRAME.iloc[known], y.iloc[known]))


@WITH_RESPONSE
def test_rows_without_a_response_are_no_part_of_a_score(kind):
    model, y = fitted(kind), RESPONSES[kind]
    part = y.astype(object).where(np.arange(len(y)) < 40, None)
    part = part.astype(float) if kind == REGRESSOR else part
    assert model.score(FRAME, part) == pytest.approx(model.score(FRAME[:40], y[:40]))
    for score in (model.score, model.log_score):
        with pytest.raises(DataError, match="`y` must hold a response in some row to score, got"):
            score(FRAME, pd.Series([None] * len(FRAME), dtype=object))


WHOLE = table_frame(missing=0.0)[0]
GAPS = table_frame(missing=0.4)[0]
EMPTIER = WHOLE[:10].copy()
EMPTIER.iloc[[2, 7], 1:] = None


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
    model = exfam.load(tmp_path / "model")
    y = () if kind == JOINT else (RESPONSES[kind][: len(X)],)
    for call in (model.log_prob, model.score):
        with pytest.warns(ExfamWarning, match=message) as result:
            call(X, *(y if call == model.score else ()))
        assert len(result) == 1


@EVERY
def test_as_many_as_in_training_or_a_few_are_fine(kind):
    model, used_to = fit(kind, WHOLE), fit(kind, GAPS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.log_prob(FRAME)  # 10 % are missing
        model.log_prob(GAPS[:3])
        for other in (used_to, fit(kind, WHOLE, extra_masking=1.0)):
            other.log_prob(GAPS)
            other.log_prob(EMPTIER)
        config = model._state()[0]
        del config["most_missing"]  # as in models saved before rows were counted
        model._restore(config, {}, model.vocabulary_)
        model.log_prob(EMPTIER)
