import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots import INK, result_bars
from exfam.report import Facts, Pairs, Picture, Section, SideBySide, TableData, render_page
from page_reader import LOADED_FROM, Reader


def picture(title="Errors", names=("a", "b")):
    figure = result_bars(names, np.array([1.0, 2.0]), metric="MSE")
    return Picture(title, figure, "A caption.")


def page():
    table = TableData(["model", "MSE"], [["EFA", "1.03"]], words=["model"], caption="A foot.")
    sections = [
        Section("Results", text=["First."], parts=[table, picture()]),
        Section("More", parts=[picture("Others")]),
    ]
    return render_page("Ratings", lead="All of them.", sections=sections)


def test_everything_given_is_on_the_page():
    words = Reader(page()).words
    for result in ["Ratings", "All of them.", "Results", "First.", "EFA", "1.03", "A foot."]:
        assert result in words
    for result in ["Errors", "A caption.", "Others", "More"]:
        assert result in words


def test_a_page_is_well_formed_and_its_names_are_unique():
    reader = Reader(page())
    assert reader.open == []
    assert reader.tags.count("svg") == 2
    assert reader.ids and len(set(reader.ids)) == len(reader.ids)
    named = set(re.findall(r'(?:href="#|url\(#)([^")]+)', page()))
    assert named and named <= set(reader.ids), "what a picture points to is in it"


def test_nothing_is_loaded_from_elsewhere():
    assert not LOADED_FROM.findall(page())
    assert "<script" not in page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page())[1]
    assert "default-src 'none'" in policy and "script-src" not in policy
    assert page().index("Content-Security-Policy") < page().index("<style>")


def test_a_page_follows_the_screen_from_light_to_dark():
    assert "prefers-color-scheme: dark" in page()
    style = page().partition("</style>")[0]
    assert INK not in page().removeprefix(style), "a picture's ink is the color of the words"
    assert "currentColor" in page()


def test_a_plain_figure_follows_too():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], color="tab:blue")
    axes.set_xlabel("black")
    made = render_page("T", lead="L", sections=[Section("a", parts=[Picture("x", figure)])])
    svg = made[made.index("<svg ") : made.index("</svg>")]
    assert "#000000" not in svg and "stroke: currentColor" in svg
    assert "fill: currentColor" in svg and "#1f77b4" in svg


def test_words_are_escaped():
    made = render_page(
        "<b>", lead="a < b", sections=[Section("x", parts=[picture('"<i>"', ["<u>", "&"])])]
    )
    reader = Reader(made)
    assert not {"b", "i", "u"} & set(reader.tags)
    assert "a < b" in reader.words and '"<i>"' in reader.words


def test_a_ragged_table_is_refused():
    with pytest.raises(ExfamError, match="`rows` must have 2 cells each, .*, got 1 in row 1"):
        TableData(["a", "b"], [["1", "2"], ["3"]])


def test_every_kind_of_part_is_on_the_page():
    table = TableData(
        ["item", "with", "share"],
        [["a", Pairs([("b", "0.5"), ("<c>", "0.1")]), "1"], ["d", Pairs([]), "2"]],
        title="A table",
        shares={"share": [0.25, 1.0]},
        marked=[1],
    )
    parts = [Facts([("groups", "12"), ("<items>", "5")]), SideBySide([table, picture()]), picture()]
    made = render_page("T", lead="L", sections=[Section("S", parts=parts)])
    reader = Reader(made)
    assert reader.open == [] and reader.tags.count("svg") == 2
    assert len(set(reader.ids)) == len(reader.ids)
    for word in ["groups", "12", "<items>", "A table", "b", "0.5", "<c>", "–"]:
        assert word in reader.words
    assert "--share: 25.0%" in made and "--share: 100.0%" in made
    assert made.count('<tr class="marked">') == 1


@pytest.mark.parametrize("n", [4, 5])
def test_long_pages_have_contents(n):
    made = render_page("T", lead="L", sections=[Section(f"Part {i}") for i in range(n)])
    links = re.findall(r'href="#(\w+)"', made)
    assert links == ([] if n < 5 else [f"s{i + 1}" for i in range(n)])
    assert set(links) <= set(Reader(made).ids)
