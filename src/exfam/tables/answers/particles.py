"""Rows of which conditions hold, as weighted copies that each have a value in every condition.

p(y | x in A, ...) is the mean of p(y | x, ...) over p(x | x in A, ...): the conditioned columns are
filled in one after another, each given the values before it, in several copies of the row.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from scipy.special import logsumexp

from exfam.checks import DataError
from exfam.families.mixtures import Mixture
from exfam.tables.answers.conditions import LabelSet, Span
from exfam.tables.answers.distributions import TableModel, distribution_blocks
from exfam.tables.data import Cells, put_values

# Copies of a row at most; beyond them values are drawn.
_MOST_COPIES = 1024
_CANDIDATES = 32
# Whole numbers beyond quantiles of this level are left out.
_TAIL = 1e-12
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)

Branches = Float64[np.ndarray, "rows branches"]


@dataclass(frozen=True, eq=False)
class Particles:
    """Copies of rows, those of the first row first, and the weight of each.

    `weight`: sums to 1 in every row
    `log_prob`: of all conditions given the row's present cells, in nats
    """

    cells: Cells
    weight: Float64[np.ndarray, "rows copies"]
    log_prob: Float64[np.ndarray, "rows"]

    @property
    def n_copies(self) -> int:
        return self.weight.shape[1]

    def mixture(self, distribution: Mixture) -> Mixture:
        """The distribution of each row, of those of its copies."""
        rows, copies = self.weight.shape
        if copies == 1:
            return distribution
        members, _, params = distribution.eta.shape
        eta = distribution.eta.reshape(members, rows, copies, params)
        eta = eta.movedim(2, 1).reshape(members * copies, rows, params)
        weight = torch.from_numpy(self.weight.T.copy()) / members
        return Mixture(distribution.family, eta, weight=weight.repeat(members, 1))

    def drawn(self, n: int, *, seed: int) -> Cells:
        """`n` copies of every row, drawn by weight, all rows of the first draw first."""
        rows, copies = self.weight.shape
        uniform = np.random.default_rng(seed).random((n, rows, 1))
        chosen = (uniform > self.weight.cumsum(1)[None, :, :-1]).sum(-1)
        return self.cells[(np.arange(rows) * copies + chosen).ravel()]


def conditioned(
    model: TableModel,
    given: Cells,
    *,
    conditions: Mapping[int, LabelSet | Span],
    seed: int,
    drawn: bool = False,
) -> Particles:
    """Rows as copies in which the columns under conditions, by index, have values that hold them.

    Sets of labels are summed over. Of a range of numbers 32 values are taken, the nodes of
    Gauss-Legendre in its probability, which is exact to about 1e-4 for the smooth functions that
    conditionals are; of at most 32 whole numbers, all. Where that would be more than 1,024 copies
    of a row, each copy goes on with a value that is drawn, and errors are those of a mean over
    about as many draws. `drawn`: all values are drawn, of 32 candidates for several conditions.

    Raises DataError where the conditions have probability 0.
    """
    rng = np.random.default_rng(seed)
    most = (_CANDIDATES if len(conditions) > 1 else 1) if drawn else _MOST_COPIES
    cells, log_weight = given.hide(list(conditions)), np.zeros((len(given), 1))
    for column, condition in conditions.items():
        split = _Split(condition, room=max(1, most // log_weight.shape[1]), drawn=drawn, rng=rng)
        values, logs = _branches(model, cells, column=column, split=split)
        copies = values.shape[1]
        cells = put_values(
            cells[np.repeat(np.arange(len(cells)), copies)],
            np.arange(values.size),
            schema=model.schema,
            column=column,
            values=values.ravel(),
        )
        logs = logs.reshape(*log_weight.shape, copies)
        log_weight = (log_weight[..., None] + logs).reshape(len(given), -1)
    total = logsumexp(log_weight, axis=1)
    impossible = np.flatnonzero(total == -np.inf)
    if len(impossible):
        raise DataError(
            "`given` must hold conditions that can be true together, got ones of probability 0 at "
            f"row {impossible[0]}. Widen them."
        )
    return Particles(cells, np.exp(log_weight - total[:, None]), total)


@dataclass(frozen=True, eq=False)
class _Split:
    """How a row is split into copies: by which condition, and into how many at most."""

    condition: LabelSet | Span
    room: int
    drawn: bool
    rng: np.random.Generator

    def exact(self, n: int) -> bool:
        """Whether there is room for all of `n` values."""
        return not self.drawn and n <= self.room

    def levels(self, n_rows: int) -> Branches:
        """Draws from 0 to 1, one in each of as many equal parts as there is room for."""
        return (np.arange(self.room) + self.rng.random((n_rows, self.room))) / self.room


def _branches(
    model: TableModel, cells: Cells, *, column: int, split: _Split
) -> tuple[Branches, Branches]:
    """Values of the column that hold the condition, and log-weights that sum to its probability."""
    name = model.schema.names[column]
    of_kind = _label_branches if isinstance(split.condition, LabelSet) else _number_branches
    parts = [
        of_kind(distributions[name], split)
        for _, _, distributions in distribution_blocks(model, cells, [name])
    ]
    # Blocks of rows may differ in how many whole numbers there are: the others weigh nothing.
    most = max((values.shape[1] for values, _ in parts), default=1)
    values, logs = np.zeros((len(cells), most)), np.full((len(cells), most), -np.inf)
    first = 0
    for of_values, of_logs in parts:
        rows, copies = slice(first, first + len(of_values)), of_values.shape[1]
        values[rows], values[rows, :copies] = of_values[:, :1], of_values
        logs[rows, :copies] = of_logs
        first = rows.stop
    return values, logs


def _label_branches(distribution: Mixture, split: _Split) -> tuple[Branches, Branches]:
    assert isinstance(split.condition, LabelSet)
    codes = split.condition.codes
    probs = distribution.probs().double().numpy()[:, codes]
    with np.errstate(divide="ignore"):
        if split.exact(len(codes)):
            return np.broadcast_to(codes.astype(np.float64), probs.shape), np.log(probs)
        reached = probs.cumsum(1)
        level = split.levels(len(probs)) * reached[:, -1:]
        chosen = (level[:, :, None] > reached[:, None, :-1]).sum(-1)
        logs = np.log(reached[:, -1:] / split.room)
    return codes[chosen].astype(np.float64), np.broadcast_to(logs, chosen.shape)


def _number_branches(distribution: Mixture, split: _Split) -> tuple[Branches, Branches]:
    assert isinstance(split.condition, Span)
    distribution = distribution.double()
    whole = _whole_numbers(distribution, split)
    if whole is not None:
        return whole
    below, mass = _mass(distribution, split.condition)
    exact = split.exact(len(_NODES))
    level = np.tile((_NODES + 1) / 2, (len(mass), 1)) if exact else split.levels(len(mass))
    share = _NODE_WEIGHTS / 2 if exact else 1 / split.room
    with np.errstate(divide="ignore"):
        logs = np.log(mass[:, None] * np.broadcast_to(share, level.shape))
    # Levels of conditions without probability, which have no weight, are any.
    inside = (below[:, None] + mass[:, None] * level).clip(np.finfo(float).tiny, 1 - 2**-53)
    repeated = distribution[torch.arange(len(mass)).repeat_interleave(level.shape[1])]
    values = repeated.quantile(torch.from_numpy(inside.ravel())).numpy().reshape(level.shape)
    return values.clip(split.condition.low, split.condition.high), logs


def _mass(
    distribution: Mixture, span: Span
) -> tuple[Float64[np.ndarray, "rows"], Float64[np.ndarray, "rows"]]:
    """The probability below the span, and of it."""
    low, high = (
        torch.full(distribution.eta.shape[1:2], end, dtype=torch.float64)
        for end in (span.low, span.high)
    )
    below = distribution.cdf(low)
    if np.isfinite(span.low):
        own = distribution.has_jumps(low) | distribution.family.has_mass(low)
        below = below - torch.where(own, distribution.log_prob(low).exp(), 0.0)
    mass = (distribution.cdf(high) - below).clamp(min=0.0)
    return below.numpy(), mass.numpy()


def _whole_numbers(distribution: Mixture, split: _Split) -> tuple[Branches, Branches] | None:
    """All numbers of the span, if the family knows whole ones alone and they are few."""
    assert isinstance(split.condition, Span)
    some = torch.zeros(distribution.eta.shape[1], dtype=torch.float64)
    if split.drawn or not len(some) or not bool(distribution.has_jumps(some).all()):
        return None
    first = max(split.condition.low, float(distribution.quantile(_TAIL).amin()))
    last = min(split.condition.high, float(distribution.quantile(1 - _TAIL).amax()))
    numbers = torch.arange(math.ceil(first), math.floor(last) + 1, dtype=torch.float64)
    if not len(numbers) or len(numbers) > len(_NODES) or not split.exact(len(numbers)):
        return None
    logs = torch.stack([distribution.log_prob(number.expand(len(some))) for number in numbers], 1)
    return np.tile(numbers.numpy(), (len(some), 1)), logs.numpy()
