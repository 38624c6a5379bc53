"""Mistakes in data and parameters of field estimators: one clear error each."""

import numpy as np
import pandas as pd
import pytest

from exfam.checks import DataError, ExfamError, SupportError
from exfam.families import Bernoulli
from exfam.fields.data import read_field
from exfam.fields.data.read import check_names
from exfam.groups import Groups
from fields.field_cases import (
    COLUMNS,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    KINDS,
    LAGGING,
    N_SITES,
    fitted,
    make,
    row_of,
)

every_kind = pytest.mark.parametrize("kind", KINDS)
METHODS = (
    "predict",
    "predict_dist",
    "log_prob",
    "score",
    "impute",
    "sample",
    "next_site",
    "save",
)


@every_kind
def test_nothing_is_predicted_before_a_fit(kind):
    for method in METHODS:
        with pytest.raises(ValueError, match="not fitted yet"):
            getattr(make(kind), method)("x" if method == "save" else FRAME)
    if kind == "field-efa":
        with pytest.raises(ValueError, match="not fitted yet"):
            make(kind).explain(FRAME)
    if kind in LAGGING:
        with pytest.raises(ValueError, match="not fitted yet"):
            make(kind, lags=1).forecast(FRAME)
    if kind in ("field-efa", "field-latent-factor"):
        with pytest.raises(ValueError, match="not fitted yet"):
            make(kind).history_  # noqa: B018


PARAMETERS = [
    ("metric", "taxi", "`metric` must be"),
    ("standardize", "median", "`standardize` must be one of 'none', 'global', 'site', 'seasonal'"),
    ("period", 0, "`period` must be a number > 0"),
    ("validation_fraction", 1, r"`validation_fraction` must be a number in \[0, 1\)"),
]
OF_LAGS = [
    ("lags", -1, "`lags` must be an integer >= 0, got -1"),
    ("lags", 1.5, "`lags` must be an integer >= 0, got 1.5"),
    ("step", 0.0, "`step` must be a number > 0"),
]
OF_KIND = {
    "field-efa": [
        ("family", "gauss", "`family` must be one of"),
        ("family", "bernoulli", "`family` must be one of 'gaussian', .* got 'bernoulli'"),
        ("family", Bernoulli(), r"`family` must be one of .* Use the EFA estimator"),
        ("scale", "local", "`scale` must be one of 'global', 'input', got 'local'"),
        ("encoding", "rotery", "`encoding` must be one of .* got 'rotery'. Did you mean 'rotary'"),
        ("hide", 1.5, r"`hide` must be a number in \[0, 1\)"),
        ("dropout", -0.5, r"`dropout` must be a number in \[0, 1\)"),
        ("n_neighbors", 0, "`n_neighbors` must be an integer >= 1"),
        ("embed_dim", 2.5, "`embed_dim` must be an integer >= 1"),
        ("n_layers", -1, "`n_layers` must be an integer >= 0"),
        ("ensemble", 0, "`ensemble` must be an integer >= 1"),
        ("seed", -1, "`seed` must be an integer >= 0"),
        ("site_embedding", "yes", "`site_embedding` must be one of False, True, got 'yes'"),
        ("null_token", 2, "`null_token` must be one of False, True, got 2"),
        ("calibrate", None, "`calibrate` must be one of False, True, got None"),
        ("learning_rate", 0.0, "`learning_rate` must be"),
        ("device", "abacus", "`device` must be"),
    ],
    "field-latent-factor": [
        ("k", 0, "`k` must be an integer >= 1"),
        ("dim", 0, "`dim` must be an integer >= 1"),
        ("hidden_dim", 1.5, "`hidden_dim` must be an integer >= 1"),
        ("intercept", "no", "`intercept` must be one of False, True"),
        ("seed", -1, "`seed` must be an integer >= 0"),
        ("max_epochs", 0, "`max_epochs` must be"),
    ],
    "field-gaussian-process": [("kernel", "rbf", "`kernel` must be one of")],
    "field-kriging": [("variogram", "linear", "`variogram` must be one of")],
    "field-climatology": [("standardize", "none", "`standardize` must be 'global', 'site' or")],
}
WRONG = [
    (kind, *case)
    for kind in KINDS
    for case in PARAMETERS + OF_LAGS * (kind in LAGGING) + OF_KIND.get(kind, [])
]


@pytest.mark.parametrize(("kind", "name", "value", "message"), WRONG)
def test_parameters_are_judged_in_fit(kind, name, value, message):
    estimator = make(kind).set_params(**{name: value})
    with pytest.raises(ExfamError, match=message):
        estimator.fit(FULL)


@pytest.mark.parametrize("name", ["time", "site", "coordinates", "value"])
def test_columns_must_be_named(name):
    with pytest.raises(DataError, match=f"`{name}` must name a column to read a frame or file"):
        make("field-kriging", **{name: None}).fit(FULL)
    with pytest.raises(DataError, match=f"`{name}` must name"):
        fitted("field-kriging").predict(FRAME.rename(columns={COLUMNS[name][0]: "other"})) if (
            name == "coordinates"
        ) else fitted("field-kriging").predict(FRAME.rename(columns={COLUMNS[name]: "other"}))


@every_kind
def test_data_without_values_are_no_data(kind):
    nothing = FULL.assign(v=np.nan)
    with pytest.raises(DataError, match="`value` must be observed at least once, got none in the"):
        make(kind).fit(nothing)
    unseen = GROUPS.with_(observed=np.zeros(GROUPS.n_rows, dtype=bool))
    for groups in (unseen, GROUPS[:0]):
        with pytest.raises(DataError, match="`X` must hold at least one observed value to fit"):
            make(kind).fit(groups)
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
    moved = FRAME.assign(x=FRAME.x.where(FRAME.site != "s2", 7.0))
    message = r"`coordinates` must be those of training, got site 's2' at \(7.0, 0.0\), in training"
    with pytest.raises(DataError, match=message):
        fitted("field-kriging").predict(moved)
    with pytest.raises(DataError, match=message):
        make("field-kriging").fit(FULL, validation=moved)
    # As numbers written with few digits are: that is no move.
    near = FRAME.assign(x=FRAME.x + 1e-6)
    np.testing.assert_allclose(
        fitted("field-kriging").predict(near), fitted("field-kriging").predict(FRAME), rtol=1e-4
    )
    flat = read_field(FRAME, **{**COLUMNS, "coordinates": ["x"]})
    with pytest.raises(DataError, match="`coordinates` must be 2 numbers, as in training, got 1"):
        fitted("field-kriging").predict(flat)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ([1.0, 2.0], r"`at` must be coordinates with 2 columns, .* got shape \(2,\)"),
        ([[1.0]], r"`at` must be coordinates with 2 columns, .* got shape \(1, 1\)"),
        (np.empty((0, 2)), r"`at` must be coordinates .* got shape \(0, 2\)"),
        ([[10**400, 0]], "`at` must be coordinates, one row per place, got int too large"),
        ([["a", "b"]], "`at` must be coordinates, one row per place, got could not convert"),
        ([[1.0, np.nan]], "must be .*finite.* got nan"),
    ],
)
def test_places_are_judged(at, message):
    with pytest.raises(ExfamError, match=message):
        fitted("field-kriging").predict(FRAME, at=at)


def test_places_are_on_the_globe():
    globe = fitted("field-kriging", metric="haversine")
    with pytest.raises(DataError, match="latitude"):
        globe.predict(FRAME, at=[[95.0, 0.0]])


def test_a_time_and_site_is_there_once():
    twice = pd.concat([FRAME, FRAME[:1]])
    with pytest.raises(DataError, match="each site .*once|repeat|twice|again"):
        fitted("field-kriging").predict(twice)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_values_that_no_count_can_be_are_named_with_their_row(family):
    row = row_of(COUNTS, 6, "s1")
    wrong = COUNTS.v.to_numpy(copy=True)
    wrong[row] = -1
    message = rf"`v` must be .* got -1 at row {row} \(1 of "
    with pytest.raises(SupportError, match=message):
        make("field-efa", family=family).fit(COUNTS.assign(v=wrong))
    estimator = fitted("field-efa", frame=COUNTS, family=family)
    with pytest.raises(SupportError, match=message):
        estimator.predict(COUNTS.assign(v=wrong))
    with pytest.raises(SupportError, match=message):
        make("field-efa", family=family).fit(COUNTS, validation=COUNTS.assign(v=wrong))


@pytest.mark.parametrize("level", [0.0, 1.5])
def test_levels_are_judged(level):
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1"):
        fitted("field-kriging").impute(FRAME, level=level)


def test_a_fit_that_fails_leaves_no_half_of_it():
    estimator = fitted("field-kriging")
    before = estimator.predict(FRAME)
    with pytest.raises(ExfamError, match="`period`"):
        estimator.set_params(period=-1).fit(FULL)
    np.testing.assert_array_equal(estimator.predict(FRAME), before)


@every_kind
def test_seeds_and_numbers_of_draws_are_judged(kind):
    estimator, some = fitted(kind), FRAME[:5]
    for wrong in (-1, True, 2**63):
        with pytest.raises(ExfamError, match="`seed` must be an integer (>= 0|below 2.63), got"):
            estimator.sample(some, seed=wrong)
        with pytest.raises(ExfamError, match="`seed` must be an integer (>= 0|below 2.63), got"):
            estimator.next_site(some, seed=wrong)
        for draw in (estimator.predict_dist(some).sample, estimator.predict_dist(some).pit):
            with pytest.raises(
                ExfamError, match="`seed` must be an integer (>= 0|below 2.63), got"
            ):
                draw(2, seed=wrong)


def test_parameters_that_are_not_finite_are_refused():
    estimator = fitted("field-efa")
    estimator.members_[0].value_part.head.constant.data[:] = np.nan
    for method in ("predict", "log_prob", "score", "impute"):
        with pytest.raises(ExfamError, match="`X` must lead to parameters that are finite numbers"):
            getattr(estimator, method)(FRAME)


def with_value(value, frame=FULL, row=3):
    """The frame with another value in one row."""
    return frame.assign(v=frame.v.where(np.arange(len(frame)) != row, value))


@every_kind
def test_values_far_beyond_all_others_are_named(kind):
    message = (
        r"`v` must be within 1e.08 times the usual spread of the column, .* got -1e.30 at row 3"
    )
    with pytest.raises(SupportError, match=message):
        make(kind).fit(with_value(-1e30))
    # What a fitted model is given may be anything finite: it is improbable, not impossible.
    nats = fitted(kind).log_prob(with_value(-1e30))
    assert np.isfinite(nats).all() and nats[3] < -1e6


def test_spreads_whose_squares_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="`v` must have a usual spread from 1e-150 to 1e.150, got"):
        make("field-kriging").fit(FULL.assign(v=FULL.v * 1e-200))


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_counts_beyond_what_a_family_can_have_as_mean_are_refused(family):
    message = "`v` must be at most 1e.12 for a family of counts, got 1e.15 at row 3 .*Use Gau"
    counts = COUNTS.reset_index(drop=True)
    assert np.isfinite(counts.v[3])
    with pytest.raises(SupportError, match=message):
        make("field-efa", family=family).fit(with_value(1e15, counts))
    large = make("field-efa", family=family).fit(with_value(1e12, counts))
    dist = large.predict_dist(with_value(1e15, counts))
    assert np.isfinite(dist.mean).all() and np.isfinite(dist.sd).all()


@pytest.mark.parametrize("times", [np.arange(12) + (2**63 - 20), 1e308 * np.array([-1.0, 1.0])])
def test_times_that_are_none_to_double_precision_are_refused(times):
    frame = FULL.sort_values(["day", "site"]).assign(day=np.repeat(np.resize(times, 12), N_SITES))
    frame = frame.drop_duplicates(["day", "site"])
    with pytest.raises(DataError, match="`time` must hold times that differ in double precision"):
        make("field-kriging").fit(frame)


@pytest.mark.parametrize("name", ["time", "site", "coordinates", "value"])
def test_names_of_columns_are_text(name):
    for wrong in (5, 1.5, {}, np.zeros(2), ["x", 3] if name == "coordinates" else ["x"]):
        with pytest.raises(DataError, match=f"`{name}` must be .* of .*column.*, text, got"):
            check_names(**{name: wrong})


def test_more_neighbors_than_sites_are_all_of_them():
    all_of_them, many = (make("field-efa", n_neighbors=k).fit(FULL) for k in (4, 10**15))
    np.testing.assert_allclose(many.predict(FRAME), all_of_them.predict(FRAME), rtol=1e-5)


@pytest.mark.parametrize("kind", ["field-ridge", "field-ridge-covariance"])
def test_regressions_need_two_values_of_a_site(kind):
    day_of = dict(zip(FULL.site.unique(), FULL.day.unique(), strict=False))
    once = FULL[FULL.day == FULL.site.map(day_of)]
    with pytest.raises(DataError, match="at least 2 observed values of some site"):
        make(kind).fit(once)
