"""Simulated maps as field groups."""

import numpy as np

from exfam.groups import Groups


def field(values, coordinates, *, times=None, observed=None, lags=0, item=None) -> Groups:
    """One group a row of `values` (maps, sites); `lags` maps before each one are its context."""
    n_maps, n_sites = values.shape
    start = np.arange(n_maps) * n_sites
    context = {}
    if lags:
        back = np.arange(n_maps)[:, None] - np.arange(lags, 0, -1)
        first = np.maximum(back, 0) * n_sites
        context = {"context_start": first, "context_stop": first + n_sites * (back >= 0)}
    item = np.arange(n_sites) if item is None else np.asarray(item)
    places = np.tile(np.asarray(coordinates, dtype=float), (n_maps, 1))
    return Groups(
        start=start,
        stop=start + n_sites,
        item=np.tile(item, n_maps),
        values={"t": values.ravel()},
        observed=None if observed is None else observed.ravel(),
        attributes={"coordinates": places},
        position=places,
        group_attributes={"time": np.arange(n_maps) * 1.0 if times is None else times},
        vocabulary={"item": np.arange(n_sites)},
        **context,
    )


def everything(groups: Groups):
    return groups.pad(np.arange(len(groups)))


def smooth_maps(n_maps, coordinates, *, length, rng, memory=0.0, noise=0.3):
    """Maps of a stationary Gaussian field with a Matern 3/2 covariance of variance 1, and noise."""
    distance = np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1)
    r = 3**0.5 * distance / length
    factor = np.linalg.cholesky((1 + r) * np.exp(-r) + 1e-9 * np.eye(len(coordinates)))
    fresh = rng.normal(size=(n_maps, len(coordinates))) @ factor.T
    rho = np.exp(-1 / memory) if memory else 0.0
    maps = [fresh[0]]
    for new in fresh[1:]:
        maps.append(rho * maps[-1] + np.sqrt(1 - rho**2) * new)
    return np.array(maps) + noise * rng.normal(size=fresh.shape)
