"""Laws of the times of events: exact likelihoods, known rates, ties, ends, clocks."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

from events.event_cases import COLUMNS, FRAME, HAWKES, attentive, excited, fitted, renewals
from exfam import DataError, EventEFA
from exfam.efa.events.event_bins import (
    N_BINS,
    base_survival,
    bin_shares,
    corrected_hazard_ratio,
    corrected_survival,
    shares_of_bins,
)
from exfam.efa.events.event_clock import EventClock, offset_changes
from exfam.efa.events.event_forward import live_streams
from exfam.efa.events.event_pace import StreamPace
from exfam.efa.events.fit_time import held_out_mixture
from exfam.efa.events.wait_processes import IntensityProcess, log_of_rest

SOME = excited()[excited()["stream"] == 3]


def only_process(model):
    (process,) = model.event_model_.time.mixture.processes
    return process


def test_a_poisson_process_has_the_likelihood_of_its_rate():
    frame = excited()
    model = EventEFA(**HAWKES, time_base="poisson").fit(frame)
    n, time = len(frame), frame["stream"].nunique() * 60.0
    assert only_process(model).theta[0] == pytest.approx(n / time, rel=1e-5)
    total = n * np.log(n / time) - n
    assert model.score(frame) == pytest.approx(total / n, rel=1e-6)
    assert model.score(frame, per="time") == pytest.approx(total / time, rel=1e-6)
    sums = model.log_prob(frame).sum() + model.log_survival(frame).sum()
    assert sums == pytest.approx(total, rel=1e-6)


def test_rates_that_go_by_age_are_found_and_integrate_to_their_survival():
    """The second half of each stream has a fifth of the rate of the first one."""
    random = np.random.default_rng(0)
    kept = [np.sort(random.uniform(0, 6, random.poisson(30))) for _ in range(24)]
    kept = [t[(t < 3) | (random.random(len(t)) < 0.2)] for t in kept]
    stream = np.repeat(np.arange(24), [len(t) for t in kept])
    columns = {"stream": stream, "time": np.concatenate(kept), "begin": 0.0, "end": 6.0}
    frame = pd.DataFrame(columns)
    model = EventEFA(**HAWKES).fit(frame)
    process = only_process(model)
    assert model.event_model_.time.mixture.names == ("poisson by age",)
    heights = process.theta[2:]
    assert len(process.steps) == len(heights) == 12 and heights[0] > 3 * heights[-1]
    live = live_streams(model.event_model_, model._given(frame)[1])
    wait = np.linspace(0, 8, 8001)
    state = replace(live.states.processes[0][np.zeros(8001, dtype=int)], age=np.full(8001, 0.5))
    numeric = integrate.trapezoid(np.exp(process.log_hazard(state, wait)), wait)
    assert -process.log_survival(state, wait)[-1] == pytest.approx(numeric, rel=1e-3)


def test_a_hawkes_process_has_the_likelihood_of_its_intensity():
    model = EventEFA(**HAWKES, time_base="hawkes", decays=[1.0, 6.0]).fit(excited())
    process, moments = only_process(model), SOME["time"].to_numpy()

    def intensity(t):
        past = moments[moments < t]
        return process.theta[0] + sum(
            theta * rate * np.exp(-rate * (t - past)).sum()
            for theta, rate in zip(process.theta[2:], process.rates, strict=True)
        )

    ends = np.concatenate([[0.0], moments, [60.0]])
    pieces = [
        integrate.quad(intensity, low + 1e-12, high, epsabs=1e-11)[0]
        for low, high in zip(ends[:-1], ends[1:], strict=True)
    ]
    expected = sum(np.log(intensity(t)) for t in moments) - sum(pieces)
    ours = model.log_prob(SOME).sum() + model.log_survival(SOME).sum()
    assert ours == pytest.approx(expected, rel=1e-6)
    assert model.log_survival(SOME)[0] == pytest.approx(-pieces[-1], rel=1e-6)


def test_known_rates_are_within_their_intervals():
    """Of all items together the process is a mixture; of one item it is the model itself."""
    frame = excited(12, 150.0, 4)
    frame = frame[frame["item"] == "item 1"]  # excited by item 0 as well: compare its likelihood
    model = EventEFA(**HAWKES, time_base="hawkes", decays=[3.0]).fit(frame)
    process = only_process(model)
    numbers = np.array([process.theta[0], process.theta[2]])

    def nats(changed):
        tried = IntensityProcess(
            np.array([changed[0], 0.0, changed[1]]), process.rates, process.log_weight,
            process.slope, process.frailty,
        )  # fmt: skip
        streams = model._given(frame)[1]
        return model.event_model_.time.clocked(streams).log_probs(tried).sum()

    def second(axis, step=1e-3):
        away = np.eye(2)[axis] * step
        return (nats(numbers + away) - 2 * nats(numbers) + nats(numbers - away)) / step**2

    assert nats(numbers) >= max(nats(numbers * 1.05), nats(numbers * 0.95))
    error = np.sqrt([-1 / second(0), -1 / second(1)])
    # By itself and by item 0: 0.3 of its own, and a base raised by what item 0 adds.
    share = numbers[1]
    assert abs(share - 0.3) < 4 * error[1] + 0.1 and 0.2 < numbers[0] < 0.45


@pytest.mark.parametrize("unit", [1e-9, 8.64e13])
def test_units_of_time_do_not_matter(unit):
    random = np.random.default_rng(5)
    waits = random.gamma(0.7, 1.0, size=(24, 8)) * np.exp(random.normal(size=24))[:, None]
    frame = {"s": np.repeat(np.arange(24), 8), "t": waits.cumsum(1).ravel()}
    scaled = frame | {"t": frame["t"] * unit}
    columns = {"group": "s", "time": "t", "attention": "none", "progress": False}
    one, other = (EventEFA(**columns).fit(own) for own in (frame, scaled))
    assert other.score(scaled) + np.log(unit) == pytest.approx(one.score(frame), abs=1e-4)
    found, expected = other.predict(scaled, end=2e3 * unit), one.predict(frame, end=2e3)
    np.testing.assert_allclose(found.high / unit, expected.high, rtol=1e-3)


def test_waits_go_by_those_before_and_by_the_last_value():
    """Waits of streams of their own pace, longer after large values."""
    random = np.random.default_rng(2)
    pace, noise = random.normal(size=(40, 1)), 0.3 * random.normal(size=(40, 13))
    value = random.normal(size=(40, 13))
    waits = np.exp(pace + noise + np.roll(value, 1, axis=1))
    stream = np.repeat(np.arange(40), 13)
    frame = {"s": stream, "t": waits.cumsum(1).ravel(), "v": value.ravel()}
    columns = {"group": "s", "time": "t", "value": "v", "attention": "none", "progress": False}
    model = EventEFA(**columns, family="gaussian").fit(frame)
    process = only_process(model)
    assert process.slope[-1] == pytest.approx(1.0, abs=0.15)
    assert model.choices_["time"]["chosen"] > model.choices_["time"]["renewal"] + 0.3
    # Drawn events are followed by what is said of them as if they had been observed.
    live = live_streams(model.event_model_, model._given(frame)[1])
    time, rows = live.time + 1.5, np.arange(40)
    live.add(rows, time, np.zeros(40, dtype=np.int64), {"v": np.full(40, 0.7)})
    last = {"s": rows, "t": time, "v": np.full(40, 0.7)}
    later = {name: np.concatenate([frame[name], own]) for name, own in last.items()}
    again = live_streams(model.event_model_, model._given(later)[1])
    half = np.full(40, np.log(0.5))
    np.testing.assert_allclose(live.wait_after(half, rows), again.wait_after(half, rows), rtol=1e-6)


def test_a_pace_makes_counts_negative_binomial():
    """A Poisson process with a gamma factor: the likelihood of a stream has a closed form."""
    model = EventEFA(**HAWKES, time_base="poisson").fit(excited())
    clocked = model.event_model_.time.clocked(model._given(excited())[1])
    mixture = replace(model.event_model_.time.mixture, pace=StreamPace(shape=2.5))
    spells, theta = clocked.spells, only_process(model).theta[0]
    nats = np.bincount(spells.stream, weights=mixture.log_probs(clocked))
    n, gone, a = np.bincount(spells.stream, weights=spells.event >= 0), theta * 60.0, 2.5
    expected = n * np.log(theta) + a * np.log(a) - (a + n) * np.log(a + gone)
    np.testing.assert_allclose(nats, expected + gammaln(a + n) - gammaln(a), rtol=1e-9)
    forgets = StreamPace(shape=2.5, memory=0.7)
    seen = forgets.seen(np.zeros(3, dtype=np.int64), np.array([-1.0, -3.0, -0.5]))
    np.testing.assert_allclose(seen, [[0, 0], [1, 1], [1.7, 3.7]])


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_streams_have_a_pace_of_their_own_where_they_differ(spread):
    random = np.random.default_rng(7)
    factor = np.exp(spread * random.normal(size=80))[:, None]
    waits = random.gamma(3.0, 1.0, size=(80, 14)) / factor
    frame = {"s": np.repeat(np.arange(80), 14), "t": waits.cumsum(1).ravel()}
    model = EventEFA(group="s", time="t", attention="none", progress=False).fit(frame)
    mixture, nats = model.event_model_.time.mixture, model.choices_["time"]
    # By a factor of all waits, or by the waits before.
    assert set(mixture.names) <= {"renewal", "renewal by past waits"}
    assert not (mixture.pace.is_on and spread == 0)
    assert (nats["chosen"] > nats["renewal"] + 0.02) == (spread > 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_simplest_process_is_kept_unless_another_is_ahead(seed):
    drawn = renewals(40, shape=1.0, scale=1.0, end=20.0, seed=seed)  # a Poisson process
    mixture = EventEFA(**HAWKES).fit(drawn.columns()).event_model_.time.mixture
    assert mixture.names == ("poisson",) and not mixture.pace.is_on


def test_a_mixture_is_judged_by_shares_of_other_folds():
    random = np.random.default_rng(0)
    stream, first = np.repeat(np.arange(60), 20), random.normal(size=1200)
    # Two that are right in turns are better together.
    apart = np.where(random.random(1200) < 0.5, 2.0, -2.0)
    mixed = held_out_mixture(np.stack([first + apart, first - apart]), stream)
    assert mixed.mean() > first.mean() + 0.5
    # What one stream alone is likely under does not help that stream.
    own = np.where(stream == 3, first + 5.0, first - 50.0)
    assert held_out_mixture(np.stack([first, own]), stream)[stream == 3].mean() < 1.0


def test_a_renewal_process_has_the_likelihood_of_its_waits():
    drawn = renewals(20, shape=2.0, scale=1.5, end=40.0, seed=0)
    frame = pd.DataFrame(drawn.columns())
    model = EventEFA(**HAWKES, time_base="renewal").fit(frame)
    process, one = only_process(model), frame[frame["stream"] == 2]
    nats = model.log_prob(one)
    waits = np.diff(one["time"])
    share, scale = np.exp(process.log_share), np.exp(process.log_scale)
    parts = [stats.lognorm(s, scale=np.exp(m)) for m, s in zip(process.mean, scale, strict=True)]
    density = sum(p * part.pdf(waits) for p, part in zip(share[0], parts, strict=True))
    np.testing.assert_allclose(nats[1:], np.log(density), rtol=1e-6)
    first = sum(p * part.pdf(one["time"].iloc[0]) for p, part in zip(share[-1], parts, strict=True))
    assert nats[0] == pytest.approx(np.log(first), rel=1e-6)
    rest = 40.0 - one["time"].iloc[-1]
    survival = sum(p * part.sf(rest) for p, part in zip(share[0], parts, strict=True))
    assert model.log_survival(one)[0] == pytest.approx(np.log(survival), rel=1e-6)
    true = stats.weibull_min(2.0, scale=1.5).logpdf(waits).mean()
    assert abs(nats[1:].mean() - true) < 0.08
    levels = model.calibration(frame)
    assert levels.distance < 1.5 * levels.even and levels.low <= levels.distance < levels.high


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_probabilities_of_cells_sum_to_one(model_of):
    model = model_of()
    past = FRAME[FRAME["patient"] == "p4"]
    last, n_cells = past["when"].max(), 60
    streams = [
        pd.concat([past, past.iloc[[-1]].assign(when=last + 0.25 * step, level=np.nan)])
        for step in range(n_cells)
    ]
    frame = pd.concat(streams, keys=range(n_cells), names=["cell"]).reset_index("cell")
    parts = model.log_prob_parts(frame.drop(columns="patient").rename(columns={"cell": "patient"}))
    total = np.exp(parts["time"].reshape(n_cells, -1)[:, -1]).sum()
    rest = np.exp(model.log_survival(past, end=last + 0.25 * (n_cells - 1))[0])
    assert total + rest == pytest.approx(1.0, rel=1e-9) and 0 < rest < 0.9 and total > 0.1


def test_a_later_end_is_less_likely_and_none_is_nothing():
    model, past = fitted(), FRAME[FRAME["patient"] == "p4"]
    assert model.log_survival(past) == 0
    last = past["when"].max()
    nats = [model.log_survival(past, end=last + more)[0] for more in (0.25, 1.0, 5.0)]
    assert 0 > nats[0] > nats[1] > nats[2]


def test_ties_without_resolution_are_refused_unless_training_had_some():
    exact = {**COLUMNS, "resolution": None, "value": None}
    apart = FRAME.drop_duplicates(["patient", "when"])
    with pytest.raises(DataError, match="`time` must not have ties, which training had none of"):
        EventEFA(**exact).fit(apart).score(FRAME)
    model = EventEFA(**exact).fit(FRAME)
    ties = FRAME["when"].eq(FRAME["when"].shift()) & FRAME["patient"].eq(FRAME["patient"].shift())
    nats = model.log_prob_parts(FRAME)["time"]
    assert (nats[ties] < 0).all() and np.isfinite(nats[ties]).all()


@pytest.mark.parametrize("zone", ["Europe/Vienna", "America/New_York"])
def test_the_clock_runs_on_where_summer_begins_and_ends(zone):
    speed = np.random.default_rng(0).uniform(0.2, 2.0, size=168)
    first, last = np.datetime64("2023-01-01"), np.datetime64("2024-12-31")
    ends = [(day - np.datetime64("1970-01-01")) / np.timedelta64(1, "D") for day in (first, last)]
    changes, offsets = offset_changes(zone, *ends)
    assert len(changes) == 4 and len(set(np.round(np.diff(offsets) * 24, 9))) == 2
    clock = EventClock(speed / speed.mean(), changes, offsets)
    for change in changes:
        local = change + offsets[np.searchsorted(changes, change)]
        assert abs(local * 24 - round(local * 24)) < 1e-9  # on the hour
        time = np.linspace(change - 1, change + 1, 200_001)
        reading = clock.reading(time)
        assert (np.diff(reading) > 0).all()
        middle = (time[1:] + time[:-1]) / 2
        numeric = np.cumsum(np.exp(clock.log_speed(middle)) * np.diff(time))
        np.testing.assert_allclose(reading[1:] - reading[0], numeric, atol=2e-4)
        np.testing.assert_allclose(clock.moment(reading), time, atol=1e-9)
    hours = clock.hour(changes[0] + np.array([-0.5, 0.5]) / 24)
    assert hours[1] - hours[0] == 2  # an hour is left out
    hours = clock.hour(changes[1] + np.array([-0.5, 0.5]) / 24)
    assert hours[1] == hours[0]  # one comes twice


def test_hours_are_learned_and_likelihoods_stay_exact():
    random, plain = np.random.default_rng(3), {"time_base": "poisson", "attention": "none"}
    moments = np.sort(random.uniform(19_000, 19_200, size=4000))
    busy = ((moments * 24) % 24 > 8) & ((moments * 24) % 24 < 16)
    frame = {"t": moments[busy | (random.random(4000) < 0.2)]}
    model = EventEFA(time="t", time_zone="UTC", **plain).fit(frame)
    clock, process = model.event_model_.time.clock, only_process(model)
    speed = clock.speed.reshape(7, 24).mean(0)
    assert speed[9:15].min() > 2 * speed[[2, 3, 20, 21]].max()
    assert model.score(frame) > EventEFA(time="t", **plain).fit(frame).score(frame)
    night = speed[[0, 1, 2, 3]].mean() / speed[9:15].mean()
    assert 0.14 < night < 0.26  # 0.2, though few events are there
    dated = {"t": (frame["t"] * 86_400e6).astype("int64").astype("datetime64[us]")}
    of_dates = EventEFA(time="t", **plain).fit(dated)  # of UTC unless another zone is named
    assert of_dates.score(dated) == pytest.approx(model.score(frame), abs=1e-4)
    low, high = frame["t"][10], frame["t"][11]
    numeric = integrate.quad(
        lambda t: float(np.exp(clock.log_speed(np.array([t]))[0])), low, high, limit=500
    )[0]
    expected = (
        np.log(process.theta[0]) + clock.log_speed(np.array([high]))[0] - process.theta[0] * numeric
    )
    assert model.log_prob(frame)[11] == pytest.approx(expected, rel=1e-6)


def test_a_reshaped_density_integrates_to_one_and_is_the_base_at_the_start():
    random = np.random.default_rng(0)
    shares = bin_shares(random.normal(size=(50, N_BINS)))
    level = np.sort(random.uniform(size=50))
    corrected = corrected_survival(level, shares)
    np.testing.assert_allclose(base_survival(corrected, shares), level, atol=1e-12)
    np.testing.assert_allclose(corrected_survival(level, bin_shares(np.zeros_like(shares))), level)
    step = 1e-7
    slope = (corrected_survival(level + step, shares) - corrected) / step
    point = shares_of_bins(level, level, np.ones(50, dtype=bool))
    np.testing.assert_allclose((shares * point).sum(1), slope, rtol=1e-5)
    ratio = corrected_hazard_ratio(level, shares)
    np.testing.assert_allclose(ratio, slope * level / corrected, rtol=1e-5)
    high = level * random.uniform(size=50)
    cells = shares_of_bins(level, high, np.zeros(50, dtype=bool))
    mass = (shares * cells).sum(1) * (level - high)
    np.testing.assert_allclose(mass, corrected - corrected_survival(high, shares), rtol=1e-9)


def test_logs_of_rests_are_exact_near_both_ends():
    x = np.array([-1e-12, -1e-3, -0.7, -5.0, -800.0])
    exact = np.log1p(-np.exp(x))
    np.testing.assert_allclose(log_of_rest(x)[1:], exact[1:], rtol=1e-9)
    assert log_of_rest(x)[0] == pytest.approx(np.log(1e-12), rel=1e-9)
