"""Gaps: each element of a sequence from those on both sides."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.arena.contenders import counts, linear, ours
from benchmarks.arena.kind import Data, Kind, Source
from benchmarks.arena.kinds import sequences
from benchmarks.arena.protocol import JUDGING
from benchmarks.arena.read import as_data

from exfam_studies.common.splits import Splits
from exfam_studies.efa.instacart import instacart_baskets
from exfam_studies.efa.movielens_splits import movielens_items

_PAPER = "the split of the paper's notebooks"


def _seen(read: Callable[[], Data]) -> Data:
    return replace(read(), direction="bidirectional", ranked="all")


def _in_order(read: Callable[[str], Splits]) -> Data:
    splits = read("paper")
    parts = (splits.train, splits.validation, splits.test)
    return as_data(parts, n_items=splits.train.n_items)


def _source(name: str) -> Source:
    return Source(read=partial(_seen, sequences.KIND.sources[name].read))


KIND = Kind(
    name="gaps",
    judging=JUDGING,
    sources={
        "sepsis_gaps": _source("sepsis"),
        "hospital_gaps": _source("hospital"),
        "movielens_50_gaps": Source(
            read=partial(_seen, partial(_in_order, movielens_items)), remark=_PAPER
        ),
        "instacart_63_gaps": Source(
            read=partial(_seen, partial(_in_order, instacart_baskets)), remark=_PAPER
        ),
        "movielens_100k_gaps": _source("movielens_100k"),
        "simulated_gaps": Source(
            read=partial(_seen, sequences.simulated), full=True, remark="for tests"
        ),
    },
    contenders={**ours.CONTENDERS, **linear.CONTENDERS, **counts.ON_BOTH_SIDES},
)
