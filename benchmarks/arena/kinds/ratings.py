"""Ratings: each value of a group from all its other values, or from the earlier ones."""

from functools import partial

import numpy as np
import pandas as pd
from benchmarks.arena.contenders.values import additive, cells, ordinal, ours, trees
from benchmarks.arena.kind import Kind, Source
from benchmarks.arena.values.data import ValueData
from benchmarks.arena.values.judge import judging
from benchmarks.arena.values.read import long_form, of_groups, split_values, suite_frame

from exfam.reading.public_sets.movielens import movielens_100k
from exfam_studies.efa.movielens_splits import movielens_ratings

N_SHOWN = 8


def movielens_subset(direction: str = "bidirectional") -> ValueData:
    """Ratings 3 to 5 of the 50 movies that have most of them, as 1 to 3."""
    splits = movielens_ratings("paper")
    parts = (splits.train, splits.validation, splits.test)
    return of_groups(parts, form="ordinal", direction=direction)


def movielens(direction: str = "bidirectional") -> ValueData:
    data = movielens_100k()
    frame = pd.DataFrame(
        {"group": data.user, "item": data.movie, "value": data.rating, "time": data.time}
    )
    return split_values(frame, form="ordinal", order="time", direction=direction)


def bfi() -> ValueData:
    frame = suite_frame("ratings/bfi.csv.gz")
    items = [name for name in frame.columns if name[0] in "ACENO" and name[1:].isdigit()]
    return split_values(long_form(frame, group="person", items=items), form="ordinal")


def insteval() -> ValueData:
    frame = suite_frame("ratings/insteval.csv.gz")
    names = {"student": "group", "lecturer": "item", "rating": "value"}
    return split_values(frame.rename(columns=names)[list(names.values())], form="ordinal")


def jester() -> ValueData:
    names = {"user": "group", "joke": "item", "rating": "value"}
    frame = suite_frame("ratings/jester5k.csv.gz").rename(columns=names)
    return split_values(frame, form="real")


def sushi() -> ValueData:
    """Eight of the ten ranks of each person, drawn with seed 0: nine would fix the tenth."""
    frame = suite_frame("ratings/sushi_rankings.csv.gz")
    long = long_form(frame, group="person", items=[c for c in frame.columns if c != "person"])
    chance = pd.Series(np.random.default_rng(0).random(len(long)), index=long.index)
    shown = chance.groupby(long.group).rank() <= N_SHOWN
    return split_values(long[shown], form="ordinal")


def simulated(*, form: str = "ordinal", direction: str = "bidirectional") -> ValueData:
    """Values of a known process, two factors and groups of unlike scale: for tests."""
    random = np.random.default_rng(0)
    n_groups, n_items = 120, 12
    factors = random.normal(size=(n_groups, 2)) @ random.normal(size=(2, n_items))
    level = random.normal(size=(n_groups, 1)) + random.normal(size=n_items)
    z = 0.7 * factors + level + 0.5 * random.normal(size=(n_groups, n_items))
    rows = np.argwhere(random.random((n_groups, n_items)) < 0.8)
    value = z[rows[:, 0], rows[:, 1]]
    if form == "ordinal":
        value = np.clip(np.round(value + 3), 1, 5)
    frame = pd.DataFrame({"group": rows[:, 0], "item": rows[:, 1], "value": value})
    order = "item" if direction == "causal" else None
    return split_values(frame, form=form, order=order, direction=direction)


_PAPER = "the split of the paper's notebooks, ratings less 2"
_RANDOM = "80/10/10 % of groups, seed 0"

KIND = Kind(
    name="ratings",
    judging=judging("MSE"),
    sources={
        "movielens_345": Source(read=movielens_subset, remark=_PAPER),
        "movielens_345_causal": Source(read=partial(movielens_subset, "causal"), remark=_PAPER),
        "movielens_ratings": Source(read=movielens, remark=_RANDOM),
        "movielens_ratings_causal": Source(read=partial(movielens, "causal"), remark=_RANDOM),
        "bfi": Source(read=bfi, remark=_RANDOM),
        "insteval": Source(read=insteval, remark=_RANDOM),
        "jester5k": Source(read=jester, remark=_RANDOM),
        "sushi": Source(
            read=sushi, remark=f"{_RANDOM}; {N_SHOWN} of each person's ten ranks, seed 0"
        ),
        "simulated_ratings": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders={
        **ours.CONTENDERS,
        **cells.CONTENDERS,
        **additive.CONTENDERS,
        **ordinal.CONTENDERS,
        **trees.CONTENDERS,
    },
)
