"""The page, used as a person would, says what the library says."""

import json
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from exfam import EFA, explore
from exfam.explorer.views.stations import StationsView
from explorer.explored import (
    baskets,
    field_model,
    hostile_names,
    items_model,
    maps_of_stations,
    rows_of_cars,
    table_model,
)
from headless_browser import assert_fits_and_is_read, settled


@pytest.fixture(scope="module")
def items():
    with explore(items_model(), baskets(), open_browser=False) as page:
        yield page


@pytest.fixture(scope="module")
def cars():
    with explore(table_model(), rows_of_cars(), open_browser=False) as page:
        yield page


@pytest.fixture(scope="module")
def stations():
    with explore(field_model(), maps_of_stations(), open_browser=False) as page:
        yield page


def shown_bars(page):
    """Name -> probability, as the bars have them."""
    rows = page.locator("#next > li")
    names = rows.locator(".name").all_inner_texts()
    numbers = [
        float(own.get_attribute("data-probability"))
        for own in rows.locator("[data-probability]").all()
    ]
    return dict(zip(names, numbers, strict=True))


def recommended(*items):
    found = items_model().recommend({"basket": [0] * len(items), "item": list(items)}, k=12)
    return {
        name: probability
        for name, probability in zip(found.items[0], found.probabilities[0], strict=True)
        if probability > 0
    }


def chips(page):
    return [text.removesuffix(" ×") for text in page.locator("#context button").all_inner_texts()]


def wait_for_chips(page, *names):
    settled(page)
    assert chips(page) == list(names)


def test_items_are_searched_clicked_in_and_out_and_bars_follow(items, opened):
    page = opened(items.address)
    page.fill("#search", "C")
    page.get_by_text("1 found").wait_for()
    page.press("#search", "Enter")
    wait_for_chips(page, "c")
    assert shown_bars(page) == pytest.approx(recommended("c"), abs=1e-6)
    page.get_by_role("button", name="Add d", exact=True).first.click()
    wait_for_chips(page, "c", "d")
    assert shown_bars(page) == pytest.approx(recommended("c", "d"), abs=1e-6)
    page.get_by_role("button", name="Take out c").click()
    wait_for_chips(page, "d")
    assert shown_bars(page) == pytest.approx(recommended("d"), abs=1e-6)


def test_a_bar_that_is_chosen_says_why_and_the_address_opens_it_again(items, opened):
    page = opened(items.address + "#items=0,1")
    page.locator("#next .name", has_text="c").click()
    page.locator("[data-why]").wait_for()
    why = items_model().explain_item({"basket": [0, 0], "item": ["a", "b"]}, item="c")
    shown = [
        float(cell.get_attribute("data-contribution"))
        for cell in page.locator("[data-contribution]").all()
    ]
    assert sorted(shown) == pytest.approx(sorted(why.contribution), abs=1e-6)
    probability = float(page.locator("[data-why]").get_attribute("data-why"))
    assert probability == pytest.approx(why.probability[0], abs=1e-6)
    again = opened(page.url)
    again.locator("[data-why]").wait_for()
    assert chips(again) == ["a", "b"] and shown_bars(again) == shown_bars(page)


def test_the_keyboard_can_do_what_the_mouse_can(items, opened):
    page = opened(items.address)
    page.focus("#search")
    page.keyboard.type("e")
    page.get_by_text("1 found").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    wait_for_chips(page, "e")
    page.locator("#next .name").first.focus()
    page.keyboard.press("Enter")
    page.locator("[data-why]").wait_for()
    focused = page.evaluate("document.activeElement.className")
    assert focused == "name", "what was pressed keeps the focus"
    page.locator("#context button").focus()
    page.keyboard.press("Space")
    wait_for_chips(page)


def test_groups_of_the_data_are_contexts_to_begin_with(items, opened):
    page = opened(items.address)
    page.locator("summary").click()
    page.fill("#group", "59")
    page.locator("[data-key='group-59']").click()
    data = baskets()
    wait_for_chips(page, *data[data["basket"] == 59]["item"])


def numbers_of(page, column):
    box = page.locator(f"[data-column='{column}']")
    shown = box.locator("[data-center]")
    return [float(shown.get_attribute(f"data-{name}")) for name in ("center", "low", "high")]


def wanted_numbers(column, given):
    own = table_model().conditional([column], given=given).predict_dist(column)
    low, high = own.interval()
    return [own.center[0], low[0], high[0]]


def test_cells_are_edited_emptied_and_restored_and_all_others_follow(cars, opened):
    row = {name: values.tolist()[4] for name, values in rows_of_cars().items()}
    page = opened(cars.address + "#index=4")
    others = {name: value for name, value in row.items() if name != "mpg"}
    assert numbers_of(page, "mpg") == pytest.approx(wanted_numbers("mpg", others), rel=1e-6)
    weight = page.locator("[data-key='value-weight']")
    weight.fill("2000")
    weight.press("Enter")
    settled(page)
    page.get_by_role("button", name="Restore", exact=True).wait_for()
    heavier = {**others, "weight": 2000.0}
    assert numbers_of(page, "mpg") == pytest.approx(wanted_numbers("mpg", heavier), rel=1e-6)
    joint = table_model().log_prob({name: [v] for name, v in {**row, "weight": 2000.0}.items()})
    shown = float(page.locator("[data-log-prob]").get_attribute("data-log-prob"))
    assert shown == pytest.approx(joint[0], abs=1e-6)
    page.get_by_role("button", name="Restore", exact=True).click()
    settled(page)
    assert numbers_of(page, "mpg") == pytest.approx(wanted_numbers("mpg", others), rel=1e-6)
    page.locator("[data-key='mode-weight']").select_option("empty")
    settled(page)
    without = {name: value for name, value in others.items() if name != "weight"}
    assert numbers_of(page, "mpg") == pytest.approx(wanted_numbers("mpg", without), rel=1e-6)


def test_a_typo_is_pointed_out_and_a_column_says_why(cars, opened):
    cells = {"weight": 1200, "mpg": 260, "origin": "usa", "doors": 3}
    page = opened(f"{cars.address}#cells={json.dumps(cells)}&column=mpg")
    page.get_by_text("Unlikely given the rest: mpg").wait_for()
    given = {name: [None if name == "mpg" else value] for name, value in cells.items()}
    own = table_model().experts(given, ["mpg"]).parts[0, 0, :, 0]
    shown = [
        float(cell.get_attribute("data-contribution"))
        for cell in page.locator("[data-contribution]").all()
    ]
    assert sorted(shown) == pytest.approx(sorted(own[own != 0]), abs=1e-6)


def test_ranges_are_conditions(cars, opened):
    from exfam import Between

    cells = {"weight": {"low": 1000, "high": 1100}}
    page = opened(f"{cars.address}#cells={json.dumps(cells)}")
    wanted = wanted_numbers("mpg", {"weight": Between(1000, 1100)})
    assert numbers_of(page, "mpg") == pytest.approx(wanted, rel=1e-6)


def station(page, name):
    return page.locator(f"[data-station='{name}']")


def shown_mean(page):
    return float(page.locator("[data-mean]").get_attribute("data-mean"))


def wanted_mean(time, site, **changed):
    answer = StationsView(field_model(), maps_of_stations()).map({"time": time, **changed})
    return answer["stations"][site]["mean"]


def test_a_station_is_chosen_hidden_and_given_another_value(stations, opened):
    page = opened(stations.address + "#time=40")
    station(page, 1).click()
    settled(page)
    assert shown_mean(page) == pytest.approx(wanted_mean(40, 1), abs=1e-6)
    page.locator("#station").select_option("4")
    settled(page)
    page.get_by_role("button", name="Hide its value").click()
    settled(page)
    page.locator("#station").select_option("1")
    settled(page)
    hidden = wanted_mean(40, 1, changes={"4": None})
    assert shown_mean(page) == pytest.approx(hidden, abs=1e-6)
    assert "hidden" in station(page, 4).get_attribute("class")
    page.locator("#time").fill("41")
    settled(page)
    later = wanted_mean(41, 1, changes={"4": None})
    assert shown_mean(page) == pytest.approx(later, abs=1e-6)
    assert page.locator(".lines line").count() > 0 and page.locator(".field").count() == 400


def test_a_station_that_is_dragged_is_elsewhere_and_the_keyboard_can_place_one(stations, opened):
    page = opened(stations.address + "#time=40&station=1")
    settled(page)
    before = shown_mean(page)
    box = station(page, 6).bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 60, box["y"] + 30, steps=4)
    page.mouse.up()
    settled(page)
    (added,) = json.loads(parse_qs(urlsplit(page.url).fragment)["added"][0])
    page.locator("#station").select_option("1")
    settled(page)
    moved = wanted_mean(40, 1, changes={"6": None}, added=[added])
    assert shown_mean(page) == pytest.approx(moved, abs=1e-6) and moved != before
    page.locator("#station").select_option("-1")
    settled(page)
    page.locator("[data-key='at-0']").fill("37.5")
    page.locator("[data-key='at-0']").press("Enter")
    settled(page)
    here = wanted_mean(40, -1, changes={"6": None}, added=[{**added, "at": [37.5, added["at"][1]]}])
    assert shown_mean(page) == pytest.approx(here, abs=1e-4)
    station(page, 2).focus()
    page.keyboard.press("Enter")
    settled(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.station !== undefined")


def test_a_page_whose_model_has_gone_says_so(chromium):
    page = chromium.new_page()
    with explore(items_model(), open_browser=False) as served:
        page.goto(served.address)
        settled(page)
        assert page.locator("#failure").is_hidden()
    page.locator("#found button").first.click()
    page.get_by_text("The model answers no longer. Is it still being served?").wait_for()
    settled(page)
    page.close()


def test_two_hundred_hostile_names_are_text(opened):
    names = hostile_names(200)
    frame = pd.DataFrame({"basket": [k // 4 for k in range(400)], "item": names * 2})
    model = EFA(group="basket", item="item", attention="none", progress=False).fit(frame)
    with explore(model, frame, open_browser=False) as served:
        codes = ",".join(map(str, range(200)))
        page = opened(f"{served.address}#items={codes}&item=3")
        labels = model.vocabulary_["item"].tolist()
        texts = page.locator("#context button").evaluate_all(
            "all => all.map(own => own.textContent)"
        )
        assert texts == [f"{label} ×".replace("\r", "\n") for label in labels]
        assert page.title() == "What if? EFA"
        assert page.locator("main img, main script, main b").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("items", "#items=0,1&item=2"),
        ("cars", "#index=3&column=mpg"),
        ("stations", '#time=40&station=3&added=[{"at":[38,-100],"value":null}]'),
    ],
    ids=["items", "cars", "stations"],
)
def test_pages_fit_and_a_reader_of_screens_finds_nothing_serious(
    kind, state, width, scheme, opened, request
):
    served = request.getfixturevalue(kind)
    page = opened(served.address + state, width=width, scheme=scheme)
    assert_fits_and_is_read(page)
