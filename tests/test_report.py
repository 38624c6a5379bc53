"""Pages of reports, also in a real browser: headless Chromium, two widths, light and dark."""

import base64
import hashlib
import html
import json
import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from exfam.checks import ExfamError
from exfam.plots import INK, result_bars
from exfam.report import (
    Facts,
    NamedPoints,
    Pairs,
    Picture,
    Section,
    SideBySide,
    TableData,
    render_page,
)
from headless_browser import DARK, WIDTHS, brightness, browser, measured_by
from page_reader import Reader
from report_kinds import KINDS, report_of


def picture():
    figure = result_bars(["a", "b"], np.array([1.0, 2.0]), metric="MSE")
    return Picture("Errors", figure, "A caption.")


def page(*sections, lead="L"):
    return render_page("T", lead=lead, sections=sections)


def test_every_kind_of_part_is_on_the_page():
    table = TableData(
        ["item", "with", "share"],
        [["a", Pairs([("b", "0.5"), ("<c>", "0.1")]), "1"], ["d", Pairs([]), "2"]],
        title="A table",
        caption="A foot.",
        shares={"share": [0.25, 1.0]},
        marked=[1],
    )
    parts = [Facts([("groups", "12"), ("<items>", "5")]), SideBySide([table, picture()]), picture()]
    text = page(Section("S", text=["First."], parts=parts), lead="a < b")
    reader = Reader(text)
    assert reader.open == [] and reader.tags.count("svg") == 2
    assert reader.ids and len(set(reader.ids)) == len(reader.ids)
    for word in ["T", "a < b", "S", "First.", "groups", "12", "<items>", "A table", "A foot."]:
        assert word in reader.words
    for word in ["b", "0.5", "<c>", "–", "Errors", "A caption."]:
        assert word in reader.words
    assert "--share: 25.0%" in text and "--share: 100.0%" in text
    assert text.count('<tr class="marked">') == 1


def policy_of(text):
    return re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]


def test_scripts_are_forbidden_before_anything_is_styled():
    text = page(Section("S"))
    assert "default-src 'none'" in policy_of(text) and "script-src" not in policy_of(text)
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_a_map_brings_one_script_which_the_policy_knows_by_its_hash():
    names = ["a", "</script><b>", "quote \" and ' & <"] * 3
    points = NamedPoints(names, np.arange(18.0).reshape(9, 2), np.ones(9))
    text = page(Section("S", parts=[Picture("M", picture().figure, named=points)]))
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert re.findall(r"script-src ([^;]*);", policy_of(text)) == [f"'sha256-{digest}'"]
    assert "<b>" not in text and text.count("<script") == 1
    (held,) = re.findall(r'data-points="([^"]*)"', text)
    held = json.loads(html.unescape(held))
    assert held["names"] == names and held["x"][0] == 0 and held["x"][-1] == 1
    assert "<svg" in text, "without scripts it is a picture"


def test_a_page_and_plain_figures_follow_the_screen_from_light_to_dark():
    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], color="tab:blue")
    axes.set_xlabel("black")
    text = page(Section("a", parts=[picture(), Picture("x", figure)]))
    style, _, body = text.partition("</style>")
    assert "prefers-color-scheme: dark" in style and "currentColor" in body
    assert INK not in body, "a picture's ink is the color of the words"
    svg = body[body.rindex("<svg ") : body.rindex("</svg>")]
    assert "#000000" not in svg and "stroke: currentColor" in svg
    assert "fill: currentColor" in svg and "#1f77b4" in svg


def test_a_ragged_table_is_refused():
    with pytest.raises(ExfamError, match="`rows` must have 2 cells each, .*, got 1 in row 1"):
        TableData(["a", "b"], [["1", "2"], ["3"]])


# Measures the page it stands in and sends the numbers to the frame around it.
MEASURE = """
<script>
addEventListener("load", () => {
  const tried = (root) => {
    const find = root.querySelector("input"), svg = root.querySelector("svg");
    const names = () => [...svg.querySelectorAll("text")].map((t) => t.textContent);
    const press = (at, key) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const dots = () => svg.querySelectorAll("circle").length;
    const before = names();
    find.value = "PRODUCT 1";
    find.dispatchEvent(new Event("input"));
    const found = root.querySelector("[role=status]").textContent;
    press(find, "Enter");
    const hits = [...svg.querySelectorAll("text.hit")].map((t) => t.textContent);
    press(find, "Escape");
    press(svg, "0");
    const all = dots();
    for (const key of "+++") press(svg, key);
    const near = dots();
    press(svg, "ArrowLeft");
    press(svg, "0");
    const still = root.parentElement.querySelectorAll(".drawing:not([hidden])").length;
    return { before, found, hits, all, near, again: names(), still };
  };
  const seen = (e) => e.getClientRects().length > 0;
  const words = [...document.body.querySelectorAll("*")].filter((e) => seen(e) &&
    e.tagName != "SCRIPT" &&
    [...e.childNodes].some((n) => n.nodeType == 3 && n.data.trim()));
  const size = (e) => {
    const svg = e.ownerSVGElement, px = parseFloat(getComputedStyle(e).fontSize);
    return svg ? px * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : px;
  };
  const outside = (t) => {
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 3 || a.right > b.right + 3 || a.top < b.top - 3 || a.bottom > b.bottom + 3;
  };
  const shown = [...document.querySelectorAll("svg, img")].filter(seen);
  const style = getComputedStyle(document.body);
  const measured = {
    page: location.pathname.split("/").pop(),
    width: document.documentElement.clientWidth,
    wanted: document.documentElement.scrollWidth,
    pictures: shown.map((e) => [e.getBoundingClientRect().width, e.getBoundingClientRect().height]),
    drawn: shown.map((e) => e.tagName == "IMG" ? e.naturalWidth : e.querySelectorAll("path, use, circle").length),
    smallest: words.map((e) => [size(e), e.textContent.trim().slice(0, 40)]).sort((a, b) => a[0] - b[0])[0],
    cut: [...document.querySelectorAll(".drawing")].filter((e) => seen(e) &&
      e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.trim().slice(0, 40)),
    clipped: [...document.querySelectorAll("svg text")].filter((t) => seen(t) && outside(t)).map((t) => t.textContent),
    titles: [...document.querySelectorAll("figure")].length,
    ink: style.color, paper: style.backgroundColor,
    inPictures: [...new Set([...document.querySelectorAll("svg text")].filter(seen).map((t) => getComputedStyle(t).fill))],
  };
  measured.maps = [...document.querySelectorAll(".map")].map(tried);
  parent.postMessage(JSON.stringify(measured), "*");
});
</script>
"""  # noqa: E501
FRAMES = """<!DOCTYPE html><html><body>
<script>
const sizes = [];
addEventListener("message", (event) => {
  sizes.push(JSON.parse(event.data));
  document.querySelector("pre").textContent = JSON.stringify(sizes);
});
</script>
<pre></pre>
%s
</body></html>"""
FRAME = '<iframe src="%s" style="width: %dpx; height: 900px; border: 0"></iframe>'


def with_measure(page):
    """The page with a script that measures it, which its policy allows beside its own."""
    script = MEASURE.strip().removeprefix("<script>").removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    own = re.search(r"script-src ('sha256-[^']*')", page)
    allowed = "default-src 'none';" if own is None else own[1]
    added = f" 'sha256-{digest}'"
    more = f"{allowed} script-src{added};" if own is None else f"{allowed}{added}"
    return page.replace(allowed, more).replace("</body>", MEASURE + "</body>")


def looked_at(pages, folder, *flags):
    """What is measured of each page in frames of both widths, and the browser's complaints."""
    browser()
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(with_measure(page), encoding="utf-8")
    frames = "".join(FRAME % (f"{name}.html", width) for name in pages for width in WIDTHS)
    (folder / "frames.html").write_text(FRAMES % frames, encoding="utf-8")
    return measured_by(folder / "frames.html", folder / "profile", *flags)


def test_every_report_is_readable_at_both_widths_on_light_and_dark_screens(tmp_path):
    pages = {kind: report_of(kind) for kind in KINDS}
    for name, flags, sign in (("light", (), 1), ("dark", (DARK,), -1)):
        (tmp_path / name).mkdir()
        measured, complaints = looked_at(pages, tmp_path / name, *flags)
        assert not complaints
        assert sorted((result["page"], result["width"]) for result in measured) == sorted(
            (f"{kind}.html", width) for kind in KINDS for width in WIDTHS
        )
        for result in measured:
            assert len(result["pictures"]) == result["titles"]
            assert result["titles"] > 1 or result["page"] == "community.html"
            assert all(wide > 200 and high > 60 for wide, high in result["pictures"])
            assert min(result["drawn"], default=9) > 3
            assert result["wanted"] <= result["width"], "something sticks out of the page"
            assert not result["cut"] and not result["clipped"], result["page"]
            size, words = result["smallest"]
            assert size >= 9, (result["page"], words)
            assert sign * (brightness(result["paper"]) - brightness(result["ink"])) > 150
            assert set(result["inPictures"]) <= {result["ink"]}
            assert len(result["maps"]) == (result["page"] == "groups.html")
            for item_map in result["maps"]:
                assert_can_be_searched_and_zoomed(item_map)


def assert_can_be_searched_and_zoomed(item_map):
    assert item_map["before"] and item_map["again"] == item_map["before"]
    assert re.match(r"\d+ found: product 1", item_map["found"])
    assert any(name.startswith("product 1") for name in item_map["hits"])
    assert all(name.startswith("product 1") for name in item_map["hits"])
    assert item_map["all"] > 20 > item_map["near"], "zoomed in, others are outside"
    assert item_map["still"] == 0, "the picture for pages without scripts is hidden"
