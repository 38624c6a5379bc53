"""The exact conditionals of simulated fields, all values of which are normal together."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64

from exfam.families import Gaussian
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldProcess

Own = Float[np.ndarray, "windows own"]


def true_conditional(process: FieldProcess, groups: Groups) -> Prediction:
    """The distribution of each own element given all observed others that its group sees, exactly.

    Others are those of the same map and of the maps in its context ranges. A value that is not
    observed has the distribution given all that are. No prediction has a smaller expected squared
    error, no model a higher mean of log-densities.
    """
    time, (value,) = groups.group_attributes["time"], groups.values.values()
    hidden = np.zeros(len(value), dtype=bool) if groups.observed is None else ~groups.observed
    n_maps = 1 if groups.context_start is None else groups.context_start.shape[1] + 1
    lagged = [process.covariance(lag) for lag in range(n_maps)]
    joint = np.block(
        [
            [lagged[j - i] if j >= i else lagged[i - j].T for j in range(n_maps)]
            for i in range(n_maps)
        ]
    )
    own = groups.stop - groups.start
    first = np.cumsum(own) - own
    eta = np.empty((int(own.sum()), 2))
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
        location, spread = _given_others(joint[np.ix_(cells, cells)], seen, n_own, apart)
        eta[at, 0], eta[at, 1] = center[:, :n_own] + location, np.log(spread)
    return Prediction(
        Mixture(Gaussian(), torch.from_numpy(eta)[None]), np.arange(len(eta)), len(eta)
    )


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
) -> tuple[Own, Float[np.ndarray, "own"]]:
    """For the first cells, of each given the others: its mean and standard deviation.

    With K the inverse covariance of what is seen and d its deviation from the mean, d_i given the
    others has mean d_i - (K d)_i / K_ii and variance 1 / K_ii.
    """
    inverse = np.linalg.inv(joint[np.ix_(seen, seen)])
    # What is not observed: the plain conditional.
    weights = joint[:n_own, seen] @ inverse
    variance = np.diag(joint)[:n_own] - (weights * joint[:n_own, seen]).sum(axis=1)
    location = apart @ weights.T
    # What is: left out of what it is conditioned on.
    own = np.flatnonzero(seen[:n_own])
    n = len(own)  # own cells come first among the seen ones too
    variance[own] = 1 / np.diag(inverse)[:n]
    location[:, own] = apart[:, :n] - (apart @ inverse)[:, :n] * variance[own]
    return location, np.sqrt(variance)
