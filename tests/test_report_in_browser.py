"""A report in a real browser: headless Chromium, at two widths, light and dark."""

import html
import json
import re
import shutil
import subprocess

import pytest

from exfam.report import Section, render_page
from report_cases import full_report

BROWSER = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
WIDTHS = (400, 1280)
DARK = "--blink-settings=preferredColorScheme=0"

# Measures the page it stands in and sends the numbers to the frame around it.
MEASURE = """
<script>
addEventListener("load", () => {
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
  parent.postMessage(JSON.stringify({
    width: document.documentElement.clientWidth,
    wanted: document.documentElement.scrollWidth,
    pictures: shown.map((e) => [e.getBoundingClientRect().width, e.getBoundingClientRect().height]),
    drawn: shown.map((e) => e.tagName == "IMG" ? e.naturalWidth : e.querySelectorAll("path, use").length),
    smallest: words.map((e) => [size(e), e.textContent.trim().slice(0, 40)]).sort((a, b) => a[0] - b[0])[0],
    clipped: [...document.querySelectorAll("svg text")].filter((t) => seen(t) && outside(t)).map((t) => t.textContent),
    titles: [...document.querySelectorAll("figure")].length,
    ink: style.color, paper: style.backgroundColor,
    inPictures: [...new Set([...document.querySelectorAll("svg text")].filter(seen).map((t) => getComputedStyle(t).fill))],
  }), "*");
});
</script>
"""  # noqa: E501
FRAMES = """<!DOCTYPE html><html><body>
<script>
const sizes = {};
addEventListener("message", (event) => {
  const measured = JSON.parse(event.data);
  sizes[measured.width] = measured;
  document.querySelector("pre").textContent = JSON.stringify(sizes);
});
</script>
<pre></pre>
%s
</body></html>"""


def looked_at(page, folder, *flags):
    """What is measured in frames of both widths, and what the browser complains of."""
    if BROWSER is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on PATH")
    # The page's policy forbids all scripts, ours too; the rest of it stays.
    measured = page.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    (folder / "page.html").write_text(
        measured.replace("</body>", MEASURE + "</body>"), encoding="utf-8"
    )
    frames = "".join(
        f'<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
        for width in WIDTHS
    )
    (folder / "frames.html").write_text(FRAMES % frames, encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={folder / 'profile'}", "--disable-dev-shm-usage"]
    command += ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=20000", *flags]
    command += ["--window-size=1800,1000", "--dump-dom", f"file://{folder / 'frames.html'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    result = re.search(r"<pre>(.*?)</pre>", done.stdout, flags=re.DOTALL)
    assert result and result[1], f"the browser measured nothing: {done.stderr[-2000:]}"
    measured = json.loads(html.unescape(result[1]))
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return {int(width): each for width, each in measured.items()}, complaints


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    return looked_at(full_report(), tmp_path_factory.mktemp("light"))


def test_the_console_is_silent(light):
    measured, complaints = light
    assert sorted(measured) == sorted(WIDTHS)
    assert not complaints


@pytest.mark.parametrize("width", WIDTHS)
def test_all_pictures_are_drawn(light, width):
    result = light[0][width]
    assert len(result["pictures"]) == result["titles"] > 10
    assert all(wide > 200 and high > 60 for wide, high in result["pictures"])
    assert min(result["drawn"]) > 3


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_of_the_page(light, width):
    result = light[0][width]
    assert result["wanted"] <= result["width"]
    assert not result["clipped"]


@pytest.mark.parametrize("width", WIDTHS)
def test_all_words_are_large_enough_to_read(light, width):
    size, words = light[0][width]["smallest"]
    assert size >= 9.5, words


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def test_a_dark_screen_has_light_words_on_dark_paper(light, tmp_path):
    dark, complaints = looked_at(full_report(), tmp_path, DARK)
    assert not complaints
    for result, sign in ((light[0][1280], 1), (dark[1280], -1)):
        assert sign * (brightness(result["paper"]) - brightness(result["ink"])) > 150
        assert result["ink"] in result["inPictures"]
        assert len(result["inPictures"]) == 1


def test_what_is_wrong_with_a_page_would_be_found(tmp_path):
    bad = render_page("T", lead="x" * 300, sections=[Section("S", text=["tiny"])])
    bad = bad.replace("<p>tiny", '<script>oops()</script><p style="font-size: 4px">tiny')
    bad = bad.replace("overflow-wrap: break-word", "white-space: nowrap")
    svg = '<svg viewBox="0 0 50 9" style="width: 50px; height: 0">%s</svg>'
    bad = bad.replace("</section>", svg % '<text x="40" y="5">far out</text>' + "</section>")
    measured, complaints = looked_at(bad, tmp_path)
    assert any("oops is not defined" in line for line in complaints)
    result = measured[400]
    assert result["wanted"] > result["width"]
    assert result["smallest"][0] == 4
    assert result["pictures"] == [[50, 0]] and result["drawn"] == [0]
    assert result["clipped"] == ["far out"]
