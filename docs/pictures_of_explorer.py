"""The pictures of the guide's page about `explore`: screens of pages that are really served.

    python docs/pictures_of_explorer.py

Needs playwright and Chromium.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

from exfam import EASE, EFA, FieldEFA, MaskedTable, explore
from exfam.simulators import FieldSettings, simulate_field

IMAGES = Path(__file__).parent / "images"
SHELVES = {
    "breakfast": ["tea", "milk", "bread", "jam", "butter", "coffee"],
    "pasta": ["pasta", "tomato sauce", "parmesan", "basil", "red wine"],
    "tacos": ["tortillas", "salsa", "avocado", "lime", "beans"],
    "party": ["crisps", "beer", "lemonade", "olives"],
}


def baskets(seed: int = 0) -> pd.DataFrame:
    """Simulated baskets, a shelf each and a little beside."""
    random = np.random.default_rng(seed)
    rows = []
    for basket in range(800):
        shelf = SHELVES[str(random.choice(list(SHELVES), p=[0.4, 0.25, 0.2, 0.15]))]
        chosen = set(random.choice(shelf, size=random.integers(2, 5)))
        if random.random() < 0.4:
            chosen.add(str(random.choice(["water", "beer", "bananas"])))
        rows += [(basket, item) for item in sorted(chosen)]
    return pd.DataFrame(rows, columns=["basket", "item"])


def items() -> tuple[Any, Any, str]:
    """A basket of two items."""
    frame = baskets()
    model = EFA(group="basket", item="item", progress=False).fit(frame)
    codes = {name: code for code, name in enumerate(model.vocabulary_["item"].tolist())}
    state = f"#items={codes['avocado']},{codes['beer']}&item={codes['salsa']}"
    return model, frame, state


def cars() -> tuple[Any, Any, str]:
    """A car with a slip of the keyboard."""
    random = np.random.default_rng(0)
    weight = random.normal(1300, 250, 300)
    frame = pd.DataFrame(
        {
            "weight": weight.round(),
            "horsepower": (weight / 14 + random.normal(0, 9, 300)).round(),
            "mpg": (52 - weight / 50 + random.normal(0, 2, 300)).round(1),
            "origin": np.where(weight + random.normal(0, 180, 300) > 1250, "usa", "japan"),
            "cylinders": np.where(weight > 1450, 8, np.where(weight > 1200, 6, 4)).astype(str),
            "year": random.integers(70, 83, 300),
        }
    )
    cells = {**frame.iloc[4].to_dict(), "mpg": 260.0}
    cells = {
        name: getattr(value, "item", lambda value=value: value)() for name, value in cells.items()
    }
    state = f"#index=4&cells={json.dumps(cells)}&column=mpg"
    return MaskedTable(progress=False).fit(frame), frame, state


def stations() -> tuple[Any, Any, str]:
    """A map with one station chosen."""
    field = simulate_field(40, 150, settings=FieldSettings(season=0.0), missing=0.05, seed=0)
    frame = field.frame.to_pandas()
    columns = {"time": "time", "site": "site", "value": "value"}
    model = FieldEFA(**columns, coordinates=["latitude", "longitude"], lags=1, progress=False)
    return model.fit(frame), frame, "#time=100&station=3"


def errors() -> tuple[Any, Any, str]:
    """Where the model of baskets is wrong, beside one that counts."""
    model, frame, _ = items()
    return model, frame, "#view=errors&of=parts&order=mean&slicing=item&by=mean"


def beside(name: str) -> dict[str, Any]:
    """A second model, and later data, for the page of errors."""
    if name != "errors":
        return {}
    return {"against": EASE(group="basket", item="item").fit(baskets()), "compare": baskets(1)}


PAGES = {"items": items, "row": cars, "stations": stations, "errors": errors}


def main() -> None:
    """Serve each page, and take its picture."""
    with sync_playwright() as player:
        chromium = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, make in PAGES.items():
            model, data, state = make()
            with explore(model, data, open_browser=False, **beside(name)) as served:
                page = chromium.new_page(viewport={"width": 1100, "height": 700})
                page.goto(served.address + state)
                page.wait_for_selector("main:not([aria-busy])")
                page.wait_for_timeout(500)
                page.screenshot(path=IMAGES / f"explore-{name}.png", full_page=True)
                page.close()
        chromium.close()


if __name__ == "__main__":
    main()
