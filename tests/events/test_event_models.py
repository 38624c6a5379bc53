"""Laws of models of events: no leaks, sums, draws, explanations, folders, errors."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from events.event_cases import COLUMNS, FRAME, HAWKES, PROCESS, attentive, excited, fitted
from exfam import DataError, EventEFA, ExfamError, Groups, SupportError, load
from exfam.efa.events import event_forward
from exfam.efa.events.event_bins import corrected_survival
from exfam.simulators import HawkesProcess, simulate_hawkes

PARTS = ("time", "item", "level")
# A test in the middle of a stream, at a time of its own.
TEST = next(
    row
    for row in range(4, len(FRAME) - 3)
    if FRAME["code"][row] == "test"
    and FRAME["patient"][row - 1] == FRAME["patient"][row + 2]
    and FRAME["when"][row - 1] < FRAME["when"][row]
)


def changed(column, row, value):
    return FRAME.assign(**{column: np.where(np.arange(len(FRAME)) == row, value, FRAME[column])})


def test_parts_add_up():
    model = fitted()
    parts, scores = model.log_prob_parts(FRAME), model.score_parts(FRAME)
    assert tuple(parts) == tuple(scores) == PARTS
    np.testing.assert_allclose(model.log_prob(FRAME), np.nansum([*parts.values()], axis=0))
    assert model.score(FRAME) == pytest.approx(model.log_prob(FRAME).mean())
    first = ~FRAME["patient"].duplicated().to_numpy()
    np.testing.assert_array_equal(np.isnan(parts["time"]), first)
    np.testing.assert_array_equal(np.isnan(parts["level"]), FRAME["level"].isna())
    assert np.isfinite(parts["item"]).all()


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_no_part_sees_itself_or_what_comes_later(model_of):
    model, row = model_of(), TEST
    parts = model.log_prob_parts(FRAME)
    later = (np.arange(len(FRAME)) > row) & FRAME["patient"].eq(FRAME["patient"][row]).to_numpy()
    assert later.sum() > 1
    # What an event's value, item and time move: nothing before them, and something after.
    moves = {
        "level": (("level", FRAME["level"][row] + 2.0), ("level",)),
        "item": (("code", "drug"), ("item", "level")),
    }
    for (column, value), own in moves.values():
        other = model.log_prob_parts(changed(column, row, value))
        for name in PARTS:
            differs = ~np.isclose(other[name], parts[name], rtol=1e-9, equal_nan=True)
            assert not differs[~later & (np.arange(len(FRAME)) != row)].any()
            assert differs[row] == (name in own), (column, name)
    after = model.log_prob_parts(changed("code", row, "drug"))
    assert not np.isclose(after["item"][later], parts["item"][later]).all()
    moved = FRAME.assign(when=FRAME["when"] + 5.0 * later)
    other = model.log_prob_parts(moved)
    for name in PARTS:
        np.testing.assert_allclose(other[name][~later], parts[name][~later], rtol=1e-9)
    assert not np.isclose(other["time"][later], parts["time"][later], equal_nan=True).all()
    ends = model.log_prob_parts(FRAME.drop(index=np.flatnonzero(later)))
    for name in PARTS:
        np.testing.assert_allclose(ends[name], parts[name][~later], rtol=1e-9)


def test_items_sum_to_one_given_the_time():
    model, row = fitted(), TEST
    codes = model.vocabulary_["item"]
    chances = [np.exp(model.log_prob_parts(changed("code", row, c))["item"][row]) for c in codes]
    assert sum(chances) == pytest.approx(1.0, abs=1e-6) and min(chances) > 0


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_groups_order_and_company_change_nothing(model_of):
    model, nats = model_of(), model_of().log_prob(FRAME)
    turned = FRAME.iloc[::-1].assign(n=np.arange(len(FRAME))[::-1])
    turned = turned.sort_values(["when", "n"], kind="stable")
    np.testing.assert_allclose(model.log_prob(turned), nats[turned["n"]], rtol=1e-9)
    own = (FRAME["patient"] == "p7").to_numpy()
    np.testing.assert_allclose(model.log_prob(FRAME[own]), nats[own], rtol=1e-6)
    named = {"group": "patient", "item": "code", "value": "level", "order": "when"}
    groups = Groups.from_frame(FRAME, **named, position="when")
    own_rows = groups.source_row[groups.elements()]
    np.testing.assert_allclose(model.log_prob(groups), nats[own_rows], rtol=1e-9)


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_folders_keep_all(tmp_path, model_of):
    model = model_of()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_prob(FRAME), model.log_prob(FRAME))
    assert again.choices_ == model.choices_ and again.predict(FRAME).time.tolist()
    drawn = [m.sample(FRAME, steps=3, seed=2).to_frame("pandas") for m in (again, model)]
    pd.testing.assert_frame_equal(*drawn)


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_draws_go_on_as_they_are_said_to(model_of):
    model, past = model_of(), FRAME[FRAME["patient"] == "p4"]
    n = 1000
    draws = model.sample(past, steps=1, n=n, seed=1)
    last = past["when"].max()
    predicted = model.predict(past, interval=0.8)
    tied = (draws.time == last).mean()
    assert abs(tied - predicted.tie[0]) < 4 * np.sqrt(0.25 / n)
    for level, time in ((0.1, predicted.low), (0.5, predicted.time), (0.9, predicted.high)):
        below, at_most = (draws.time < time[0] - 1e-9).mean(), (draws.time <= time[0] + 1e-9).mean()
        slack = 4 * np.sqrt(level * (1 - level) / n)
        assert below - slack < level < at_most + slack
    shares = np.array([(draws.item == code).mean() for code in model.vocabulary_["item"]])
    assert np.abs(shares - predicted.item_proba[0]).max() < 0.08
    assert predicted.item_proba.sum() == pytest.approx(1.0, abs=1e-6)
    is_test = draws.item == "test"
    assert np.isfinite(draws.values["level"][is_test]).all()
    assert np.isnan(draws.values["level"][~is_test]).all()


def test_counts_of_a_poisson_process_are_poisson():
    frame = excited()
    model = EventEFA(**HAWKES, time_base="poisson").fit(frame)
    rate = len(frame) / (12 * 60.0)
    counts = model.predict_count(frame, 5.0, n_draws=300, seed=0)
    assert counts.draws.mean() == pytest.approx(5 * rate, rel=0.05)
    assert counts.draws.var() == pytest.approx(5 * rate, rel=0.15)
    inside = (counts.draws >= counts.low[:, None]) & (counts.draws <= counts.high[:, None])
    assert inside.mean() >= 0.9
    draws = model.sample(frame, window=5.0, n=300, seed=0).to_frame("pandas")
    assert len(draws) == counts.draws.sum() and draws["time"].between(60, 65).all()


def test_levels_of_counts_are_even_where_the_model_is_right():
    process = HawkesProcess(np.array([1.5]), np.zeros((1, 1)), decay=1.0)
    frame = pd.DataFrame(simulate_hawkes(process, 150, end=12.0, seed=3).columns())
    model = EventEFA(**HAWKES, time_base="poisson").fit(frame)
    found = model.count_calibration(frame, 4.0, n_draws=100, n_windows=250)
    assert set(found.moment) == {4.0, 8.0} and len(found.to_frame("pandas")) == 250
    number = (frame["time"] // 4).astype(int)
    own = frame.groupby(["stream", number]).size()
    np.testing.assert_array_equal(
        found.count, own.reindex(zip(found.group, found.moment // 4, strict=True), fill_value=0)
    )
    level = (found.below + found.at_most) / 2
    assert abs(level.mean() - 0.5) < 0.08 and found.inside.mean() > 0.88
    assert (found.below <= found.at_most).all()
    assert set(model.count_calibration(frame, 4.0, n_draws=2, since=5).moment) == {8.0}
    with pytest.raises(DataError, match="`X` must hold a stream that is observed for two windows"):
        model.count_calibration(frame, 7.0)


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_streams_stand_at_a_moment_as_if_nothing_came_later(model_of):
    model = model_of()
    streams = model._given(FRAME)[1]
    stream = np.repeat(np.flatnonzero(streams.stop - streams.start > 3)[:4], 2)
    last = streams.start[stream] + np.tile([1, 3], 4)
    moment = streams.time[last] + 0.5
    live = event_forward.live_at(model.event_model_, streams, (stream, last), moment)
    rows = np.arange(len(last))
    for row, (end, when) in enumerate(zip(last, moment, strict=True)):
        past = FRAME[streams.groups.group_names[stream[row]] == FRAME["patient"]]
        _, own = model._given(past.head(end + 1 - streams.start[stream[row]]), end=when - 0.25)
        alone = event_forward.live_streams(model.event_model_, own)
        assert live.chance_of_tie()[row] == pytest.approx(alone.chance_of_tie()[0])
        half, first = np.log([0.5]), np.zeros(1, dtype=np.int64)
        waits = live.wait_after(half, rows[[row]]), alone.wait_after(half, first)
        np.testing.assert_allclose(*waits, rtol=1e-6)
        for name, column in vars(alone.values["level"]).items():
            np.testing.assert_allclose(getattr(live.values["level"], name)[row], column[0])


def test_the_base_is_left_as_it_is():
    base, model = attentive().without_attention(), attentive()
    assert base.event_model_.corrections == () and len(model.event_model_.corrections) == 3
    again = base.log_prob_parts(FRAME)
    assert not np.isclose(again["item"], model.log_prob_parts(FRAME)["item"]).all()
    alone = fitted().without_attention().log_prob_parts(FRAME)
    for name in ("item", "level"):
        np.testing.assert_allclose(again[name], alone[name])


@pytest.mark.parametrize("model_of", [fitted, attentive])
def test_sources_of_a_rate_add_up_to_it(model_of):
    model, row = model_of(), TEST
    one = model.explain(FRAME, rows=[row], top=100)
    parts = model.event_model_.time
    clocked = parts.clocked(model._given(FRAME)[1])
    spell = np.flatnonzero(clocked.spells.event == row)
    states = parts.mixture.states(clocked)[spell]
    wait, step = clocked.high[spell], 1e-6
    logs = np.array([parts.mixture.log_survival(states, wait + away)[0] for away in (-step, step)])
    shares = parts.shares(
        clocked.spells[clocked.spells.event == row], parts.logits(clocked.streams)
    )
    if shares is not None:
        logs = np.log(corrected_survival(np.exp(logs), np.repeat(shares, 2, axis=0)))
    assert one.rate.sum() == pytest.approx(-(logs[1] - logs[0]) / (2 * step), rel=1e-4)
    events = one.source == "event"
    assert (FRAME["patient"][one.source_row[events]] == FRAME["patient"][row]).all()
    assert (one.source_row[events] < row).all() and (one.age[events] >= wait[0] - 1e-9).all()
    at_end = model.explain(FRAME)
    assert set(at_end.group) == set(FRAME["patient"]) and (at_end.row == -1).all()


def test_excitation_is_found_where_it_is():
    frame = excited()
    model = EventEFA(**HAWKES, item="item").fit(frame)
    nats = model.choices_["time"]
    assert nats["hawkes"] > nats["poisson"] and nats["chosen"] >= nats["hawkes"] - 1e-9
    levels = EventEFA(**HAWKES, time_base="hawkes", decays=[PROCESS.decay]).fit(frame)
    assert levels.calibration(frame).distance < 1.5 * levels.calibration(frame).even


def test_attention_finds_what_the_base_cannot_see():
    """The wait after an event alternates between short and long: it goes by the wait before."""
    random = np.random.default_rng(0)
    waits = np.exp(np.where(np.arange(1800) % 2, -2.0, 1.0) + 0.3 * random.normal(size=1800))
    frame = {"s": np.repeat(np.arange(60), 30), "t": waits.reshape(60, 30).cumsum(1).ravel()}
    model = EventEFA(group="s", time="t", time_base="renewal", progress=False).fit(frame)
    assert model.gain_.gate > 0 and model.gain_.low > 0.05 and "Attention on times" in repr(model)
    base = model.without_attention()
    assert model.score(frame) > base.score(frame) + 0.1 and base.gain_ is None
    shuffled = {**frame, "t": random.exponential(size=(60, 30)).cumsum(1).ravel()}
    closed = EventEFA(group="s", time="t", time_base="renewal", progress=False).fit(shuffled)
    assert closed.gain_.gate == 0 and closed.event_model_.time.correction is None


def test_attention_finds_items_by_values_and_values_by_items():
    """The next item goes by the last value, and a value by the last item: no base sees either."""
    random = np.random.default_rng(1)
    noise, n = random.normal(size=(60, 24)), 60 * 24
    item, value = np.zeros((60, 24), dtype=int), noise.copy()
    for step in range(1, 24):
        item[:, step] = value[:, step - 1] > item[:, step - 1]
        value[:, step] = noise[:, step] + 2 * item[:, step - 1]
    frame = {"s": np.repeat(np.arange(60), 24), "t": np.tile(np.arange(24.0), 60)}
    frame |= {"i": item.ravel(), "v": value.ravel()}
    columns = {"group": "s", "time": "t", "item": "i", "value": "v", "progress": False}
    model = EventEFA(**columns, time_base="poisson", family="gaussian").fit(frame)
    assert list(model.gains_) == ["time", "item", "v"]
    assert model.gains_["item"].low > 0.1 and model.gains_["v"].low > 0.01
    assert "Attention on items added" in repr(model) and "Attention on v added" in repr(model)
    base = model.without_attention()
    parts, alone = model.score_parts(frame), base.score_parts(frame)
    assert parts["item"] > alone["item"] + 0.1 and parts["v"] > alone["v"] + 0.02
    assert n == len(model.log_prob(frame)) and base.gains_ == {}


def test_values_go_by_the_wait_and_fade_with_it():
    """A value is the log of the wait, and the last one as far as the wait has not made it fade."""
    random = np.random.default_rng(2)
    wait, noise = random.exponential(size=(30, 20)), random.normal(size=(30, 20))
    value, mean = noise.copy(), np.zeros((30, 20))
    for step in range(1, 20):
        mean[:, step] = np.log(wait[:, step]) + np.exp(-wait[:, step]) * value[:, step - 1]
        value[:, step] += mean[:, step]
    frame = {"s": np.repeat(np.arange(30), 20), "t": wait.cumsum(1).ravel(), "v": value.ravel()}
    columns = {"group": "s", "time": "t", "value": "v", "attention": "none", "progress": False}
    model = EventEFA(**columns, time_base="poisson", family="gaussian").fit(frame)
    nats, truth = model.log_prob_parts(frame)["v"], stats.norm.logpdf(noise.ravel())
    assert nats.mean() > truth.mean() - 0.05
    assert model.event_model_.values[0].times is not None
    shuffled = frame | {"v": random.permutation(frame["v"])}
    other = EventEFA(**columns, time_base="poisson", family="gaussian").fit(shuffled)
    assert other.event_model_.values[0].times is None


def test_validation_may_be_given_and_streams_need_no_names():
    frame = excited()
    held_out = frame[frame["stream"] >= 9]
    model = EventEFA(**HAWKES, time_base="hawkes").fit(
        frame[frame["stream"] < 9], validation=held_out
    )
    assert model.data_counts_["streams"] == 12
    one = frame[frame["stream"] == 0].drop(columns="stream")
    alone = EventEFA(**{**HAWKES, "group": None}, time_base="poisson").fit(one)
    assert alone.score(one) > -5
    assert alone.predict(one).time[0] > 60


def test_dates_come_back_as_dates():
    day = np.datetime64("2024-03-01T08:00") + (FRAME["when"] * 1440).astype("timedelta64[m]")
    dated = FRAME.assign(when=day)
    model = EventEFA(**COLUMNS, time_zone="Europe/Vienna").fit(dated)
    found = model.predict(dated, end="2024-06-20").to_frame("pandas")
    assert (found["time"] > np.datetime64("2024-06-20")).all()
    assert (found["low"] <= found["time"]).all() and (found["time"] <= found["high"]).all()


@pytest.mark.parametrize(
    ("parameters", "frame", "match"),
    [
        ({"time": None}, FRAME, "`time` must name the column of times"),
        ({"time": None}, Groups(start=[0], stop=[1], item=[0]), "must have times as `position`"),
        ({"group": None, "time": "x"}, FRAME, "`time` must name a column of the frame, got 'x'"),
        ({"time_zone": "Mars"}, FRAME, "`time_zone` must be a zone that this machine knows"),
        ({"decays": [1.0, -1.0]}, FRAME, "`decays` must be finite rates > 0"),
        ({"family": "poisson"}, FRAME, "`level` must be"),
        ({"begin": "when"}, FRAME, "`time` must name every column once, got 'when' 2 times"),
        (
            {"begin": "own"},
            FRAME.assign(own=-FRAME["when"]),
            "`begin` must be the same in all rows of a group",
        ),
        ({"begin": "late"}, FRAME.assign(late=99.0), "`begin` must be before every time"),
        ({"end": "soon"}, FRAME.assign(soon=1.0), "`end` must be at or after every time"),
    ],
)
def test_bad_fits_are_refused(parameters, frame, match):
    with pytest.raises(ExfamError, match=match):
        EventEFA(**{**COLUMNS, **parameters}).fit(frame)


def test_bad_questions_are_refused(monkeypatch):
    model = fitted()
    with pytest.raises(ExfamError, match="`item` must be given, as it was in training"):
        model.score(Groups(start=[0], stop=[2], position=np.array([0.0, 1.0]), ordered=True))
    plain = Groups(start=[0], stop=[2], item=[0, 1], position=np.array([0.0, 1.0]), ordered=True)
    with pytest.raises(ExfamError, match="`value` must be given, as it was in training"):
        model.score(plain)
    back = plain.with_(position=np.array([1.0, 0.0]), values={"level": np.zeros(2)})
    with pytest.raises(DataError, match="`time` must not go back within a group"):
        model.score(back)
    two = back.with_(position=np.zeros((2, 2)))
    with pytest.raises(DataError, match="`position` of `X` must have 1 columns"):
        model.score(two)
    with pytest.raises(ExfamError, match="`end` must be a finite number, a date, or text"):
        model.score(FRAME, end="soon")
    with pytest.raises(DataError, match="`rows` must be rows of events whose time is predicted"):
        model.explain(FRAME, rows=[0])
    with pytest.raises(DataError, match="`rows` must be numbers of rows, from 0, got 'x'"):
        model.explain(FRAME, rows=["x"])
    with pytest.raises(ExfamError, match=r"`window` must be at most 1e\+20"):
        model.predict_count(FRAME, 1e21)
    with pytest.raises(DataError, match="a group with two different times"):
        EventEFA(**COLUMNS).fit(FRAME.drop_duplicates("patient"))
    with pytest.raises(ExfamError, match="at least one event that is predicted to score"):
        model.score(FRAME.iloc[:1], per="time")
    with pytest.raises(DataError, match="a wait that ended in an event, got none"):
        model.calibration(FRAME.iloc[:1])
    monkeypatch.setattr(event_forward, "MOST_DRAWN", 1000)
    with pytest.raises(ExfamError, match="at most 1,000 drawn events"):
        EventEFA(**HAWKES, time_base="poisson").fit(excited()).predict_count(excited(), 1e5)
    with pytest.raises(SupportError, match="`level` must be"):
        EventEFA(**{**COLUMNS, "family": "bernoulli"}).fit(FRAME)


def test_streams_without_events_are_skipped():
    position = np.array([0.0, 1.0, 3.0])
    groups = Groups(start=[0, 2, 2], stop=[2, 2, 3], position=position, ordered=True)
    model = EventEFA(time_base="poisson").fit(groups)
    assert np.isfinite(model.score(groups)) and model.log_survival(groups).tolist() == [0, 0, 0]
    with pytest.raises(ExfamError, match="`X` must have an event in every group, got one without"):
        model.predict(groups)
    with pytest.raises(DataError, match="`X` must have at least one event, got none"):
        EventEFA().fit(Groups(start=[0], stop=[0], position=np.zeros(0), ordered=True))


def test_simulators_refuse_what_grows_without_end():
    with pytest.raises(ExfamError, match="`excitation` must have a largest eigenvalue below 1"):
        HawkesProcess(np.ones(1), np.ones((1, 1)), decay=1.0)
