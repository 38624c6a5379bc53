"""The built documentation in a browser: nothing sticks out, pictures are drawn, no errors.

`make check` builds it into out/docs before the tests.
"""

import json
import re

import pytest

from headless_browser import DARK, WIDTHS, brightness, browser, measured_by
from house.sources import ROOT

BUILT = ROOT / "out" / "docs"
GUIDE = (
    "start", "baskets", "ratings", "fields", "tables", "communities", "words", "positions",
    "families", "efa_in_one_file", "reading", "command-line",
)  # fmt: skip
PAGES = ["index", *(f"guide/{name}" for name in GUIDE), "api/generated/exfam.EFA"]
TUTORIALS = ["baskets", "ratings", "stations", "table", "words"]
# Pages whose code draws at least one picture.
DRAWN = {*(f"guide/{name}" for name in GUIDE[:10]), "index"}
# What a page would fetch from the network.
FETCHED = re.compile(r"<(?:script|img|iframe)[^>]*src=.https?:|<link[^>]*stylesheet[^>]*https?:")
MEASURE = """<script>
addEventListener("load", async () => {
  const pictures = [...document.querySelectorAll("article img")];
  pictures.forEach((image) => { image.loading = "eager"; });
  await Promise.all(pictures.map((image) => image.decode().catch(() => null)));
  await new Promise((done) => setTimeout(done, 200));
  const width = innerWidth, root = document.documentElement, paper = document.body;
  // What may scroll by itself does not widen the page, unless it is wide itself.
  const boxes = [...document.querySelectorAll("article pre, article table, article img")];
  const outside = boxes.filter((box) => {
    const within = box.closest("div.highlight, div.cell_output, .table-wrapper") ?? box;
    return within.getBoundingClientRect().right > width + 1;
  });
  const cut = [...document.querySelectorAll("article pre")].filter(
    (box) => box.scrollWidth > box.clientWidth + 1 &&
      !["auto", "scroll"].includes(getComputedStyle(box).overflowX) &&
      !["auto", "scroll"].includes(getComputedStyle(box.parentElement).overflowX));
  parent.postMessage(JSON.stringify({
    page: PAGE, width: width, wanted: Math.max(root.scrollWidth, paper.scrollWidth),
    pictures: pictures.map((image) => image.naturalWidth),
    outputs: document.querySelectorAll(".cell_output").length,
    outside: outside.map((box) => box.textContent.slice(0, 60)),
    cut: cut.map((box) => box.textContent.slice(0, 60)),
    ink: getComputedStyle(document.querySelector("article p")).color,
    paper: getComputedStyle(paper).backgroundColor,
  }), "*");
});
</script></head>"""
FRAMES = """<!DOCTYPE html><html><body><pre></pre><script>
const results = [];
addEventListener("message", (event) => {
  results.push(JSON.parse(event.data));
  document.querySelector("pre").textContent = JSON.stringify(results);
});
</script>%s</body></html>"""


def measured(names, folder, *flags):
    """What each page is like at both widths, and what the browser complains of."""
    browser()
    if not (BUILT / "index.html").exists():
        pytest.skip("out/docs is not built: `make docs`")
    lay_out(names, folder)
    pages, complaints = measured_by(folder / "frames.html", folder / "profile", *flags, seconds=180)
    assert {(page["page"], page["width"]) for page in pages} == {
        (name, width) for name in names for width in WIDTHS
    }
    return pages, complaints


def lay_out(names, folder):
    """The built pages beside links to what they show, each with a script that measures it."""
    site = folder / "docs"
    for path in BUILT.rglob("*"):
        target = site / path.relative_to(BUILT)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif path.suffix != ".html":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
    for name in names:
        text = (BUILT / f"{name}.html").read_text(encoding="utf-8")
        assert not FETCHED.search(text), name
        script = MEASURE.replace("PAGE", json.dumps(name))
        (site / f"{name}.html").write_text(text.replace("</head>", script, 1), encoding="utf-8")
    frames = "".join(
        f'<iframe src="docs/{name}.html" style="width:{width}px;height:900px;border:0"></iframe>'
        for name in names
        for width in WIDTHS
    )
    (folder / "frames.html").write_text(FRAMES % frames, encoding="utf-8")


@pytest.mark.parametrize(("flags", "sign"), [((), 1), ((DARK,), -1)], ids=["light", "dark"])
def test_pages_are_readable_at_both_widths(flags, sign, tmp_path):
    names = [*PAGES, *(f"tutorials/{name}" for name in TUTORIALS)]
    pages, complaints = measured(names, tmp_path, *flags)
    assert len(pages) == 2 * len(names) and not complaints
    for page in pages:
        assert page["wanted"] <= page["width"], f"{page['page']} scrolls sideways"
        assert not page["outside"] and not page["cut"], page["page"]
        assert all(page["pictures"]), f"a picture of {page['page']} is not drawn"
        if page["page"] in DRAWN:
            assert page["pictures"], page["page"]
        if page["page"] in DRAWN - {"index"}:
            assert page["outputs"], page["page"]
        assert sign * (brightness(page["paper"]) - brightness(page["ink"])) > 150
