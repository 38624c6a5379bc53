"""The exact conditionals of simulated fields.

Given the regimes of a window of maps, all values of a `FieldProcess` are normal together; which
regimes they were has a posterior. A conditional is a mixture of normals over the regimes, and one
normal without them.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import log_softmax, logsumexp, ndtr

from exfam.groups import Groups
from exfam.simulators import FieldProcess

_LOG_TWO_PI = np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class FieldConditional:
    """A mixture of normals a row: what a value is, given others. In the unit of the values."""

    log_weight: Float[np.ndarray, "rows components"]
    location: Float[np.ndarray, "rows components"]
    spread: Float[np.ndarray, "rows components"]

    @property
    def weight(self) -> Float[np.ndarray, "rows components"]:
        return np.exp(self.log_weight)

    @property
    def mean(self) -> Float[np.ndarray, "rows"]:
        """Expected value: no prediction has a smaller expected squared error."""
        return (self.weight * self.location).sum(axis=1)

    @property
    def variance(self) -> Float[np.ndarray, "rows"]:
        """Within the components and between them."""
        between = self.location - self.mean[:, None]
        return (self.weight * (self.spread**2 + between**2)).sum(axis=1)

    def _standard(self, value: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows components"]:
        return (value[:, None] - self.location) / self.spread

    def cdf(self, value: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """Probability of at most `value`; NaN where that is NaN."""
        return (self.weight * ndtr(self._standard(value))).sum(axis=1)

    def log_prob(self, value: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """Log-density of `value` in nats; NaN where that is NaN. No model has a higher mean.

        >>> normal = FieldConditional(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))
        >>> normal.log_prob(np.array([0.0])).round(4)
        array([-0.9189])
        """
        density = -0.5 * self._standard(value) ** 2 - np.log(self.spread) - 0.5 * _LOG_TWO_PI
        return logsumexp(self.log_weight + density, axis=1)

    def crps(self, value: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """Continuous ranked probability score, in the unit of the values; lower is better.

        Source: Grimit et al. (2006), eq. 5.
        """
        weight, spread = self.weight, self.spread
        far = _mean_distance(value[:, None] - self.location, spread)
        apart = self.location[:, :, None] - self.location[:, None, :]
        both = np.sqrt(spread[:, :, None] ** 2 + spread[:, None, :] ** 2)
        pairs = weight[:, :, None] * weight[:, None, :] * _mean_distance(apart, both)
        return (weight * far).sum(axis=1) - 0.5 * pairs.sum(axis=(1, 2))


def _mean_distance(
    mean: Float[np.ndarray, "*shape"], sd: Float[np.ndarray, "*shape"]
) -> Float[np.ndarray, "*shape"]:
    """E |Z| of a normal Z."""
    z = mean / sd
    density = np.exp(-0.5 * z**2 - 0.5 * _LOG_TWO_PI)
    return 2 * sd * density + mean * (2 * ndtr(z) - 1)


def true_conditional(process: FieldProcess, groups: Groups) -> FieldConditional:
    """The distribution of each own element given all observed others that its group sees, exactly.

    Others are those of the same map and of the maps in its context ranges. A value that is not
    observed has the distribution given all that are.

    >>> from exfam.simulators import simulate_field
    >>> field = simulate_field(5, 3, seed=0)
    >>> conditional = true_conditional(field.truth, field.groups)
    >>> bool((conditional.variance < 1.44 * np.tile(field.truth.scale, 3) ** 2).all())
    True
    """
    time, (value,) = groups.group_attributes["time"], groups.values.values()
    hidden = np.zeros(len(value), dtype=bool) if groups.observed is None else ~groups.observed
    n_lags = 0 if groups.context_start is None else groups.context_start.shape[1]
    log_prior, joints = _normals_of_window(process, n_lags + 1)
    own = groups.stop - groups.start
    first = np.cumsum(own) - own
    shape = (int(own.sum()), len(joints))
    log_weight, location, spread = np.empty(shape), np.empty(shape), np.empty(shape)
    windows = _windows(process, groups)
    # Groups with the same cells, of which the same are observed: one inverse serves all.
    alike: dict[bytes, list[int]] = {}
    for group, (rows, cells) in enumerate(windows):
        key = np.concatenate([[own[group]], 2 * cells + hidden[rows]])
        alike.setdefault(key.tobytes(), []).append(group)
    for members in alike.values():
        rows, cells = np.stack([windows[group][0] for group in members]), windows[members[0]][1]
        n_own = int(own[members[0]])
        at = first[members][:, None] + np.arange(n_own)
        seen = ~hidden[rows[0]]
        back, site = np.divmod(cells, process.n_sites)
        days = time[members][:, None] - back
        center = process.expected(np.tile(site, (len(members), 1)), days)
        apart = (value[rows] - center)[:, seen]
        for number, joint in enumerate(joints):
            conditional = _given_others(joint[np.ix_(cells, cells)], seen, n_own, apart)
            log_weight[at, number] = log_prior[number] + conditional[0]
            location[at, number] = center[:, :n_own] + conditional[1]
            spread[at, number] = conditional[2]
    return FieldConditional(log_softmax(log_weight, axis=1), location, spread)


def _normals_of_window(
    process: FieldProcess, n_maps: int
) -> tuple[Float[np.ndarray, "components"], list[Float[np.ndarray, "cells cells"]]]:
    """Log-probability of the regimes of a window, latest map first, and its covariance."""
    lagged = [process.covariance(lag) for lag in range(n_maps)]
    blocks = [
        [lagged[j - i] if j >= i else lagged[i - j].T for j in range(n_maps)] for i in range(n_maps)
    ]
    # The average over regimes gives way to that of each map.
    average = process.regime_covariance.mean(axis=0)
    change, n = process.regime_change, process.n_sites
    log_prior, joints = [], []
    for regimes in product(range(len(change)), repeat=n_maps):
        chance = np.prod(change[regimes[1:], regimes[:-1]]) / len(change)
        if chance == 0:
            continue
        joint = np.block(blocks)
        for back, regime in enumerate(regimes):
            own = slice(back * n, (back + 1) * n)
            more = process.regime_covariance[regime] - average
            joint[own, own] += process.scale[:, None] * more * process.scale
        log_prior.append(np.log(chance))
        joints.append(joint)
    return np.array(log_prior), joints


def _windows(
    process: FieldProcess, groups: Groups
) -> list[tuple[Int64[np.ndarray, "seen"], Int64[np.ndarray, "seen"]]]:
    """Flat rows that a group sees, its own first, and their cells.

    A cell is a site on a map of the window: `back * n_sites + site`, with `back` maps ago.
    """
    assert groups.item is not None
    number = {label: site for site, label in enumerate(process.labels.tolist())}
    labels = groups.vocabulary["item"].tolist()
    site = np.array([number[label] for label in labels], dtype=np.int64)[groups.item]
    windows = []
    for group in range(len(groups)):
        starts, stops = [groups.start[group]], [groups.stop[group]]
        if groups.context_start is not None and groups.context_stop is not None:
            starts += groups.context_start[group][::-1].tolist()
            stops += groups.context_stop[group][::-1].tolist()
        ranges = [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]
        back = np.repeat(np.arange(len(ranges)), [len(rows) for rows in ranges])
        rows = np.concatenate(ranges)
        windows.append((rows, back * process.n_sites + site[rows]))
    return windows


def _given_others(
    joint: Float[np.ndarray, "cells cells"],
    seen: Bool[np.ndarray, "cells"],
    n_own: int,
    apart: Float[np.ndarray, "windows seen"],
) -> tuple[
    Float[np.ndarray, "windows own"], Float[np.ndarray, "windows own"], Float[np.ndarray, "own"]
]:
    """For the first cells, of each the others: their log-density, its mean and sd given them.

    With K the inverse covariance of what is seen and d its deviation from the mean, d_i given the
    others has mean d_i - (K d)_i / K_ii and variance 1 / K_ii.
    """
    inverse = np.linalg.inv(joint[np.ix_(seen, seen)])
    pulled = apart @ inverse
    log_det = np.linalg.slogdet(inverse)[1]
    whole = 0.5 * (log_det - (apart * pulled).sum(axis=1) - apart.shape[1] * _LOG_TWO_PI)
    # What is not observed: the plain conditional.
    weights = joint[:n_own, seen] @ inverse
    variance = np.diag(joint)[:n_own] - (weights * joint[:n_own, seen]).sum(axis=1)
    location = apart @ weights.T
    log_others = np.repeat(whole[:, None], n_own, axis=1)
    # What is: left out of what it is conditioned on, and its own density taken off.
    own = np.flatnonzero(seen[:n_own])
    n = len(own)  # own cells come first among the seen ones too
    variance[own] = 1 / np.diag(inverse)[:n]
    location[:, own] = apart[:, :n] - pulled[:, :n] * variance[own]
    error = pulled[:, :n] ** 2 * variance[own]
    log_others[:, own] += 0.5 * (error + np.log(variance[own]) + _LOG_TWO_PI)
    return log_others, location, np.sqrt(variance)
