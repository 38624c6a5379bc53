"""Answers about stations are the model's own."""

import json

import numpy as np
import pandas as pd
import pytest

from exfam import ExfamError, FieldEFA, FieldRidge, station_plan
from exfam.explorer.views.stations import StationsView
from explorer.explored import FIELD, field_model, maps_of_stations

TIME = 40


@pytest.fixture(scope="module")
def view():
    return StationsView(field_model(), maps_of_stations())


def rows_until(time, **changed):
    """The rows of a map and of the one before it, some values of sites changed."""
    frame = maps_of_stations()
    times = np.sort(frame["time"].unique())[time - 1 : time + 1]
    rows = frame[frame["time"].isin(times)].reset_index(drop=True)
    now = rows["time"] == times[1]
    for site, value in changed.items():
        rows.loc[now & (rows["site"] == site.replace("_", " ")), "value"] = value
    return rows, now.to_numpy()


def by_name(answer):
    return {station["name"]: station for station in answer["stations"]}


@pytest.mark.parametrize(
    ("changes", "changed"), [({}, {}), ({"2": None, "5": 99.0}, {"site_3": np.nan, "site_6": 99.0})]
)
def test_each_station_is_as_the_others_say(view, changes, changed):
    answer = view.map({"time": TIME, "changes": changes})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    rows, now = rows_until(TIME, **changed)
    dist, stations = field_model().predict_dist(rows), by_name(answer)
    nats = dist.log_prob(rows["value"].to_numpy())
    low, high = dist.interval()
    for k in np.flatnonzero(now):
        own = stations[rows["site"][k]]
        wanted = [dist.center[k], dist.sd[k], low[k], high[k]]
        assert [own[name] for name in ("mean", "sd", "low", "high")] == pytest.approx(wanted)
        if np.isnan(rows["value"][k]):
            assert own["value"] is None and own["nats"] is None
        else:
            assert own["value"] == pytest.approx(rows["value"][k])
            assert own["nats"] == pytest.approx(nats[k], abs=1e-6)


def test_a_station_that_is_added_is_predicted_and_moves_the_others(view):
    at = [38.0, -100.0]
    before = by_name(view.map({"time": TIME}))
    silent = view.map({"time": TIME, "added": [{"at": at, "value": None}]})["stations"]
    rows, _ = rows_until(TIME)
    own = field_model().predict_dist(rows, at=[at])
    assert silent[-1]["mean"] == pytest.approx(own.center[-1]) and silent[-1]["site"] == -1
    assert [one["mean"] for one in silent[:-1]] == pytest.approx(
        [one["mean"] for one in before.values()]
    )
    hot = view.map({"time": TIME, "added": [{"at": at, "value": own.center[-1] + 40}]})["stations"]
    assert np.mean([a["mean"] - b["mean"] for a, b in zip(hot, silent, strict=True)][:-1]) > 0


def test_the_grid_is_what_the_model_says_of_its_places(view):
    grid = view.grid({"time": TIME, "changes": {"2": None}})
    rows, now = rows_until(TIME, site_3=np.nan)
    own = field_model().predict_dist(rows, at=view._places())
    of_map = slice(len(own) // 2, None)  # places of the map before come first
    assert grid["mean"] == pytest.approx(own.center[of_map])
    assert grid["sd"] == pytest.approx(own.sd[of_map])
    assert len(grid["mean"]) == grid["cells"] ** 2 and view.start()["has_grid"]


def test_what_the_others_add_makes_up_the_mean(view):
    answer = view.map({"time": TIME, "changes": {"1": None}})["stations"]
    for element in (0, 1):
        why = view.why({"time": TIME, "changes": {"1": None}, "element": element})
        added = sum(own["contribution"] for own in why["listened"])
        total = why["normal"] + added + why["rest"] + why["shift"]
        assert total == pytest.approx(answer[element]["mean"])
        assert {own["steps_back"] for own in why["listened"]} == {0, 1}
    alone = {"time": 0, "changes": {str(k): None for k in range(1, 8)}, "element": 0}
    assert view.why(alone)["listened"] == []


def test_courses_of_all_stations_are_predicted_at_once(monkeypatch):
    view = StationsView(field_model(), maps_of_stations())
    first = view.course({"site": 4, "time": 30})
    monkeypatch.setattr(type(view.model), "predict_dist", None)
    assert view.course({"site": 4, "time": 29}) == first
    assert view.course({"site": 5, "time": 30})["mean"] != first["mean"]


def test_a_course_has_the_values_and_what_was_said_without_them(view):
    course = view.course({"site": 4, "time": 30})
    frame = maps_of_stations()
    own = frame[frame["site"] == "site 5"].reset_index()
    dist = field_model().predict_dist(frame)
    assert course["time"] == list(range(60))
    assert course["mean"] == pytest.approx(dist.center[own["index"]], nan_ok=True)
    given = [np.nan if value is None else value for value in course["value"]]
    assert given == pytest.approx(own["value"].to_numpy(), nan_ok=True)


def test_the_next_station_is_the_plans(view):
    (first, *_) = view.plan({})["places"]
    plan = station_plan(field_model())
    assert first["at"] == plan.candidates[plan.best].tolist()
    assert first["share"] == pytest.approx(plan.share.max())


def test_models_that_know_no_other_places_have_no_grid():
    frame = maps_of_stations()
    view = StationsView(FieldRidge(**FIELD).fit(frame), frame)
    assert not view.start()["has_grid"] and len(view.map({"time": 3})["stations"]) == 8
    with pytest.raises(ExfamError, match="`time` must be of a model that predicts any place of a"):
        view.grid({"time": 3})


def test_networks_alone_cannot_be_taken_apart():
    frame = maps_of_stations()
    network = FieldEFA(**FIELD, base="none", max_epochs=1, progress=False).fit(frame)
    with pytest.raises(ExfamError, match="`element` cannot be explained exactly: this model has"):
        StationsView(network, frame).why({"time": 3, "element": 0})


def test_models_with_covariates_take_no_stations_more():
    frame = maps_of_stations().assign(height=lambda own: own["latitude"] * 10)
    model = FieldEFA(**FIELD, covariates="height", attention="none", progress=False).fit(frame)
    view = StationsView(model, frame)
    assert not view.start()["has_grid"] and view.map({"time": 3})["stations"]
    with pytest.raises(ExfamError, match="`added` must be empty for a model with covariates"):
        view.map({"time": 3, "added": [{"at": [38.0, -100.0], "value": 1.0}]})


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"time": 60}, r"`time` must be a whole number, 0 \.\. 59, got 60"),
        ({"time": 0, "changes": [1]}, r"`changes` must map sites to values, got \[1\]"),
        ({"time": 0, "changes": {"8": 1}}, r"`changes` must name sites, 0 \.\. 7, got '8'"),
        ({"time": 0, "changes": {"x": 1}}, r"`changes` must name sites, 0 \.\. 7, got 'x'"),
        ({"time": 0, "changes": {"1": "x"}}, "`value` must be a number or None, got 'x'"),
        ({"time": 0, "added": {}}, "`added` must be a list of at most 50 stations"),
        ({"time": 0, "added": [{"at": [1]}]}, "`added` must be stations with 2 numbers `at`, got"),
        ({"time": 0, "added": [{"at": [1, True]}]}, "`added` must be stations with 2 numbers"),
    ],
)
def test_other_questions_are_refused(view, question, message):
    with pytest.raises(ExfamError, match=message):
        view.map(question)


def test_without_maps_there_is_nothing_to_see():
    with pytest.raises(ExfamError, match="`data` must hold maps of stations to be explored, got"):
        StationsView(field_model())


def test_stations_on_a_line_are_shown_too():
    frame = pd.DataFrame(
        {"time": np.repeat(range(20), 3), "site": list("abc") * 20, "x": [0.0, 1.0, 3.0] * 20}
    ).assign(value=lambda own: np.sin(own["time"]) + own["x"])
    columns = {"time": "time", "site": "site", "coordinates": "x", "value": "value"}
    model = FieldEFA(**columns, metric="euclidean", attention="none", progress=False).fit(frame)
    view = StationsView(model, frame)
    assert view.start()["low"] == pytest.approx([-0.15]) and not view.start()["has_grid"]
    assert len(view.map({"time": 3})["stations"]) == 3
