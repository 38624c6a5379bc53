"""Counts: each count of a group from all its other counts."""

import numpy as np
import pandas as pd
from benchmarks.arena.contenders.values import additive, cells, negative_binomial, ours, trees
from benchmarks.arena.kind import Folds, Kind, Source
from benchmarks.arena.values.data import ValueData
from benchmarks.arena.values.judge import judging
from benchmarks.arena.values.read import folds, split_values, suite_frame

from exfam.reading.public_sets.movielens import GENRES, movielens_100k

# Training, validation and test invoices, as of the sets.
CUT = (5_000, 500, 1_000)
YEARS = {"how": "time", "column": "year", "train_below": 2009, "test_from": 2012}
ANT_YEARS = {"how": "time", "column": "year", "train_below": 2004, "test_from": 2006}
MONTHS = {
    "how": "time",
    "column": "time",
    "train_below": "2011-09-01",
    "test_from": "2011-10-01",
}


def portal() -> ValueData:
    """Plants of the species that a quadrat has."""
    keys = ["year", "season", "plot", "quadrat"]
    return _species("counts/portal_plant_quadrats.csv.gz", keys, YEARS)


def ants() -> ValueData:
    """Ants of the species that come to a bait."""
    return _species("communities/portal_ant_bait.csv.gz", ["year", "plot", "stake"], ANT_YEARS)


def _species(path: str, keys: list[str], split: dict[str, object]) -> ValueData:
    """Abundances of the species that are at a place, split by year."""
    frame = suite_frame(path, item="species")
    frame = frame[frame.abundance > 0]
    summed = frame.groupby([*keys, "species"], as_index=False).abundance.sum()
    group = summed.groupby(keys).ngroup()
    columns = {"group": group, "item": summed.species, "value": summed.abundance}
    return split_values(pd.DataFrame({**columns, "year": summed.year}), form="count", split=split)


def bci() -> Folds:
    """Trees of the species that a plot has."""
    frame = suite_frame("counts/bci_trees.csv.gz", item="species")
    names = {"plot": "group", "species": "item", "trees": "value"}
    return folds(frame.rename(columns=names), form="count", n_folds=5)


def retail() -> ValueData:
    """Quantities of the goods of an invoice."""
    frame = suite_frame("baskets/online_retail.csv.gz", item="stock_code")
    cancelled = frame.invoice.astype(str).str.startswith("C")
    goods = frame[~cancelled & (frame.quantity > 0) & frame.stock_code.str[0].str.isdigit()]
    summed = goods.groupby(["invoice", "stock_code"], as_index=False).agg(
        value=("quantity", "sum"), time=("invoice_time", "min")
    )
    names = {"invoice": "group", "stock_code": "item"}
    return split_values(summed.rename(columns=names), form="count", split=MONTHS, cut=CUT)


def covid() -> ValueData:
    """Deaths of an area in each of 20 weeks, which are the items, in order."""
    frame = suite_frame("counts/england_covid_deaths.csv.gz")
    names = {"areacode": "group", "week": "item", "covid_deaths": "value"}
    frame = frame.rename(columns=names)[list(names.values())]
    return split_values(frame, form="count", order="item")


def genres() -> ValueData:
    """How many movies of each genre a user has rated, zeros included."""
    data = movielens_100k()
    users, row = np.unique(data.user, return_inverse=True)
    counted = np.zeros((len(users), len(GENRES)))
    np.add.at(counted, row, data.genres[data.movie - 1])
    user, genre = np.indices(counted.shape)
    columns = {"group": users[user.ravel()], "item": genre.ravel(), "value": counted.ravel()}
    frame = pd.DataFrame(columns)
    return split_values(frame[frame.item != GENRES.index("unknown")], form="count")


def simulated() -> ValueData:
    """Rounded log-normal counts with levels of groups and items: for tests."""
    random = np.random.default_rng(0)
    n_groups, n_items = 120, 12
    mean = random.normal(size=(n_groups, 1)) + random.normal(size=n_items)
    value = np.floor(np.exp(1 + mean + 0.5 * random.normal(size=mean.shape)))
    rows = np.argwhere(random.random(mean.shape) < 0.8)
    columns = {"group": rows[:, 0], "item": rows[:, 1], "value": value[rows[:, 0], rows[:, 1]]}
    return split_values(pd.DataFrame(columns), form="count")


_RANDOM = "80/10/10 % of groups, seed 0"
_CUT = "{:,} training, {:,} validation and {:,} test groups, drawn with seed 0".format(*CUT)

KIND = Kind(
    name="counts",
    judging=judging("MSE of log(1 + y)"),
    sources={
        "portal_plants": Source(read=portal, remark="by year; species that are there"),
        "portal_ants": Source(read=ants, remark="by year; species that are there"),
        "bci_trees": Source(read=bci, remark="five folds of plots; species that are there"),
        "retail_quantities": Source(read=retail, remark=_CUT),
        "covid_deaths": Source(read=covid, remark=f"{_RANDOM}; groups are areas, items weeks"),
        "genre_counts": Source(read=genres, remark=_RANDOM),
        "simulated_counts": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders={
        **ours.CONTENDERS,
        **cells.CONTENDERS,
        **additive.CONTENDERS,
        **negative_binomial.CONTENDERS,
        **trees.CONTENDERS,
    },
)
