"""Bad tables, responses and parameters: a clear error, or a stated rule."""

import re

import numpy as np
import pandas as pd
import pytest

from exfam import DataError, ExfamError, SupportError
from exfam.checks import ExfamWarning
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


def fit(kind, X=FRAME, y=None, **parameters):
    quick = {"max_epochs": 1, "kinds": None, **parameters}
    return make(kind, **quick).fit(X, RESPONSES[kind] if y is None else y)


@pytest.mark.parametrize("kind", KINDS)
class TestTables:
    def test_a_constant_column_changes_nothing(self, kind):
        result = {"one": 7.0, "text": "a", "whole": 3, "huge": 2**63 - 1, "truth": True}
        for numeric in ("continuous", "binned"):
            model = fit(kind, FRAME.assign(**result), numeric=numeric)
            drawn = model.sample(4, seed=1)
            assert drawn["text"].tolist() == ["a"] * 4 and np.isfinite(drawn["huge"]).all()
            assert np.abs(drawn["whole"] - 3).max() < 6
            assert np.isfinite(model.pseudo_log_likelihood(FRAME.assign(**result))).all()

    def test_a_row_without_cells_changes_nothing(self, kind):
        empty = pd.DataFrame({name: [None] for name in FRAME}).astype(FRAME.dtypes)
        model = fitted(kind)
        with pytest.warns(ExfamWarning, match="1 of 1 rows of `X` lack far more of their cells"):
            assert model.log_prob(empty).tolist() == [0.0]
        with_one = pd.concat([FRAME, empty], ignore_index=True)
        y = RESPONSES[kind]
        longer = None if y is None else pd.concat([y, y[:1]], ignore_index=True)
        assert np.isfinite(fit(kind, with_one, longer).log_prob(with_one)).all()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"height": np.nan}, "Column 'height' must have a value in some row of training"),
            ({"height": np.inf}, "Column 'height' must be finite, got inf at row 0"),
            ({"city": [1, "a"] * 40}, "'city'"),
            ({"height": pd.Timedelta("1h")}, "'height' must hold numbers, texts, booleans or dat"),
            ({"height": pd.NaT}, "Column 'height' must have a value in some row of training"),
        ],
        ids=["empty", "infinite", "mixed", "durations", "no date"],
    )
    def test_a_column_that_cannot_be_learned(self, kind, change, message):
        with pytest.raises(ExfamError, match=message):
            fit(kind, FRAME.assign(**change))

    def test_two_columns_of_one_name(self, kind):
        twice = pd.concat([FRAME, FRAME[["city"]]], axis=1)
        with pytest.raises(DataError, match="one column of each name, got 'city' twice"):
            fit(kind, twice)

    def test_columns_that_are_missing_later(self, kind):
        part = FRAME[["city", "height"]]
        result = "missing:\n- grade.* pass missing_columns='absent' to predict from some"
        with pytest.raises(DataError, match=re.compile(result, re.DOTALL)):
            fitted(kind).log_prob(part)
        model = fitted(kind, missing_columns="absent")
        gone = FRAME.assign(grade=None, member=None, visits=None)
        with pytest.warns(ExfamWarning, match="of the cells of `X` are missing"):
            np.testing.assert_array_equal(model.log_prob(part), model.log_prob(gone))
        with pytest.raises(DataError, match="`name` must be a column of the table, one of"):
            model.log_prob(part[:2].assign(weight=1.0))

    def test_one_table_at_a_time_after_training(self, kind):
        with pytest.raises(DataError, match="`X` must be one table, got a list of 2"):
            fitted(kind).log_prob([FRAME, FRAME])

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
    def test_weights(self, kind, weight, message):
        with pytest.raises(DataError, match=message):
            make(kind).fit(FRAME, RESPONSES[kind], sample_weight=weight)

    def test_weights_of_several_tables(self, kind):
        y = RESPONSES[kind] if kind == JOINT else [RESPONSES[kind]] * 2
        with pytest.raises(DataError, match="`sample_weight` must be a list of weights for each"):
            make(kind).fit([FRAME, FRAME], y, sample_weight=np.ones(160))
        weighed = make(kind, max_epochs=1).fit([FRAME, FRAME], y, sample_weight=[None, 0.0])
        assert len(weighed.tables_) == 1

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            (
                {"kinds": ["city"]},
                "`kinds` must be a mapping of columns to a kind or to labels in order",
            ),
            ({"kinds": {"town": "categorical"}}, "`kinds` must name columns of the table"),
            ({"numeric": "bins"}, "`numeric` must be one of 'continuous', 'binned'"),
            ({"n_bins": 1}, "`n_bins` must be an integer >= 2, got 1"),
            ({"unknown": "skip"}, "`unknown` must be one of 'unk', 'error'"),
            ({"missing_columns": "skip"}, "`missing_columns` must be one of 'auto', 'absent'"),
            ({"validation_fraction": 1.0}, r"`validation_fraction` must be a number in \[0, 1\)"),
            ({"seed": -1}, "`seed` must be an integer >= 0"),
            ({"ensemble": 0}, "`ensemble` must be an integer >= 1"),
        ],
        ids=lambda given: str(next(iter(given))) if isinstance(given, dict) else "",
    )
    def test_parameters(self, kind, parameters, message):
        with pytest.raises(ExfamError, match=message):
            fit(kind, **parameters)

    def test_questions_to_a_fitted_model(self, kind):
        model = fitted(kind)
        with pytest.raises(ExfamError, match=r"`member` must be in 0 .. 0, got 1"):
            model.experts(FRAME, member=1)
        for wrong in (-1, 0.0, "a", None, []):
            with pytest.raises(ExfamError, match="`member` must be an integer >= 0, got"):
                model.experts(FRAME, member=wrong)
        distribution = model.conditional(["height"])
        with pytest.raises(DataError, match="`name` must be one of the columns height, got 'city'"):
            distribution.predict_dist("city")
        with pytest.raises(DataError, match="`name` must be a column of labels, got 'height'"):
            distribution.probs("height")
        with pytest.raises(DataError, match="`y` must be None where there is no response, or"):
            model.faithfulness(
                FRAME if kind == JOINT else FRAME.assign(**{model.response_: RESPONSES[kind]}),
                CLASS if kind == JOINT else RESPONSES[kind],
                target="city",
            )


@pytest.mark.parametrize("kind", SUPERVISED)
class TestResponses:
    def test_no_response(self, kind):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            make(kind).fit(FRAME, None)
        with pytest.raises(DataError, match="`y` must hold a response in some row, got none: all"):
            make(kind).fit(FRAME, [None] * len(FRAME))
        with pytest.raises(DataError, match="`y` must hold a response in some row to score, got n"):
            fitted(kind).log_score(FRAME, [None] * len(FRAME))

    def test_a_response_of_another_shape(self, kind):
        y = RESPONSES[kind]
        with pytest.raises(DataError, match="`y` must have one entry for each of 80 rows of `X`"):
            make(kind).fit(FRAME, y[:-1])
        for wrong in (np.stack([y, y], axis=1), pd.DataFrame(index=FRAME.index), np.array(3.0)):
            with pytest.raises(DataError, match="`y` must have one value per row: "):
                make(kind).fit(FRAME, wrong)
        with pytest.raises(DataError, match="`y` must have one value per row, got rows of several"):
            make(kind).fit(FRAME, [[1], [1, 2]] * (len(FRAME) // 2))
        with pytest.raises(DataError, match="`y` must be a list of one response for each of 2 tab"):
            make(kind).fit([FRAME, FRAME], y)
        with pytest.raises(DataError, match=r"`validation` must be a pair \(X, y\), got DataFrame"):
            make(kind).fit(FRAME, y, validation=FRAME)

    def test_a_response_that_is_a_column(self, kind):
        with pytest.raises(DataError, match="`y` must not be a column of `X`, got 'grade'"):
            make(kind).fit(FRAME, FRAME["grade"])

    def test_a_response_that_is_infinite(self, kind):
        with pytest.raises(DataError, match="Input y contains infinity.* at row 3"):
            make(kind).fit(FRAME, np.where(np.arange(80) == 3, np.inf, 1.0))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"unlabeled": "drop"}, "`unlabeled` must be one of 'absent', 'mask'"),
            ({"response_share": 1.0}, r"`response_share` must be a number in \[0, 1\)"),
            ({"decision": "mode"}, "`decision` must be one of"),
        ],
    )
    def test_parameters(self, kind, parameters, message):
        with pytest.raises(ExfamError, match=message):
            fit(kind, **parameters)


def test_one_class_is_refused_unless_others_are_declared():
    with pytest.raises(DataError, match="`y` must hold at least two classes, got one class, 'a'"):
        fit(CLASSIFIER, y=["a"] * 80)
    model = fit(CLASSIFIER, y=["a"] * 80, kinds={"y": ["a", "b"]})
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict_proba(FRAME)[:, 0].min() > 0.5


def test_numbers_are_no_classes_unless_said_so():
    halves = np.round(NUMBER) / 2
    with pytest.raises(DataError, match="Unknown label type: continuous. .* MaskedTableRegressor"):
        fit(CLASSIFIER, y=halves)
    assert len(fit(CLASSIFIER, y=halves, target="ordinal").classes_) == halves.nunique()
    with pytest.raises(ExfamError, match=r"`kinds\['price'\]` must be categorical, ordinal"):
        fit(CLASSIFIER, y=halves, kinds={"price": "numeric"})
    with pytest.raises(DataError, match="must hold labels seen in training, got 'other'"):
        fitted(CLASSIFIER, unknown="error").log_score(FRAME, ["other"] * 80)


def test_decisions_and_targets_that_make_no_sense():
    with pytest.raises(ExfamError, match="`decision` must be 'argmax' for the categorical respon"):
        fit(CLASSIFIER, decision="mean")
    with pytest.raises(ExfamError, match="`target` must be one of"):
        fit(CLASSIFIER, target="nominal")
    with pytest.raises(DataError, match="'tier' must have its texts in an order to be ordinal"):
        fit(CLASSIFIER, target="ordinal")


def test_families_that_cannot_produce_the_response():
    with pytest.raises(SupportError, match="`price` must be .* at row"):
        fit(REGRESSOR, family="poisson")
    with pytest.raises(ExfamError, match="`family` must be 'auto' or 'binned' or a family"):
        fit(REGRESSOR, family="normal")
    with pytest.raises(ExfamError, match="`y` must hold numbers for a regressor, got texts"):
        fit(REGRESSOR, y=CLASS)
    from exfam import Categorical

    with pytest.raises(ExfamError, match="`family` must be a family of one number, got"):
        fit(REGRESSOR, family=Categorical(3))


def test_a_joint_model_without_a_target_or_a_cell():
    model = fitted(JOINT)
    with pytest.raises(ExfamError, match="`target` must name a column where there is no response"):
        model.faithfulness(FRAME)
    with pytest.raises(DataError, match="`input_features` must be equal to the columns of train"):
        model.get_feature_names_out(["a"])
    empty = pd.DataFrame({name: [None] for name in FRAME}).astype(FRAME.dtypes)
    with (
        pytest.warns(ExfamWarning, match="1 of 1 rows of `X` lack far more of their cells"),
        pytest.raises(DataError, match="`X` must hold a cell in some row to score, got none"),
    ):
        model.score(empty)
