"""Tables: a label or a number of a row from its other cells, of which tasks hide some."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.arena.contenders.tabular import averaged, boosters, constant, linear, ours
from benchmarks.arena.kind import Kind, Source
from benchmarks.arena.tabular.data import TableData
from benchmarks.arena.tabular.judge import judging
from benchmarks.arena.tabular.named import adult, auto_mpg, auto_mpg_by_origin, bikes, wine
from benchmarks.arena.tabular.read import MOST_TEST, MOST_TRAIN, Table, split_table, suite_table


def suite(name: str, *, options: dict[str, Any] | None = None, **split: Any) -> TableData:
    """`options`: of the reading; `split`: of the split."""
    return split_table(suite_table(name, **(options or {})), **split)


def simulated(*, response: str = "labels", n_rows: int = 240) -> TableData:
    """A response of two numbers and a text, and a number that says nothing: for tests."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n_rows, 3))
    color = random.choice(["blue", "green", "red"], size=n_rows)
    z = x[:, 0] + x[:, 1] * (color == "red") + 0.3 * random.normal(size=n_rows)
    cells = {"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "color": color}
    frame = pd.DataFrame(cells).mask(random.random((n_rows, 4)) < 0.05)
    if response == "numbers":
        y: np.ndarray = np.exp(z)
    else:
        levels = np.digitize(z, [-0.5, 0.7])
        y = levels if response == "ordered" else np.array(["low", "middle", "high"])[levels]
    return split_table(Table(frame.assign(y=y), "y", response != "numbers"))


def _zeros_missing(frame: pd.DataFrame) -> pd.DataFrame:
    """Of diamonds: no side is 0 mm long."""
    sides = ["x", "y", "z"]
    return frame.assign(**{name: frame[name].mask(frame[name] == 0) for name in sides})


def _unknown_missing(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.mask(frame == "unknown")


def _from(column: str, least: float) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda frame: frame[column] >= least


def _last_rows(frame: pd.DataFrame) -> np.ndarray:
    """The last 15 %; of the rest, all trains."""
    return np.arange(len(frame)) >= round(0.85 * len(frame))


def _sources() -> dict[str, Source]:
    small = {name: _whole(partial(suite, name)) for name in _SMALL}
    large = {
        f"{name}{ending}": source
        for name, (read, remark) in _LARGE.items()
        for ending, source in _cut(read, remark).items()
    }
    return {**small, **_OTHERS, **large}


def _whole(read: Callable[..., TableData], remark: str = "") -> Source:
    return Source(read=read, remark=remark or _FIFTH)


def _cut(read: Callable[..., TableData], remark: str) -> dict[str, Source]:
    """With at most so many rows, and whole for --full."""
    most = f"at most {MOST_TRAIN:,} training and {MOST_TEST:,} test rows, drawn with seed 0"
    return {
        "": Source(read=read, remark=f"{remark}; {most}"),
        "_all": Source(read=partial(read, most=None), remark=remark, full=True),
    }


_FIFTH = "a random fifth is the test part, seed 0"
_SMALL = (
    "hepatitis",
    "heart_c",
    "horse_colic",
    "penguins",
    "soybean",
    "pima2",
    "credit_g",
    "titanic",
    "energy_heating",
    "airfoil",
    "mushroom",
    "ames_housing",
    "abalone",
    "kin8nm",
    "cpu_act",
    "power_plant",
)
_MIXTURE = (
    "cement",
    "blast_furnace_slag",
    "fly_ash",
    "water",
    "superplasticizer",
    "coarse_aggregate",
    "fine_aggregate",
)
_OTHERS = {
    "penguins_by_year": _whole(
        partial(suite, "penguins", test=_from("year", 2009), drop=["year"]),
        "2007 and 2008, then 2009",
    ),
    "concrete": _whole(
        partial(suite, "concrete", options={"groups": _MIXTURE}),
        "a random fifth of mixtures, whatever their age, is the test part, seed 0",
    ),
    "ames_by_year": _whole(
        partial(suite, "ames_housing", test=_from("Yr.Sold", 2010)), "2006 to 2009, then 2010"
    ),
    "auto_mpg": _whole(auto_mpg),
    "auto_mpg_by_origin": _whole(
        auto_mpg_by_origin,
        "American cars, then others, with columns and miles per gallon in three bins each",
    ),
    "bike_day_by_year": _whole(partial(bikes, "day", by_year=True), "2011, then 2012"),
    "wine_1000": _whole(
        partial(wine, n_train=1_000), f"1,000 training rows of `wine`, drawn with seed 0; {_FIFTH}"
    ),
    "wine": _whole(
        wine, f"{_FIFTH}; a third of the wines equal another one, maybe in the other part"
    ),
    "wine_distinct": _whole(partial(wine, distinct=True), f"equal wines once; {_FIFTH}"),
    "wine_by_color": _whole(partial(wine, by_color=True), "red wines, then white ones"),
}
_BANK = {"clean": _unknown_missing}
_LARGE: dict[str, tuple[Callable[..., TableData], str]] = {
    "bank": (partial(suite, "bank_additional", options=_BANK), _FIFTH),
    "bank_by_order": (
        partial(suite, "bank_additional", options=_BANK, test=_last_rows, in_order=True),
        "85 % of the calls in order of time, then the rest",
    ),
    "adult": (adult, "the published test part"),
    "california": (partial(suite, "california_housing"), _FIFTH),
    "california_by_longitude": (
        partial(suite, "california_housing", test=_from("longitude", -121.5)),
        "west of longitude -121.5, then east of it",
    ),
    "diamonds": (partial(suite, "diamonds", options={"clean": _zeros_missing}), _FIFTH),
    "bike_hour": (partial(bikes, "hour"), _FIFTH),
    "bike_hour_by_year": (partial(bikes, "hour", by_year=True), "2011, then 2012"),
}

REFERENCE = ours.REFERENCE
CONTENDERS = {
    **ours.CONTENDERS,
    **constant.CONTENDERS,
    **linear.CONTENDERS,
    **boosters.CONTENDERS,
    **averaged.CONTENDERS,
}

KIND = Kind(
    name="tables",
    judging=judging(CONTENDERS[REFERENCE].label),
    sources={
        **_sources(),
        "simulated_tables": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders=CONTENDERS,
    reference=REFERENCE,
)
