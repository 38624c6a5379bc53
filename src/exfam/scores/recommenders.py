"""How good recommendations are: items are hidden, and looked for among those recommended.

The usual measures of ranking, a mean over groups each, with differences between models paired by
groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from exfam.checks import DataError, ExfamError, check_choice, check_whole
from exfam.columns.results import TabularResult
from exfam.groups import CONTEXT, Groups
from exfam.groups.arrange import group_of_elements, keep_rows
from exfam.scores.metrics import Estimate, Interval, mean_over_groups, paired_bootstrap
from exfam.scores.ranking import choose_hidden, hidden_apart

PROTOCOLS = ("last", "some")
PerGroup = Float[np.ndarray, "groups"]


@dataclass(frozen=True, eq=False, repr=False)
class RecommenderScores(TabularResult):
    """Scores of recommenders on the same hidden items: see `evaluate_recommenders`.

    `by_group`: of each model, its measures of each group, `nats` among them where the model has
    probabilities; `overall`: of each model, what is no mean over groups. `k`: how many items were
    recommended.
    """

    k: int
    groups: np.ndarray
    n_hidden: int
    n_items: int
    by_group: Mapping[str, Mapping[str, PerGroup]]
    overall: Mapping[str, Mapping[str, float]]

    def to_dict(self) -> dict[str, np.ndarray]:
        """A row for each model: column `model`, and the mean of each measure."""
        names = list(self.by_group)
        table = {"model": np.array(names)}
        for measure in dict.fromkeys(m for name in names for m in self.by_group[name]):
            table[measure] = np.array([_mean(self.by_group[name][measure]).mean for name in names])
        for measure in dict.fromkeys(m for name in names for m in self.overall[name]):
            table[measure] = np.array([self.overall[name][measure] for name in names])
        return table

    def estimates(self, model: str) -> dict[str, Estimate]:
        """A model's means over groups, with standard errors."""
        check_choice("model", model, self.by_group)
        return {measure: _mean(numbers) for measure, numbers in self.by_group[model].items()}

    def headline(self) -> str:
        """What was hidden and recommended."""
        return (
            f"{type(self).__name__}: {self.n_hidden:,} hidden items of {len(self.groups):,} "
            f"groups; the best {self.k} of {self.n_items:,} items were recommended"
        )

    def difference(
        self, model: str, other: str, *, level: float = 0.95, seed: int = 0
    ) -> dict[str, Interval]:
        """By how much a model is ahead of another, measure by measure, with paired intervals.

        Of the groups that both have, redrawn together; where an interval has 0 in it, the groups do
        not show which one is better.
        """
        for name in (model, other):
            check_choice("model", name, self.by_group)
        first, second = self.by_group[model], self.by_group[other]
        out = {}
        for measure in first:
            if measure in second:
                gap = first[measure] - second[measure]
                known = np.flatnonzero(np.isfinite(gap))
                if len(known):
                    out[measure] = paired_bootstrap(gap[known], known, seed=seed, level=level)
        return out


def evaluate_recommenders(
    models: Any,
    X: Any,
    *,
    hide: str = "last",
    n: int | None = None,
    share: float | None = None,
    k: int = 10,
    train: Any = None,
    seed: int = 0,
) -> RecommenderScores:
    """Hide items of each group of `X` and look for them among the `k` that models recommend.

    `models`: one fitted model of items, or several by name, all of which see the same
    `X`: groups that no model was fitted to: Groups, a frame, a file or lists of items
    `hide`: "last", the last `n` of each group (1 unless given), which needs an order; or "some" at
        random: `n` of each, or a `share`, a fifth unless given
    `train`: what the models were fitted to, for how popular items are; else what is shown of `X`
    `seed`: from 0, fixes which items are hidden

    Measures by group, and the mean over groups: `recall` is the share of the hidden items that is
    found, `precision` the share of the recommended ones that was hidden, `hit` whether any was
    found, `ndcg` the gain 1 / log2(1 + rank) of what was found over that of the best list, `mrr` 1
    over the rank of the first, and `map` the mean precision at the ranks of what was found, over
    that of the best list; `nats` the mean log-probability of the hidden items, each given what is
    shown, of models that have probabilities.
    Of all groups together: `coverage`, the share of the catalog that is recommended to any;
    `popularity`, the mean share of groups that have a recommended item (`hidden popularity` is that
    of the hidden items); and `novelty`, the mean of -log2 of that share, in bits.

    An ExfamWarning counts groups that are left out, for want of items. Items that the first model
    does not know are never found. Raises ExfamError for models that do not recommend items.

    >>> from exfam import EASE, Popularity
    >>> baskets = [["bread", "milk"], ["bread", "milk"], ["tea", "milk"], ["bread", "milk", "tea"]]
    >>> models = {"popular": Popularity().fit(baskets), "EASE": EASE(ridge=1.0).fit(baskets)}
    >>> scores = evaluate_recommenders(models, baskets, hide="some", n=1, k=1)
    >>> sorted(scores.difference("EASE", "popular"))[:3]
    ['hit@1', 'map@1', 'mrr@1']
    """
    check_whole("k", k)
    check_choice("hide", hide, PROTOCOLS)
    if hide == "last" and share is not None:
        raise ExfamError(
            f"`share` must be given with hide='some' alone, got {share}. `n` says how many of the "
            "last are hidden."
        )
    named = _named(models)
    first = next(iter(named.values()))
    groups = first._inputs(X).groups.compact()
    last = None if hide == "some" else 1 if n is None else n
    is_hidden = choose_hidden(groups, last=last, share=share, n=n, seed=seed)
    held = _HeldOut.of(groups, is_hidden)
    popularity = _Popularity.of(first, held.shown if train is None else first._inputs(train).groups)
    by_group, overall = {}, {}
    for name, model in named.items():
        by_group[name], overall[name] = _scores_of(model, held, popularity, k)
    assert held.shown.group_names is not None
    n_items = len(first.vocabulary_["item"])
    scores = RecommenderScores(
        int(k), held.shown.group_names, len(held.item), n_items, by_group, overall
    )
    return scores.like(X)


def _named(models: Any) -> dict[str, Any]:
    named = dict(models) if isinstance(models, Mapping) else {type(models).__name__: models}
    if not named:
        raise ExfamError("`models` must hold at least one fitted model, got none.")
    for name, model in named.items():
        if not hasattr(model, "recommend"):
            raise ExfamError(
                f"`models` must recommend items, as EFA and EASE do, got {type(model).__name__} "
                f"for {name!r}."
            )
        model._check_fitted()
        if not model._has_items:
            raise ExfamError(
                f"`models` must have an item part, got one of values only for {name!r}. Fit with "
                "parts='items'."
            )
    return {str(name): model for name, model in named.items()}


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Groups of what is shown, and the labels of what is hidden: None for unknown items.

    `apart`: a group for each hidden element, as `hide_some` makes them.
    """

    shown: Groups
    item: list[Any]
    group: np.ndarray
    apart: Groups

    @classmethod
    def of(cls, groups: Groups, is_hidden: Bool[np.ndarray, "rows"]) -> "_HeldOut":
        if groups.group_names is None:
            groups = groups.with_(group_names=np.arange(len(groups)))
        hidden = np.flatnonzero(is_hidden)
        own, group = np.unique(group_of_elements(groups)[hidden], return_inverse=True)
        assert groups.item is not None
        labels = [*groups.vocabulary["item"].tolist(), None]
        role = np.full(groups.n_rows, CONTEXT, dtype=np.int8)
        shown = keep_rows(groups.with_(role=role)[own].compact(), ~is_hidden[_rows(groups[own])])
        return cls(
            shown.with_(role=None),
            [labels[code] for code in groups.item[hidden].tolist()],
            group,
            hidden_apart(groups, is_hidden),
        )


def _rows(groups: Groups) -> np.ndarray:
    """The rows that `compact` takes, in order."""
    return groups.with_(item=np.arange(groups.n_rows), vocabulary={}).compact().item  # type: ignore


@dataclass(frozen=True, eq=False)
class _Popularity:
    """The share of groups that have each item, by label; of others, and of none, half a group."""

    share: dict[Any, float]
    least: float

    @classmethod
    def of(cls, model: Any, groups: Groups) -> "_Popularity":
        element = groups.elements()
        assert groups.item is not None
        group, item = group_of_elements(groups), groups.item[element].astype(np.int64)
        pairs = np.unique(np.stack([group, item], 1)[item >= 0], axis=0)
        labels = model.vocabulary_["item"].tolist()
        count = np.bincount(pairs[:, 1], minlength=len(labels))
        least, shares = 0.5 / (len(groups) + 1), count / max(1, len(groups))
        return cls(dict(zip(labels, np.maximum(shares, least).tolist(), strict=True)), least)

    def __call__(self, labels: Sequence[Any]) -> Float[np.ndarray, "labels"]:
        return np.array([self.share.get(label, self.least) for label in labels])


def _scores_of(
    model: Any, held: _HeldOut, popularity: _Popularity, k: int
) -> tuple[dict[str, PerGroup], dict[str, float]]:
    """Measures of each group, and of all together."""
    recommended = model.recommend(held.shown, k=k)
    wanted: list[set[Any]] = [set() for _ in range(len(held.shown))]
    for group, label in zip(held.group.tolist(), held.item, strict=True):
        if label is not None:
            wanted[group].add(label)
    possible = recommended.probabilities > 0
    lists = recommended.items.tolist()
    hits = np.zeros((len(held.shown), k), dtype=bool)
    for row, (items, own) in enumerate(zip(lists, wanted, strict=True)):
        hits[row, : len(items)] = [item in own for item in items]
    hits[:, : possible.shape[1]] &= possible
    by_group = ranking_measures(hits, np.bincount(held.group, minlength=len(held.shown)))
    measures = {f"{name}@{k}": numbers for name, numbers in by_group.items()}
    measures["nats"] = _nats(model, held)
    every = [
        label for row, items in enumerate(lists) for label in np.array(items, object)[possible[row]]
    ]
    share = popularity(every)
    known = popularity([label for label in held.item if label is not None])
    return measures, {
        f"coverage@{k}": len(set(every)) / len(model.vocabulary_["item"]),
        f"popularity@{k}": float(share.mean()) if len(share) else np.nan,
        "hidden popularity": float(known.mean()) if len(known) else np.nan,
        f"novelty@{k}": float(-np.log2(share).mean()) if len(share) else np.nan,
    }


def ranking_measures(
    hits: Bool[np.ndarray, "groups k"], n_hidden: Float[np.ndarray, "groups"] | np.ndarray
) -> dict[str, PerGroup]:
    """Recall, precision, hit, NDCG, MRR and MAP of lists, best first, all in [0, 1].

    `hits`: which places of each list hold a hidden item; `n_hidden`: how many there were.

    >>> measures = ranking_measures(np.array([[False, True, True]]), np.array([4]))
    >>> {name: float(numbers[0].round(3)) for name, numbers in measures.items()}
    {'recall': 0.5, 'precision': 0.667, 'hit': 1.0, 'ndcg': 0.531, 'mrr': 0.5, 'map': 0.389}
    """
    k = hits.shape[1]
    rank = np.arange(1, k + 1)
    gain, found = 1 / np.log2(1 + rank), hits.sum(1)
    most = np.minimum(n_hidden, k)
    best = np.append(0.0, np.cumsum(gain))[most]
    precision = np.cumsum(hits, 1) / rank
    return {
        "recall": found / n_hidden,
        "precision": found / k,
        "hit": (found > 0).astype(float),
        "ndcg": (hits * gain).sum(1) / best,
        "mrr": np.where(found > 0, 1 / (1 + hits.argmax(1)), 0.0),
        "map": (hits * precision).sum(1) / most,
    }


def _nats(model: Any, held: _HeldOut) -> PerGroup:
    """The mean log-probability of each group's hidden items; NaN without a known one."""
    nats = model.log_prob_parts(held.apart)["item"]
    of_target = nats[held.apart.role[held.apart.elements()] == 0]  # type: ignore[index]
    known = ~np.isnan(of_target)
    n = len(held.shown)
    total = np.bincount(held.group[known], weights=of_target[known], minlength=n)
    count = np.bincount(held.group[known], minlength=n)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean(numbers: PerGroup) -> Estimate:
    known = np.flatnonzero(~np.isnan(numbers))
    if not len(known):
        raise DataError(
            "`X` must have a hidden item that the models know, got none. Hide items of groups like "
            "those of the fit."
        )
    return mean_over_groups(numbers[known], known)
