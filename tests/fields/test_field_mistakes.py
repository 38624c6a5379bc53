"""Mistakes in data and parameters of field estimators: one clear error each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

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

every_count = pytest.mark.parametrize("family", ["poisson", "negative-binomial"])


@every_kind
def test_nothing_is_predicted_before_a_fit(kind):
    methods = ["predict", "log_prob", "score", "impute", "sample", "next_site", "save"]
    methods += ["explain"] * (kind == "field-efa") + ["forecast"] * (kind in LAGGING)
    for method in methods:
        model = make(kind, lags=1) if method == "forecast" else make(kind)
        with pytest.raises(ValueError, match="not fitted yet"):
            getattr(model, method)("x" if method == "save" else FRAME)


# What one parameter may be by its rule is tested for all estimators.
@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        ("field-efa", "family", "bernoulli", "`family` must be one of 'gaussian', .* got 'berno"),
        ("field-efa", "family", Bernoulli(), r"`family` must be one of .* Use the EFA estimator"),
        ("field-climatology", "standardize", "none", "`standardize` must be 'global', 'site' or"),
    ],
)
def test_parameters_are_judged_in_fit(kind, name, value, message):
    with pytest.raises(ExfamError, match=message):
        make(kind).set_params(**{name: value}).fit(FULL)


@pytest.mark.parametrize("name", ["time", "site", "coordinates", "value"])
def test_columns_must_be_named(name):
    with pytest.raises(DataError, match=f"`{name}` must name a column to read a frame or file"):
        make("field-kriging", **{name: None}).fit(FULL)


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


def test_groups_are_a_field_of_the_same_value():
    other = GROUPS.with_(values={"w": GROUPS.values["v"]})
    with pytest.raises(ExfamError, match="`value` must be 'v', as in training, got 'w'"):
        fitted("field-kriging").predict(other)
    with pytest.raises(ExfamError, match="`validation` must have the value column 'v'.* got 'w'"):
        make("field-kriging").fit(GROUPS, validation=other)
    with pytest.raises(DataError, match="`groups` must be a field with item"):
        fitted("field-kriging").predict(Groups(start=[0], stop=[2]))


def test_sites_stay_where_they_are():
    estimator = fitted("field-kriging")
    moved = FRAME.assign(x=FRAME.x.where(FRAME.site != "s2", 7.0))
    message = r"`coordinates` must be those of training, got site 's2' at \(7.0, 0.0\), in training"
    with pytest.raises(DataError, match=message):
        estimator.predict(moved)
    with pytest.raises(DataError, match=message):
        make("field-kriging").fit(FULL, validation=moved)
    near = FRAME.assign(x=FRAME.x + 1e-6)  # as numbers written with few digits are
    assert_allclose(estimator.predict(near), estimator.predict(FRAME), rtol=1e-4)
    flat = read_field(FRAME, **{**COLUMNS, "coordinates": ["x"]})
    with pytest.raises(DataError, match="`coordinates` must be 2 numbers, as in training, got 1"):
        estimator.predict(flat)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([1.0, 2.0], r"`at` must be coordinates with 2 columns, .* got shape \(2,\)"),
        ([["a", "b"]], "`at` must be coordinates, one row per place, got could not convert"),
        ([[1.0, np.nan]], "must be .*finite.* got nan"),
    ],
)
def test_places_are_judged(at, message):
    with pytest.raises(ExfamError, match=message):
        fitted("field-kriging").predict(FRAME, at=at)
    with pytest.raises(DataError, match="latitude"):
        fitted("field-kriging", metric="haversine").predict(FRAME, at=[[95.0, 0.0]])


@every_count
def test_values_that_no_count_can_be_are_named_with_their_row(family):
    row = row_of(COUNTS, 6, "s1")
    wrong = with_cell(COUNTS, row, -1)
    estimator, model = fitted("field-efa", frame=COUNTS, family=family), make("field-efa")
    model.set_params(family=family)
    calls = (model.fit, estimator.predict, lambda data: model.fit(COUNTS, validation=data))
    for call in calls:
        with pytest.raises(SupportError, match=rf"`v` must be .* got -1 at row {row} \(1 of "):
            call(wrong)


@every_count
def test_counts_beyond_what_a_family_can_have_as_mean_are_refused(family):
    message = "`v` must be at most 1e.12 for a family of counts, got 1e.15 at row 3 .*Use Gau"
    with pytest.raises(SupportError, match=message):
        make("field-efa", family=family).fit(with_cell(COUNTS, 3, 1e15))
    large = make("field-efa", family=family).fit(with_cell(COUNTS, 3, 1e12))
    dist = large.predict_dist(with_cell(COUNTS, 3, 1e15))
    assert np.isfinite(dist.mean).all() and np.isfinite(dist.sd).all()


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
    wrong = {"n": (0, "1, got 0"), "seed": (-1, "0, got -1")}
    wrong |= {"sweeps": (-1, "0, got -1")} if name != "next_site" else {}
    wrong |= {"steps": (0, "1, got 0")} if name == "forecast" else {}
    for argument, (value, rule) in wrong.items():
        with pytest.raises(ExfamError, match=f"`{argument}` must be an integer >= {rule}"):
            method(FRAME, **{argument: value})


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
def test_numbers_out_of_double_precision_are_refused(times):
    frame = FULL.sort_values(["day", "site"]).assign(day=np.repeat(np.resize(times, 12), N_SITES))
    frame = frame.drop_duplicates(["day", "site"])
    with pytest.raises(DataError, match="`time` must hold times that differ in double precision"):
        make("field-kriging").fit(frame)
    with pytest.raises(DataError, match="`v` must have a usual spread from 1e-150 to 1e.150, got"):
        make("field-kriging").fit(FULL.assign(v=FULL.v * 1e-200))


@pytest.mark.parametrize("kind", BOUND)
def test_regressions_need_two_values_of_a_site(kind):
    day_of = dict(zip(FULL.site.unique(), FULL.day.unique(), strict=False))
    once = FULL[FULL.day == FULL.site.map(day_of)]
    with pytest.raises(DataError, match="at least 2 observed values of some site"):
        make(kind).fit(once)
