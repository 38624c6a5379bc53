"""Sequences: each element of a group from the earlier ones."""

from functools import partial

import pandas as pd
from benchmarks.arena.contenders import counts, factors, linear, ours, sasrec
from benchmarks.arena.kind import Data, Kind, Source
from benchmarks.arena.protocol import JUDGING
from benchmarks.arena.read import RANDOM, as_data, read_suite, split_frame

from exfam.reading.public_sets.movielens import movielens_100k
from exfam.simulators import simulate_baskets

MIMIC_EVENTS = 500


def movielens() -> Data:
    """All of MovieLens 100K, by time; films rated in the same second stay in the file's order."""
    data = movielens_100k()
    frame = pd.DataFrame({"user": data.user, "movie": data.movie, "time": data.time})
    return split_frame(frame, group="user", item="movie", order="time", split=RANDOM)


def simulated() -> Data:
    """Baskets of a known process in their order: for tests of the arena itself."""
    groups = simulate_baskets(300, 80, seed=0).groups
    return as_data(groups.split([0.6, 0.2, 0.2], seed=0), n_items=groups.n_items)


def _five_or_more(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.groupby("user_id").item_id.transform("size") >= 5]


def _last_events(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame[frame.time.notna()]
    frame = frame[frame.groupby("code").code.transform("size") >= 20]
    frame = frame.sort_values("time", kind="stable")
    return frame[frame.groupby("subject_id").cumcount(ascending=False) < MIMIC_EVENTS]


_SEPSIS = (
    "Last elements alone are ranked: two fifths of them are one kind of release, which is 5 % of "
    "all elements and to which the base gives 7 % of its probability wherever it is."
)
_BADGES = (
    "SASRec has three settings, each trained until validation stops: with seed 0, 1,493 CPU s on "
    "the processor on which EFA() took 277. A second member, EFA(ensemble=2), is worth 0.0019 "
    "nats to validation, in fits to three tenths of the training groups."
)
_GROCERY = (
    "Last elements alone are ranked, where validation weighs attention by all elements. One seed, "
    "fitted before it looked at ranks."
)
_suite = partial(partial, read_suite, kind="sequences")
_grocery = _suite("sequences/amazon_grocery_train.csv.gz", keep=_five_or_more, split=RANDOM)
_mimic = _suite("sequences/mimic_iv_demo_meds_events.parquet", keep=_last_events)

KIND = Kind(
    name="sequences",
    judging=JUDGING,
    sources={
        "sepsis": Source(read=_suite("sequences/sepsis_cases.csv.gz"), behind=_SEPSIS),
        "hospital": Source(read=_suite("sequences/hospital_bpi2011.csv.gz")),
        "badges": Source(read=_suite("sequences/stackoverflow_badges.csv.gz"), behind=_BADGES),
        "movielens_100k": Source(read=movielens, remark="80/10/10 % of users, seed 0"),
        "grocery": Source(
            read=_grocery, full=True, remark="80/10/10 % of users, seed 0", behind=_GROCERY
        ),
        "mimic": Source(read=_mimic, full=True, remark=f"the last {MIMIC_EVENTS} events of each"),
        "simulated_sequences": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders={
        **ours.CONTENDERS,
        **linear.CONTENDERS,
        **counts.CONTENDERS,
        **factors.CONTENDERS,
        **sasrec.CONTENDERS,
    },
)
