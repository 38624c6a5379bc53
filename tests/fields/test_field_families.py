"""Laws of fields of amounts: roots and logarithms that are Student's t, and zeros."""

import functools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import integrate

import exfam
from estimator_cases import same_bits
from exfam import (
    CensoredStudentT,
    FieldGaussian,
    LogStudentT,
    RoundedRootStudentT,
    StudentT,
)
from exfam.checks import ExfamError, SupportError
from exfam.fields import field_base
from exfam.fields.choose_family import with_chosen_family
from exfam.fields.plan import plan_field_fit
from fields.field_cases import COLUMNS, N_SITES, PLACES, SITES, make
from map_cases import check_reasons_of_one

FAMILIES = {
    "roots": CensoredStudentT(),
    "amounts": CensoredStudentT(1),
    "logs": LogStudentT(),
    "counts": RoundedRootStudentT(),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def rain(*, n_days=40, dry=0.4, seed=0):
    """Squares of a field, 0 where it is below its quantile of level `dry`; a few gaps."""
    random = np.random.default_rng(seed)
    apart = np.linalg.norm(PLACES[:, None] - PLACES[None], axis=-1)
    root = np.linalg.cholesky(np.exp(-apart / 3))
    z, rows = np.zeros(N_SITES), []
    for day in range(n_days):
        z = 0.5 * z + 0.85 * root @ random.normal(size=N_SITES)
        date = pd.Timestamp("2020-03-01") + pd.Timedelta(days=day)
        rows += [(date, name, *PLACES[k], z[k]) for k, name in enumerate(SITES)]
    frame = pd.DataFrame(rows, columns=["day", "site", "x", "y", "v"])
    latent = frame.v - frame.v.quantile(dry)
    frame["v"] = np.where(latent > 0, 3 * latent**2, 0.0)
    frame.loc[random.random(len(frame)) < 0.05, "v"] = np.nan
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


RAIN = rain()
AMOUNTS = rain(dry=0.0).assign(v=lambda frame: np.exp(0.7 * np.sqrt(frame.v / 3)))

COUNTED = RAIN.assign(v=np.random.default_rng(3).poisson(1 + RAIN.v.fillna(0))).assign(
    v=lambda frame: frame.v.where(RAIN.v.notna())
)


@functools.cache
def fitted(name):
    return FieldGaussian(**COLUMNS, family=FAMILIES[name], lags=1).fit(frame_of(name))


def frame_of(name):
    return {"logs": AMOUNTS, "counts": COUNTED}.get(name, RAIN)


def test_a_log_student_t_is_a_student_t_of_logarithms():
    logs = AMOUNTS.assign(v=np.log(AMOUNTS.v))
    plain = FieldGaussian(**COLUMNS, family="student-t").fit(logs)
    model = FieldGaussian(**COLUMNS, family="log-student-t").fit(AMOUNTS)
    ours, theirs = model.log_prob(AMOUNTS), plain.log_prob(logs) - logs.v.to_numpy()
    assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    pairs = [(model, AMOUNTS), (plain, logs)]
    levels = [model.predict_dist(frame).quantile(0.8) for model, frame in pairs]
    assert_allclose(levels[0], np.exp(levels[1]), rtol=1e-4)
    explained = [model.explain(frame)[3] for model, frame in pairs]
    assert_allclose(explained[0].contributions, explained[1].contributions, atol=1e-4)
    assert_allclose(explained[0].normal, explained[1].normal, atol=1e-4)


@pytest.mark.parametrize("name", ["roots", "amounts"])
def test_zeros_have_a_probability_and_the_rest_a_density(name):
    frame = RAIN[RAIN.day == RAIN.day[5]]
    dist = fitted(name).predict_dist(frame)
    dry = np.exp(dist.log_prob(0.0))
    assert_allclose(dry, dist.cdf(0.0), rtol=1e-9)
    assert (dist.cdf(-1e-9) == 0).all()
    wet = sum(
        integrate.quad_vec(lambda y: np.exp(dist.log_prob(y)), low, high, epsabs=1e-7)[0]
        for low, high in [(1e-12, 0.1), (0.1, 5.0), (5.0, 100.0), (100.0, np.inf)]
    )
    assert_allclose(wet, 1 - dry, atol=1e-5)
    some = np.array([dist.quantile(p) for p in (np.arange(40) + 0.5) / 40])
    assert (some >= 0).all() and (np.diff(some, axis=0) >= 0).all()
    drawn = dist.sample(4000, seed=1)
    assert (drawn >= 0).all()
    error = dist.sd / np.sqrt(4000)
    assert (np.abs(drawn.mean(0) - dist.mean) < 5 * error).all()


def test_zeros_are_as_frequent_as_they_are_predicted():
    later = rain(seed=7)
    dist, value = fitted("roots").predict_dist(later), later.v.to_numpy()
    there = ~np.isnan(value)
    assert abs(dist.cdf(0.0)[there].mean() - (value[there] == 0).mean()) < 0.05
    assert abs(dist.inside(value, 0.8)[there].mean() - 0.8) < 0.06
    pit = dist.pit(value, seed=0)[there]
    assert abs((pit < 0.5).mean() - 0.5) < 0.07


def test_counts_have_probabilities_that_sum_to_one():
    frame = COUNTED[COUNTED.day == COUNTED.day[5]]
    dist = fitted("counts").predict_dist(frame)
    mass = np.exp([dist.log_prob(k) for k in range(200)])
    assert_allclose(mass.cumsum(0)[::20], [dist.cdf(k) for k in range(0, 200, 20)], rtol=1e-6)
    assert_allclose(dist.cdf(3000), 1.0, atol=1e-4)
    assert (dist.quantile(0.9) % 1 == 0).all() and (dist.sample(50) % 1 == 0).all()
    value = COUNTED.v.to_numpy()
    there = ~np.isnan(value)
    every = fitted("counts").predict_dist(COUNTED)
    assert abs(every.inside(value, 0.8)[there].mean() - 0.8) < 0.06
    assert abs((every.pit(value)[there] < 0.5).mean() - 0.5) < 0.07


def test_dry_neighbors_make_a_site_dry():
    day = RAIN[RAIN.day == RAIN.day[5]].sort_values("site")
    dry, wet = (day.assign(v=[v, v, np.nan, v, v]) for v in (0.0, 4.0))
    alone = day.assign(v=np.nan)
    shares = [fitted("roots").predict_dist(f).cdf(0.0)[2] for f in (dry, alone, wet)]
    assert shares[0] > shares[1] + 0.1 > shares[2] + 0.2


@every_family
def test_a_value_does_not_move_its_own_distribution(name):
    frame, model = frame_of(name), fitted(name)
    row = int(np.flatnonzero(frame.v.notna())[8])
    before = model.predict_dist(frame)
    other = frame.copy()
    other.loc[row, "v"] = 0.0 if name != "logs" and frame.v[row] > 0 else 9.0
    after = model.predict_dist(other)
    assert after.quantile(0.9)[row] == pytest.approx(before.quantile(0.9)[row], rel=1e-9)
    same_day = ((frame.day == frame.day[row]) & (frame.site != frame.site[row])).to_numpy()
    assert (after.quantile(0.9)[same_day] != before.quantile(0.9)[same_day]).any()


@pytest.mark.parametrize(("name", "unit"), [("roots", 250.0), ("logs", 1e-3)])
def test_units_change_nothing(name, unit):
    frame = frame_of(name)
    scaled = frame.assign(v=unit * frame.v)
    model = FieldGaussian(**COLUMNS, family=FAMILIES[name], lags=1).fit(scaled)
    jacobian = np.where(frame.v == 0, 0.0, np.log(unit))
    ours, theirs = model.log_prob(scaled) + jacobian, fitted(name).log_prob(frame)
    assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


@every_family
def test_drawn_forecast_imputed_and_stored(name, tmp_path):
    frame, model = frame_of(name), fitted(name)
    some = frame[frame.day < frame.day.min() + pd.Timedelta(days=6)].reset_index(drop=True)
    some.loc[:3, "v"] = np.nan
    drawn = model.sample(some, n=30, seed=1)
    least = np.finfo(float).tiny if name == "logs" else 0.0
    assert (drawn >= least).all() and np.isfinite(drawn).all()
    seen = some.v.notna().to_numpy()
    assert_allclose(drawn[:, seen], np.tile(some.v[seen], (30, 1)), rtol=1e-5)
    future = model.forecast(some, steps=2, n=20)
    assert (future.draws >= least).all() and np.isfinite(future.mean).all()
    filled = model.impute(some)
    assert (filled.v >= least).all() and (filled.v_low <= filled.v_high).all()
    assert_allclose(model.predict(some)[~seen], filled.v[~seen])
    model.save(tmp_path / "model")
    stored = exfam.load(tmp_path / "model")
    assert same_bits(stored, model)
    assert_allclose(stored.log_prob(some), model.log_prob(some))


@every_family
def test_locations_are_explained_exactly(name):
    frame, model = frame_of(name), fitted(name)
    day = frame[frame.day == frame.day[5]]
    (explanation,) = model.explain(day)
    check_reasons_of_one(model, day)
    of_sites = day.set_index("site").loc[explanation.site[explanation.own]].reset_index()
    median = model.predict_dist(of_sites).quantile(0.5)
    latent = explanation.normal + explanation.contributions.sum(1) + explanation.shift
    positive = np.maximum(latent, 0)
    wanted = {"roots": positive**2, "amounts": positive, "counts": (positive**2).round()}
    assert_allclose(median, wanted.get(name, np.exp(latent)), rtol=1e-5, atol=1e-6)


def chosen(frame):
    plan = plan_field_fit(FieldGaussian(**COLUMNS), frame, validation=None, checkpoint=None)
    return with_chosen_family(plan, period=365.25).family


def test_a_family_is_a_family():
    with pytest.raises(ExfamError, match="`family` must be a Family, got 1.5"):
        FieldGaussian(**COLUMNS).check_family(1.5)


def test_what_values_look_like_chooses_the_family():
    assert chosen(RAIN).family == CensoredStudentT(2)
    assert FieldGaussian(**COLUMNS).fit(COUNTED).family_ == chosen(COUNTED) == RoundedRootStudentT()
    normal = RAIN.assign(v=20 + np.random.default_rng(0).normal(size=len(RAIN)))
    assert chosen(normal).family == StudentT()
    skewed = rain(n_days=60, dry=0.0).assign(v=lambda frame: np.exp(2.1 * np.sqrt(frame.v / 3)))
    assert chosen(skewed).family == LogStudentT()
    assert chosen(skewed[:12]).family == StudentT()


def test_new_places_have_rain_too():
    dist = fitted("roots").predict_dist(RAIN[:20], at=[[1.5, 0.2], [9.0, 9.0]])
    dry = dist.cdf(0.0)
    assert ((dry > 0) & (dry < 1)).all() and (dist.quantile(0.9) >= 0).all()


def test_zeros_of_more_sites_than_a_covariance_is_held_of_are_refused(monkeypatch):
    monkeypatch.setattr(field_base, "MOST_COLUMNS", 4)
    with pytest.raises(ExfamError, match="`family` must be 'student-t' or .* for more than 4 sit"):
        FieldGaussian(**COLUMNS, family="censored-student-t").fit(RAIN)
    assert FieldGaussian(**COLUMNS).fit(RAIN).family_.family == StudentT()


def test_other_families_and_values_are_refused():
    with pytest.raises(ExfamError, match="`family` must be one of 'student-t', 'log-.* got Gauss"):
        make("field-gaussian", family="gaussian").fit(RAIN)
    with pytest.raises(ExfamError, match="without fixed degrees of freedom"):
        make("field-gaussian", family=LogStudentT(df=4.0)).fit(AMOUNTS)
    with pytest.raises(SupportError, match="must be a finite number >= 0, got -1"):
        FieldGaussian(**COLUMNS, family="censored-student-t").fit(RAIN.assign(v=-1.0))
    with pytest.raises(ExfamError, match="`root` must be a whole number from 1 to 6, got 7"):
        CensoredStudentT(root=7)
