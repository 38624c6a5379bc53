"""Fits latent classes of groups, and chooses how many there are by groups that are left out."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from jaxtyping import Float
from torch import Tensor

from exfam.efa.base.classes import ItemClasses, fold_of
from exfam.efa.base.left_out import LeftOut, TargetInputs
from exfam.efa.base.ridge_link import ridge_link
from exfam.efa.base.scoring import Tile, fit_numbers, hold_of, rows_of_tiles
from exfam.groups import Groups

# How many classes are tried; of so many folds; fitted to about so many elements.
N_CLASSES, N_FOLDS, MOST_FITTED = (64, 24, 8), 5, 400_000
# By so many items of a larger catalog, and outputs of theirs at most.
MOST_ITEMS, MOST_OUTPUTS = 20_000, 5_000_000
# Fewer classes, and any at all, are to gain so many standard errors.
_STANDARD_ERRORS = 2.0
# Of a class before it has groups: elements, as a share of all items, that are as all groups'.
_SMOOTHING = 0.25
# Rounds of a fit (EM), which ends where one gains less, in nats a group.
_ROUNDS, _TOLERANCE = 60, 2e-3


class _Fold(NamedTuple):
    """Classes of one fold."""

    probability: Float[Tensor, "items classes"]
    length: Float[Tensor, "classes"]
    size: Float[Tensor, "classes"]


def choose_classes(
    held: scipy.sparse.csr_array, groups: Groups, ridge: Any, *, seed: int, hard: bool
) -> ItemClasses | None:
    """As many classes as gain most beside scores where groups are left out; None where none do."""
    folds = fold_of(torch.from_numpy(groups.start), N_FOLDS).numpy()
    left_out = LeftOut.draw(
        groups[np.flatnonzero(folds == 0)],
        np.asarray(held.sum(0)).ravel(),
        most_items=MOST_ITEMS,
        most_outputs=MOST_OUTPUTS,
        seed=seed,
        hard=hard,
    )
    inputs = left_out.inputs(ridge)
    eta, best = ridge_link(inputs.link, ridge.numbers), None
    most = eta.new_zeros(len(eta))
    for n_classes in N_CLASSES if len(eta) > 1 and (folds != 0).any() else ():
        fold = _fit(held[folds != 0], n_classes, seed=seed)
        gain = _gain(inputs._replace(lift=left_out.lifts(_together([fold]))), eta)
        more = gain - most
        if float(more.mean()) > _STANDARD_ERRORS * float(more.std()) / len(more) ** 0.5:
            most, best = gain, fold
    if best is None:
        return None
    others = range(1, N_FOLDS)
    return _together([best, *(_fit(held[folds != k], len(best.size), seed=seed) for k in others)])


def _together(folds: list[_Fold]) -> ItemClasses:
    probability, length, size = (torch.stack(parts, -2) for parts in zip(*folds, strict=True))
    return ItemClasses(probability, length=length, size=size)


def _fit(held: scipy.sparse.csr_array, n_classes: int, *, seed: int) -> _Fold:
    """Classes of groups x items, likely ones (EM): at first a random group each, and as all are."""
    held = held[:: 1 + held.nnz // MOST_FITTED].astype(np.float32)
    turned, count = held.T.tocsr(), np.asarray(held.sum(0)).ravel() + 0.5
    popularity = (count / count.sum()).astype(np.float32)[:, None]
    prior = _SMOOTHING * len(count) * popularity
    random = np.random.default_rng([seed, n_classes])
    near = held[random.integers(held.shape[0], size=n_classes)].toarray().T
    near += popularity * (near.sum() / n_classes + 1)
    size, before = np.ones(n_classes), -np.inf
    for _ in range(_ROUNDS):
        length = near.sum(0)
        log_share = held @ np.log(near / length) + np.log(size / size.sum())
        most = log_share.max(1, keepdims=True, initial=-np.inf)
        share = np.exp(log_share - most, dtype=np.float32)
        total = share.sum(1, keepdims=True)
        share /= total
        near, size = turned @ share + prior, share.sum(0) + 1
        after = float((np.log(total) + most).sum()) / max(1, len(share))
        if after - before < _TOLERANCE:
            break
        before = after
    length = near.sum(0)
    parts = (near / length, length, size)
    return _Fold(*(torch.from_numpy(part.astype(np.float32)) for part in parts))


def _gain(inputs: TargetInputs, eta: Float[Tensor, "rows chosen"]) -> Float[Tensor, "rows"]:
    """Nats that lifts gain a target beside outputs, both weighed."""
    assert inputs.lift is not None
    lift, log_size = inputs.lift, inputs.link.log_size[:, None]
    log_size = log_size.masked_fill(log_size.isinf(), 0.0)

    def tiles(numbers: Tensor) -> Iterator[Tile]:
        for rows in rows_of_tiles(*eta.shape):
            slopes = [eta[rows], lift[rows], lift[rows] * log_size[rows]]
            weighed = sum(number * slope for number, slope in zip(numbers, slopes, strict=True))
            ones = eta.new_ones(len(slopes[0]), 1)
            yield weighed + inputs.added[rows], slopes, inputs.item[rows], ones

    def nats(numbers: Tensor) -> Tensor:
        parts = [eta.log_softmax(1).gather(1, item[:, None]) for eta, _, item, _ in tiles(numbers)]
        return -torch.cat([eta.new_zeros(0, 1), *parts])[:, 0]

    start = torch.tensor([1.0, 0.0, 0.0])
    best, _ = fit_numbers(
        lambda numbers: tiles(numbers.to(eta)),
        start=start,
        center=start,
        hold=hold_of(len(inputs.item)),
    )
    return nats(start) - nats(best.to(eta))
