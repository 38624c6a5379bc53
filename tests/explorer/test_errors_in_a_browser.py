"""The view of errors, used as a person would, has the library's numbers."""

import numpy as np
import pytest

from exfam import explore
from exfam.explorer.errors import groups as scored_groups
from exfam.scores.metrics import mean_over_groups
from explorer.explored import (
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
from headless_browser import assert_fits_and_is_read, settled


@pytest.fixture(scope="module")
def items():
    beside = {"against": marginal_of_baskets(), "compare": baskets(seed=3)}
    with explore(items_model(), baskets(), open_browser=False, **beside) as page:
        yield page


@pytest.fixture(scope="module")
def cars():
    beside = {"against": plain_table(), "compare": rows_of_cars(seed=2)}
    with explore(table_model(), rows_of_cars(), open_browser=False, **beside) as page:
        yield page


@pytest.fixture(scope="module")
def stations():
    with explore(
        field_model(), maps_of_stations(), against=field_without_lags(), open_browser=False
    ) as page:
        yield page


def numbers(page, selector, name):
    found = [own.get_attribute(name) for own in page.locator(f"{selector} [{name}]").all()]
    return np.array(found, dtype=float)


def test_a_few_groups_are_shown_at_first_and_all_that_are_scored_later(opened, monkeypatch):
    monkeypatch.setattr(scored_groups, "_MOST", 30)
    monkeypatch.setattr(scored_groups, "_LEAST", 30)
    with explore(items_model(), baskets(), open_browser=False) as served:
        page = opened(served.address + "#view=errors")
        page.get_by_text("10 of 60 groups are scored.").wait_for()
        settled(page)
        assert page.locator("tbody [data-total]").count() == 10


def test_the_worst_are_listed_paged_and_opened(cars, opened):
    page = opened(cars.address)
    page.get_by_role("button", name="Errors").click()
    page.locator("tbody [data-total]").first.wait_for()
    settled(page)
    wanted = np.sort(table_model().pseudo_log_likelihood(rows_of_cars()))
    assert numbers(page, "tbody", "data-total") == pytest.approx(wanted[:20], abs=1e-6)
    page.locator("[data-key='worst-Next']").click()
    settled(page)
    assert numbers(page, "tbody", "data-total") == pytest.approx(wanted[20:40], abs=1e-6)
    page.locator("#order").select_option("least")
    settled(page)
    least = numbers(page, "tbody", "data-least")[0]
    name = page.locator("[data-name]").first.get_attribute("data-name")
    column = page.locator("tbody a").first.inner_text().partition(":")[0]
    page.locator("tbody a").first.focus()
    page.keyboard.press("Enter")
    page.locator(f"[data-column='{column}'] [data-nats]").wait_for()
    settled(page)
    shown = page.locator(f"[data-column='{column}'] [data-nats]").get_attribute("data-nats")
    assert float(shown) == pytest.approx(least, abs=1e-6)
    assert page.locator("#index").input_value() == name.removeprefix("row ")
    page.go_back()
    page.locator("#order").wait_for()
    settled(page)
    assert page.locator("#order").input_value() == "least", "one goes back to where one was"


def test_a_slice_is_chosen_and_all_panels_follow_and_the_address_opens_it_again(cars, opened):
    page = opened(cars.address + "#view=errors")
    page.locator("#slicing").select_option("value of origin")
    settled(page)
    page.locator("[data-key='slice-1']").focus()
    page.keyboard.press("Enter")
    page.locator("[data-key='all-slices']").wait_for()
    settled(page)
    frame, usa = rows_of_cars(), (rows_of_cars()["origin"] == "usa").to_numpy()
    nats = np.stack(
        [
            table_model()
            .conditional([name], given=frame.drop(columns=name))
            .log_prob(frame[[name]], n_orders=1)
            for name in frame
        ],
        axis=1,
    )
    own = mean_over_groups(nats[usa].ravel(), np.repeat(np.arange(usa.sum()), 4))
    row = page.locator("[data-slice='usa']")
    shown = [float(row.locator("[data-low]").get_attribute(f"data-{k}")) for k in ("mean", "low")]
    assert shown == pytest.approx([own.mean, own.mean - 1.96 * own.error], abs=1e-6)
    totals = np.sort(nats[usa].sum(1))[:20]
    assert numbers(page, "tbody", "data-total") == pytest.approx(totals, abs=1e-5)
    page.locator("#column").select_option("mpg")
    settled(page)
    assert numbers(page, "svg", "data-share").sum() == pytest.approx(1)
    again = opened(page.url)
    again.locator("[data-share]").first.wait_for()
    shares = [numbers(one, "svg", "data-share") for one in (page, again)]
    np.testing.assert_array_equal(*shares)
    page.locator("[data-key='all-slices']").click()
    settled(page)
    assert len(numbers(page, "tbody", "data-total")) == 20


def test_two_models_stand_beside_each_other(items, opened):
    page = opened(items.address + "#view=errors&of=parts&order=difference")
    data = baskets()
    gap = items_model().log_prob(data) - marginal_of_baskets().log_prob(data)
    wanted = data.assign(gap=gap).groupby("item")["gap"].mean().sort_values()
    shown = numbers(page, "section:first-of-type tbody", "data-difference")
    assert shown == pytest.approx(wanted.to_numpy(), abs=1e-6)
    overall = float(page.locator("p [data-difference]").get_attribute("data-difference"))
    assert overall == pytest.approx(gap.mean(), abs=1e-6)
    least = numbers(page, "tbody", "data-least")[0]
    page.locator("tbody a").first.click()
    page.locator("[data-why]").wait_for()
    settled(page)
    shown = float(page.locator("[data-why]").get_attribute("data-why"))
    assert np.log(shown) == pytest.approx(least, abs=1e-6)


def test_what_has_moved_is_marked_and_shown(cars, items, opened):
    page = opened(cars.address + "#view=errors")
    page.locator("[data-key='moved-mpg']").click()
    page.locator("[data-before]").first.wait_for()
    settled(page)
    assert numbers(page, "tbody", "data-after").sum() == pytest.approx(1)
    report = table_model().shift_report(rows_of_cars(), rows_of_cars(seed=2)).as_dict()
    wanted = [column["conditional"]["new"] for column in report["columns"]]
    assert numbers(page, "tbody", "data-nats") == pytest.approx(wanted, abs=1e-6)
    page = opened(items.address + "#view=errors")
    shares = baskets(seed=3)["item"].value_counts(normalize=True)
    for name, share in shares.items():
        (shown,) = numbers(page, f"[data-part='{name}']", "data-own")
        assert shown == pytest.approx(share, abs=1e-6)


def test_a_map_is_opened_at_its_station(stations, opened):
    page = opened(stations.address + "#view=errors&of=parts&order=least")
    least = numbers(page, "tbody", "data-least")[0]
    page.locator("tbody a").first.click()
    page.locator("[data-mean][data-sd]").wait_for()
    settled(page)
    assert f"{least:.2f} nats" in page.locator("[data-mean][data-sd]").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (800, "dark"), (1600, "light")])
@pytest.mark.parametrize("kind", ["items", "cars", "stations"])
def test_it_fits_and_a_reader_of_screens_finds_nothing_serious(
    kind, width, scheme, opened, request
):
    served = request.getfixturevalue(kind)
    page = opened(served.address + "#view=errors", width=width, scheme=scheme)
    assert_fits_and_is_read(page)
