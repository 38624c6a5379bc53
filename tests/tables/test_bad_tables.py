"""Bad tables, responses and parameters: a clear error, or a stated rule."""

import re

import numpy as np
import pandas as pd
import pytest

from exfam import Categorical, DataError, ExfamError, SupportError
from exfam.checks import ExfamWarning
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    EMPTY,
    EVERY,
    FRAME,
    JOINT,
    NUMBER,
    REGRESSOR,
    RESPONSES,
    WITH_RESPONSE,
    fit,
    fitted,
    make,
)

EMPTIER = "1 of 1 rows of `X` lack far more of their cells"


@EVERY
def test_a_constant_column_changes_nothing(kind):
    """Of numbers above 3e38 it was infinite in single precision."""
    plain = FRAME.assign(one=7.0, text="a", huge=2**63 - 1, truth=True)
    great = plain.assign(great=-1e300, greater=4e38, small=1e-300)
    for numeric, frame in (("continuous", great), ("binned", plain)):
        model = fit(kind, frame, numeric=numeric)
        drawn = model.sample(4, seed=1)
        assert drawn["text"].tolist() == ["a"] * 4 and np.isfinite(drawn["huge"]).all()
        assert np.abs(drawn["one"] - 7).max() < 6
        assert np.isfinite(model.pseudo_log_likelihood(frame)).all()


@EVERY
def test_a_row_without_cells_changes_nothing(kind):
    model, y = fitted(kind), RESPONSES[kind]
    with pytest.warns(ExfamWarning, match=EMPTIER):
        assert model.log_prob(EMPTY).tolist() == [0.0]
    with_one = pd.concat([FRAME, EMPTY], ignore_index=True)
    longer = None if y is None else pd.concat([y, y[:1]], ignore_index=True)
    assert np.isfinite(fit(kind, with_one, longer).log_prob(with_one)).all()


@EVERY
def test_columns_that_are_missing_later(kind):
    part = FRAME[["city", "height"]]
    result = "missing:\n- grade.* pass missing_columns='absent' to predict from some"
    with pytest.raises(DataError, match=re.compile(result, re.DOTALL)):
        fitted(kind).log_prob(part)
    model = fitted(kind, missing_columns="absent")
    gone = FRAME.assign(grade=None, member=None, visits=None)
    with pytest.warns(ExfamWarning, match="63% of the cells of `X` are missing .251 of 400."):
        np.testing.assert_array_equal(model.log_prob(part), model.log_prob(gone))
    with pytest.raises(DataError, match="`name` must be a column of the table, one of"):
        model.log_prob(part[:2].assign(weight=1.0))
    with pytest.raises(DataError, match="`X` must be one table, got a list of 2"):
        model.log_prob([FRAME, FRAME])


@EVERY
def test_columns_without_names_are_matched_by_position(kind):
    numbers = FRAME[["height", "visits"]].astype(float).to_numpy()
    model = fit(kind, numbers, missing_columns="absent")
    assert model.features_ == ("x0", "x1") and model.log_prob(numbers).shape == (80,)
    with pytest.raises(DataError, match="`X` must have 2 columns where they are matched by po"):
        model.log_prob(numbers[:, :1])


@EVERY
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("ab", "`sample_weight` must be numbers, got str"),
        (10**400, "`sample_weight` must be numbers, got int"),
        (np.ones((80, 2)), "`sample_weight` must be 1D"),
        (np.ones(3), "one number for each of 80 rows, got 3"),
        (-np.ones(80), "`sample_weight` must be numbers from 0 to 1e.30, got -1 at row 0"),
        (np.full(80, 1e308), "`sample_weight` must be numbers from 0 to 1e.30, got 1e.308"),
        (np.zeros(80), "`sample_weight` must be above 0 in some row, got zero in all"),
    ],
)
def test_weights(kind, weight, message):
    with pytest.raises(DataError, match=message):
        make(kind).fit(FRAME, RESPONSES[kind], sample_weight=weight)


@EVERY
def test_weights_of_several_tables(kind):
    y = RESPONSES[kind] if kind == JOINT else [RESPONSES[kind]] * 2
    with pytest.raises(DataError, match="`sample_weight` must be a list of weights for each"):
        make(kind).fit([FRAME, FRAME], y, sample_weight=np.ones(160))
    weighed = make(kind, max_epochs=1).fit([FRAME, FRAME], y, sample_weight=[None, 0.0])
    assert len(weighed.tables_) == 1


@EVERY
def test_questions_to_a_fitted_model(kind):
    model, column = fitted(kind), "tier" if kind == CLASSIFIER else "price"
    with pytest.raises(ExfamError, match=r"`member` must be in 0 .. 0, got 1"):
        model.experts(FRAME, member=1)
    distribution = model.conditional(["height"])
    with pytest.raises(DataError, match="`name` must be one of the columns height, got 'city'"):
        distribution.predict_dist("city")
    with pytest.raises(DataError, match="`name` must be a column of labels, got 'height'"):
        distribution.probs("height")
    X = FRAME if kind == JOINT else FRAME.assign(**{column: RESPONSES[kind]})
    with pytest.raises(DataError, match="`y` must be None where there is no response, or"):
        model.faithfulness(X, CLASS, target="city")


@WITH_RESPONSE
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda y: None, "requires y to be passed, but the target y is None"),
        (lambda y: [None] * 80, "`y` must hold a response in some row, got none: all"),
        (lambda y: y[:-1], "`y` must have one entry for each of 80 rows of `X`"),
        (lambda y: np.stack([y, y], axis=1), "`y` must have one value per row: "),
        (lambda y: pd.DataFrame(index=FRAME.index), "`y` must have one value per row: "),
        (lambda y: np.array(3.0), "`y` must have one value per row: "),
        (lambda y: [[1], [1, 2]] * 40, "`y` must have one value per row, got rows of several"),
        (lambda y: FRAME["grade"], "`y` must not be a column of `X`, got 'grade'"),
        (lambda y: np.where(np.arange(80) == 3, np.inf, 1.0), "contains infinity.* at row 3"),
    ],
)
def test_responses_that_are_none(kind, y, message):
    with pytest.raises(ValueError, match=message):
        make(kind).fit(FRAME, y(RESPONSES[kind]))


@WITH_RESPONSE
def test_responses_of_several_tables_and_of_validation(kind):
    y = RESPONSES[kind]
    with pytest.raises(DataError, match="`y` must be a list of one response for each of 2 tab"):
        make(kind).fit([FRAME, FRAME], y)
    with pytest.raises(DataError, match=r"`validation` must be a pair \(X, y\), got DataFrame"):
        make(kind).fit(FRAME, y, validation=FRAME)


def test_one_class_is_refused_unless_others_are_declared():
    with pytest.raises(DataError, match="`y` must hold at least two classes, got one class, 'a'"):
        fit(CLASSIFIER, y=["a"] * 80)
    model = fit(CLASSIFIER, y=["a"] * 80, kinds={"y": ["a", "b"]})
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict_proba(FRAME)[:, 0].min() > 0.5


HALVES = np.round(NUMBER) / 2


@pytest.mark.parametrize(
    ("kind", "parameters", "error", "message"),
    [
        (CLASSIFIER, {"y": HALVES}, DataError, "label type: continuous. .* MaskedTableRegressor"),
        (
            CLASSIFIER,
            {"y": HALVES, "kinds": {"price": "numeric"}},
            ExfamError,
            r"`kinds\['price'\]` must be categorical, ordinal",
        ),
        (CLASSIFIER, {"decision": "mean"}, ExfamError, "must be 'argmax' for the categorical resp"),
        (CLASSIFIER, {"target": "ordinal"}, DataError, "'tier' must have its texts in an order"),
        (REGRESSOR, {"family": "poisson"}, SupportError, "`price` must be .* at row"),
        (REGRESSOR, {"y": CLASS}, ExfamError, "must hold numbers for a regressor, got texts"),
        (REGRESSOR, {"family": Categorical(3)}, ExfamError, "`family` must be a family of one num"),
        (JOINT, {"kinds": {"town": "count"}}, DataError, "`kinds` must name columns of the table"),
    ],
)
def test_parameters_that_do_not_fit_the_data(kind, parameters, error, message):
    with pytest.raises(error, match=message):
        fit(kind, **parameters)


def test_numbers_are_classes_if_said_so():
    assert len(fit(CLASSIFIER, y=HALVES, target="ordinal").classes_) == HALVES.nunique()
    with pytest.raises(DataError, match="must hold labels seen in training, got 'other'"):
        fitted(CLASSIFIER, unknown="error").log_score(FRAME, ["other"] * 80)


def test_a_joint_model_without_a_target_or_a_cell():
    model = fitted(JOINT)
    with pytest.raises(ExfamError, match="`target` must name a column where there is no response"):
        model.faithfulness(FRAME)
    message = "`X` must hold a cell in some row to score, got none"
    with pytest.warns(ExfamWarning, match=EMPTIER), pytest.raises(DataError, match=message):
        model.score(EMPTY)
