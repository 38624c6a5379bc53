"""Small fitted models and data with awkward names, for the tests of reports."""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from exfam.estimator.registry import class_of
from exfam.report import write_report

AWKWARD = [
    "<script>alert(1)</script>",
    "寿司 🍣",
    "$x_1$ & <b>",
    "quote \" and ' and `",
    "a very long name that goes on and on, far beyond what any table or picture has room for",
    "naïve café\u200d",
    "two\nlines\tand a tab",
    "{{ 7 * 7 }}",
    "عطر",
    "_^{\\frac",
]
TRAINING = {"max_epochs": 3, "batch_size": 16, "progress": False}
SMALL = {
    "efa": {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "head_hidden_dim": 4, **TRAINING},
    "latent-factor": {"dim": 4, **TRAINING},
    "marginal": {},
}


def baskets(n=60, *, n_items=24, seed=0):
    """Baskets of products with amounts; the first products go together and sell often."""
    random = np.random.default_rng(seed)
    names = [*AWKWARD, *(f"product {i}" for i in range(len(AWKWARD), n_items))]
    rows = []
    for basket in range(n):
        weight = 1 / (1.0 + np.arange(n_items))
        weight[[1, 2]] *= 6 if basket % 2 else 0.1
        size = random.integers(1, 9)
        for item in random.choice(n_items, size=size, replace=False, p=weight / weight.sum()):
            rows.append((f"<i>{basket}</i>", names[item], float(random.poisson(1 + item % 3))))
    frame = pd.DataFrame(rows, columns=["basket", "product", "amount"])
    frame.loc[::11, "amount"] = np.nan
    return frame


@functools.cache
def model(kind, *, parts="both", direction="bidirectional", seed=0):
    """A fitted model of the baskets; the same for all tests, none of which changes it."""
    options = {"group": "basket", "item": "product", "direction": direction, **SMALL[kind]}
    if parts != "items":
        options |= {"value": "amount", "family": "poisson"}
    if direction == "causal":
        options["order"] = "rows"
    options["parts"] = parts
    return forgetful(class_of(kind)(**options).fit(baskets(seed=seed)))


def forgetful(model):
    """The model as older versions saved it: it does not know which groups it has seen."""
    model.seen_ = None
    return model


@functools.cache
def full_report():
    """The page of everything there is: items, values, attention, training data of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_report(model("efa"), baskets(seed=1), path=path, train=baskets(seed=2))
        return path.read_text(encoding="utf-8")
