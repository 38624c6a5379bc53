"""The exact conditionals of simulated fields, all values of which are normal together."""

import numpy as np
import torch

from exfam.checks import DataError
from exfam.families import Gaussian
from exfam.families.mixtures import Mixture
from exfam.groups import Groups
from exfam.scores.prediction import Prediction
from exfam.simulators import FieldProcess


def true_conditional(process: FieldProcess, groups: Groups) -> Prediction:
    """The distribution of each own element given all others that its group sees, exactly.

    Others are those of the same map and of the maps in its context ranges. No prediction has a
    smaller expected squared error, no model a higher mean of log-densities. With K the inverse
    covariance of a window and d its deviation from the mean, d_i given the others has mean
    d_i - (K d)_i / K_ii and variance 1 / K_ii. Raises DataError unless every window is whole.
    """
    starts, stops = groups.start[:, None], groups.stop[:, None]
    if groups.context_start is not None and groups.context_stop is not None:
        starts = np.hstack([starts, groups.context_start[:, ::-1]])
        stops = np.hstack([stops, groups.context_stop[:, ::-1]])
    if groups.observed is not None or (stops - starts != process.n_sites).any():
        raise DataError(
            f"`groups` must have all {process.n_sites} sites on every map, all of them observed, "
            "got some without. Leave out maps that lack a value or a map before them."
        )
    n_maps, n_sites = starts.shape[1], process.n_sites
    rows = (starts[:, :, None] + np.arange(n_sites)).reshape(len(groups), -1)
    back = np.repeat(np.arange(n_maps), n_sites)
    days = groups.group_attributes["time"][:, None] - back
    site = np.tile(np.arange(n_sites), n_maps)
    center = process.expected(np.tile(site, (len(groups), 1)), days)
    (value,) = groups.values.values()
    apart = value[rows] - center
    lagged = [process.covariance(lag) for lag in range(n_maps)]
    joint = np.block(
        [
            [lagged[j - i] if j >= i else lagged[i - j].T for j in range(n_maps)]
            for i in range(n_maps)
        ]
    )
    inverse = np.linalg.inv(joint)
    own = slice(n_sites)
    variance = 1 / np.diag(inverse)[own]
    mean = center[:, own] + (apart[:, own] - (apart @ inverse)[:, own] * variance)
    log_scale = np.broadcast_to(np.log(np.sqrt(variance)), mean.shape)
    eta = np.stack([mean, log_scale], axis=-1).reshape(-1, 2)
    return Prediction(
        Mixture(Gaussian(), torch.from_numpy(eta)[None]), np.arange(len(eta)), len(eta)
    )
