"""The map of words and items, used as a person would, says what the library says."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from exfam import WordVectors, explore
from explorer.explored import (
    attributes_of_words,
    baskets,
    hostile_names,
    items_model,
    word_vectors,
)
from headless_browser import assert_fits_and_is_read, settled


@pytest.fixture(scope="module")
def words():
    with explore(word_vectors(), attributes_of_words(), open_browser=False) as page:
        yield page


def scores(page, kind):
    """Name -> number, as a list of the page has them."""
    rows = page.locator(f"[data-{kind}]")
    names = page.locator(f"li:has([data-{kind}]) .name").all_inner_texts()
    numbers = [float(own.get_attribute(f"data-{kind}")) for own in rows.all()]
    return list(zip(names, numbers, strict=True))


def wanted(nearest):
    return [(word, pytest.approx(score, abs=1e-6)) for word, score in nearest]


def fields(page):
    return {name: own[0] for name, own in parse_qs(urlsplit(page.url).fragment).items()}


def dot(page, code):
    return page.locator(f"[data-dot='{code}']")


def test_a_word_is_searched_chosen_and_what_is_near_follows(words, opened):
    page = opened(words.address)
    page.fill("#find", "tea")
    page.get_by_text("3 found").wait_for()
    page.press("#find", "Enter")
    settled(page)
    vectors = word_vectors()
    assert scores(page, "alike") == wanted(vectors.most_similar("tea", k=12))
    beside = vectors.most_similar(vectors["tea"], k=12, of="context")
    assert scores(page, "beside") == wanted(beside)
    assert page.locator("#word").get_by_text("kind: drink; price: 5").count() == 1
    page.locator("[data-key^='alike-']").first.click()
    settled(page)
    nearest = vectors.most_similar("tea", k=1)[0].word
    assert scores(page, "alike") == wanted(vectors.most_similar(nearest, k=12))
    again = opened(page.url)
    assert scores(again, "alike") == scores(page, "alike")


def test_a_dot_is_clicked_and_keys_go_from_dot_to_dot(words, opened):
    page = opened(words.address)
    dot(page, 4).click()
    settled(page)
    assert page.locator("#word h3").first.inner_text() == "butter"
    dot(page, 4).focus()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    focused = page.evaluate("document.activeElement.dataset.dot")
    assert focused is not None
    page.keyboard.press("Enter")
    settled(page)
    assert fields(page)["code"] == focused
    assert page.evaluate("document.activeElement.dataset.dot") == focused


def test_the_map_is_zoomed_moved_and_dragged(words, opened):
    page = opened(words.address)
    every = page.locator("[data-dot]").count()
    assert every == 10 and "part" not in fields(page)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom in").click()
    settled(page)
    x, y, zoom = map(float, fields(page)["part"].split(","))
    assert zoom == pytest.approx(2.56) and page.locator("[data-dot]").count() < every
    page.locator(".plane").focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert float(fields(page)["part"].split(",")[0]) > x
    box = page.locator(".plane").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 160, steps=4)
    page.mouse.up()
    settled(page)
    assert float(fields(page)["part"].split(",")[1]) > y
    page.mouse.wheel(0, -100)
    settled(page)
    assert float(fields(page)["part"].split(",")[2]) > zoom
    again = opened(page.url)
    assert again.locator("[data-dot]").count() == page.locator("[data-dot]").count()
    page.keyboard.press("0")
    settled(page)
    assert page.locator("[data-dot]").count() == every


def test_the_reflected_half_mirrors_words_at_the_axis(words, opened):
    page = opened(words.address)
    page.locator("#plane").select_option("mirror")
    page.locator("#layer").select_option("both")
    settled(page)
    numbers = page.evaluate(
        """() => {
            const of = (kind) => [...document.querySelectorAll(kind)].map(
                (own) => [Number(own.getAttribute("cx")), Number(own.getAttribute("cy"))]);
            return [of(".spot"), of(".ring")];
        }"""
    )
    dots, rings = (np.array(own) for own in numbers)
    np.testing.assert_allclose(dots[:, 0], rings[:, 0], atol=0.11)
    heights = dots[:, 1] + rings[:, 1]
    np.testing.assert_allclose(heights, heights[0], atol=0.25)
    page.locator("#layer").select_option("context")
    settled(page)
    below = page.locator(".spot").first
    assert float(below.get_attribute("cy")) == pytest.approx(rings[0, 1], abs=0.11)


def test_dots_have_the_colors_of_an_attribute(words, opened):
    page = opened(words.address)
    page.locator("#color").select_option("kind")
    settled(page)
    assert page.locator(".legend li").all_inner_texts() == ["food", "drink"]
    assert "k1" in dot(page, 0).get_attribute("class") and "k0" in dot(page, 3).get_attribute(
        "class"
    )
    page.locator("#color").select_option("price")
    settled(page)
    assert page.locator(".legend li").all_inner_texts() == ["5", "14"]
    assert dot(page, 9).get_attribute("fill") == "rgb(163,38,42)"


def test_an_analogy_is_typed_and_drawn_as_arrows(words, opened):
    page = opened(words.address)
    for k, word in enumerate(("tea", "coffee", "milk")):
        page.locator(f"[data-key='term-{k}']").fill(word)
        page.locator(f"[data-key='term-{k}']").press("Enter")
        settled(page)
    assert scores(page, "answer") == wanted(word_vectors().analogy("tea", "coffee", "milk", k=5))
    assert page.locator("line.arrow").count() == 2
    again = opened(page.url)
    assert scores(again, "answer") == scores(page, "answer")
    assert again.locator("[data-key='term-1']").input_value() == "coffee"
    page.locator("[data-key='term-0']").fill("nothing of ours")
    page.locator("[data-key='term-0']").press("Enter")
    page.get_by_text("There is no word nothing of ours.").wait_for()
    settled(page)
    assert page.locator("line.arrow").count() == 0


def test_items_have_the_map_as_a_second_view(opened):
    with explore(items_model(), baskets(), open_browser=False) as served:
        page = opened(served.address + "#items=0")
        page.get_by_role("button", name="Map").click()
        page.locator(".plane").wait_for()
        settled(page)
        dot(page, 2).click()
        settled(page)
        own = items_model().similar_items("c", k=12)
        nearest = zip(own.labels[0], own.similarity[0], strict=True)
        assert scores(page, "alike") == wanted(nearest)
        page.get_by_role("button", name="What if").click()
        page.locator("#context").wait_for()
        assert fields(page)["items"] == "0"


def test_hostile_names_are_text(opened):
    names = tuple(hostile_names(200))
    center = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    with explore(WordVectors(names, center), open_browser=False) as served:
        page = opened(served.address + "#code=3&analogy=1,2,3")
        settled(page)
        assert page.title() == "What if? WordVectors"
        assert page.locator("main img, main script, main b").count() == 0
        labels = page.locator("[data-dot]").evaluate_all(
            "all => all.map((own) => [Number(own.dataset.dot), own.getAttribute('aria-label')])"
        )
        assert {code: label for code, label in labels} == dict(enumerate(names))
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
def test_the_map_fits_and_a_reader_of_screens_finds_nothing_serious(words, width, scheme, opened):
    state = "#code=2&analogy=0,1,2&plane=mirror&layer=both&color=kind"
    page = opened(words.address + state, width=width, scheme=scheme)
    assert_fits_and_is_read(page)
