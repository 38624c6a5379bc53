"""Draws, forecasts and gaps of fields, and what estimators of fields refuse."""

import inspect

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
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
    HEAVY,
    JOINT,
    LAGGING,
    N_SITES,
    PLACES,
    SEEN,
    SITES,
    a_day,
    every_kind,
    field_frame,
    fitted,
    make,
    row_of,
    with_cell,
)

every_joint = pytest.mark.parametrize("kind", JOINT)
VALUES = FRAME.v.to_numpy()


@every_kind
def test_gaps_are_filled_and_nothing_else_is_touched(kind):
    estimator, before = fitted(kind), FRAME.copy()
    dist, full = estimator.predict_dist(FRAME), estimator.impute(FRAME, level=0.8)
    pd.testing.assert_frame_equal(FRAME, before)
    pd.testing.assert_frame_equal(full[["day", "site", "x", "y"]], FRAME.drop(columns="v"))
    assert_array_equal(full.v_imputed, ~SEEN)
    low, high = dist.interval(0.8)
    for name, expected in {"v": dist.mean, "v_low": low, "v_high": high}.items():
        assert_array_equal(full[name], np.where(SEEN, VALUES, expected))


def test_a_frame_is_filled_as_the_kind_it_is():
    estimator, plain = fitted("field-kriging"), FRAME.reset_index(drop=True)
    full = estimator.impute(plain)
    columns = {name: plain[name].to_numpy() for name in plain}
    for frame in (polars.from_pandas(plain), pa.Table.from_pandas(plain), columns):
        filled = estimator.impute(frame)
        assert type(filled) is type(frame)
        for name in ("v", "v_low", "v_high"):
            assert_array_equal(np.asarray(filled[name]), full[name])
    marked = fitted("field-kriging", missing=-99).impute(plain.assign(v=plain.v.fillna(-99)))
    pd.testing.assert_frame_equal(marked, full)


def test_what_cannot_be_filled_is_refused():
    with pytest.raises(DataError, match=r"no column 'v_low', which marks .* Rename it"):
        fitted("field-kriging").impute(FRAME.assign(v_low=0.0))
    with pytest.raises(ExfamError, match=r"`frame` must be a frame to fill in, got Groups"):
        fitted("field-kriging").impute(GROUPS)
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1"):
        fitted("field-kriging").impute(FRAME, level=1.5)


@every_kind
def test_draws_keep_what_is_observed_and_obey_the_seed(kind):
    estimator = fitted(kind)
    draws = estimator.sample(FRAME, n=6, seed=1)
    assert draws.shape == (6, len(FRAME)) and np.isfinite(draws).all()
    assert (draws[:, SEEN] == VALUES[SEEN]).all()
    assert (draws[:, ~SEEN].std(0) > 1e-3).all()
    swept = estimator.sample(FRAME, n=6, seed=1, sweeps=1)
    for other in (swept, estimator.sample(FRAME, n=6, seed=2)):
        assert (other[:, SEEN] == VALUES[SEEN]).all()
        assert (other[:, ~SEEN] != draws[:, ~SEEN]).all()
    order = np.random.default_rng(0).permutation(len(FRAME))
    assert_array_equal(estimator.sample(FRAME.iloc[order], n=6, seed=1), draws[:, order])


def exact(estimator, day, missing):
    """Mean and covariance of the missing values of a map, from the conditionals of one Gaussian.

    Its precision has 1 / var(i | all others) on the diagonal; off it, what a step of value j moves
    the mean of i by shows the rest.
    """
    full = day.assign(v=day.v.fillna(12.0))
    dist = estimator.predict_dist(full)
    precision = np.diag(1 / dist.variance)
    for j in missing:
        step = full.v.to_numpy(copy=True)
        step[j] += 1.0
        slope = estimator.predict(full.assign(v=step)) - dist.mean
        for i in missing:
            if i != j:
                precision[i, j] = -slope[i] * precision[i, i]
    inner = np.linalg.inv(precision[np.ix_(missing, missing)])
    assert_allclose(inner, inner.T, rtol=1e-2, atol=1e-4)
    return estimator.predict(day)[missing], inner


@every_joint
@pytest.mark.parametrize("sweeps", [0, 2])
def test_draws_of_one_gaussian_have_its_covariance(kind, sweeps):
    estimator, missing = fitted(kind), [1, 2]
    day = a_day(missing=missing)
    mean, covariance = exact(estimator, day, missing)
    scale, n = np.sqrt(np.diag(covariance)), 3000
    correlation = covariance / np.outer(scale, scale)
    assert abs(correlation[0, 1]) > 0.1
    assert_allclose(scale**2, estimator.predict_dist(day).variance[missing], rtol=1e-3)
    draws = estimator.sample(day, n=n, sweeps=sweeps, seed=0)[:, missing]
    assert (np.abs(draws.mean(0) - mean) < 4.5 * scale / np.sqrt(n)).all()
    drawn = np.cov(draws.T) / np.outer(scale, scale)
    assert_allclose(drawn, correlation, atol=4.5 * np.sqrt(2 / n))


@every_joint
def test_measuring_reduces_as_gaussian_algebra_says(kind):
    estimator, missing = fitted(kind), [0, 1, 2, 4]
    day = a_day(missing=missing)
    _, covariance = exact(estimator, day, missing)
    sensing = estimator.next_site(day, n=2)
    variance = np.diag(covariance)
    share = covariance**2 / variance  # what measuring the column's site takes off the row's
    gain = (share.sum(0) - variance) / (len(missing) - 1)
    assert_allclose(sensing.variance[missing], variance, rtol=1e-3)
    assert_allclose(sensing.reduction[missing], gain, rtol=2e-2, atol=1e-4)
    assert np.isnan(sensing.reduction[3]) and np.isnan(sensing.variance[3])
    assert sensing.ranking.tolist() == [missing[k] for k in np.argsort(-gain)]
    assert gain.max() > 2 * gain.min() > 0


@every_kind
def test_what_to_measure_next_is_ranked_among_what_is_missing(kind):
    estimator = fitted(kind)
    sensing = estimator.next_site(FRAME, n=2)
    assert_array_equal(np.isfinite(sensing.reduction), ~SEEN)
    variance = np.where(SEEN, np.nan, estimator.predict_dist(FRAME).variance)
    assert_allclose(sensing.variance, variance, rtol=1e-4)
    assert sorted(sensing.ranking) == np.flatnonzero(~SEEN).tolist()
    assert (np.diff(sensing.reduction[sensing.ranking]) <= 0).all()
    alone = estimator.next_site(a_day(missing=[2]), n=2)
    assert alone.ranking.tolist() == [2] and alone.reduction[2] == 0


def next_day(frame):
    """The frame and the day after it, of which nothing is observed."""
    day = frame.day.max() + pd.Timedelta(days=1)
    rows = [(day, site, *PLACES[k], np.nan) for k, site in enumerate(SITES)]
    return pd.concat([frame, pd.DataFrame(rows, columns=list(frame))], ignore_index=True)


@pytest.mark.parametrize("kind", LAGGING)
def test_later_draws_depend_on_earlier_ones(kind):
    days = next_day(next_day(field_frame(missing=0.0, n_days=3)))

    def most(estimator):
        """The largest correlation of a draw of one day with one of the next."""
        draws = estimator.sample(days, n=600, seed=0)[:, -2 * N_SITES :]
        return np.abs(np.corrcoef(draws.T)[:N_SITES, N_SITES:]).max()

    assert most(fitted(kind, lags=1)) > 5 / np.sqrt(600) > most(fitted(kind))


@pytest.mark.parametrize("kind", LAGGING)
def test_forecasts_go_on_from_the_last_day(kind):
    estimator = fitted(kind, lags=2)
    future = estimator.forecast(FRAME, steps=3, n=60)
    assert future.draws.shape == (60, 3, N_SITES) and np.isfinite(future.draws).all()
    wanted = [FRAME.day.max() + pd.Timedelta(days=k) for k in (1, 2, 3)]
    assert [pd.Timestamp(t) for t in future.times] == wanted
    assert future.sites.tolist() == SITES
    assert_array_equal(future.coordinates, PLACES)
    assert_allclose(future.mean, future.draws.mean(0))
    low, high = future.interval(0.8)
    inside = ((future.draws >= low) & (future.draws <= high)).mean()
    assert (low < future.quantile(0.5)).all() and 0.75 < inside < 0.85
    # The draws of the next maps are draws of a map without values after the last.
    drawn = estimator.sample(next_day(FULL), n=60)[:, -N_SITES:]
    ahead = estimator.forecast(FULL, n=60).draws[:, 0]
    assert_allclose(ahead, drawn, rtol=1e-4, atol=1e-4)


def test_forecasts_are_at_all_sites_even_new_ones():
    estimator = fitted("field-gaussian-process", lags=1)
    renamed = FULL.assign(site=FULL.site.where(FULL.site != "s1", "new"))
    future = estimator.forecast(renamed, n=2)
    assert future.sites.tolist() == ["s0", "s2", "s3", "s4", None]
    assert_array_equal(future.coordinates[-1], PLACES[1])


def test_forecasts_need_lags_maps_and_levels_in_range():
    with pytest.raises(ExfamError, match="`lags` must be at least 1 to forecast, got 0"):
        fitted("field-ridge").forecast(FRAME)
    estimator = fitted("field-gaussian-process", lags=1)
    with pytest.raises(DataError, match="at least one element, got none"):
        estimator.forecast(GROUPS[:0])
    future = estimator.forecast(FULL, n=2)
    with pytest.raises(ExfamError, match="`p` must be a number in"):
        future.quantile(1.5)
    with pytest.raises(ExfamError, match="`level` must be a number in"):
        future.interval(1.5)


@every_kind
def test_nothing_is_predicted_before_a_fit(kind):
    methods = ["predict", "log_prob", "score", "impute", "sample", "next_site", "save"]
    methods += ["explain"] * (kind in ("field-efa", "field-gaussian")) + ["forecast"] * (
        kind in LAGGING
    )
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
    assert np.isfinite(nats).all() and nats[3] < (-500 if kind in HEAVY else -1e6)


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


def test_joint_draws_from_all_columns_reproduce_the_conditionals():
    model = make("field-gaussian").fit(field_frame(n_days=60, missing=0.0))
    part = model.members_[0].value_part
    part.chosen[2] = 0  # each value is predicted from all others, not from the nearest
    part._known = {}
    first, second = 1, 3
    hidden = a_day(missing=(first, second))
    draws = model.sample(hidden, n=6000, seed=1)[:, [first, second]]
    alone = model.predict_dist(hidden)
    assert_allclose(draws.mean(0), alone.mean[[first, second]], atol=0.06 * alone.sd[first])
    assert_allclose(draws.std(0), alone.sd[[first, second]], rtol=0.05)
    # Means are linear: what one value moves the other by is the slope among the draws.
    seen = [
        model.predict(hidden.assign(v=hidden.v.where(hidden.index != hidden.index[second], value)))
        for value in (0.0, 1.0)
    ]
    covariance = np.cov(draws.T)
    slope = covariance[0, 1] / covariance[1, 1]
    assert_allclose(slope, (seen[1] - seen[0])[first], atol=0.06)
