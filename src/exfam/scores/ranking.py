"""How well a fitted model ranks items that were held out: the last of a group, or some of it."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from exfam.checks import DataError, ExfamError, ExfamWarning, check_inside, check_seed, check_whole
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.groups.arrange import group_of_elements, keep_rows
from exfam.scores.metrics import Estimate, gain_at, mean_over_groups

_DEFAULT_SHARE = 0.2


def leave_last_out(groups: Groups, *, n: int = 1) -> Groups:
    """Groups of which only the last `n` elements are targets, all before them context.

    Of elements that are tied, the later row counts as later. Elements that were context stay
    context. With n > 1 and direction="causal", a later target sees the earlier ones; with
    direction="bidirectional", each target sees all others. The columns are the result's own.

    Groups with nothing before their last `n` elements are left out, and an ExfamWarning counts
    them. Raises ExfamError for groups that are sets, and where no group is left.

    >>> baskets = Groups(start=[0, 3], stop=[3, 5], item=[4, 1, 2, 0, 3], ordered=True)
    >>> leave_last_out(baskets).role
    array([1, 1, 0, 1, 0], dtype=int8)
    """
    check_whole("n", n)
    _check_ordered(groups)
    enough = groups.lengths > n
    _check_enough(enough)
    left = groups[enough].compact()
    is_last = np.zeros(left.n_rows, dtype=bool)
    to_the_end = np.repeat(left.stop, left.stop - left.start) - np.arange(left.n_elements)
    is_last[: left.n_elements] = to_the_end <= n
    return left.with_(role=np.where(is_last & _is_target(left), TARGET, CONTEXT))


def hide_some(
    groups: Groups, *, share: float | None = None, n: int | None = None, seed: int = 0
) -> Groups:
    """A random part of each group's elements as targets that do not see each other.

    A bidirectional target sees all other elements of its group, other targets too. Therefore each
    hidden element has a group of its own: the elements that are not hidden, as context, and the
    hidden one, as the only target. So every estimator scores it exactly, without approximation. The
    groups of one original group have its name in `group_names`, or its number where it has none.
    Context stays context. In ordered groups the elements keep their order, and a causal model sees
    those before the target alone. A group of L elements of which h are hidden becomes h (L - h + 1)
    elements.

    `share`: of the targets of each group, in (0, 1), rounded to at least one and such that one
        element is not hidden; 0.2 if neither it nor `n` is given (default None)
    `n`: how many of each group instead; groups of no more than `n` elements are left out
        (default None)
    `seed`: from 0, fixes which

    An ExfamWarning counts groups that are left out because nothing can be hidden, or nothing would
    be left beside it. Raises ExfamError for `share` beside `n`, and where no group is left.

    >>> hidden = hide_some(Groups(start=[0], stop=[4], item=[7, 5, 6, 8]), n=2)
    >>> hidden.item.reshape(2, 3)  # 6 and 8 are hidden, and do not see each other
    array([[7, 5, 6],
           [7, 5, 8]], dtype=int32)
    >>> hidden.role.reshape(2, 3), hidden.group_names
    (array([[1, 1, 0],
           [1, 1, 0]], dtype=int8), array([0, 0]))
    """
    flat = groups.compact()
    return hidden_apart(flat, choose_hidden(flat, share=share, n=n, seed=seed))


def hidden_apart(flat: Groups, is_hidden: Bool[np.ndarray, "rows"]) -> Groups:
    """A group for each hidden element of compact groups, of what is not hidden and itself.

    See `hide_some`.
    """
    hidden = np.flatnonzero(is_hidden)
    origin = group_of_elements(flat)[hidden]
    names = np.arange(len(flat)) if flat.group_names is None else flat.group_names
    repeated = flat[origin]
    copies = repeated.compact().with_(group_names=names[origin])
    is_target = np.zeros(copies.n_rows, dtype=bool)
    is_target[copies.start + hidden - flat.start[origin]] = True
    keep = np.ones(copies.n_rows, dtype=bool)
    keep[: copies.n_elements] = ~is_hidden[repeated.elements()]
    copies = copies.with_(role=np.where(is_target, TARGET, CONTEXT))
    return keep_rows(copies, keep | is_target)


def choose_hidden(
    flat: Groups,
    *,
    last: int | None = None,
    share: float | None = None,
    n: int | None = None,
    seed: int = 0,
) -> Bool[np.ndarray, "rows"]:
    """Which rows of compact groups to hide: the `last` targets, or some as `hide_some` does.

    None of a group that would have nothing left; an ExfamWarning counts these.
    """
    if last is None:
        number = _numbers_to_hide(flat, share, n)
        _check_enough(number > 0)
        check_seed("seed", seed)
        return _drawn(flat, number, np.random.default_rng(seed))
    check_whole("n", last)
    _check_ordered(flat)
    _check_enough(flat.lengths > last)
    own = flat.stop - flat.start
    to_the_end = np.repeat(flat.stop, own) - np.arange(flat.n_elements)
    hidden = np.zeros(flat.n_rows, dtype=bool)
    hidden[: flat.n_elements] = (to_the_end <= last) & np.repeat(flat.lengths > last, own)
    return hidden & _is_target(flat)


def _numbers_to_hide(
    flat: Groups, share: float | None, n: int | None
) -> Int64[np.ndarray, "groups"]:
    """How many elements of each group to hide; 0 where none can be, or none would be left."""
    n_targets = np.bincount(
        group_of_elements(flat)[_is_target(flat)[: flat.n_elements]], minlength=len(flat)
    )
    if n is not None:
        if share is not None:
            raise ExfamError(f"`share` must not be given beside `n`, got {share} and {n}.")
        check_whole("n", n)
        return np.where(flat.lengths > n, np.minimum(n_targets, n), 0)
    share = _DEFAULT_SHARE if share is None else share
    check_inside("share", share)
    rounded = np.rint(share * n_targets).astype(np.int64)
    return np.minimum(np.maximum(rounded, 1), np.minimum(n_targets, flat.lengths - 1)).clip(0)


def _drawn(
    flat: Groups, number: Int64[np.ndarray, "groups"], generator: np.random.Generator
) -> Bool[np.ndarray, "rows"]:
    """Which rows are so many random targets of each group."""
    group = group_of_elements(flat)
    key = np.where(_is_target(flat)[: len(group)], generator.random(len(group)), np.inf)
    in_random_order = np.lexsort((key, group))
    nth = np.arange(len(group)) - flat.start[group]
    drawn = np.zeros(flat.n_rows, dtype=bool)
    drawn[in_random_order[nth < number[group]]] = True
    return drawn


def _is_target(groups: Groups) -> Bool[np.ndarray, "rows"]:
    return np.ones(groups.n_rows, dtype=bool) if groups.role is None else groups.role == TARGET


def _check_ordered(groups: Groups) -> None:
    if not groups.ordered:
        raise ExfamError(
            "`groups` must be ordered to have last elements, got sets. Read them with `order`, or "
            "use hide_some."
        )


def _check_enough(enough: Bool[np.ndarray, "groups"]) -> None:
    """Count the groups that are left out in a warning; ExfamError if they are all."""
    n_left_out = int((~enough).sum())
    if n_left_out == len(enough):
        raise ExfamError(
            "`groups` must have a group with a target and an element beside those held out, got "
            f"none of {len(enough)}. Hold out fewer elements, or use longer groups."
        )
    if n_left_out:
        warnings.warn(
            f"{n_left_out:,} of {len(enough):,} groups are left out: they have no target, or no "
            "element beside those that would be held out.",
            ExfamWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class RankingScores:
    """Means over targets, with standard errors over groups: see `rank_items`.

    `nats`: log-probability of the target's item, of targets whose item the model knows
    `recall`: share of targets whose item is among the first `k`
    `ndcg`: 1 / log2(1 + rank), and 0 beyond rank `k`
    `mrr`: 1 / rank
    """

    k: int
    nats: Estimate
    recall: Estimate
    ndcg: Estimate
    mrr: Estimate

    def to_dict(self) -> dict[str, float]:
        """One row of a table: means, standard errors, numbers of targets and groups."""
        names = {"nats": self.nats, f"recall@{self.k}": self.recall}
        names |= {f"ndcg@{self.k}": self.ndcg, "mrr": self.mrr}
        row = {name: estimate.mean for name, estimate in names.items()}
        row |= {f"{name} error": estimate.error for name, estimate in names.items()}
        return row | {"targets": self.recall.n, "groups": self.recall.n_groups}


def rank_items(model: Any, groups: Groups, *, k: int = 10) -> RankingScores:
    """Scores of a fitted model's probabilities of all items at the targets of `groups`.

    Items are ranked among the whole catalog; equally probable ones share the mean of their ranks.
    An unknown item is a miss at every rank, and is left out of `nats`. Standard errors are over
    groups, those of equal `group_names` being one, as `hide_some` leaves them.

    Raises ExfamError for a model without items, and DataError without a target of a known item.

    >>> from exfam.efa.baselines import Marginal
    >>> baskets = Groups(start=[0, 3], stop=[3, 5], item=[0, 1, 2, 0, 1], ordered=True)
    >>> model = Marginal(support="none", parts="items").fit(baskets)
    >>> scores = rank_items(model, leave_last_out(baskets), k=2)
    >>> scores.recall
    Estimate(mean=0.5, error=0.5, n=2, n_groups=2)
    """
    check_whole("k", k)
    if not hasattr(model, "item_ranks"):
        raise ExfamError(
            "`model` must be an estimator of items in groups, such as EFA or Marginal, got "
            f"{type(model).__name__}."
        )
    rank = model.item_ranks(groups)
    nats = model.log_prob_parts(groups)["item"]
    group = group_of_elements(groups)
    if groups.group_names is not None:
        group = np.unique(groups.group_names, return_inverse=True)[1][group]
    is_target, known = ~np.isnan(rank), ~np.isnan(nats)
    if not known.any():
        raise DataError(
            "`groups` must have a target whose item the model knows, got none of "
            f"{is_target.sum()} targets."
        )
    rank, of_target = rank[is_target], group[is_target]
    return RankingScores(
        k=k,
        nats=mean_over_groups(nats[known], group[known]),
        recall=mean_over_groups((rank <= k).astype(float), of_target),
        ndcg=mean_over_groups(gain_at(rank, k=k), of_target),
        mrr=mean_over_groups(1 / rank, of_target),
    )
