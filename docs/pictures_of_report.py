"""Draws the picture of guide/report.md, the beginning of a page: python docs/pictures_of_report.py.

Needs Chromium and playwright.
"""

import shutil
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from exfam import EFA, write_report
from exfam.simulators import BasketSettings, simulate_baskets

PICTURE = Path(__file__).parent / "images" / "report.png"
SIZE = {"width": 1000, "height": 760}


def page(folder: Path) -> Path:
    """A report about simulated baskets."""
    shop = BasketSettings(
        theme_size=8, staple_items=0.1, follow=0.6, median_length=6.0, max_length=12
    )
    baskets = simulate_baskets(1200, 40, settings=shop, seed=1).groups
    train, new = baskets[:900], baskets[900:]
    model = EFA(group="order", item="product", progress=False).fit(train)
    return write_report(model, new, path=folder / "report.html", train=train)


def main() -> None:
    """Write the page, open it and take its picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as player:
        own = page(Path(folder))
        program = shutil.which("chromium")
        chromium = player.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = chromium.new_page(viewport=SIZE, color_scheme="light")
        opened.goto(own.as_uri())
        shot = Image.open(BytesIO(opened.screenshot())).convert("RGB")
        # A palette, as pages have few colors: a third of the bytes.
        shot.quantize(48, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
        chromium.close()


if __name__ == "__main__":
    main()
