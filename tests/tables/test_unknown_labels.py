"""Labels and whole numbers that training did not have: taken as unknown, counted, never an end."""

import warnings

import numpy as np
import pandas as pd
import pytest

from exfam.checks import DataError, ExfamWarning
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    FRAME,
    JOINT,
    KINDS,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    SUPERVISED,
    fitted,
    make,
)

NEW = FRAME[:6].assign(city=["Paris", "Bonn", "Lima", None, "Oslo", "Paris"])
AS_MISSING = NEW.assign(city=[None, "Bonn", None, None, "Oslo", None])
COUNTED = "3 of 6 rows hold labels .*: 3 of column 'city', such as 'Paris' at row 0, "

CALLS = {
    "log_prob": lambda model, X: model.log_prob(X),
    "pseudo_log_likelihood": lambda model, X: model.pseudo_log_likelihood(X),
    "experts": lambda model, X: model.experts(X).weights,
    "explain": lambda model, X: model.explain(X).weight,
    "conditional": lambda model, X: (
        model.conditional(["height"], given=X).predict_dist("height").mean
    ),
    "sample": lambda model, X: model.sample(2, given=X)["height"],
    "order_disagreement": lambda model, X: model.order_disagreement(X).log_prob,
}
SUPERVISED_CALLS = {
    "predict": lambda model, X: model.predict(X),
    "predict_dist": lambda model, X: model.predict_dist(X).quantile(0.5),
    "score": lambda model, X: model.score(X, RESPONSES[model.kind][:6]),
    "log_score": lambda model, X: model.log_score(X, RESPONSES[model.kind][:6]),
}


def cases():
    yield from ((kind, CALLS[name]) for kind in KINDS for name in CALLS)
    yield from ((kind, SUPERVISED_CALLS[name]) for kind in SUPERVISED for name in SUPERVISED_CALLS)
    yield CLASSIFIER, lambda model, X: model.predict_proba(X)
    yield JOINT, lambda model, X: model.score(X)


@pytest.mark.parametrize(("kind", "call"), list(cases()))
def test_unknown_labels_are_missing_cells_and_counted_once(kind, call):
    model = fitted(kind)
    with pytest.warns(ExfamWarning, match=COUNTED + "are taken as missing") as record:
        result = call(model, NEW)
    assert len(record) == 1
    np.testing.assert_array_equal(result, call(model, AS_MISSING))
    model.unknown = "error"
    with pytest.raises(DataError, match="'city' must hold labels seen in training, got 'Paris'"):
        call(model, NEW)


@pytest.mark.parametrize("kind", KINDS)
def test_filling_leaves_unknown_labels_as_they_are(kind):
    model = fitted(kind)
    with pytest.warns(ExfamWarning, match=COUNTED + "stay as they are, and count as missing"):
        result = model.impute(NEW)
    filled = result.frame["city"].tolist()
    assert [filled[row] for row in (0, 1, 2, 4, 5)] == ["Paris", "Bonn", "Lima", "Oslo", "Paris"]
    assert filled[3] in ("Bonn", "Oslo", "Rome")
    assert result.filled["city"].tolist() == [False, False, False, True, False, False]
    assert np.isfinite(result.probability["city"]).tolist() == result.filled["city"].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_numbers(kind):
    """Hours of snow that training did not have are no labels that a model cannot know."""
    snow = np.resize([0, 2, 3], len(FRAME))
    frame = FRAME[["height"]].assign(snow=snow)
    model = make(kind, kinds=None, max_epochs=1).fit(frame, RESPONSES[kind])
    assert model.schema_.column("snow").kind == "numeric"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (model.log_prob(frame[:2].assign(snow=[n, 3])) for n in (1, 2))
    assert np.isfinite(one).all() and one[0] != other[0] and one[1] == other[1]


def test_whole_numbers_declared_as_labels_are_labels():
    frame = FRAME[["height"]].assign(snow=np.resize([0, 2, 3], len(FRAME)))
    model = make(REGRESSOR, kinds={"snow": "ordinal"}, max_epochs=1).fit(frame, NUMBER)
    with pytest.warns(ExfamWarning, match="2 of column 'snow', such as 1 at row 0, are taken as"):
        result = model.predict(frame[:2].assign(snow=[1, 7]))
    np.testing.assert_array_equal(result, model.predict(frame[:2].assign(snow=None)))


class TestUnknownClasses:
    """Responses that training did not have."""

    y = CLASS[:6].where(np.arange(6) != 2, "none")

    def test_count_as_wrong_in_accuracy(self):
        model = fitted(CLASSIFIER)
        with pytest.warns(
            ExfamWarning, match="1 of column 'tier', such as 'none' at row 2, count "
        ):
            result = model.score(FRAME[:6], self.y)
        right = model.predict(FRAME[:6]) == self.y.to_numpy()
        assert result == right.mean() and not right[2]

    def test_are_left_out_of_the_log_score(self):
        model = fitted(CLASSIFIER)
        rows = [0, 1, 3, 4, 5]
        with pytest.warns(ExfamWarning, match="such as 'none' at row 2, are left out: their prob"):
            result = model.log_score(FRAME[:6], self.y)
        assert result == pytest.approx(model.log_score(FRAME.iloc[rows], self.y.iloc[rows]))


@pytest.mark.parametrize("kind", SUPERVISED)
def test_rows_without_a_response_are_no_part_of_a_score(kind):
    model, y = fitted(kind), RESPONSES[kind]
    part = y.astype(object).where(np.arange(len(y)) < 40, None)
    if kind == REGRESSOR:
        part = part.astype(float)
    assert model.score(FRAME, part) == pytest.approx(model.score(FRAME[:40], y[:40]))
    with pytest.raises(DataError, match="`y` must hold a response in some row to score, got none"):
        model.score(FRAME, pd.Series([None] * len(FRAME), dtype=object))


def test_a_date_is_a_label_of_no_column():
    dates = FRAME[:4].assign(member=pd.date_range("2020-01-01", periods=4))
    with pytest.warns(ExfamWarning, match="4 of 4 rows hold labels .*: 4 of column 'member'"):
        result = fitted(JOINT).log_prob(dates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExfamWarning)
        np.testing.assert_allclose(result, fitted(JOINT).log_prob(dates.assign(member=None)))
