"""Ridge regressions of all species at once on the same covariates, one penalty for each species."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.tables.community.responses import SpeciesResponse

# How many sites, each with no news, draw an intercept to where it would be without covariates.
_OF_INTERCEPT = 1.0
_LEAST_VARIANCE = 1e-9
# Newton's steps, and steps of conjugate gradients within one, at most; how exact these are.
_MOST_STEPS, _MOST_INNER, _INEXACT = 12, 15, 0.1
# Nats of a cell that a step may still gain where a species has converged.
_ENOUGH = 3e-6
_HALVINGS = 6

Sites = Float[np.ndarray, "sites species"]
Design = Float[np.ndarray, "sites columns"]
Weights = Float[np.ndarray, "weights species"]

PENALTIES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
_FEW_PENALTIES = (0.3, 0.1, 0.03, 0.01)
N_FOLDS = 5
# Sizes are drawn to the mean of the community by a normal of this spread.
_SIZE_SPREAD = 1.0
_SIZES = np.linspace(-4.0, 6.0, 26)


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen of a response: values, possible ones where nothing was, and offsets."""

    response: SpeciesResponse
    value: Sites
    there: Bool[np.ndarray, "sites species"]
    offset: Float[np.ndarray, "sites 1"]

    def __getitem__(self, rows: np.ndarray) -> "Observed":
        return Observed(self.response, self.value[rows], self.there[rows], self.offset[rows])

    def of_species(self, index: np.ndarray) -> "Observed":
        """Of some of the species."""
        return replace(self, value=self.value[:, index], there=self.there[:, index])

    def nats(self, eta: Sites, log_size: Float[np.ndarray, "species"]) -> Sites:
        """Minus log p of what was seen, 0 elsewhere."""
        return -self.response.log_prob(self.value, eta, log_size) * self.there

    def residual(self, eta: Sites, log_size: Float[np.ndarray, "species"]) -> Sites:
        """Residuals of what was seen, 0 elsewhere."""
        return np.where(self.there, self.response.residual(self.value, eta, log_size), 0.0)


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns of a design about their means, in the directions of their covariance.

    There, a ridge and the curvature of nats are nearly diagonal: solvers need few steps.
    """

    columns: Float[np.ndarray, "sites directions"]
    variance: Float[np.ndarray, "directions"]
    rotation: Float[np.ndarray, "columns directions"]
    mean: Float[np.ndarray, "columns"]

    @classmethod
    def of(cls, design: Design) -> "Basis":
        """The directions along which the columns vary at all."""
        mean = design.mean(0)
        apart = design - mean
        values, vectors = np.linalg.eigh(apart.T @ apart / max(len(design), 1))
        kept = values > _LEAST_VARIANCE
        rotation = vectors[:, kept]
        return cls(apart @ rotation, values[kept], rotation, mean)


@dataclass(frozen=True, eq=False)
class Ridge:
    """Mean nats of each species plus half a penalty times its squared weights.

    `settings`: the penalty, where intercepts start, and log sizes. Weights have the intercept in
    their first row.
    """

    basis: Basis
    seen: Observed
    settings: tuple[float, Float[np.ndarray, "species"], Float[np.ndarray, "species"]]

    def solve(self, weight: Weights) -> Weights:
        """The least for every species, from a start."""
        weight = weight.copy()
        active = np.arange(weight.shape[1])
        for _ in range(_MOST_STEPS):
            part = self._of(active)
            weight[:, active], gain = part._step(weight[:, active])
            active = active[gain > _ENOUGH]
            if not len(active):
                break
        return weight

    def _of(self, species: np.ndarray) -> "Ridge":
        penalty, start, log_size = self.settings
        seen = self.seen
        if len(species) == seen.value.shape[1]:
            return self
        own = (penalty, start[species], log_size[species])
        return Ridge(self.basis, seen.of_species(species), own)

    def _n(self) -> Float[np.ndarray, "species"]:
        return np.maximum(self.seen.there.sum(0), 1).astype(np.float64)

    def _eta(self, weight: Weights) -> Sites:
        return self.seen.offset + weight[0] + self.basis.columns @ weight[1:]

    def _drawn(self, weight: Weights) -> tuple[Weights, Weights]:
        """Penalties, and how far weights are from where these draw them."""
        penalty, start, _ = self.settings
        ridge = np.full(weight.shape, penalty)
        ridge[0] = _OF_INTERCEPT / self._n()
        apart = weight.copy()
        apart[0] -= start
        return ridge, apart

    def _objective(self, weight: Weights, eta: Sites) -> Float[np.ndarray, "species"]:
        ridge, apart = self._drawn(weight)
        nats = self.seen.nats(eta, self.settings[2]).sum(0)
        return nats / self._n() + 0.5 * (ridge * apart**2).sum(0)

    def _step(self, weight: Weights) -> tuple[Weights, Float[np.ndarray, "species"]]:
        """One step, halved where it goes too far, and what it should gain."""
        eta, n, there = self._eta(weight), self._n(), self.seen.there
        score, information = self.seen.response.score_and_information(
            self.seen.value, eta, self.settings[2]
        )
        score, information = score * there / n, information * there / n
        ridge, apart = self._drawn(weight)
        slope = self._back(score) - ridge * apart
        step = self._newton(slope, information, ridge)
        gain = (slope * step).sum(0)
        moved = self._forth(step)
        before = self._objective(weight, eta)
        share = np.ones(weight.shape[1])
        for _ in range(_HALVINGS):
            after = self._objective(weight + share * step, eta + share * moved)
            worse = after > before + 1e-10
            if not worse.any():
                break
            share = np.where(worse, share / 3, share)
        else:
            share = np.where(worse, 0.0, share)
        return weight + share * step, np.where(share > 0, gain, 0.0)

    def _newton(self, slope: Weights, information: Sites, ridge: Weights) -> Weights:
        """Where the slope is gone, about, by conjugate gradients with a diagonal start."""
        mean = information.sum(0)
        scale = np.vstack([np.ones_like(mean), self.basis.variance[:, None] * np.ones_like(mean)])
        diagonal = mean * scale + ridge
        step, rest = np.zeros_like(slope), slope.copy()
        ahead = rest / diagonal
        direction, size = ahead, (rest * ahead).sum(0)
        enough = _INEXACT**2 * size
        for _ in range(_MOST_INNER):
            bent = self._back(information * self._forth(direction)) + ridge * direction
            curve = (direction * bent).sum(0)
            going = (size > enough) & (curve > 0)
            if not going.any():
                break
            length = np.where(going, size / np.where(going, curve, 1.0), 0.0)
            step, rest = step + length * direction, rest - length * bent
            ahead = rest / diagonal
            before, size = size, (rest * ahead).sum(0)
            kept = np.where(going, size / np.maximum(before, 1e-300), 0.0)
            direction = ahead + kept * direction
        return step

    def _forth(self, weight: Weights) -> Sites:
        return weight[0] + self.basis.columns @ weight[1:]

    def _back(self, cells: Sites) -> Weights:
        return np.vstack([cells.sum(0), self.basis.columns.T @ cells])


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
