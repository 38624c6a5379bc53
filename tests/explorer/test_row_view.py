"""Answers about a row are the model's own."""

import json
import pkgutil

import numpy as np
import pytest

from exfam import Between, ExfamError, MaskedTable, OneOf
from exfam.explorer.views.row import RowView
from explorer.explored import rows_of_cars, table_model

ROW = {"weight": 1500.0, "mpg": 21.0, "origin": "usa", "doors": 3.0}


@pytest.fixture(scope="module")
def view():
    return RowView(table_model(), rows_of_cars())


def without(name, row=ROW):
    return {key: value for key, value in row.items() if key != name}


@pytest.mark.parametrize("cells", [ROW, {"origin": "japan", "weight": 900.0}, {}])
def test_each_column_is_as_the_model_says_given_all_others(view, cells):
    answer = view.answer({"cells": cells})
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert set(answer["columns"]) == set(ROW)
    for name, shown in answer["columns"].items():
        own = view.model.conditional([name], given=without(name, cells))
        if "labels" in shown:
            probability = dict(zip(own.labels(name).tolist(), own.probs(name)[0], strict=True))
            assert {bar["label"]: bar["probability"] for bar in shown["labels"]} == pytest.approx(
                probability, abs=1e-6
            )
        else:
            low, high = own.predict_dist(name).interval()
            numbers = [shown["center"], shown["low"], shown["high"]]
            wanted = [own.predict_dist(name).center[0], low[0], high[0]]
            assert numbers == pytest.approx(wanted, rel=1e-6)
        if name in cells:
            nats = own.log_prob({name: [cells[name]]}, n_orders=1)[0]
            assert shown["nats"] == pytest.approx(nats, abs=1e-5) and 0 <= shown["tail"] <= 1
        else:
            assert shown["nats"] is None and shown["tail"] is None


def test_the_row_has_the_models_joint_probability(view):
    table = {name: [value] for name, value in ROW.items()}
    assert view.joint({"cells": ROW})["log_prob"] == pytest.approx(view.model.log_prob(table)[0])
    assert view.joint({"cells": {}})["log_prob"] is None


def test_a_cell_is_read_once(monkeypatch):
    seen, of_module = [], "exfam.explorer.views.row"
    encode = pkgutil.resolve_name(f"{of_module}:encode_given")

    def counted(schema, given, **options):
        seen.append(dict(given))
        return encode(schema, given, **options)

    monkeypatch.setattr(f"{of_module}.encode_given", counted)
    view = RowView(table_model(), rows_of_cars())
    cells = view.row({"index": 3})["cells"]
    whole = view.answer({"cells": cells})
    assert not seen
    changed = {**cells, "weight": cells["weight"] + 1.0}
    view.answer({"cells": changed})
    assert seen == [{"weight": changed["weight"]}]
    other = RowView(table_model(), rows_of_cars())
    assert other.answer({"cells": cells}) == whole


def test_some_columns_are_answered_as_among_all(view):
    (names,) = view.start()["parts"]
    assert names == list(ROW)
    whole = view.answer({"cells": ROW})["columns"]
    some = view.answer({"cells": ROW, "columns": ["mpg", "doors"]})["columns"]
    assert some == {name: whole[name] for name in ("mpg", "doors")}
    for wrong in ("mpg", ["cost"], [3]):
        with pytest.raises(ExfamError, match="`columns` must be columns that are predicted, got"):
            view.answer({"cells": ROW, "columns": wrong})


def test_a_slip_of_the_keyboard_is_the_least_likely_cell(view):
    answer = view.answer({"cells": {**ROW, "mpg": 210.0}})
    tails = {name: shown["tail"] for name, shown in answer["columns"].items()}
    assert min(tails, key=tails.get) == "mpg" and tails["mpg"] < 0.01


def test_curves_are_densities_and_of_counts_probabilities(view):
    columns = view.answer({"cells": {"weight": 1500.0}})["columns"]
    points, density = (np.array(columns["mpg"][name]) for name in ("points", "density"))
    assert np.trapezoid(density, points) == pytest.approx(0.99, abs=0.02)
    counts = columns["doors"]
    assert sum(counts["density"]) == pytest.approx(0.99, abs=0.02)
    assert all(point == int(point) for point in counts["points"])


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        ({"weight": {"low": 1000, "high": 1100}}, {"weight": Between(1000, 1100)}),
        ({"weight": {"low": None, "high": 900}}, {"weight": Between(None, 900)}),
        ({"origin": {"one_of": ["usa"]}}, {"origin": OneOf(["usa"])}),
    ],
)
def test_ranges_and_sets_are_conditions(view, said, condition):
    answer = view.answer({"cells": {"doors": 3.0, **said}})
    own = view.model.conditional(["mpg"], given={"doors": 3.0, **condition})
    assert answer["columns"]["mpg"]["center"] == pytest.approx(own.predict_dist("mpg").center[0])
    whole = view.joint({"cells": {"doors": 3.0, **said}})
    assert whole["log_prob"] is None
    assert whole["condition_log_prob"] == pytest.approx(own.condition_log_prob[0])


def test_cells_of_a_row_of_data_are_given_back(view):
    data = rows_of_cars()
    cells = view.row({"index": 7})["cells"]
    assert cells == {name: data[name].tolist()[7] for name in data}
    assert view.start()["n_rows"] == 80
    missing = RowView(table_model(), data.assign(mpg=np.nan)).row({"index": 0})["cells"]
    assert missing["mpg"] is None
    with pytest.raises(ExfamError, match="`index` must be of a row of data, got none"):
        RowView(table_model()).row({"index": 0})


@pytest.mark.parametrize("name", ["mpg", "origin"])
def test_reasons_are_the_models_and_add_up(view, name):
    why = view.why({"cells": ROW, "column": name})
    own = view.model.experts({key: [without(name).get(key)] for key in ROW}, [name])
    added = {entry["name"]: entry["contribution"] for entry in why["entries"]}
    output = 0
    if name == "origin":
        output = table_model().schema_.column(name).labels.tolist().index(why["output"])
    for column, contribution in added.items():
        k = own.columns.index(column)
        assert contribution == pytest.approx(own.parts[0, 0, k, output], abs=1e-6)
    total = why["start"] + why["rest"] + sum(added.values())
    assert total == pytest.approx(why["total"], abs=1e-6) and why["column"] == name


def test_without_exact_parts_there_are_no_reasons(view):
    assert view.why({"cells": {}, "column": "mpg"})["entries"] == []
    network = MaskedTable(base="none", max_epochs=1, progress=False).fit(rows_of_cars())
    assert RowView(network).why({"cells": ROW, "column": "mpg"})["entries"] == []


def test_dates_are_given_and_never_asked_for():
    data = rows_of_cars(40).assign(sold=[f"2024-01-{1 + k % 28:02}" for k in range(40)])
    view = RowView(MaskedTable(progress=False, kinds={"sold": "date"}).fit(data), data)
    described = {column["name"]: column for column in view.start()["columns"]}
    assert described["sold"]["predicted"] is False and described["sold"]["kind"] == "date"
    cells = view.row({"index": 3})["cells"]
    assert cells["sold"].startswith("2024-01-04")
    assert set(view.answer({"cells": cells})["columns"]) == set(ROW)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"cells": [1]}, r"`cells` must map columns to values, got \[1\]"),
        ({"cells": {"color": 1}}, "`cells` must name columns of the model, got 'color'"),
        ({"cells": {"mpg": {"about": 3}}}, "`cells` must hold values, ranges or sets of labels"),
        ({"cells": {"origin": "mars"}}, "Column 'origin' must hold labels seen in training"),
        ({"cells": {}, "column": "color"}, "`column` must be one that is predicted, got 'color'"),
    ],
)
def test_other_cells_are_refused(view, question, message):
    ask = view.why if "column" in question else view.answer
    with pytest.raises(ExfamError, match=message):
        ask(question)
