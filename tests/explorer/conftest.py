"""A browser for pages that are served."""

import pytest

from headless_browser import browser, settled


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = browser()
    with sync_api.sync_playwright() as player:
        opened = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def opened(chromium):
    """Opens a page, and fails the test where its console complains."""
    complaints, pages = [], []

    def open_page(address, *, width=1280, scheme="light"):
        page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        settled(page)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []
