"""The contract of every estimator of fields: what it takes, what it sees, what it predicts."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import clone

from exfam.checks import DataError, ExfamError, ExfamWarning
from exfam.estimator.registry import REGISTRY
from exfam.families import Gaussian
from exfam.fields.data import only_observed, read_field
from fields.field_cases import (
    BOUND,
    COLUMNS,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    KINDS,
    LAGGING,
    N_DAYS,
    N_SITES,
    PLACES,
    PLACING,
    READING,
    SITES,
    TRAINED,
    class_of,
    field_frame,
    fitted,
    make,
    new_sites,
    row_of,
    with_cell,
)

every_kind = pytest.mark.parametrize("kind", KINDS)
every_placing_kind = pytest.mark.parametrize("kind", [k for k in KINDS if k not in BOUND])
N_ROWS = N_SITES * N_DAYS
DAYS = FRAME.day.to_numpy()
SEEN = FRAME.v.notna().to_numpy()
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def mean_and_log_sd(estimator, X):
    """Mean and log sd of every row."""
    dist = estimator.predict_dist(X)
    return np.column_stack([dist.mean, np.log(dist.sd)])


def test_the_frame_is_worth_testing_on():
    assert 5 < (~SEEN).sum() < N_ROWS / 3
    assert not FRAME.day.is_monotonic_increasing


@every_kind
def test_one_number_a_row_in_the_order_of_the_rows(kind):
    estimator = fitted(kind)
    mean = estimator.predict(FRAME)
    assert mean.shape == (N_ROWS,) and np.isfinite(mean).all() and mean.std() > 0.5
    order = np.random.default_rng(1).permutation(N_ROWS)
    np.testing.assert_allclose(estimator.predict(FRAME.iloc[order]), mean[order], **CLOSE)
    np.testing.assert_allclose(
        estimator.log_prob(FRAME.iloc[order]), estimator.log_prob(FRAME)[order], **CLOSE
    )


def frames(folder):
    frame = FRAME.reset_index(drop=True)
    yield polars.from_pandas(frame)
    yield pa.Table.from_pandas(frame)
    yield {name: frame[name].to_numpy() for name in frame}
    frame.to_csv(folder / "field.csv", index=False)
    yield folder / "field.csv"
    frame.to_parquet(folder / "field.parquet")
    yield str(folder / "field.parquet")


@every_kind
def test_kinds_of_frames_and_files_are_alike(kind, tmp_path):
    estimator = fitted(kind)
    mean = estimator.predict(FRAME)
    for data in frames(tmp_path):
        np.testing.assert_allclose(estimator.predict(data), mean, **CLOSE)
    by_group = np.empty(N_ROWS)
    by_group[GROUPS.source_row[GROUPS.elements()]] = estimator.predict(GROUPS)
    np.testing.assert_allclose(by_group, mean, **CLOSE)


# Ridges read the same groups, and with gaps take seconds to fit.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "ridge" not in kind])
def test_a_fit_is_the_same_from_a_file_and_from_groups(kind, tmp_path):
    *_, path = frames(tmp_path)
    plain = make(kind).fit(FRAME).predict(FRAME)
    np.testing.assert_allclose(make(kind).fit(path).predict(FRAME), plain, **CLOSE)
    parameters = {"metric": "euclidean"}
    of_groups = make(kind, **dict.fromkeys(COLUMNS, None) | parameters).fit(GROUPS)
    by_group = np.empty(N_ROWS)
    by_group[GROUPS.source_row[GROUPS.elements()]] = of_groups.predict(GROUPS)
    np.testing.assert_allclose(by_group, plain, **CLOSE)


@every_kind
@pytest.mark.parametrize("more", [{}, {"standardize": "global"}])
def test_a_value_is_not_seen_by_its_own_prediction_nor_by_other_days(kind, more):
    estimator = fitted(kind, **more)
    row = row_of(FRAME, 4, "s2")
    before, after = (
        mean_and_log_sd(estimator, FRAME),
        mean_and_log_sd(estimator, with_cell(FRAME, row, 3.0)),
    )
    elsewhere = DAYS[row] != DAYS
    elsewhere[row] = True
    np.testing.assert_allclose(after[elsewhere], before[elsewhere], **CLOSE)
    moved = np.abs(after - before)[~elsewhere, 0].max()
    assert moved > 1e-3 if kind in READING else moved == 0


@pytest.mark.parametrize("kind", LAGGING)
@pytest.mark.parametrize("lags", [1, 2])
def test_later_days_see_a_value_and_earlier_ones_do_not(kind, lags):
    estimator = fitted(kind, lags=lags)
    row = row_of(FRAME, 4, "s2")
    before, after = (
        mean_and_log_sd(estimator, FRAME),
        mean_and_log_sd(estimator, with_cell(FRAME, row, 3.0)),
    )
    moved = np.abs(after - before).max(1)
    days = (DAYS - DAYS[row]) / np.timedelta64(1, "D")
    assert moved[(days < 0) | (days > lags)].max() < 1e-5
    assert moved[row] < 1e-5
    for back in range(1, lags + 1):
        assert moved[days == back].max() > 1e-4
    # Its own row tomorrow is among those that see it.
    assert moved[row_of(FRAME, 5, "s2")] > 1e-5


@every_kind
def test_what_is_not_observed_is_not_seen(kind):
    estimator = fitted(kind)
    hidden = FRAME[SEEN]
    np.testing.assert_allclose(
        mean_and_log_sd(estimator, hidden), mean_and_log_sd(estimator, FRAME)[SEEN], **CLOSE
    )
    further = pd.concat([FRAME, FRAME[:2].assign(site="new", x=[2.0, 2.0], y=0.5, v=np.nan)])
    with new_sites(kind):
        wide = mean_and_log_sd(estimator, further)
    assert np.isfinite(wide).all()
    np.testing.assert_allclose(wide[:-2], mean_and_log_sd(estimator, FRAME), **CLOSE)
    # Values that are there and not observed are not seen either.
    missing = only_observed(GROUPS, GROUPS.observed[GROUPS.elements()])
    garbage = GROUPS.with_(
        values={"v": np.where(GROUPS.observed, GROUPS.values["v"], 1e6)}, observed=missing.observed
    )
    np.testing.assert_allclose(
        mean_and_log_sd(estimator, garbage), mean_and_log_sd(estimator, GROUPS), **CLOSE
    )


@every_kind
def test_days_are_predicted_alike_whatever_days_are_beside_them(kind):
    estimator = fitted(kind)
    whole = mean_and_log_sd(estimator, FRAME)
    ragged = np.random.default_rng(3).random(N_ROWS) < 0.7
    some = FRAME[ragged]
    sizes = some.groupby("day").size()
    assert sizes.nunique() > 1
    together = mean_and_log_sd(estimator, some)
    for day in sizes.index:
        on = some.day.to_numpy() == np.datetime64(day)
        np.testing.assert_allclose(together[on], mean_and_log_sd(estimator, some[on]), **CLOSE)
        if on.sum() == N_SITES:
            np.testing.assert_allclose(together[on], whole[day.to_datetime64() == DAYS], **CLOSE)
    one = GROUPS[3:7]
    start, stop = GROUPS.start[3], GROUPS.stop[6]
    np.testing.assert_allclose(
        mean_and_log_sd(estimator, one), mean_and_log_sd(estimator, GROUPS)[start:stop], **CLOSE
    )


@every_kind
def test_a_distribution_agrees_with_itself(kind):
    estimator = fitted(kind)
    dist, value = estimator.predict_dist(FRAME), FRAME.v.to_numpy()
    assert len(dist) == N_ROWS and (dist.variance > 0).all()
    nats = dist.log_prob(value)
    np.testing.assert_allclose(nats, estimator.log_prob(FRAME), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(np.isnan(nats), ~SEEN)
    assert estimator.score(FRAME) == pytest.approx(np.nanmean(nats), abs=1e-4)
    np.testing.assert_allclose(dist.cdf(dist.quantile(0.3)), 0.3, atol=1e-6)
    low, high = dist.interval(0.8)
    np.testing.assert_allclose(dist.cdf(high) - dist.cdf(low), 0.8, atol=1e-6)
    # All are Gaussian here: scipy is the witness.
    normal = stats.norm(dist.mean, dist.sd)
    np.testing.assert_allclose(nats[SEEN], normal.logpdf(value)[SEEN], rtol=1e-6)
    np.testing.assert_allclose(low, normal.ppf(0.1), rtol=1e-6)
    draws = dist.sample(400, seed=1)
    assert np.abs((draws.mean(0) - dist.mean) / dist.sd).max() < 5 / 20


@every_placing_kind
def test_places_are_predicted_one_row_a_time_and_place(kind):
    estimator = fitted(kind)
    places = [[0.7, 0.3], [30.0, 40.0], PLACES[2]]
    dist = estimator.predict_dist(FRAME, at=places)
    assert dist.mean.shape == (N_DAYS * 3,) and np.isfinite(dist.mean).all() and (dist.sd > 0).all()
    np.testing.assert_array_equal(estimator.predict(FRAME, at=places), dist.mean)
    # Times in order, and all places of a time together: as rows without a value, appended.
    days = np.sort(FRAME.day.unique())
    rows = [(day, f"p{k}", *row, np.nan) for day in days for k, row in enumerate(np.array(places))]
    appended = pd.DataFrame(rows, columns=list(FRAME))
    wide = mean_and_log_sd(estimator, pd.concat([FRAME, appended]))[N_ROWS:]
    np.testing.assert_allclose(np.column_stack([dist.mean, np.log(dist.sd)]), wide, **CLOSE)
    alone = estimator.predict(FRAME, at=places[1:2])
    np.testing.assert_allclose(alone, dist.mean.reshape(N_DAYS, 3)[:, 1], **CLOSE)
    if kind in PLACING:
        row = row_of(FRAME, 4, "s2")
        moved = estimator.predict(with_cell(FRAME, row, 3.0), at=places).reshape(N_DAYS, 3)
        moved = np.abs(moved - dist.mean.reshape(N_DAYS, 3)).max(1)
        assert moved[4] > 1e-3 and np.delete(moved, 4).max() < 1e-5


@pytest.mark.parametrize("kind", BOUND)
def test_a_kind_that_knows_the_sites_of_training_alone_refuses_others(kind):
    name = class_of(kind).__name__
    message = rf"`at` must be left out for {name}, .* FieldKriging and FieldEFA predict new places"
    for method in (fitted(kind).predict, fitted(kind).predict_dist):
        with pytest.raises(ExfamError, match=message):
            method(FRAME, at=[PLACES[2]])


@pytest.mark.parametrize("kind", BOUND)
def test_rows_of_new_sites_are_counted_in_a_warning_and_scored(kind):
    estimator = fitted(kind)
    further = FRAME[:3].assign(site="new", x=[2.0, 2.0, 2.0], y=0.5, v=[9.0, np.nan, 11.0])
    frame = pd.concat([FRAME, further])
    message = rf"3 of {N_ROWS + 3} rows are at 1 places that .* FieldKriging and FieldEFA predict"
    calls = {
        "predict": {}, "predict_dist": {}, "log_prob": {}, "score": {}, "impute": {},
        "sample": {}, "next_site": {"n": 1},
    }  # fmt: skip
    for method, more in calls.items():
        with pytest.warns(ExfamWarning, match=message) as caught:
            getattr(estimator, method)(frame, **more)
        assert len(caught) == 1, method
    with pytest.warns(ExfamWarning, match=message):
        nats = estimator.log_prob(frame)
    # None is left out: a score is the mean over all rows that have a value.
    np.testing.assert_array_equal(np.isnan(nats), frame.v.isna())
    with pytest.warns(ExfamWarning, match=message):
        assert estimator.score(frame) == pytest.approx(np.nanmean(nats))
    lagged = fitted(kind, lags=1)
    with pytest.warns(ExfamWarning, match=message):
        lagged.forecast(frame, n=1)


@pytest.mark.parametrize("kind", BOUND)
def test_a_site_that_only_held_out_maps_observe_counts_as_new(kind):
    late = FULL[(FULL.site != "s3") | (FULL.day == FULL.day.max())]
    estimator = make(kind).fit(late)
    with pytest.warns(ExfamWarning, match=r"12 of 60 rows are at 1 places that"):
        estimator.predict(FRAME)


@pytest.mark.parametrize("n_places", [1, 7, 200])
def test_many_places_are_predicted_as_few_are(n_places):
    estimator = fitted("field-efa", lags=1)
    places = np.random.default_rng(0).uniform(0, 5, (n_places, 2))
    dist = estimator.predict_dist(FRAME, at=places).mean.reshape(N_DAYS, n_places)
    first = estimator.predict(FRAME, at=places[:1])
    last = estimator.predict(FRAME, at=places[-1:])
    np.testing.assert_allclose(dist[:, 0], first, **CLOSE)
    np.testing.assert_allclose(dist[:, -1], last, **CLOSE)


@pytest.mark.parametrize("kind", ["field-climatology", "field-gaussian-process", "field-efa"])
def test_new_sites_are_less_certain_than_known_ones(kind):
    estimator = fitted(kind, noise=False)
    known, new = (estimator.predict_dist(FRAME, at=[at]).sd for at in (PLACES[2], [40.0, 0.0]))
    assert (new > known).all()
    assert (new > estimator.predict_dist(FRAME).sd.max()).all()


def test_a_site_that_training_never_observed_is_a_new_one():
    frame = FULL.assign(v=FULL.v.where(FULL.site != "s4"))
    for kind in KINDS:
        estimator = make(kind).fit(frame)
        assert estimator.vocabulary_["item"].tolist() == SITES[:4]
        renamed = frame.assign(site=frame.site.where(frame.site != "s4", "other"))
        with new_sites(kind):
            dist, other = mean_and_log_sd(estimator, frame), mean_and_log_sd(estimator, renamed)
        assert np.isfinite(dist).all()
        np.testing.assert_allclose(other, dist, **CLOSE)


@every_kind
def test_a_map_without_values_is_predicted_from_climate(kind):
    estimator = fitted(kind, noise=False)
    row = np.flatnonzero(DAYS[0] == DAYS)
    column = FRAME.v.to_numpy(copy=True)
    column[row] = np.nan
    dist = estimator.predict_dist(FRAME.assign(v=column))
    climate = fitted("field-climatology").predict_dist(FRAME)
    assert np.isfinite(dist.mean).all() and np.isfinite(dist.sd).all()
    assert (np.abs(dist.mean - climate.mean)[row] < 1.5 * climate.sd[row]).all()
    if kind in TRAINED:
        return  # hardly trained here
    assert (dist.sd[row] > 0.5 * climate.sd[row]).all()


@every_kind
@pytest.mark.parametrize("standardize", ["none", "global", "site", "seasonal"])
def test_every_way_to_standardize(kind, standardize):
    if (kind, standardize) == ("field-climatology", "none"):
        return  # nothing is left to predict by
    estimator = make(kind, standardize=standardize)
    nats = estimator.fit(FULL).log_prob(FRAME)
    assert np.isfinite(nats[SEEN]).all()
    if standardize != "none":
        # Anomalies are the same in another unit.
        other = clone(estimator).fit(FULL.assign(v=FULL.v * 10 + 300))
        tenth = other.log_prob(FRAME.assign(v=FRAME.v * 10 + 300))
        np.testing.assert_allclose(tenth + np.log(10), nats, rtol=1e-2, atol=1e-2)


@every_kind
def test_fitting_again_and_cloning_change_nothing(kind):
    estimator = make(kind)
    first = estimator.fit(FULL).predict(FRAME)
    np.testing.assert_array_equal(estimator.fit(FULL).predict(FRAME), first)
    other = clone(estimator)
    assert not hasattr(other, "members_")
    assert other.get_params() == estimator.get_params()
    np.testing.assert_array_equal(other.fit(FULL).predict(FRAME), first)
    assert set(COLUMNS) <= set(estimator.get_params())
    changed = estimator.set_params(standardize="global").fit(FULL).predict(FRAME)
    assert np.abs(changed - first).max() > 1e-3


@every_kind
def test_its_name_and_its_kind_are_those_it_is_saved_by(kind):
    assert class_of(kind).kind == kind
    assert class_of(kind).__name__ == REGISTRY[kind].name


FAMILIES = ("poisson", "negative-binomial")


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_have_probabilities(family):
    estimator = fitted("field-efa", frame=COUNTS, family=family, lags=1)
    dist, value = estimator.predict_dist(COUNTS), COUNTS.v.to_numpy()
    nats = estimator.log_prob(COUNTS)
    assert np.isfinite(nats[COUNTS.v.notna()]).all() and (nats[COUNTS.v.notna()] <= 0).all()
    assert (dist.mean > 0).all() and dist.mean.std() > 0.1
    total = sum(np.exp(dist.log_prob(float(k))) for k in range(400))
    np.testing.assert_allclose(total, 1.0, atol=1e-3)
    assert estimator.score(COUNTS) == pytest.approx(np.nanmean(dist.log_prob(value)), abs=1e-4)
    filled = estimator.sample(COUNTS, n=2)
    assert (filled >= 0).all() and (filled == filled.round()).all()


def test_heavy_tails_and_known_scales():
    heavy = fitted("field-efa", family="student-t").predict_dist(FRAME)
    assert np.isfinite(heavy.log_prob(1e4)).all() and (heavy.log_prob(1e4) > -200).all()
    known = fitted("field-efa", family=Gaussian(scale=2.0), scale="global").predict_dist(FRAME)
    np.testing.assert_allclose(known.sd, 2.0, rtol=1e-6)


def test_global_scales_are_the_same_at_all_places_of_the_same_climate():
    dist = fitted("field-efa", scale="global", standardize="global").predict_dist(FRAME)
    np.testing.assert_allclose(dist.sd, dist.sd[0], rtol=1e-6)
    dist = fitted("field-efa", scale="input", standardize="global").predict_dist(FRAME)
    assert dist.sd.std() > 1e-3


def test_the_same_place_named_in_other_degrees_and_metrics():
    frame = FULL.assign(x=FULL.x + 40, y=FULL.y)
    for kind in KINDS:
        estimator = make(kind, metric="haversine").fit(frame)
        assert np.isfinite(estimator.predict(frame)).all()
        if kind not in BOUND:
            assert np.isfinite(estimator.predict(frame, at=[[41.0, 200.0]])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_sites_and_numbers_for_times(kind):
    frame = {
        "hour": np.repeat(np.arange(8.0), 3),
        "post": np.tile([3, 1, 2], 8),
        "km": np.tile([30, 10, 20], 8),
        "level": np.random.default_rng(0).normal(size=24),
    }
    columns = {"time": "hour", "site": "post", "coordinates": "km", "value": "level"}
    estimator = make(kind, **columns, period=24.0, standardize="seasonal").fit(frame)
    assert estimator.predict(frame).shape == (24,)
    if kind not in BOUND:
        assert estimator.predict(frame, at=[[15.0]]).shape == (8,)
    groups = read_field(frame, **columns, metric="euclidean")
    assert estimator.score(groups) == pytest.approx(estimator.score(frame), abs=1e-5)


def test_one_site_or_one_day_is_enough():
    day = field_frame(n_days=1, missing=0.0)
    for kind in KINDS:
        alone = FULL[FULL.site == "s1"]
        assert np.isfinite(make(kind).fit(alone).predict(alone)).all()
        if kind in ("field-ridge", "field-ridge-covariance"):
            with pytest.raises(DataError, match="at least 2 maps, got 1"):
                make(kind).fit(day)
            continue
        assert np.isfinite(make(kind).fit(day).predict(day)).all()
        assert np.isfinite(make(kind).fit(FULL[:1]).predict(FRAME)).all()
