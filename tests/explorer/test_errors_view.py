"""Errors are the model's own log-probabilities, and what is made of them the library's scores."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from exfam import EFA, ExfamError, FieldGaussian, MaskedTable, SkipGram, explore
from exfam.explorer.errors import fields as scored_maps
from exfam.explorer.errors import groups as scored_groups
from exfam.explorer.views import explorer_views
from exfam.explorer.views.errors import ErrorsView
from exfam.explorer.views.items import ItemsView
from exfam.explorer.views.row import RowView
from exfam.explorer.views.stations import StationsView
from exfam.scores.calibration import integral_shares, interval_coverage, reliability
from exfam.scores.metrics import mean_over_groups
from explorer.explored import (
    FIELD,
    baskets,
    field_model,
    field_without_lags,
    items_model,
    maps_of_stations,
    marginal_of_baskets,
    plain_table,
    rows_of_cars,
    table_model,
)

CASES = {
    "groups": (items_model, baskets, marginal_of_baskets, lambda: baskets(seed=3)),
    "rows": (table_model, rows_of_cars, plain_table, lambda: rows_of_cars(seed=2)),
    "maps": (field_model, maps_of_stations, field_without_lags, lambda: maps_of_stations()[200:]),
}


@pytest.fixture(scope="module")
def views():
    return {
        name: ErrorsView(model(), data(), against=other(), compare=later())
        for name, (model, data, other, later) in CASES.items()
    }


def nats_by(name, model):
    """Unit, part and log-probability of each term, as the library has them."""
    if name == "rows":
        frame, parts = rows_of_cars(), []
        for column in frame:
            own = model.conditional([column], given=frame.drop(columns=column))
            nats = own.log_prob(frame[[column]], n_orders=1)
            parts.append(pd.DataFrame({"unit": frame.index, "part": column, "nats": nats}))
        return pd.concat(parts)
    data = CASES[name][1]()
    unit, part = ("basket", "item") if name == "groups" else ("time", "site")
    return pd.DataFrame({"unit": data[unit], "part": data[part], "nats": model.log_prob(data)})


@pytest.mark.parametrize("name", CASES)
def test_units_and_parts_are_summed_and_the_worst_come_first(views, name):
    view = views[name]
    terms, other = (nats_by(name, model()).dropna() for model in CASES[name][0:3:2])
    gap = terms["nats"] - other["nats"]
    for of, key in (("units", "unit"), ("parts", "part")):
        wanted = terms.groupby(key)["nats"].agg(["sum", "mean", "min", "size"])
        wanted["gap"] = gap.groupby(terms[key]).mean()
        for order, column in (
            ("total", "sum"), ("mean", "mean"), ("least", "min"), ("difference", "gap"),
        ):  # fmt: skip
            answer = view.errors({"of": of, "order": order})
            assert json.loads(json.dumps(answer, allow_nan=False)) == answer
            ordered = np.sort(wanted[column])[:20]
            rows = answer["rows"]
            shown = {"sum": "total", "mean": "mean", "gap": "difference"}.get(column)
            found = [row[shown] if shown else row["least"]["nats"] for row in rows]
            assert found == pytest.approx(ordered, abs=1e-5)
            own = wanted.set_axis(wanted.index.map(str))
            for row in rows:
                mine = own.loc[row["name"].removeprefix("row ")]
                assert row["total"] == pytest.approx(mine["sum"], abs=1e-5)
                assert row["n"] == mine["size"]
    everything = view.errors({})["all"]
    assert everything["mean"] == pytest.approx(terms["nats"].mean(), abs=1e-6)
    assert everything["difference"]["mean"] == pytest.approx(gap.mean(), abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_an_address_leads_to_the_same_number(views, name):
    for of in ("units", "parts"):
        for row in views[name].errors({"of": of, "order": "least"})["rows"][:8]:
            nats, at = row["least"]["nats"], row["least"]["address"]
            if name == "groups":
                context = list(map(int, at["items"].split(",")))
                shown = ItemsView(items_model(), baskets()).next(
                    {"items": context, "also": [at["item"]]}
                )
                (own,) = [one for one in shown["items"] if one["code"] == at["item"]]
                assert np.log(own["probability"]) == pytest.approx(nats, abs=1e-6)
            elif name == "rows":
                view = RowView(table_model(), rows_of_cars())
                cells = view.row({"index": at["index"]})["cells"]
                own = view.answer({"cells": cells})["columns"][at["column"]]
                assert own["nats"] == pytest.approx(nats, abs=1e-5)
            else:
                view = StationsView(field_model(), maps_of_stations())
                stations = view.map({"time": at["time"]})["stations"]
                (own,) = [one for one in stations if one["site"] == at["station"]]
                assert own["nats"] == pytest.approx(nats, abs=1e-6)


def test_histories_open_with_what_came_before():
    view = ErrorsView(items_model(direction="causal"), baskets())
    row = view.errors({"order": "least"})["rows"][0]
    at = row["least"]["address"]
    context = [int(code) for code in at["items"].split(",") if code]
    answer = ItemsView(view.model).next({"items": context, "also": [at["item"]]})
    (own,) = [one for one in answer["items"] if one["code"] == at["item"]]
    assert np.log(own["probability"]) == pytest.approx(row["least"]["nats"], abs=1e-5)
    assert "position in the group" in view.slices({})["slicings"]


@pytest.mark.parametrize("name", CASES)
def test_slices_are_means_with_intervals_over_units(views, name):
    view = views[name]
    terms, other = (nats_by(name, model()).dropna() for model in CASES[name][0:3:2])
    gap = (terms["nats"] - other["nats"]).to_numpy()
    part, unit = terms["part"].to_numpy(), pd.factorize(terms["unit"])[0]
    for row in view.slices({"order": "label"})["rows"]:
        own = part.astype(str) == row["name"]
        wanted = mean_over_groups(terms["nats"].to_numpy()[own], unit[own])
        shown = [row[key] for key in ("mean", "error", "low", "high")]
        ends = [wanted.mean + 1.96 * sign * wanted.error for sign in (-1, 1)]
        assert shown == pytest.approx([wanted.mean, wanted.error, *ends], abs=1e-5)
        assert row["difference"]["mean"] == pytest.approx(gap[own].mean(), abs=1e-5)
    for slicing in view.slices({})["slicings"]:
        answer = view.slices({"slicing": slicing, "order": "n"})
        if answer["n_rows"] <= answer["page"]:
            assert sum(row["n"] for row in answer["rows"]) == len(terms), slicing
        for order in ("mean", "total", "difference"):
            assert view.slices({"slicing": slicing, "order": order})["n_rows"] == answer["n_rows"]


def test_a_slice_is_listed_and_calibrated_alone(views):
    view = views["rows"]
    named = {"slicing": "value of origin", "slice": 1}
    usa = rows_of_cars().query("origin == 'usa'")
    assert view.errors(named)["n_rows"] == len(usa)
    answer = view.calibration({**named, "column": "mpg"})
    assert answer["chosen"] is False
    assert view.calibration({**named, "column": "origin"})["chosen"] is True
    prediction = table_model().conditional(["mpg"], given=usa.drop(columns="mpg"))
    mixture, value = prediction.distributions["mpg"], torch.tensor(usa["mpg"].to_numpy())
    assert answer["share"] == pytest.approx(integral_shares(mixture, value, n_bars=10).share)
    for shown, own in zip(answer["intervals"], interval_coverage(mixture, value), strict=True):
        assert shown["observed"] == pytest.approx(own.observed)


@pytest.mark.parametrize("name", ["groups", "rows"])
def test_labels_and_items_come_true_as_often_as_the_librarys_bins_say(views, name):
    if name == "groups":
        probability = items_model().predict_proba(baskets())
        codes = baskets()["item"].map("abcdefgh".index).to_numpy()
        answer = views[name].calibration({})
    else:
        frame = rows_of_cars()
        own = table_model().conditional(["origin"], given=frame.drop(columns="origin"))
        probability = own.probs("origin")
        codes = (frame["origin"] == "usa").to_numpy().astype(int)
        answer = views[name].calibration({"column": "origin"})
    bins = reliability(probability, codes)
    assert answer["error"] == pytest.approx(bins.error, abs=1e-6)
    held = bins.pairs > 0
    shown = [[row[key] for row in answer["bins"]][::-1] for key in ("predicted", "observed")]
    pairs = bins.pairs[held]
    assert shown[0] == pytest.approx(bins.predicted[held] / pairs, abs=1e-6)
    assert shown[1] == pytest.approx(bins.observed[held] / pairs, abs=1e-6)


def test_ratings_are_calibrated_and_sliced_by_attributes():
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "basket": np.repeat(np.arange(40), 4), "item": random.integers(0, 9, 160),
            "stars": random.normal(size=160), "shop": np.repeat(random.choice(["x", "y"], 40), 4),
            "price": random.random(160),
        }
    ).drop_duplicates(["basket", "item"])  # fmt: skip
    columns = {"group": "basket", "item": "item", "value": "stars"}
    more = {"attributes": "price", "group_attributes": "shop"}
    model = EFA(**columns, **more, attention="none", progress=False).fit(frame)
    view = ErrorsView(model, frame)
    assert {"shop", "price"} <= set(view.slices({})["slicings"])
    shops = view.slices({"slicing": "shop", "order": "label"})["rows"]
    assert [row["n"] for row in shops] == frame["shop"].value_counts()[["x", "y"]].tolist()
    assert view.calibration({"column": "stars"})["n"] == len(frame)
    assert "stars" in view.errors({})["rows"][0]["least"]["value"]
    unrated = ErrorsView(model, frame.assign(stars=np.where(frame["shop"] == "x", None, 1.0)))
    with pytest.raises(ExfamError, match="`slice` must hold an observed value of 'stars'"):
        unrated.calibration({"column": "stars", "slicing": "shop", "slice": 0})


@pytest.mark.parametrize("name", CASES)
def test_what_has_moved_is_in_both_and_nothing_moves_from_data_to_themselves(views, name):
    answer = views[name].shift({})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    model, data, _, later = (make() for make in CASES[name])
    if name == "rows":
        report = model.shift_report(data, later).as_dict()
        assert answer["rows"] == report["rows"]
        columns = {column["name"]: column for column in report["columns"]}
        for part in answer["parts"]:
            assert part["nats"] == columns[part["name"]]["conditional"]
            assert part["p"] == columns[part["name"]]["marginal"]["p"]
            bars = views[name].shift_bars({"part": part["name"]})
            assert sum(bars["before"]) == pytest.approx(1) == pytest.approx(sum(bars["after"]))
    else:
        key, number = ("item", None) if name == "groups" else ("site", "value")
        for part in answer["parts"]:
            for side, frame in (("train", data), ("new", later)):
                rows = frame[key] == part["name"]
                own = rows.mean() if number is None else frame[number][rows].mean()
                assert part["own"][side] == pytest.approx(own)
                nats = model.log_prob(frame)[rows.to_numpy()]
                if name == "groups":
                    assert part["nats"][side] == pytest.approx(np.mean(nats), abs=1e-6)
        if name == "maps":
            bars = views[name].shift_bars({"part": answer["parts"][0]["name"]})
            assert sum(bars["after"]) == pytest.approx(1)
    same = ErrorsView(model, data, compare=data).shift({})
    assert not any(part["moved"] or part["surprising"] for part in same["parts"])
    assert same["rows"]["difference"] == 0


def test_a_column_that_moved_is_marked():
    later = rows_of_cars(seed=2).assign(doors=lambda frame: frame["doors"] + 3)
    parts = ErrorsView(table_model(), rows_of_cars(), compare=later).shift({})["parts"]
    assert [part["name"] for part in parts if part["moved"]] == ["doors"]


def test_a_few_maps_are_scored_at_first(monkeypatch):
    for name in ("_MOST", "_LEAST"):
        monkeypatch.setattr(scored_maps, name, 400)
    view = ErrorsView(field_model(), maps_of_stations())
    first = json.loads(json.dumps(view.errors({}), allow_nan=False))
    assert first["partial"] and view.score({})["n_scored"] > 5 * first["n_scored"] > 0


def test_large_data_are_drawn_from_and_that_is_said(monkeypatch):
    monkeypatch.setattr(scored_groups, "_MOST", 30)
    monkeypatch.setattr(scored_groups, "_LEAST", 30)
    monkeypatch.setattr(scored_groups, "_MOST_CALIBRATED", 6)
    view = ErrorsView(items_model(), baskets())
    first = view.errors({})
    assert first["partial"] and (first["n_scored"], first["n_all"]) == (1, 60)
    assert all(view.questions[name]({})["partial"] for name in ("slices", "calibration"))
    assert view.score({}) == view.score({}) == {"n_scored": 10, "partial": False}
    answer = view.errors({})
    assert (answer["n_scored"], answer["n_all"], answer["partial"]) == (10, 60, False)
    totals = {row["name"]: row["total"] for row in answer["rows"]}
    assert [totals[row["name"]] for row in first["rows"]] == [row["total"] for row in first["rows"]]
    assert view.calibration({})["n"] == view.calibration({})["of"] == 6
    names = {row["name"] for row in view.errors({})["rows"]}
    own = baskets().assign(nats=items_model().log_prob(baskets())).groupby("basket")["nats"].sum()
    assert [row["total"] for row in answer["rows"]] == pytest.approx(
        sorted(own[[int(name) for name in names]]), abs=1e-6
    )
    empty = next(
        row["slice"]
        for row in view.slices({})["rows"]
        if not np.isin(
            view._held._of_items[0], np.flatnonzero(view._held._item == row["slice"])
        ).any()
    )
    with pytest.raises(ExfamError, match="`slice` must hold an item among those drawn"):
        view.calibration({"slicing": "item", "slice": empty})


def test_there_is_such_a_view_of_data_alone():
    assert [view.name for view in explorer_views(items_model(), baskets())][-1] == "errors"
    assert "errors" not in [view.name for view in explorer_views(items_model())]
    for beside in ({"against": items_model()}, {"compare": baskets()}):
        (name,) = beside
        with pytest.raises(ExfamError, match=f"`{name}` must be left out without data"):
            explore(items_model(), open_browser=False, **beside)


def test_models_that_cannot_be_compared_are_refused():
    for other in (table_model(), SkipGram(), "model"):
        with pytest.raises(ExfamError, match="`against` must be a fitted model of groups"):
            ErrorsView(items_model(), baskets(), against=other)
    frame = baskets().assign(stars=1.0 + np.arange(180) % 3)
    rated = EFA(group="basket", item="item", value="stars", attention="none", progress=False)
    with pytest.raises(
        ExfamError, match="`against` must predict what `model` does, probabilities of"
    ):
        ErrorsView(items_model(), frame, against=rated.fit(frame)).errors({})
    numbers = rows_of_cars().assign(weight=1.0, mpg=1.0, origin="usa")
    other = MaskedTable(progress=False, kinds={"doors": "numeric"}).fit(numbers)
    data = rows_of_cars().assign(weight=None, mpg=None, origin=None)
    with pytest.raises(ExfamError, match="`against` must predict a column that `model` does"):
        ErrorsView(table_model(), data, against=other).errors({})
    counts = maps_of_stations().assign(value=lambda own: own["value"].abs().round())
    other = FieldGaussian(**FIELD, family="rounded-root-student-t").fit(counts)
    with pytest.raises(ExfamError, match="`against` must predict the same kind of values"):
        ErrorsView(field_model(), counts, against=other).errors({})


@pytest.mark.parametrize(
    ("question", "given", "message"),
    [
        ("errors", {"of": "all"}, "`of` must be"),
        ("errors", {"order": "worst"}, "`order` must be"),
        ("errors", {"order": "difference"}, "`order` must not be 'difference' without a second"),
        ("slices", {"order": "difference"}, "`order` must not be 'difference' without a second"),
        ("slices", {"slicing": "shop"}, "`slicing` must be"),
        ("errors", {"slice": 99}, "`slice` must be a whole number"),
        ("errors", {"slicing": "value of origin", "slice": 2}, "`slice` must hold something, got"),
        ("calibration", {"column": "color"}, "`column` must be"),
        ("calibration", {"column": "mpg", "slice": 0}, "`slice` must hold values of 'mpg'"),
        ("shift", {}, "`compare` must be given to see what has moved"),
        ("shift_bars", {"part": "mpg"}, "`compare` must be given to see what has moved"),
    ],
)
def test_other_questions_are_refused(question, given, message):
    view = ErrorsView(table_model(), rows_of_cars())
    with pytest.raises(ExfamError, match=message):
        view.questions[question](given)


def test_nothing_to_predict_is_an_error(views):
    empty = rows_of_cars(3).assign(weight=np.nan, mpg=np.nan, origin=None, doors=np.nan)
    with pytest.raises(ExfamError, match="`data` must hold something to predict, got nothing"):
        ErrorsView(table_model(), empty).errors({})
    with pytest.raises(ExfamError, match="`part` must be of a table or a field"):
        views["groups"].shift_bars({"part": "a"})
    with pytest.raises(ExfamError, match="`part` must have values to be compared, got none"):
        views["maps"].shift_bars({"part": "nowhere"})
