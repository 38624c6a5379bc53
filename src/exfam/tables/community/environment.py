"""Ridge regressions of all species on the same covariates, one penalty chosen for each species."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

from exfam.tables.community.ridge import Basis, Observed, Ridge

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
_FEW_PENALTIES = (0.3, 0.1, 0.03, 0.01)
N_FOLDS = 5
# Sizes are drawn to the mean of the community by a normal of this spread.
_SIZE_SPREAD = 1.0
_SIZES = np.linspace(-4.0, 6.0, 26)

Sites = Float[np.ndarray, "sites species"]
Design = Float[np.ndarray, "sites columns"]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Of all species: `eta = offset + intercept + design @ weight`, and the log of their sizes."""

    intercept: Float[np.ndarray, "species"]
    weight: Float[np.ndarray, "columns species"]
    log_size: Float[np.ndarray, "species"]

    def eta(self, design: Design, offset: Float[np.ndarray, "sites 1"]) -> Sites:
        return offset + self.intercept + design @ self.weight


def prevalence_eta(seen: Observed) -> Float[np.ndarray, "species"]:
    """The `eta` of each species without covariates, of half a site more in all."""
    n = seen.there.sum(0)
    effort = (seen.there * np.exp(seen.offset)).sum(0)
    total = (seen.value * seen.there).sum(0)
    if seen.response.name == "presence":
        return seen.response.eta_of_mean((total + 0.5) / (n + 1))
    mean = total.sum() / max(float(effort.sum()), 1e-9)
    return seen.response.eta_of_mean(np.maximum((total + 0.5 * mean) / (effort + 0.5), 1e-6))


def fit_path(
    design: Design,
    seen: Observed,
    *,
    log_size: Float[np.ndarray, "species"],
    penalties: Sequence[float] = PENALTIES,
) -> list[Coefficients]:
    """Coefficients of all species for each penalty, from the largest to the smallest."""
    basis = Basis.of(design)
    start = prevalence_eta(seen)
    weight = np.vstack([start, np.zeros((len(basis.variance), len(start)))])
    path = []
    for penalty in penalties:
        ridge = Ridge(basis, seen, (penalty, start, log_size))
        weight = ridge.solve(weight)
        own = basis.rotation @ weight[1:]
        path.append(Coefficients(weight[0] - basis.mean @ own, own, log_size))
    return path


def sizes_of(seen: Observed, eta: Sites) -> Float[np.ndarray, "species"]:
    """The log of each species' size by its nats on a grid, drawn to the mean of the community."""
    n_species = eta.shape[1]
    if not seen.response.has_size:
        return np.zeros(n_species)
    nats = np.stack([seen.nats(eta, np.full(n_species, size)).sum(0) for size in _SIZES])
    mean = float(_SIZES[nats.sum(1).argmin()])
    for _ in range(3):
        drawn = nats + 0.5 * np.square((_SIZES[:, None] - mean) / _SIZE_SPREAD)
        log_size = _SIZES[drawn.argmin(0)]
        mean = float(log_size.mean())
    return log_size


def site_folds(n: int, *, seed: int) -> Int64[np.ndarray, "sites"]:
    """The fold of each site: as many of each as can be."""
    random = np.random.default_rng(seed)
    return random.permutation(n) % min(N_FOLDS, max(2, n))


def block_folds(block: Int64[np.ndarray, "sites"]) -> Int64[np.ndarray, "sites"]:
    """Folds of whole blocks, those of neighboring numbers together, of about as many sites each."""
    n_blocks = int(block.max()) + 1
    before = np.cumsum(np.bincount(block)) - np.bincount(block) / 2
    share = np.floor(before / len(block) * min(N_FOLDS, n_blocks)).astype(np.int64)
    return np.unique(share, return_inverse=True)[1].ravel()[block]


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Regressions of each fold's other sites and of all.

    `eta`: out of fold; `nats`: of a cell, held out
    """

    design: Design
    seen: Observed
    eta: Sites
    folds: Int64[np.ndarray, "sites"]
    of_folds: list[Coefficients]
    of_all: Coefficients
    nats: float


def cross_fit(design: Design, seen: Observed, *, folds: Int64[np.ndarray, "sites"]) -> CrossFit:
    """Fit on each fold's other sites, choose each species' penalty, and fit on all sites."""
    log_size = sizes_of(seen, seen.offset + prevalence_eta(seen))
    rounds = 2 if seen.response.has_size else 1
    for _ in range(rounds):
        paths, eta = _crossed(design, seen, (folds, log_size, PENALTIES))
        chosen = _choose(seen, eta, log_size)
        picked = np.take_along_axis(eta, chosen[None, None], axis=0)[0]
        log_size = sizes_of(seen, picked)
    of_folds = [_picked(path, chosen, log_size) for path in paths]
    of_all = _picked(fit_path(design, seen, log_size=log_size), chosen, log_size)
    nats = float(seen.nats(picked, log_size).sum(1).sum()) / max(float(seen.there.sum()), 1.0)
    return CrossFit(design, seen, picked, folds, of_folds, of_all, nats)


def held_out_nats(
    design: Design, seen: Observed, *, folds: Int64[np.ndarray, "sites"]
) -> Float[np.ndarray, "sites"]:
    """About the nats that `cross_fit` has at each site, from fewer penalties and no refit."""
    log_size = sizes_of(seen, seen.offset + prevalence_eta(seen))
    _, eta = _crossed(design, seen, (folds, log_size, _FEW_PENALTIES))
    chosen = _choose(seen, eta, log_size)
    picked = np.take_along_axis(eta, chosen[None, None], axis=0)[0]
    return seen.nats(picked, log_size).sum(1)


def _crossed(
    design: Design,
    seen: Observed,
    settings: tuple[np.ndarray, np.ndarray, Sequence[float]],
) -> tuple[list[list[Coefficients]], Float[np.ndarray, "penalties sites species"]]:
    """Regressions of each fold's other sites for each penalty, and their `eta` of the fold."""
    folds, log_size, penalties = settings
    paths, eta = [], np.empty((len(penalties), *seen.value.shape))
    for f in range(int(folds.max()) + 1):
        rows, rest = folds == f, folds != f
        path = fit_path(design[rest], seen[rest], log_size=log_size, penalties=penalties)
        for k, fit in enumerate(path):
            eta[k, rows] = fit.eta(design[rows], seen.offset[rows])
        paths.append(path)
    return paths, eta


def _choose(seen: Observed, eta: np.ndarray, log_size: np.ndarray) -> Int64[np.ndarray, "species"]:
    """The penalty of each species: of least nats, half its own and half those of all species."""
    nats = np.stack([seen.nats(e, log_size).sum(0) for e in eta])
    own = nats / np.maximum(seen.there.sum(0), 1)
    return (0.5 * own + 0.5 * own.mean(1, keepdims=True)).argmin(0)


def _picked(path: list[Coefficients], chosen: np.ndarray, log_size: np.ndarray) -> Coefficients:
    intercept = np.stack([fit.intercept for fit in path])
    weight = np.stack([fit.weight for fit in path])
    species = np.arange(len(chosen))
    return Coefficients(intercept[chosen, species], weight[chosen, :, species].T.copy(), log_size)
