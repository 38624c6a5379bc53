"""Values typed beside items on the page: what follows is what the library predicts."""

import pandas as pd
import pytest

from exfam import explore
from explorer.explored import ratings, ratings_model
from headless_browser import assert_fits_and_is_read, settled


@pytest.fixture(scope="module")
def stars():
    with explore(ratings_model(), ratings(), open_browser=False) as page:
        yield page


def frame(*values):
    names = "abcdef"[: len(values)]
    return pd.DataFrame({"user": 0, "movie": list(names), "stars": values})


def would(page, code):
    row = page.locator(f"#next > li[data-code='{code}'] [data-would]")
    return float(row.get_attribute("data-would"))


def drawn(page):
    return float(page.locator(".value [data-center]").get_attribute("data-center"))


def test_a_value_is_typed_and_all_other_values_and_items_follow(stars, opened):
    page = opened(stars.address + "#items=0,1")
    model = ratings_model()
    assert page.get_by_text("A set: the order of its items counts for nothing.").count() == 1
    wanted = model.predict(frame(None, None, None))
    assert would(page, 2) == pytest.approx(wanted[2], abs=1e-6)
    page.locator("[data-key='value-0']").fill("1.5")
    page.locator("[data-key='value-0']").press("Enter")
    settled(page)
    lower = model.predict(frame(1.5, None, None))
    assert would(page, 2) == pytest.approx(lower[2], abs=1e-6) and lower[2] != wanted[2]
    page.locator("#next .name", has_text="c").click()
    settled(page)
    assert drawn(page) == pytest.approx(lower[2], abs=1e-6)
    again = opened(page.url)
    assert drawn(again) == drawn(page)
    assert again.locator("[data-key='value-0']").input_value() == "1.5"
    page.locator("[data-key='value-0']").fill("")
    page.locator("[data-key='value-0']").press("Enter")
    settled(page)
    assert drawn(page) == pytest.approx(wanted[2], abs=1e-6)


def test_values_alone_are_drawn_and_the_highest_comes_first(opened):
    model = ratings_model(parts="values")
    with explore(model, ratings(), open_browser=False) as served:
        page = opened(served.address + "#items=0,1&values=[1.5,null]&item=4")
        assert page.locator("#next-title").inner_text() == "What would have the highest stars"
        rows = page.locator("#next > li")
        shown = {
            row.get_attribute("data-code"): would(page, row.get_attribute("data-code"))
            for row in rows.all()
        }
        assert list(shown.values()) == sorted(shown.values(), reverse=True) and len(shown) == 4
        for code, value in shown.items():
            given = pd.DataFrame(
                {"user": 0, "movie": ["a", "b", "abcdef"[int(code)]], "stars": [1.5, None, None]}
            )
            assert value == pytest.approx(model.predict(given)[2], abs=1e-6)
        assert drawn(page) == pytest.approx(shown["4"], abs=1e-6)
        page.locator("[data-key='add-4']").click()
        settled(page)
        assert rows.count() == 4 and page.locator("#context > li").count() == 3


def test_groups_come_with_their_values_and_elements_are_seen_by_the_others(stars, opened):
    page = opened(stars.address)
    page.locator("summary").click()
    page.fill("#group", "59")
    page.locator("[data-key='group-59']").click()
    settled(page)
    data = ratings()
    own = data[data["user"] == 59]
    typed = [float(page.locator(f"[data-key='value-{k}']").input_value()) for k in range(3)]
    assert typed == own["stars"].tolist()
    code = "abcdef".index(own["movie"].iloc[1])
    seen = opened(f"{page.url}&item={code}")
    wanted = ratings_model().predict(own)[1]
    assert drawn(seen) == pytest.approx(wanted, abs=1e-6)


def test_an_answer_that_comes_late_does_not_replace_a_later_one(stars, opened):
    page, late = opened(stars.address), []

    def hold_the_first(route):
        if late or "59" in (route.request.post_data or ""):
            route.continue_()
        else:
            late.append(route)

    page.route("**/group*", hold_the_first)
    with page.expect_request("**/group*"):
        page.locator("summary").click()
    page.fill("#group", "59")
    page.locator("[data-key='group-59']").wait_for()
    late[0].continue_()
    settled(page)
    assert page.locator("[data-key='group-59']").is_visible()


def test_stars_of_a_few_kinds_are_chosen_from_a_list(opened):
    model = ratings_model(family="ordinal(n=5, start=1)")
    with explore(model, open_browser=False) as served:
        page = opened(served.address + "#items=0,1&item=2", width=400)
        page.locator("[data-key='value-1']").select_option("4")
        settled(page)
        shares = page.locator(".value [data-probability]")
        shown = [float(own.get_attribute("data-probability")) for own in shares.all()]
        wanted = model.predict_proba(frame(None, 4, None), of="stars")[2]
        assert shown == pytest.approx(wanted, abs=1e-6)
        assert_fits_and_is_read(page)
