"""What a swap of words does to the accuracy of whatever labels pairs of sentences."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from exfam.checks import DataError, check_whole
from exfam.scores.metrics import Interval, paired_bootstrap
from exfam_studies.positions.snli import LABELS
from exfam_studies.positions.swaps.sets import SwapSet

# Pairs (premise, hypothesis) -> the label of each, one of LABELS.
Predictor = Callable[[list[tuple[str, str]]], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class SwapScore:
    """Accuracies of a set's pairs as they were and as they are, and the difference, in [-1, 1].

    Intervals hold 95 % of what is found when premises are redrawn, each with all its pairs.
    `name`, `version`: of the set
    """

    name: str
    version: str
    n_pairs: int
    n_premises: int
    before: Interval
    after: Interval
    change: Interval


def swap_accuracy(
    predict: Predictor | Sequence[Predictor],
    swaps: SwapSet,
    *,
    pairs_at_once: int = 64,
    seed: int = 0,
) -> SwapScore:
    """How often the labels are right before and after the swap, on the same pairs.

    `predict`: gives the labels of a list of pairs (premise, hypothesis), in its order; of several,
        such as fits of other seeds, the mean accuracy is taken
    `pairs_at_once`: how many it is given (default 64)
    `seed`: of the redrawing (default 0)

    Raises DataError for a set without pairs, and where `predict` gives another number of labels, or
    what is none of LABELS; ExfamError for a seed that is not an integer >= 0.
    """
    check_whole("pairs_at_once", pairs_at_once)
    check_whole("seed", seed, least=0)
    if not swaps.pairs:
        raise DataError(f"`swaps` must hold at least one pair, got none in {swaps.name}.")
    old = [(each.before.premise, each.before.hypothesis) for each in swaps.pairs]
    new = [(each.premise, each.hypothesis) for each in swaps.pairs]
    before = _mean_right(
        predict, old, [str(each.before.label) for each in swaps.pairs], pairs_at_once
    )
    after = _mean_right(predict, new, [each.label for each in swaps.pairs], pairs_at_once)
    premise = _numbered([each.before.premise for each in swaps.pairs])
    figures = [
        paired_bootstrap(right, premise, seed=seed) for right in (before, after, after - before)
    ]
    return SwapScore(
        name=swaps.name,
        version=swaps.version,
        n_pairs=len(swaps),
        n_premises=int(premise.max()) + 1,
        before=figures[0],
        after=figures[1],
        change=figures[2],
    )


def _mean_right(
    predict: Predictor | Sequence[Predictor],
    pairs: list[tuple[str, str]],
    labels: list[str],
    at_once: int,
) -> Float64[np.ndarray, "pairs"]:
    each = [predict] if callable(predict) else list(predict)
    if not each:
        raise DataError("`predict` must be at least one predictor, got none.")
    return np.mean([_right(one, pairs, labels, at_once) for one in each], axis=0)


def _right(
    predict: Predictor, pairs: list[tuple[str, str]], right: list[str], at_once: int
) -> Float64[np.ndarray, "pairs"]:
    """1 for each pair whose label is right, else 0."""
    labels: list[str] = []
    for first in range(0, len(pairs), at_once):
        labels += _labels(predict, pairs[first : first + at_once], first)
    unknown = next((each for each in labels if each not in LABELS), None)
    if unknown is not None:
        raise DataError(f"`predict` must give labels of {', '.join(LABELS)}, got {unknown!r}.")
    return np.array([one == other for one, other in zip(labels, right, strict=True)], np.float64)


def _labels(predict: Predictor, pairs: list[tuple[str, str]], first: int) -> list[Any]:
    """The labels of some pairs, of which the first is at the place `first` among all."""

    def among_all(found: re.Match[str]) -> str:
        return f"Sentence {first + int(found[1])} "

    try:
        got = predict(pairs)
    except DataError as error:
        # A model names sentences by their place in what it was given.
        raise type(error)(re.sub(r"^Sentence (\d+) ", among_all, str(error))) from error
    labels = list(got) if np.iterable(got) else None
    if labels is None or len(labels) != len(pairs):
        what = type(got).__name__ if labels is None else len(labels)
        raise DataError(
            f"`predict` must give a label for each pair, got {what} for {len(pairs)} pairs."
        )
    return labels


def _numbered(names: Sequence[str]) -> Int64[np.ndarray, "names"]:
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], np.int64)
