"""Pages without a server say what the library says, and refuse what they do not hold."""

import numpy as np
import pytest
import torch

from exfam import EASE, EFA, ExfamError, ItemKNN, Popularity, WordVectors, write_explorer
from exfam.efa.base.classes import ItemClasses
from exfam.explorer.exported import page as exported
from exfam.explorer.views.items import ItemsView
from explorer.explored import (
    baskets,
    field_model,
    hostile_names,
    items_model,
    maps_of_stations,
    ratings,
    ratings_model,
    rows_of_cars,
    table_model,
)
from headless_browser import settled

COLUMNS = {"group": "basket", "item": "item"}


def with_classes():
    model = EFA(**COLUMNS, attention="none", progress=False).fit(baskets())
    chance = torch.rand(8, 2, 3, generator=torch.Generator().manual_seed(0)) + 0.1
    size = torch.arange(1.0, 7.0).view(2, 3)
    classes = ItemClasses(chance, length=size, size=size).eval()
    classes.weight.copy_(torch.tensor([0.7, -0.1]))
    model.members_[0].item_part.base.classes = classes
    return model


ITEMS = {
    "ridge": items_model,
    "classes": with_classes,
    "ease": lambda: EASE(**COLUMNS).fit(baskets()),
    "knn": lambda: ItemKNN(**COLUMNS).fit(baskets()),
    "repeats": lambda: EFA(**COLUMNS, attention="none", support="none", progress=False).fit(
        baskets()
    ),
    "penalty": lambda: EFA(**COLUMNS, attention="none", support="penalty", progress=False).fit(
        baskets()
    ),
}

WRITTEN = {
    "histories": (lambda: items_model(direction="causal"), baskets),
    "ratings": (ratings_model, ratings),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")

    def write(name, model, data, **beside):
        return write_explorer(model, data, path=folder / f"{name}.html", **beside)

    return write


@pytest.fixture(scope="module")
def cars(written):
    return written("cars", table_model(), rows_of_cars(5), compare=rows_of_cars(5, seed=1))


def address(page, state=""):
    return f"file://{page.path}{state}"


def answered(page, name, question):
    """What the page itself answers, by its own module."""
    script = (
        "async ([name, question]) => (await import('exfam/server.js')).answered(name, question)"
    )
    return page.evaluate(script, [name, question])["answer"]


@pytest.mark.parametrize("kind", ITEMS)
def test_baskets_are_answered_in_the_page_as_by_the_library(kind, written, opened):
    model = ITEMS[kind]()
    file = written(kind, model, baskets())
    assert "computed in this page" in str(file) and file.size == file.path.stat().st_size
    page, view = opened(address(file)), ItemsView(model, baskets())
    contexts = [[], [0], [4, 5], [0, 1, 2], [1, 6, 3, 7, 2]]
    contexts += [[2, 2]] if kind == "repeats" else []
    for items in contexts:
        question = {"items": items, "before": items[1:], "also": [3]}
        shown, wanted = answered(page, "next", question), view.next(question)
        by_code = {one["code"]: one for one in shown["items"]}
        for one in wanted["items"]:
            assert by_code[one["code"]]["probability"] == pytest.approx(
                one["probability"], abs=1e-6
            )
            assert by_code[one["code"]]["before"] == pytest.approx(one["before"], abs=1e-6)
        if view.start()["explains"]:
            why, wanted = (ask({"items": items, "item": 6}) for ask in (
                lambda own: answered(page, "why", own), view.why))  # fmt: skip
            for name in ("score", "base", "probability", "alone"):
                assert why[name] == pytest.approx(wanted[name], abs=2e-6), name
            assert why.get("classes", 0) == pytest.approx(wanted["classes"], abs=2e-6)
            assert (wanted["classes"] != 0) == (kind == "classes" and len(items) > 0)
            added = [sorted(one["contribution"] for one in own["entries"]) for own in (why, wanted)]
            assert added[0] == pytest.approx(added[1], abs=1e-6)
        raised, wanted = (ask({"items": items, "item": 0}) for ask in (
            lambda own: answered(page, "raise", own), view.raising))  # fmt: skip
        assert [one["code"] for one in raised["items"]] == [one["code"] for one in wanted["items"]]
    for name, question in (
        ("related", {"item": 2}), ("search", {"text": "C"}), ("search", {"codes": [3, 1]}),
        ("group", {"text": "5"}), ("group", {"index": 7}), ("search", {"text": ""}),
    ):  # fmt: skip
        shown, wanted = answered(page, name, question), view.questions[name](question)
        for key in ("items", "complements", "substitutes", "groups", "n_found", "name"):
            assert shown.get(key) == wanted.get(key), (name, key)


def test_the_page_is_used_as_the_served_one(written, opened):
    file = written("used", items_model(), baskets())
    page = opened(address(file, "#items=0,1&item=2"))
    assert "computed in this page" in page.locator("#about").inner_text()
    bars = page.locator("#next > li")
    wanted = ItemsView(items_model()).next({"items": [0, 1], "also": [2]})["items"]
    shown = [
        float(own.get_attribute("data-probability"))
        for own in bars.locator("[data-probability]").all()
    ]
    assert shown == pytest.approx([one["probability"] for one in wanted], abs=1e-6)
    page.fill("#search", "D")
    page.press("#search", "Enter")
    settled(page)
    assert page.locator("#context button").count() == 3
    assert "items=0%2C1%2C3" in page.url


def test_attention_is_left_out_and_that_is_said(written, opened):
    model = items_model(attention="softmax")
    model.members_[0].item_part.weigh(0.7, 0.6)
    file = written("attention", model, None)
    assert "What attention adds is left out" in file.how
    page = opened(address(file))
    own = model.explain_item({"basket": [0, 0], "item": ["a", "b"]}, item="c")
    why = answered(page, "why", {"items": [0, 1], "item": 2})
    assert why["probability"] == pytest.approx(own.alone[0], abs=1e-6)


def test_rows_are_written_with_all_their_answers(cars, opened):
    assert "answers that the model gave beforehand" in cars.how
    page = opened(address(cars, "#index=3"))
    row = {name: values.tolist()[3] for name, values in rows_of_cars(5).items()}
    own = table_model().conditional(
        ["mpg"], given={name: value for name, value in row.items() if name != "mpg"}
    )
    shown = page.locator("[data-column='mpg'] [data-center]").get_attribute("data-center")
    assert float(shown) == pytest.approx(own.predict_dist("mpg").center[0], rel=1e-6)
    page.locator("[data-column='mpg'] button.name").click()
    settled(page)
    assert page.locator("[data-contribution]").count() > 0
    page.get_by_role("button", name="Next").click()
    settled(page)
    assert page.locator("#index").input_value() == "4"
    assert page.get_by_role("button", name="Empty all").count() == 0
    assert page.locator("[data-column='mpg'] .edit :disabled").count() > 0
    page.get_by_role("button", name="Errors").click()
    settled(page)
    totals = [own.get_attribute("data-total") for own in page.locator("tbody [data-total]").all()]
    wanted = np.sort(table_model().pseudo_log_likelihood(rows_of_cars(5)))
    assert np.array(totals, dtype=float) == pytest.approx(wanted, abs=1e-6)
    page.locator("#slicing").select_option("value of origin")
    page.locator("#of").select_option("parts")
    page.locator("#column").select_option("origin")
    page.locator("[data-key='moved-mpg']").click()
    page.locator("[data-before]").first.wait_for()
    settled(page)
    assert page.locator("#failure").is_hidden()


def test_maps_are_written_and_looked_at(written, opened):
    maps = maps_of_stations()
    few = maps[maps["time"] < np.sort(maps["time"].unique())[4]]
    file = written("maps", field_model(), few)
    page = opened(address(file, "#time=3&station=1"))
    dist = field_model().predict_dist(few)
    last = (few["time"] == few["time"].max()) & (few["site"] == "site_2")
    last = last if last.any() else (few["time"] == few["time"].max()) & (few["site"] == "site 2")
    shown = float(page.locator("[data-mean]").get_attribute("data-mean"))
    assert shown == pytest.approx(dist.center[np.flatnonzero(last)[0]], abs=1e-6)
    page.get_by_role("button", name="Where to measure next").click()
    settled(page)
    assert page.get_by_role("button", name="Add a station").count() == 0
    assert page.locator("[data-key='value']").is_disabled()
    assert page.locator("#failure").is_hidden()


def test_nothing_is_loaded_and_hostile_names_are_text(written, chromium):
    names = hostile_names(40)
    frame = {"basket": [k // 4 for k in range(80)], "item": names * 2}
    file = written("hostile", EASE(**COLUMNS).fit(frame), frame)
    page = chromium.new_page()
    requests, complaints = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(address(file, "#items=0,1,2,3,4,5,6&item=7"))
    settled(page)
    assert all(url.startswith(("file:", "data:")) for url in requests) and complaints == []
    assert page.locator("main img, main script, main b").count() == 0
    assert page.title() == "What if? EASE"
    texts = page.locator("#context button").evaluate_all("all => all.map(own => own.textContent)")
    labels = EASE(**COLUMNS).fit(frame).vocabulary_["item"].tolist()
    assert texts == [f"{label} ×".replace("\r", "\n") for label in labels[:7]]
    blocked = page.evaluate("fetch('https://example.org').then(() => 1, () => 0)")
    assert blocked == 0
    page.close()


def test_a_page_of_vectors_is_served_alone(tmp_path):
    vectors = WordVectors(("a", "b", "c"), np.eye(3, dtype=np.float32))
    with pytest.raises(ExfamError, match="`model` must be of items, rows or maps .*WordVectors"):
        write_explorer(vectors, path=tmp_path / "page.html")


def test_groups_whose_answers_must_be_written_are_needed(tmp_path):
    path = tmp_path / "page.html"
    for model in (items_model(direction="causal"), Popularity(**COLUMNS).fit(baskets())):
        with pytest.raises(ExfamError, match="`data` must hold groups whose answers are written"):
            write_explorer(model, path=path)
    assert not path.exists()


@pytest.mark.parametrize("kind", WRITTEN)
def test_histories_and_values_are_written_with_their_answers(kind, written, opened):
    model, data = WRITTEN[kind]
    model, data = model(), data(n_groups=3)
    view = ItemsView(model, data)
    file = written(kind, model, data)
    assert "answers that the model gave beforehand" in file.how
    group = view.group({"index": 1})
    codes = [one["code"] for one in group["items"]]
    # What the last element of its group is given.
    context = {"items": codes[:2]}
    context |= {"values": group["values"][:2]} if "values" in group else {}
    state = f"#items={codes[0]},{codes[1]}&values={context.get('values', '')}&item={codes[2]}"
    page = opened(address(file, state.replace(" ", "")))
    shown = answered(page, "next", {**context, "before": codes, "also": [codes[2]]})
    wanted = view.next({**context, "also": [codes[2]]})["items"]
    assert [one["code"] for one in shown["items"]] == [one["code"] for one in wanted]
    for one, own in zip(shown["items"], wanted, strict=True):
        assert one["probability"] == pytest.approx(own["probability"], abs=1e-6)
        assert one.get("value") == own.get("value")
    asked = {**context, "item": codes[2]}
    for name in ["why"] * view.start()["explains"] + ["value"] * (view.column is not None):
        assert answered(page, name, asked) == view.questions[name](asked)
        assert page.locator({"why": "[data-why]", "value": "[data-center]"}[name]).count()
    assert page.locator("button.add, #search").count() == 0 and "raise" not in file.how
    page.locator("[data-key='group-0']").click()
    settled(page)
    assert page.locator("#failure").is_hidden() and page.locator("#next > li").count()
    page.get_by_role("button", name="Errors").click()
    settled(page)
    assert page.locator("tbody [data-total]").count() == 3


def test_too_large_pages_are_refused_with_their_size(tmp_path, monkeypatch, written):
    path = tmp_path / "page.html"
    monkeypatch.setattr(exported, "MOST_BYTES", len(exported.page_of({})) + 200)
    with pytest.raises(ExfamError, match=r"at most .* MB, got 8 items with a table of .*About 6"):
        write_explorer(items_model(), path=path)
    monkeypatch.setattr(exported, "MOST_BYTES", len(exported.page_of({})) + 6_000)
    with pytest.raises(ExfamError, match=r"got more after \d+ answers. Give fewer rows or maps"):
        write_explorer(table_model(), rows_of_cars(5), path=path)
    monkeypatch.setattr(exported, "MOST_BYTES", len(exported.page_of({})) + 400)
    with pytest.raises(
        ExfamError, match=r"at most .* MB, got .* MB. Give fewer groups as `data`, or"
    ):
        write_explorer(items_model(), baskets(), path=path)
    assert not path.exists()


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    from exfam.cli import main

    items_model().save(tmp_path / "model")
    words = ["explore", str(tmp_path / "model"), "--export", str(tmp_path / "page.html")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "0.2 MB" in out or "0.1 MB" in out
    assert "computed in this page from the tables of the model's base, 8 items" in out
    items_model(direction="causal").save(tmp_path / "other")
    assert main(["explore", str(tmp_path / "other"), *words[2:]]) == 2
    assert "must hold groups whose answers are written" in capsys.readouterr().err
