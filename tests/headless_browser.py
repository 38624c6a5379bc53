"""Pages opened in a browser without a window: what their scripts measure, and its complaints."""

import html
import json
import re
import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
DARK = "--blink-settings=preferredColorScheme=0"
WIDTHS = (400, 1280)


def browser():
    """The program; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(_NAMES)} on PATH")
    return found


def measured_by(page, profile, *flags, seconds=60):
    """What stands in the first <pre> of a page after so many seconds, and the complaints."""
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={profile}", "--disable-dev-shm-usage"]
    command += ["--enable-logging=stderr", "--v=0", f"--virtual-time-budget={1000 * seconds}"]
    command += [*flags, "--window-size=1800,1000", "--dump-dom", f"file://{page}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    result = re.search(r"<pre>(.*?)</pre>", done.stdout, flags=re.DOTALL)
    assert result and result[1], f"the browser measured nothing: {done.stderr[-2000:]}"
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(result[1])), complaints


def brightness(color):
    """Of a color as the browser writes it, from 0 to 255."""
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def settled(page):
    """Waits until a page in a browser has the answers to all that it asked."""
    page.wait_for_selector("main:not([aria-busy])")


def assert_fits_and_is_read(page):
    """Nothing widens the page, and a reader of screens finds nothing serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # The policy of the page forbids scripts from elsewhere: axe runs by the browser's own door.
    violations = axe.Axe().run(page).response["violations"]
    serious = [own for own in violations if own["impact"] in ("serious", "critical")]
    assert [(own["id"], own["nodes"][0]["html"]) for own in serious] == []
