"""Which of the most frequent items call for each other, in bounded time."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.efa.blanks import append_blank
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.recommend import TINY, lone_items
from exfam.estimator.evaluate import item_probabilities


@dataclass(frozen=True, eq=False)
class Related:
    """For each item, indices of others among the candidates, strongest first, and the strength.

    Complements in nats of mutual lift; substitutes by the correlation of the lifts that third items
    give to both.
    """

    complements: list[Int64[np.ndarray, "k"]]
    lift: list[Float[np.ndarray, "k"]]
    substitutes: list[Int64[np.ndarray, "k"]]
    likeness: list[Float[np.ndarray, "k"]]


def lifts_among(
    model: GroupEstimator, codes: Int64[np.ndarray, "items"]
) -> Float[np.ndarray, "items items"]:
    """lift[j, i] = log p(i | j alone) - log p(i | nothing) in nats; 0 of an item by itself."""
    blank = append_blank(lone_items(model.schema_, codes), model.schema_)
    table = np.zeros((len(codes) + 1, len(codes)))
    for rows, probability in item_probabilities(model.members_, blank):
        given = np.searchsorted(blank.stop, rows, side="right")
        table[given] = np.log(np.maximum(probability[:, codes], TINY))
    lift = table[:-1] - table[-1]
    np.fill_diagonal(lift, 0.0)
    return lift


def related_items(lift: Float[np.ndarray, "items items"], *, of: int, k: int) -> Related:
    """Complements and substitutes of the first `of` items among all of the table.

    Only complements of positive lift, and substitutes whose mutual lift is at most typical.
    """
    mutual, alike = (lift + lift.T) / 2, _alike(lift)
    related = Related([], [], [], [])
    for item in range(of if len(lift) > 1 else 0):
        others = np.delete(np.arange(len(lift)), item)
        own = mutual[item, others]
        together = _best(np.where(own > 0, own, -np.inf), k)
        related.complements.append(others[together])
        related.lift.append(own[together])
        little = max(0.0, float(np.median(own)))
        likeness = np.where(own <= little, alike[item, others], -np.inf)
        instead = _best(np.where(likeness > 0, likeness, -np.inf), k)
        related.substitutes.append(others[instead])
        related.likeness.append(likeness[instead])
    return related


def _best(strength: Float[np.ndarray, "others"], k: int) -> Int64[np.ndarray, "k"]:
    order = np.argsort(-strength, kind="stable")[:k]
    return order[np.isfinite(strength[order])]


def _alike(lift: Float[np.ndarray, "items items"]) -> Float[np.ndarray, "items items"]:
    """Correlations between columns over all rows but the two items' own, whose lifts read 0."""
    third = max(len(lift) - 2, 1)
    total, square = lift.sum(0), (lift**2).sum(0)
    # Without the row of the other item: a column's own row is 0.
    sums, squares = total[None] - lift, square[None] - lift**2
    spread = np.maximum(squares - sums**2 / third, 0.0)
    covariance = lift.T @ lift - sums.T * sums / third
    return covariance / np.maximum(np.sqrt(spread * spread.T), 1e-12)
