"""The pictures of the guide's page about `explore`: screens of pages that are really served.

    python docs/pictures_of_explorer.py [items row stations words mirror attention values]

Needs playwright and Chromium; words are those of text8, in the folder that EXFAM_DATA names.
"""

import bz2
import json
import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright

from exfam import EASE, EFA, FieldEFA, MaskedTable, SkipGram, explore
from exfam.simulators import simulate_field

IMAGES = Path(__file__).parent / "images"
COLORS = 48
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
    field = simulate_field(40, 150, season=0.0, missing=0.05, seed=0)
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


KINDS = {
    "countries": "france germany italy spain england japan china russia india poland greece egypt",
    "languages": "french german italian spanish english japanese chinese russian indian polish",
    "numbers": "one two three four five six seven eight nine zero ten hundred thousand million",
    "family": "father mother son daughter brother sister wife husband child king queen man woman",
}


def words() -> tuple[Any, Any, str]:
    """A word, its neighbors, and an analogy."""
    corpus = Path(os.environ["EXFAM_DATA"], "corpora", "text8_prefix_12549837.bz2")
    text = bz2.decompress(corpus.read_bytes()).decode(errors="ignore")
    sizes = {"dim": 100, "min_count": 20, "epochs": 5, "sentences": "none", "threads": 1}
    model = SkipGram(tie="reflection", **sizes).fit([text])
    kinds = [(word, kind) for kind, listed in KINDS.items() for word in listed.split()]
    frame = pd.DataFrame(kinds, columns=["word", "kind"])
    code = model.vectors_.index
    analogy = ",".join(str(code[word]) for word in ("france", "french", "germany"))
    return model, frame, f"#code={code['germany']}&color=kind&analogy={analogy}"


def mirror() -> tuple[Any, Any, str]:
    """The same words and their context vectors."""
    model, frame, state = words()
    return model, frame, state.partition("&")[0] + "&plane=mirror&layer=both"


def attention() -> tuple[Any, Any, str]:
    """What a basket's items attend to."""
    frame = baskets()
    network = {"base": "none", "attention": "softmax", "n_layers": 1, "n_heads": 2}
    model = EFA(group="basket", item="item", progress=False, max_epochs=30, **network).fit(frame)
    codes = {name: code for code, name in enumerate(model.vocabulary_["item"].tolist())}
    listed = ",".join(str(codes[name]) for name in ("avocado", "beer", "tortillas", "beans", "tea"))
    return model, frame, f"#view=attention&items={listed}&head=1"


def values() -> tuple[Any, Any, str]:
    """Stars typed beside movies."""
    random = np.random.default_rng(0)
    names = ["Alien", "Heat", "Brazil", "Vertigo", "Amadeus", "Fargo", "Gilda", "Ran", "Psycho"]
    loadings = random.normal(size=(len(names), 2))
    rows = []
    for user in range(500):
        taste = random.normal(size=2)
        for k in random.choice(len(names), 5, replace=False):
            stars = 3.2 + loadings[k] @ taste + random.normal(0, 0.5)
            rows.append((user, names[k], int(np.clip(np.rint(stars), 1, 5))))
    frame = pd.DataFrame(rows, columns=["user", "movie", "stars"])
    columns = {"group": "user", "item": "movie", "value": "stars"}
    model = EFA(**columns, family="ordinal(n=5, start=1)", progress=False).fit(frame)
    codes = {name: code for code, name in enumerate(model.vocabulary_["item"].tolist())}
    listed = ",".join(str(codes[name]) for name in ("Alien", "Heat", "Psycho"))
    return model, frame, f"#items={listed}&values=[5,1,null]&item={codes['Brazil']}"


PAGES = {
    "items": items,
    "row": cars,
    "stations": stations,
    "words": words,
    "mirror": mirror,
    "attention": attention,
    "values": values,
    "errors": errors,
}


def main() -> None:
    """Serve each page, or those that are named, and take its picture."""
    with sync_playwright() as player:
        chromium = player.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name in sys.argv[1:] or PAGES:
            model, data, state = PAGES[name]()
            with explore(model, data, open_browser=False, **beside(name)) as served:
                page = chromium.new_page(viewport={"width": 1100, "height": 700})
                page.goto(served.address + state)
                page.wait_for_selector("main:not([aria-busy])")
                page.wait_for_timeout(500)
                shot = Image.open(BytesIO(page.screenshot(full_page=True))).convert("RGB")
                page.close()
                # A palette, as pages have few colors: a third of the bytes.
                few = shot.quantize(COLORS, dither=Image.Dither.NONE)
                few.save(IMAGES / f"explore-{name}.png", optimize=True)
        chromium.close()


if __name__ == "__main__":
    main()
