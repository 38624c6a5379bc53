"""Bad tables, responses and parameters, and labels and gaps that training did not have."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import exfam
from exfam import Categorical, DataError, ExfamError, SupportError
from exfam.checks import ExfamWarning
from tables.table_estimator_cases import (
    CLASS,
    CLASSIFIER,
    EMPTY,
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
    make,
    table_frame,
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
    longer = pd.concat([FRAME, EMPTY], ignore_index=True)
    y = None if y is None else pd.concat([y, y[:1]], ignore_index=True)
    assert np.isfinite(fit(kind, longer, y).log_prob(longer)).all()


@EVERY
def test_columns_that_are_missing_later(kind):
    part = FRAME[["city", "height"]]
    message = "missing:\n- grade.* pass missing_columns='absent' to predict from some"
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)):
        fitted(kind).log_prob(part)
    model = fitted(kind, missing_columns="absent")
    gone = FRAME.assign(grade=None, member=None, visits=None)
    with pytest.warns(ExfamWarning, match="63% of the cells of `X` are missing .251 of 400."):
        np.testing.assert_array_equal(model.log_prob(part), model.log_prob(gone))
    with pytest.raises(DataError, match="Column 'weight' must be one of training, which had"):
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
def test_questions_to_a_fitted_model(kind):
    model = fitted(kind)
    with pytest.raises(ExfamError, match=r"`member` must be in 0 .. 0, got 1"):
        model.experts(FRAME, member=1)
    with pytest.raises(DataError, match="`order` must be a list of names of columns, got"):
        model.log_prob(FRAME[:2], order=5)
    with pytest.raises(DataError, match="`of` must name columns of the table, got 'hight'"):
        model.conditional("hight")
    distribution = model.conditional(["height"])
    with pytest.raises(DataError, match="`name` must be one of the columns height, got 'city'"):
        distribution.predict_dist("city")
    with pytest.raises(DataError, match="`name` must be a column of labels, got 'height'"):
        distribution.probs("height")
    column = "tier" if kind == CLASSIFIER else "price"
    X = FRAME if kind == JOINT else FRAME.assign(**{column: RESPONSES[kind]})
    with pytest.raises(DataError, match="`y` must be None where there is no response, or"):
        model.faithfulness(X, CLASS, target="city")


TWO, Y = [FRAME, FRAME], NUMBER.to_numpy()
BROKEN = [
    (FRAME, None, {}, "requires y to be passed, but the target y is None"),
    (FRAME, [None] * 80, {}, "`y` must hold a response in some row, got none: all"),
    (FRAME, Y[:-1], {}, "`y` must have one entry for each of 80 rows of `X`"),
    (FRAME, np.stack([Y, Y], axis=1), {}, "`y` must have one value per row: "),
    (FRAME, [[1], [1, 2]] * 40, {}, "`y` must have one value per row, got rows of several"),
    (FRAME, FRAME["grade"], {}, "`y` must not be a column of `X`, got 'grade'"),
    (FRAME, np.append(Y[1:], np.inf), {}, "contains infinity.* at row 79"),
    (TWO, Y, {}, "`y` must be a list of one response for each of 2 tab"),
    (FRAME, Y, {"validation": FRAME}, r"`validation` must be a pair \(X, y\), got DataFrame"),
    (FRAME, Y, {"sample_weight": "ab"}, "`sample_weight` must be numbers, got str"),
    (FRAME, Y, {"sample_weight": np.ones((80, 2))}, "`sample_weight` must be 1D"),
    (FRAME, Y, {"sample_weight": np.ones(3)}, "one number for each of 80 rows, got 3"),
    (FRAME, Y, {"sample_weight": -np.ones(80)}, "numbers from 0 to 1e.30, got -1 at row 0"),
    (FRAME, Y, {"sample_weight": np.zeros(80)}, "must be above 0 in some row, got zero in all"),
    (TWO, [Y, Y], {"sample_weight": np.ones(160)}, "must be a list of weights for each"),
]


@pytest.mark.parametrize(("X", "y", "more", "message"), BROKEN)
def test_responses_weights_and_validation_that_are_none(X, y, more, message):
    with pytest.raises(ValueError, match=message):
        make(REGRESSOR).fit(X, y, **more)


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


def test_unknown_classes_may_be_refused():
    with pytest.raises(DataError, match="must hold labels seen in training, got 'other'"):
        fitted(CLASSIFIER, unknown="error").log_score(FRAME, ["other"] * 80)


def test_a_joint_model_without_a_target_or_a_cell():
    model = fitted(JOINT)
    with pytest.raises(ExfamError, match="`target` must name a column where there is no response"):
        model.faithfulness(FRAME)
    message = "`X` must hold a cell in some row to score, got none"
    with pytest.warns(ExfamWarning, match=EMPTIER), pytest.raises(DataError, match=message):
        model.score(EMPTY)


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
SPARSER = WHOLE[:10].copy()
SPARSER.iloc[[2, 7], 1:] = None


@EVERY
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (GAPS, "4.% of the cells .* lacked 0%"),
        # Nine cells of one row were too few to be reported.
        (SPARSER, "2 of 10 rows of `X` lack far more"),
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
            other.log_prob(SPARSER)
        config = model._state()[0]
        del config["most_missing"]  # as in models saved before rows were counted
        model._restore(config, {}, model.vocabulary_)
        model.log_prob(SPARSER)
