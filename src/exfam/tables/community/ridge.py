"""Ridge regressions of many species at once: Newton's steps by conjugate gradients."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

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
