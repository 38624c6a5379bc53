"""Estimators of fields: their laws, and what is saved, resumed and chosen by validation."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from estimator_cases import same_bits
from exfam.checks import CheckpointError, DataError, ExfamError, ExfamWarning
from exfam.estimator.saving import load
from exfam.families import Gaussian
from exfam.training.torch_engine import TorchEngine
from fields.field_cases import (
    BOUND,
    COLUMNS,
    COUNTS,
    FRAME,
    FULL,
    GROUPS,
    HEAVY,
    KINDS,
    LAGGING,
    N_DAYS,
    N_SITES,
    PLACES,
    SEEN,
    SITES,
    TRAINED,
    assert_near,
    class_of,
    every_kind,
    field_frame,
    fitted,
    make,
    mean_and_log_sd,
    new_sites,
    row_of,
    seasonal,
    with_cell,
)
from toy_fit import cut_step

N_ROWS = N_SITES * N_DAYS
DAYS = FRAME.day.to_numpy()


def frames(folder):
    frame = FRAME.reset_index(drop=True)
    yield polars.from_pandas(frame)
    yield pa.Table.from_pandas(frame)
    yield {name: frame[name].to_numpy() for name in frame}
    frame.to_csv(folder / "field.csv", index=False)
    yield folder / "field.csv"


def by_row(of_groups):
    out = np.empty(N_ROWS)
    out[GROUPS.source_row[GROUPS.elements()]] = of_groups
    return out


@every_kind
def test_kinds_of_frames_and_files_are_alike(kind, tmp_path):
    estimator = fitted(kind)
    mean = estimator.predict(FRAME)
    assert mean.shape == (N_ROWS,) and mean.std() > 0.5
    order = np.random.default_rng(1).permutation(N_ROWS)
    assert_near(estimator.predict(FRAME.iloc[order]), mean[order])
    assert_near(estimator.log_prob(FRAME.iloc[order]), estimator.log_prob(FRAME)[order])
    for data in frames(tmp_path):
        assert_near(estimator.predict(data), mean)
    assert_near(by_row(estimator.predict(GROUPS)), mean)
    if "ridge" in kind:
        return  # ridges read the same groups, and with gaps take seconds to fit
    plain = make(kind).fit(FRAME).predict(FRAME)
    assert_near(make(kind).fit(data).predict(FRAME), plain)
    unnamed = make(kind, **dict.fromkeys(COLUMNS, None) | {"metric": "euclidean"}).fit(GROUPS)
    assert_near(by_row(unnamed.predict(GROUPS)), plain)


@every_kind
def test_a_value_is_not_seen_by_its_own_prediction_nor_by_other_days(kind):
    estimator = fitted(kind)
    row = row_of(FRAME, 4, "s2")
    before = mean_and_log_sd(estimator, FRAME)
    after = mean_and_log_sd(estimator, with_cell(FRAME, row, 3.0))
    elsewhere = DAYS[row] != DAYS
    elsewhere[row] = True
    assert_near(after[elsewhere], before[elsewhere])
    moved = np.abs(after - before)[~elsewhere, 0].max()
    assert moved > 1e-3 if kind != "field-climatology" else moved == 0


@pytest.mark.parametrize("kind", LAGGING)
@pytest.mark.parametrize("lags", [1, 2])
def test_later_days_see_a_value_and_earlier_ones_do_not(kind, lags):
    estimator = fitted(kind, lags=lags)
    row = row_of(FRAME, 4, "s2")
    before = mean_and_log_sd(estimator, FRAME)
    after = mean_and_log_sd(estimator, with_cell(FRAME, row, 3.0))
    moved = np.abs(after - before).max(1)
    days = (DAYS - DAYS[row]) / np.timedelta64(1, "D")
    assert moved[(days < 0) | (days > lags)].max() < 1e-5
    assert moved[row] < 1e-5
    for back in range(1, lags + 1):
        assert moved[days == back].max() > 1e-4
    assert moved[row_of(FRAME, 5, "s2")] > 1e-5, "its own row tomorrow sees it"


@every_kind
def test_what_is_not_observed_is_not_seen(kind):
    estimator = fitted(kind)
    whole = mean_and_log_sd(estimator, FRAME)
    assert_near(mean_and_log_sd(estimator, FRAME[SEEN]), whole[SEEN])
    further = pd.concat([FRAME, FRAME[:2].assign(site="new", x=[2.0, 2.0], y=0.5, v=np.nan)])
    with new_sites(kind):
        wide = mean_and_log_sd(estimator, further)
    assert np.isfinite(wide).all()
    assert_near(wide[:-2], whole)
    # Values that are there and not observed are not seen either.
    garbage = GROUPS.with_(values={"v": np.where(GROUPS.observed, GROUPS.values["v"], 1e6)})
    assert_near(mean_and_log_sd(estimator, garbage), mean_and_log_sd(estimator, GROUPS))


@every_kind
def test_days_are_predicted_alike_whatever_days_are_beside_them(kind):
    estimator = fitted(kind)
    some = FRAME[np.random.default_rng(3).random(N_ROWS) < 0.7]
    together = mean_and_log_sd(estimator, some)
    for day in some.day.unique():
        on = some.day.to_numpy() == np.datetime64(day)
        assert_near(together[on], mean_and_log_sd(estimator, some[on]))


@every_kind
def test_a_distribution_agrees_with_itself_and_with_scipy(kind):
    estimator = fitted(kind)
    dist, value = estimator.predict_dist(FRAME), FRAME.v.to_numpy()
    nats = dist.log_prob(value)
    assert_allclose(nats, estimator.log_prob(FRAME), rtol=1e-4, atol=1e-4)
    assert_array_equal(np.isnan(nats), ~SEEN)
    assert estimator.score(FRAME) == pytest.approx(np.nanmean(nats), abs=1e-4)
    assert_allclose(dist.cdf(dist.quantile(0.3)), 0.3, atol=1e-6)
    if kind in HEAVY:
        df = 2 + dist.mixture.eta[0, np.argsort(dist.rows), 2].exp().numpy()
        scipy = stats.t(df, dist.mean, dist.sd * np.sqrt((df - 2) / df))
    else:
        scipy = stats.norm(dist.mean, dist.sd)
    assert_allclose(nats[SEEN], scipy.logpdf(value)[SEEN], rtol=1e-5)
    for end, p in zip(dist.interval(0.8), (0.1, 0.9), strict=True):
        assert_allclose(end, scipy.ppf(p), rtol=1e-5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BOUND])
def test_places_are_predicted_one_row_a_time_and_place(kind):
    estimator = fitted(kind)
    places = np.array([[0.7, 0.3], [30.0, 40.0], PLACES[2]])
    dist = estimator.predict_dist(FRAME, at=places)
    assert dist.mean.shape == (N_DAYS * 3,) and np.isfinite(dist.mean).all() and (dist.sd > 0).all()
    assert_array_equal(estimator.predict(FRAME, at=places), dist.mean)
    # Times in order, and all places of a time together: as rows without a value, appended.
    days = np.sort(FRAME.day.unique())
    rows = [(day, f"p{k}", *place, np.nan) for day in days for k, place in enumerate(places)]
    appended = pd.DataFrame(rows, columns=list(FRAME))
    wide = mean_and_log_sd(estimator, pd.concat([FRAME, appended]))[N_ROWS:]
    assert_near(np.column_stack([dist.mean, np.log(dist.sd)]), wide)
    # Many places are predicted as few are.
    many = np.concatenate([places, np.random.default_rng(0).uniform(0, 5, (197, 2))])
    among = estimator.predict(FRAME, at=many).reshape(N_DAYS, 200)[:, :3]
    assert_near(among, dist.mean.reshape(N_DAYS, 3))


AT_PLACES = [(kind, {}) for kind in KINDS if kind not in BOUND] + [("field-efa", {"base": "auto"})]


@pytest.mark.parametrize(("kind", "more"), AT_PLACES)
def test_places_are_read_from_the_values_around_them(kind, more):
    estimator, at = fitted(kind, noise=False, **more), [[0.7, 0.3], [2.2, 0.1]]
    warmer = FRAME.assign(v=FRAME.v + 3)
    moved = estimator.predict(warmer, at=at) - estimator.predict(FRAME, at=at)
    mean = moved.reshape(N_DAYS, 2).mean(0)
    assert (mean > 1).all() if kind != "field-climatology" else not moved.any()


@pytest.mark.parametrize("kind", BOUND)
def test_a_kind_that_knows_the_sites_of_training_alone(kind):
    estimator = fitted(kind)
    message = rf"`at` must be left out for {class_of(kind).__name__}, .* FieldKriging and FieldEFA"
    with pytest.raises(ExfamError, match=message):
        estimator.predict(FRAME, at=[PLACES[2]])
    further = FRAME[:3].assign(site="new", x=[2.0, 2.0, 2.0], y=0.5, v=[9.0, np.nan, 11.0])
    frame = pd.concat([FRAME, further])
    message = rf"3 of {N_ROWS + 3} rows are at 1 places that .* FieldKriging and FieldEFA predict"
    calls = {"predict": {}, "score": {}, "impute": {}, "sample": {}, "next_site": {"n": 1}}
    for method, more in calls.items():
        with pytest.warns(ExfamWarning, match=message) as caught:
            getattr(estimator, method)(frame, **more)
        assert len(caught) == 1, method
    # A site that only maps held out observe counts as new.
    late = FULL[(FULL.site != "s3") | (FULL.day == FULL.day.max())]
    with pytest.warns(ExfamWarning, match=r"12 of 60 rows are at 1 places that"):
        make(kind).fit(late).predict(FRAME)


@every_kind
def test_a_site_that_training_never_observed_is_a_new_one(kind):
    frame = FULL.assign(v=FULL.v.where(FULL.site != "s4"))
    estimator = make(kind).fit(frame)
    assert estimator.vocabulary_["item"].tolist() == SITES[:4]
    renamed = frame.assign(site=frame.site.where(frame.site != "s4", "other"))
    with new_sites(kind):
        dist, other = mean_and_log_sd(estimator, frame), mean_and_log_sd(estimator, renamed)
    assert np.isfinite(dist).all()
    assert_near(other, dist)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_counts_have_probabilities_and_are_drawn_as_counts(family):
    estimator = fitted("field-efa", frame=COUNTS, family=family, lags=1)
    dist, value = estimator.predict_dist(COUNTS), COUNTS.v.to_numpy()
    total = sum(np.exp(dist.log_prob(float(k))) for k in range(400))
    assert_allclose(total, 1.0, atol=1e-3)
    assert estimator.score(COUNTS) == pytest.approx(np.nanmean(dist.log_prob(value)), abs=1e-4)
    for drawn in (estimator.sample(COUNTS, n=2), estimator.forecast(COUNTS, steps=2, n=5).draws):
        assert (drawn >= 0).all() and (drawn == drawn.round()).all()


def test_scales_are_as_declared():
    constant = fitted("field-efa", family=Gaussian(scale=2.0), scale="global").predict_dist(FRAME)
    assert_allclose(constant.sd, 2.0, rtol=1e-6)
    dist = fitted("field-efa", scale="global", standardize="global").predict_dist(FRAME)
    assert_allclose(dist.sd, dist.sd[0], rtol=1e-6)


@every_kind
def test_degrees_lines_and_numbers_for_times(kind):
    globe = FULL.assign(x=FULL.x + 40)
    assert np.isfinite(make(kind, metric="haversine").fit(globe).predict(globe)).all()
    frame = {
        "hour": np.repeat(np.arange(8.0), 3),
        "post": np.tile([3, 1, 2], 8),
        "km": np.tile([30, 10, 20], 8),
        "level": np.random.default_rng(0).normal(size=24),
    }
    columns = {"time": "hour", "site": "post", "coordinates": "km", "value": "level"}
    estimator = make(kind, **columns, period=24.0, **seasonal(kind)).fit(frame)
    assert estimator.predict(frame).shape == (24,)
    if kind not in BOUND:
        assert estimator.predict(frame, at=[[15.0]]).shape == (8,)


@every_kind
def test_one_site_or_one_day_is_enough(kind):
    alone, day = FULL[FULL.site == "s1"], field_frame(n_days=1, missing=0.0)
    assert np.isfinite(make(kind).fit(alone).predict(alone)).all()
    if kind in BOUND:
        with pytest.raises(DataError, match="at least 2 maps, got 1"):
            make(kind).fit(day)
    else:
        assert np.isfinite(make(kind).fit(day).predict(day)).all()
        assert np.isfinite(make(kind).fit(FULL[:1]).predict(FRAME)).all()


every_trained_kind = pytest.mark.parametrize("kind", TRAINED)
ALL = {
    "lags": 2, "step": 1.0, "n_neighbors": 2, "site_embedding": True, "null_token": True,
    "scale": "global", "standardize": "seasonal", "family": "student-t", "n_layers": 2,
    "missing": [-99],
}  # fmt: skip
VARIANTS = [
    {"ensemble": 2},
    {"family": "negative-binomial", "frame": COUNTS, "lags": 1},
    {"family": Gaussian(scale=2.0)},
    {"read_out_heads": 0, "encoding": "none", "standardize": "none"},
    ALL,
]
CASES = [(kind, {}) for kind in KINDS] + [("field-efa", more) for more in VARIANTS]


@pytest.mark.parametrize(("kind", "more"), CASES)
def test_a_saved_model_predicts_the_same_bits(kind, more, tmp_path):
    frame = more.get("frame", FRAME)
    estimator = fitted(kind, **more)
    # What is set after a fit is for the next one.
    estimator.set_params(period=365.0).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is class_of(kind) and loaded.period == 365.0
    at = None if kind in BOUND else [[1.0, 7.0]]
    some = frame[frame.day <= frame.day.min() + np.timedelta64(2, "D")]
    assert_array_equal(loaded.log_prob(frame), estimator.log_prob(frame))
    assert_array_equal(loaded.predict(frame, at=at), estimator.predict(frame, at=at))
    assert_array_equal(loaded.sample(some, seed=3), estimator.sample(some, seed=3))
    assert_array_equal(loaded.site_coordinates_, PLACES)
    assert loaded.vocabulary_["item"].tolist() == estimator.vocabulary_["item"].tolist()


@every_trained_kind
def test_an_ensemble_is_the_mean_of_its_members(kind):
    both = make(kind, ensemble=2, seed=4).fit(FULL)
    alone = [make(kind, seed=seed).fit(FULL) for seed in (4, 5)]
    assert len(both.members_) == len(both.histories_) == 2
    nats = [model.log_prob(FRAME)[SEEN] for model in alone]
    assert np.abs(nats[0] - nats[1]).max() > 1e-4
    mean = np.logaddexp(*nats) - np.log(2)
    assert_allclose(both.log_prob(FRAME)[SEEN], mean, rtol=1e-4, atol=1e-5)
    means = np.mean([model.predict(FRAME) for model in alone], 0)
    assert_allclose(both.predict(FRAME), means, rtol=1e-5)
    assert np.isfinite(both.next_site(FRAME, n=1).variance[~SEEN]).all()


@every_trained_kind
def test_a_fit_that_was_cut_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    more = {"max_epochs": 4, "ensemble": 2, "dropout": 0.2} if kind == "field-efa" else {}
    whole = make(kind, **more).fit(FULL)
    with monkeypatch.context() as patch:
        cut_step(patch, TorchEngine, 5)
        with pytest.raises(OSError, match="lights"):
            make(kind, **more).fit(FULL, checkpoint=tmp_path)
    assert list(tmp_path.iterdir())
    assert same_bits(make(kind, **more).fit(FULL, checkpoint=tmp_path), whole)
    with pytest.raises(CheckpointError, match="checkpoint"):
        make(kind, **{**more, "standardize": "global"}).fit(FULL, checkpoint=tmp_path)


@every_kind
def test_maps_to_choose_by_may_be_given(kind):
    days = FULL.day <= FULL.day.min() + np.timedelta64(8, "D")
    early, late = FULL[days], FULL[~days]
    estimator = make(kind).fit(early, validation=late)
    assert np.isfinite(estimator.score(late))
    if kind in TRAINED:
        by_early = make(kind).fit(early, validation=early).history_
        assert estimator.history_.rows[-1].validation_nats != by_early.rows[-1].validation_nats


def test_scales_are_calibrated_on_maps_held_out():
    early, late = FULL[FULL.day < FULL.day.median()], FULL[FULL.day >= FULL.day.median()]
    plain = make("field-efa", calibrate=False).fit(early, validation=late)
    wide = make("field-efa").fit(early, validation=late)
    assert wide.score(late) > plain.score(late)
    assert_allclose(wide.predict(FRAME), plain.predict(FRAME), rtol=1e-6)


@pytest.mark.parametrize(
    "more", [{}, {"n_neighbors": 2}, {"null_token": False}, {"read_out_heads": 0}], ids=str
)
def test_what_a_map_attends_to(more):
    explained = fitted("field-efa", lags=1, **more).explain(FRAME)
    assert len(explained) == len(GROUPS) and explained[5].steps_back.max() == 1
    assert (explained[5].read_out is None) == ("read_out_heads" in more)
    for g, of_map in enumerate(explained):
        own, centers = np.arange(GROUPS.start[g], GROUPS.stop[g]), of_map.own
        assert of_map.time == GROUPS.group_names[g] and of_map.steps_back[centers].max() == 0
        labels = GROUPS.vocabulary["item"][GROUPS.item[own]]
        assert of_map.site[centers].tolist() == labels.tolist()
        read_out = [] if of_map.read_out is None else [of_map.read_out]
        for weights in [*of_map.attention, *read_out]:
            assert weights.shape[1:] == (len(own), len(of_map.site)) and (weights >= 0).all()
            assert np.abs(np.diagonal(weights[:, :, centers], axis1=1, axis2=2)).max() == 0
            hidden = centers.copy()
            hidden[centers] = ~GROUPS.observed[own]
            assert not hidden.any() or weights[..., hidden].max() == 0
        for weights, null in zip(of_map.attention, of_map.null, strict=True):
            whole = weights.sum(-1) + null
            assert_allclose(whole[:, (whole > 1e-6).all(0)], 1, atol=1e-5)
        if "n_neighbors" in more:
            assert (of_map.attention[0] > 0).sum(-1).max() <= 2 * 2
