"""The protocol: nats and ranks of the elements of groups, each given its context."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.special
import torch
from benchmarks.arena.kind import Data, Fitted, Judging, Measure
from jaxtyping import Bool, Float, Int64

from exfam.groups import Groups
from exfam.groups.arrange import compact, concatenate
from exfam.scores.metrics import gain_at, ranks

K = 10
_NUMBERS_AT_ONCE = 8_000_000
# Validation targets that choices and calibrations look at.
_MOST_TARGETS = 4_000
# Nats in all, below which the weight of popularity is not worth a second number.
_WORTH_A_NUMBER = 2.0


@dataclass(frozen=True, eq=False)
class Elements:
    """Nats (negative log-probabilities) and ranks of elements, and their groups."""

    nats: Float[np.ndarray, "elements"]
    rank: Float[np.ndarray, "elements"]
    group: Int64[np.ndarray, "elements"]

    def by_group(self, *, ranked: str) -> dict[str, list[float]]:
        """Sums of each group: what means and their standard errors are made of."""
        n_groups = int(self.group[-1]) + 1
        counted = np.ones(len(self.group), dtype=bool)
        if ranked == "last":
            counted = np.append(self.group[1:] != self.group[:-1], True)
        gain = gain_at(self.rank, k=K)
        numbers = {
            "nats": self.nats,
            "elements": np.ones(len(self.group)),
            "recall": (counted & (self.rank <= K)).astype(float),
            "ndcg": gain * counted,
            "ndcg_of_all": gain,  # beside that of the ranked ones, and of no table
            "ranked": counted.astype(float),
        }
        sums = {
            name: np.bincount(self.group, weights=number, minlength=n_groups)
            for name, number in numbers.items()
        }
        return {name: total.round(5).tolist() for name, total in sums.items()}


def judge(fitted: Fitted, groups: Groups, data: Data) -> Elements:
    """Nats and ranks of all elements of the groups; `fitted` must be exact."""
    nats, rank = [], []
    for piece, scores in _scored(fitted, groups, data):
        own = piece.item.astype(np.int64)
        rank.append(ranks(scores, own))
        log_prob = scores - scipy.special.logsumexp(scores, axis=1, keepdims=True)
        nats.append(-log_prob[np.arange(len(own)), own])
    lengths = groups.stop - groups.start
    group = np.repeat(np.arange(len(groups)), lengths)
    return Elements(np.concatenate(nats), np.concatenate(rank), group)


def calibrated(fitted: Fitted, data: Data) -> Fitted:
    """Scores as log-probabilities: times a number, plus the log of popularity times another."""
    if fitted.exact:
        return fitted
    scale, weight = _calibration(fitted, data, np.log(popularity(data)))
    numbers = {"scale": scale, "weight_of_log_popularity": weight}

    def scaled(fitted: Fitted, data: Data) -> Fitted:
        added = np.log(popularity(data)) * weight
        return Fitted(lambda groups: fitted.predict(groups) * scale + added)

    refit = fitted.refit
    return replace(
        scaled(fitted, data),
        settings={**fitted.settings, "calibration": numbers},
        refit=None if refit is None else lambda other: scaled(refit(other), other),
    )


def refitted(fitted: Fitted, data: Data) -> Fitted:
    """The same settings fitted to training and validation groups together, where that is quick."""
    if fitted.refit is None:
        return fitted
    both = replace(data, train=concatenate([data.train, data.validation]))
    return replace(fitted.refit(both), settings=fitted.settings)


def _calibration(
    fitted: Fitted, data: Data, log_popularity: Float[np.ndarray, "items"]
) -> tuple[float, float]:
    """The two numbers of least nats on validation; the second is 0 where it is worth little."""
    parts = list(_scored(fitted, some_validation(data), data))
    scores = torch.as_tensor(np.concatenate([part for _, part in parts]))
    own = torch.as_tensor(np.concatenate([groups.item for groups, _ in parts]).astype(np.int64))
    allowed, added = torch.isfinite(scores), torch.as_tensor(log_popularity)
    # In units of their spread, the first step is right whatever the unit of scores.
    spread = max(float(scores[allowed].std()), 1e-12)
    scores = torch.where(allowed, scores, 0.0) / spread

    def nats(numbers: torch.Tensor) -> torch.Tensor:
        eta = (scores * numbers[0].exp() + added * numbers[1]).masked_fill(~allowed, -torch.inf)
        return (eta.logsumexp(1) - eta.gather(1, own[:, None])[:, 0]).sum()

    alone, nats_alone = _minimize(nats, weigh_popularity=False)
    both, nats_both = _minimize(nats, weigh_popularity=True)
    chosen = both if nats_alone - nats_both > _WORTH_A_NUMBER else alone
    return float(chosen[0].exp()) / spread, float(chosen[1])


def best_on_validation(candidates: Iterable[tuple[dict[str, Any], Fitted]], data: Data) -> Fitted:
    """The candidate of least nats on validation, with its settings; scores are calibrated first."""
    best, least = None, np.inf
    tried = []
    for settings, fitted in candidates:
        exact = calibrated(fitted, data)
        nats = float(judge(exact, some_validation(data), data).nats.mean())
        tried.append({**settings, "nats": round(nats, 4)})
        if nats < least:
            least = nats
            best = replace(fitted, settings={**fitted.settings, **settings})
    assert best is not None
    return replace(best, settings={**best.settings, "tried": tried})


def some_validation(data: Data) -> Groups:
    """Validation groups, drawn with seed 0, of about as many targets as are worth looking at."""
    groups = data.validation
    most = min(_MOST_TARGETS, max(500, 20_000_000 // data.n_items))
    order = np.random.default_rng(0).permutation(len(groups))
    reached = np.cumsum((groups.stop - groups.start)[order])
    return compact(groups[np.sort(order[: int(np.searchsorted(reached, most)) + 1])])


def popularity(data: Data) -> Float[np.ndarray, "items"]:
    """The share of each item among the training elements, of which each has half a one more."""
    item = data.train.item[data.train.elements()]
    count = np.bincount(item, minlength=data.n_items) + 0.5
    return count / count.sum()


def context_holds(
    groups: Groups, n_items: int, *, causal: bool
) -> Bool[np.ndarray, "elements items"]:
    """Which items the context of each element holds: all others of its group, or earlier ones."""
    holds = np.zeros((groups.n_elements, n_items), dtype=bool)
    first = 0
    for start, stop in zip(groups.start, groups.stop, strict=True):
        items, n = groups.item[start:stop], stop - start
        position = np.arange(n)
        sees = position < position[:, None] if causal else position != position[:, None]
        row, seen = sees.nonzero()
        holds[first + row, items[seen]] = True
        first += n
    return holds


def _scored(
    fitted: Fitted, groups: Groups, data: Data
) -> Iterator[tuple[Groups, Float[np.ndarray, "elements items"]]]:
    """Some groups at a time, and their numbers, -infinity where an item is excluded."""
    for piece in pieces(groups, most=max(1, _NUMBERS_AT_ONCE // data.n_items)):
        scores = np.asarray(fitted.predict(piece), dtype=np.float64)
        if data.exclude:
            scores = scores.copy()
            scores[context_holds(piece, data.n_items, causal=data.causal)] = -np.inf
        yield piece, scores


def pieces(groups: Groups, *, most: int) -> Iterator[Groups]:
    """The groups in order, of at most `most` elements together, or one larger group."""
    first, held = 0, 0
    for index, length in enumerate((groups.stop - groups.start).tolist()):
        if index > first and held + length > most:
            yield compact(groups[first:index])
            first, held = index, 0
        held += length
    yield compact(groups[first:])


def _minimize(nats: Any, *, weigh_popularity: bool) -> tuple[torch.Tensor, float]:
    """The log of the scale and the weight of popularity, and what they leave of nats."""
    numbers = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    free = torch.tensor([1.0, float(weigh_popularity)], dtype=torch.float64)
    lbfgs = torch.optim.LBFGS([numbers], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = nats(numbers * free)
        loss.backward()
        return loss

    lbfgs.step(closure)
    best = (numbers * free).detach()
    return best, float(nats(best))


def _repeats(data: Mapping[str, Any]) -> str:
    return "No group repeats an item." if data["exclude"] else "Items may repeat."


JUDGING = Judging(
    finished=lambda fitted, data: refitted(calibrated(fitted, data), data),
    sums=lambda fitted, data: judge(fitted, data.test, data).by_group(ranked=data.ranked),
    measures=(
        Measure(header="nats", name="nats", compared="more than EFA()"),
        Measure(header="recall@10", name="recall", per="ranked", digits=3),
        Measure(
            header="NDCG@10",
            name="ndcg",
            per="ranked",
            compared="less than EFA()",
            more_is_better=True,
        ),
    ),
    describe=_repeats,
)
