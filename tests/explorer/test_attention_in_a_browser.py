"""The page of attention, used as a person would, has the library's weights."""

from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from exfam import explore
from exfam.positions import identical_word_probe
from explorer.explored import (
    baskets,
    items_model,
    language_model,
    plain_table,
    rows_of_cars,
)
from headless_browser import assert_fits_and_is_read, settled

WORDS = ["a", "dog", "runs", "home"]


@pytest.fixture(scope="module")
def sentences():
    with explore(language_model(), open_browser=False) as page:
        yield page


@pytest.fixture(scope="module")
def items():
    model = items_model(attention="softmax", direction="causal", base="none")
    with explore(model, baskets(), open_browser=False) as page:
        yield page


@pytest.fixture(scope="module")
def rows():
    with explore(plain_table(), rows_of_cars(), open_browser=False) as page:
        yield page


def numbers(page, kind):
    """The table that holds such numbers, a row each."""
    texts = page.locator(f"tr:has([data-{kind}])").evaluate_all(
        f"all => all.map((row) => [...row.querySelectorAll('[data-{kind}]')].map("
        f"(own) => own.getAttribute('data-{kind}')))"
    )
    return np.array([[float(text) for text in row] for row in texts])


def test_a_sentence_is_typed_and_its_weights_follow_by_layer_and_head(sentences, opened):
    page = opened(sentences.address)
    page.locator("#sentence").focus()
    page.keyboard.type(" ".join(WORDS))
    page.locator(".heat tbody th", has_text="home").first.wait_for()
    settled(page)
    (own,) = language_model().encoder().word_attention([WORDS])
    assert numbers(page, "weight")[:, :4] == pytest.approx(own.mean((0, 1)).numpy(), abs=1e-6)
    page.locator("#choose-layer").select_option("2")
    page.locator("#choose-head").select_option("3")
    settled(page)
    assert numbers(page, "weight")[:, :4] == pytest.approx(own[1, 2].numpy(), abs=1e-6)
    page.locator("#choose-term").select_option("positional")
    settled(page)
    (alone,) = language_model().encoder(term="positional").word_attention([WORDS])
    assert numbers(page, "weight")[:, :4] == pytest.approx(alone[1, 2].numpy(), abs=1e-6)
    again = opened(page.url)
    assert numbers(again, "weight") == pytest.approx(numbers(page, "weight"))
    assert again.locator("#sentence").input_value() == " ".join(WORDS)


def test_a_row_is_chosen_by_the_keyboard_and_heads_are_measured(sentences, opened):
    page = opened(f"{sentences.address}#text={'+'.join(WORDS)}")
    page.locator("[data-key='row-1']").focus()
    page.keyboard.press("Enter")
    settled(page)
    assert page.evaluate("document.activeElement.dataset.key") == "row-1"
    shares = [float(own.get_attribute("data-share")) for own in page.locator("[data-share]").all()]
    assert sorted(shares) == pytest.approx(sorted(numbers(page, "weight")[1]), abs=1e-12)
    page.get_by_role("button", name="locality of positions").click()
    settled(page)
    probe = identical_word_probe(language_model().encoder(), words=8, length=32).head_scores()
    assert numbers(page, "head") == pytest.approx(probe.locality.numpy(), abs=1e-6)
    page.locator("[data-key='head-1-2']").click()
    settled(page)
    (own,) = language_model().encoder().word_attention([WORDS])
    assert numbers(page, "weight")[:, :4] == pytest.approx(own[1, 2].numpy(), abs=1e-6)
    fields = parse_qs(urlsplit(page.url).fragment)
    assert fields["layer"] == ["2"] and fields["measure"] == ["probe-locality"]


def test_the_basket_of_the_other_view_is_looked_at(items, opened):
    page = opened(items.address + "#items=0,1,5")
    page.get_by_role("button", name="Attention").click()
    page.locator(".heat td[data-weight]").first.wait_for()
    settled(page)
    model = items_model(attention="softmax", direction="causal", base="none")
    for names in ("abf", "abfc"):
        (own,) = model.explain({"basket": [0] * len(names), "item": list(names)})
        wanted = own.weights["items"].mean((0, 1))
        assert numbers(page, "weight")[:-1] == pytest.approx(wanted, abs=1e-6)
        assert page.locator(".heat").first.locator("thead th").last.inner_text() == "(nothing)"
        if names == "abf":
            page.get_by_role("button", name="What if").click()
            page.locator("[data-key='found-2']").click()
            settled(page)
            page.get_by_role("button", name="Attention").click()
            page.locator(".heat td[data-weight]").first.wait_for()
            settled(page)


def test_the_row_of_the_other_view_is_looked_at(rows, opened):
    page = opened(rows.address + "#index=4")
    page.get_by_role("button", name="Attention").click()
    page.locator(".heat td[data-weight]").first.wait_for()
    settled(page)
    row = {name: [value] for name, value in rows_of_cars().iloc[4].items()}
    own = plain_table().position_attention(row).weights.mean((0, 1))
    assert numbers(page, "weight") == pytest.approx(own.numpy(), abs=1e-6)


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1600, "dark")])
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("sentences", "#text=a+dog+runs+home+with+a+man&layer=1&head=2&at=1"),
        ("items", "#view=attention&items=0,1,2,5"),
    ],
    ids=["sentences", "items"],
)
def test_attention_fits_and_a_reader_of_screens_finds_nothing_serious(
    kind, state, width, scheme, opened, request
):
    served = request.getfixturevalue(kind)
    page = opened(served.address + state, width=width, scheme=scheme)
    assert_fits_and_is_read(page)
