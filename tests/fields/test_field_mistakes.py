"""Mistakes in data and parameters of field estimators: one clear error each."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from exfam.checks import DataError, ExfamError, SupportError
from exfam.families import Bernoulli
from exfam.fields.data import read_field
from exfam.groups import Groups
from fields.field_cases import (
    BOUND,
    COLUMNS,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    LAGGING,
    N_SITES,
    every_kind,
    fitted,
    make,
    row_of,
    with_cell,
)


@every_kind
def test_nothing_is_predicted_before_a_fit(kind):
    methods = ["predict", "log_prob", "score", "impute", "sample", "next_site", "save"]
    methods += ["explain"] * (kind == "field-efa") + ["forecast"] * (kind in LAGGING)
    for method in methods:
        model = make(kind, lags=1) if method == "forecast" else make(kind)
        with pytest.raises(ValueError, match="not fitted yet"):
            getattr(model, method)("x" if method == "save" else FRAME)


OTHER = GROUPS.with_(values={"w": GROUPS.values["v"]})
MOVED = FRAME.assign(x=FRAME.x.where(FRAME.site != "s2", 7.0))
ELSEWHERE = r"those of training, got site 's2' at \(7.0, 0.0\), in training"
# What one parameter may be by its rule is tested for all estimators.
FITS = [
    ("field-efa", {"family": "bernoulli"}, FULL, {}, "must be one of 'gaussian', .* got 'berno"),
    ("field-efa", {"family": Bernoulli()}, FULL, {}, "must be one of .* Use the EFA estimator"),
    ("field-climatology", {"standardize": "none"}, FULL, {}, "must be 'global', 'site' or"),
    ("field-kriging", {"time": None}, FULL, {}, "`time` must name a column to read a frame or f"),
    ("field-kriging", {}, GROUPS, {"validation": OTHER}, "the value column 'v'.* got 'w'"),
    ("field-kriging", {}, FULL, {"validation": MOVED}, ELSEWHERE),
    ("field-kriging", {}, FULL.assign(v=FULL.v * 1e-200), {}, "usual spread from 1e-150 to 1e.1"),
]


@pytest.mark.parametrize(("kind", "parameters", "X", "more", "message"), FITS)
def test_fits_that_are_refused(kind, parameters, X, more, message):
    with pytest.raises(ExfamError, match=message):
        make(kind).set_params(**parameters).fit(X, **more)


@every_kind
def test_data_without_values_are_no_data(kind):
    nothing = FULL.assign(v=np.nan)
    unseen = GROUPS.with_(observed=np.zeros(GROUPS.n_rows, dtype=bool))
    with pytest.raises(DataError, match="`X` must hold at least one observed value to fit"):
        make(kind).fit(unseen)
    with pytest.raises(ExfamError, match="`X` must hold at least one observed value to score"):
        fitted(kind).score(nothing)
    assert np.isnan(fitted(kind).log_prob(nothing)).all()
    with pytest.raises(ExfamError, match="`validation` must hold at least one observed value"):
        make(kind).fit(FULL, validation=nothing)


@pytest.mark.parametrize(
    ("X", "at", "message"),
    [
        (OTHER, None, "`value` must be 'v', as in training, got 'w'"),
        (Groups(start=[0], stop=[2]), None, "`groups` must be a field with item"),
        (MOVED, None, ELSEWHERE),
        (read_field(FRAME, **COLUMNS | {"coordinates": ["x"]}), None, "be 2 numbers, as in train"),
        (FRAME, [1.0, 2.0], r"`at` must be coordinates with 2 columns, .* got shape \(2,\)"),
        (FRAME, [["a", "b"]], "`at` must be coordinates, one row per place, got could not con"),
        (FRAME, [[1.0, np.nan]], "must be .*finite.* got nan"),
    ],
)
def test_data_and_places_that_a_fitted_model_refuses(X, at, message):
    with pytest.raises(ExfamError, match=message):
        fitted("field-kriging").predict(X, at=at)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_values_that_no_count_can_be_are_named_with_their_row(family):
    row = row_of(COUNTS, 6, "s1")
    wrong = with_cell(COUNTS, row, -1)
    estimator, model = fitted("field-efa", frame=COUNTS, family=family), make("field-efa")
    model.set_params(family=family)
    calls = (model.fit, estimator.predict, lambda data: model.fit(COUNTS, validation=data))
    for call in calls:
        with pytest.raises(SupportError, match=rf"`v` must be .* got -1 at row {row} \(1 of "):
            call(wrong)
    message = "`v` must be at most 1e.12 for a family of counts, got 1e.15 at row 3 .*Use Gau"
    with pytest.raises(SupportError, match=message):
        model.fit(with_cell(COUNTS, 3, 1e15))


@every_kind
def test_values_far_beyond_all_others_are_named(kind):
    message = r"`v` must be within 1e.08 times the usual spread of the column, .* got -1e.30 at row"
    with pytest.raises(SupportError, match=f"{message} 3"):
        make(kind).fit(with_cell(FULL, 3, -1e30))
    # What a fitted model is given may be anything finite: it is improbable, not impossible.
    nats = fitted(kind).log_prob(with_cell(FULL, 3, -1e30))
    assert np.isfinite(nats).all() and nats[3] < -1e6


@pytest.mark.parametrize("name", ["sample", "forecast", "next_site"])
def test_numbers_of_draws_are_judged(name):
    method = getattr(fitted("field-gaussian-process", lags=1), name)
    for argument, least in {"n": 1, "seed": 0, "sweeps": 0, "steps": 1}.items():
        if argument in inspect.signature(method).parameters:
            message = f"`{argument}` must be an integer >= {least}, got {least - 1}"
            with pytest.raises(ExfamError, match=message):
                method(FRAME, **{argument: least - 1})


def test_a_fit_that_fails_leaves_no_half_of_it():
    estimator = fitted("field-kriging")
    before = estimator.predict(FRAME)
    with pytest.raises(ExfamError, match="`period`"):
        estimator.set_params(period=-1).fit(FULL)
    assert_array_equal(estimator.predict(FRAME), before)


def test_parameters_that_are_not_finite_are_refused():
    estimator = fitted("field-efa")
    estimator.members_[0].value_part.head.constant.data[:] = np.nan
    with pytest.raises(ExfamError, match="`X` must lead to parameters that are finite numbers"):
        estimator.predict(FRAME)


@pytest.mark.parametrize("times", [np.arange(12) + (2**63 - 20), 1e308 * np.array([-1.0, 1.0])])
def test_times_out_of_double_precision_are_refused(times):
    frame = FULL.sort_values(["day", "site"]).assign(day=np.repeat(np.resize(times, 12), N_SITES))
    with pytest.raises(DataError, match="`time` must hold times that differ in double precision"):
        make("field-kriging").fit(frame.drop_duplicates(["day", "site"]))


@pytest.mark.parametrize("kind", BOUND)
def test_regressions_need_two_values_of_a_site(kind):
    day_of = dict(zip(FULL.site.unique(), FULL.day.unique(), strict=False))
    once = FULL[FULL.day == FULL.site.map(day_of)]
    with pytest.raises(DataError, match="at least 2 observed values of some site"):
        make(kind).fit(once)
