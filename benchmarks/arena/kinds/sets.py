"""Sets: each element of a group from all others."""

from functools import partial

import pandas as pd
from benchmarks.arena.contenders import factors, linear, ours, pairwise
from benchmarks.arena.kind import Data, Kind, Source
from benchmarks.arena.protocol import JUDGING
from benchmarks.arena.read import as_data, read_suite

from exfam.simulators import simulate_baskets
from exfam_studies.efa.instacart import instacart_baskets
from exfam_studies.efa.movielens_splits import movielens_items

# Training, validation and test groups of the sets that are too large to fit all of in minutes.
CUT = (5_000, 500, 1_000)


def movielens() -> Data:
    splits = movielens_items("paper")
    parts = [part.with_(ordered=False) for part in (splits.train, splits.validation, splits.test)]
    return as_data(parts, n_items=splits.train.n_items)


def instacart() -> Data:
    splits = instacart_baskets("paper")
    parts = [part.with_(ordered=False) for part in (splits.train, splits.validation, splits.test)]
    return as_data(parts, n_items=splits.train.n_items)


def simulated() -> Data:
    """Baskets of a known process: for tests of the arena itself."""
    groups = simulate_baskets(300, 80, seed=0).groups.with_(ordered=False)
    return as_data(groups.split([0.6, 0.2, 0.2], seed=0), n_items=groups.n_items)


def _goods(frame: pd.DataFrame) -> pd.DataFrame:
    cancelled = frame.invoice.astype(str).str.startswith("C")
    return frame[~cancelled & (frame.quantity > 0) & frame.stock_code.str[0].str.isdigit()]


def _pairs_or_more(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.groupby("session").document.transform("size") >= 2]


_suite = partial(partial, read_suite, kind="baskets")
_retail = partial(_suite, "baskets/online_retail.csv.gz", keep=_goods)
_belgian = partial(_suite, "baskets/belgian_retail.csv.gz")
_RETAIL = (
    "Attention gains nats, but nothing among the first ten items: validation mixes in as much of "
    "the base as keeps NDCG@10 within a standard error of the base's there, of 4,000 elements."
)
_CUT = "{:,} training, {:,} validation and {:,} test groups, drawn with seed 0".format(*CUT)

KIND = Kind(
    name="sets",
    judging=JUDGING,
    sources={
        "movielens_50": Source(read=movielens, remark="the split of the paper's notebooks"),
        "instacart_63": Source(read=instacart, remark="the split of the paper's notebooks"),
        "msweb": Source(read=_suite("baskets/msweb.csv.gz")),
        "epub": Source(read=_suite("baskets/epub.csv.gz", keep=_pairs_or_more)),
        "online_retail_5000": Source(read=_retail(cut=CUT), remark=_CUT, behind=_RETAIL),
        "belgian_retail_5000": Source(read=_belgian(cut=CUT), remark=_CUT),
        "online_retail": Source(read=_retail(), full=True),
        "belgian_retail": Source(read=_belgian(), full=True),
        "simulated_sets": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders={
        **ours.CONTENDERS,
        **linear.CONTENDERS,
        **factors.CONTENDERS,
        **pairwise.CONTENDERS,
    },
)
