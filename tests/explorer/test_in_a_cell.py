"""A notebook's cell shows the page, which answers there as it does elsewhere."""

import ast
import http.server
import re
import threading
import webbrowser
from functools import partial

import nbclient
import nbformat
import pytest

from exfam import explore
from exfam.explorer.application import HEADERS
from explorer.explored import items_model

CELLS = (
    "import pandas as pd\n"
    "from exfam import EASE, explore\n"
    "rows = [(k, item) for k in range(30) for item in ('abc', 'bcd', 'cde')[k % 3]]\n"
    "frame = pd.DataFrame(rows, columns=['basket', 'item'])\n"
    "model = EASE(group='basket', item='item').fit(frame)",
    "page = explore(model, frame)\npage",
    "found = model.recommend({'basket': [0], 'item': ['b']}, k=4)\n"
    "print(dict(zip(found.items[0], found.probabilities[0].tolist())))",
)


@pytest.fixture
def notebook(tmp_path):
    """Runs cells, and keeps the kernel while the test looks at what they show."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    client = nbclient.NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout=120,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    with client.setup_kernel():
        for index, cell in enumerate(cells):
            client.execute_cell(cell, index)
        yield [cell.outputs for cell in cells]


@pytest.fixture
def site(tmp_path):
    """Serves a folder from another port, as a notebook's server does."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_a_cell_shows_the_page_and_it_answers(notebook, site, tmp_path, chromium):
    (shown,) = [output["data"] for output in notebook[1] if "data" in output]
    assert shown["text/plain"].startswith("Explorer at http://127.0.0.1:")
    wanted = ast.literal_eval(notebook[2][0]["text"])
    (tmp_path / "cell.html").write_text(f"<!DOCTYPE html><title>cell</title>{shown['text/html']}")
    page = chromium.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(f"{site}/cell.html")
    frame = page.frame_locator("iframe")
    frame.locator("main:not([aria-busy])").wait_for()
    frame.locator("#search").fill("b")
    frame.get_by_text("1 found").wait_for()
    frame.locator("#search").press("Enter")
    frame.locator("#context button").wait_for()
    frame.locator("main:not([aria-busy])").wait_for()
    rows = frame.locator("#next > li")
    names = rows.locator(".name").all_inner_texts()
    numbers = [
        float(own.get_attribute("data-probability"))
        for own in rows.locator("[data-probability]").all()
    ]
    assert dict(zip(names, numbers, strict=True)) == pytest.approx(wanted, abs=1e-6)
    assert [text for text in complaints if "favicon" not in text and "404" not in text] == []
    page.close()


def test_other_pages_may_not_frame_it_and_a_notebook_opens_no_browser(monkeypatch):
    import urllib.request

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("exfam.explorer.serve.in_notebook", lambda: True)
    with explore(items_model()) as page:
        assert opened == []
        (source,) = re.findall(r'src="([^"]+)"', page._repr_mimebundle_()["text/html"])
        policies = []
        for address in (page.address, source, page.address + "page.js"):
            with urllib.request.urlopen(address) as response:
                policies.append(response.headers["Content-Security-Policy"])
        assert policies[0] == policies[2] == HEADERS["Content-Security-Policy"]
        assert "frame-ancestors http://localhost:*" in policies[1]
        assert policies[1].partition("frame-ancestors")[0] in policies[0]
    with explore(items_model(), open_browser=True) as page:
        assert opened == [page.address]
