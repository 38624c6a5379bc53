"""What a network adds to `eta`, and how a known species is kept from seeing its own value.

    eta_s = base_s + gate (sum_t W_st r_t + v_s . relu(A env + B r + D known + b))

of the residuals r of known species, 0 for others; W has no diagonal, and for a known species the
hidden units are those without its own value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from exfam.tables.community.association import Known, Sites

Site = Float[np.ndarray, "sites"]

# Rows and cells that are corrected at once.
_AT_ONCE = 4_000_000
_ENV_LIMIT = 6.0


@dataclass(frozen=True, eq=False)
class Correction:
    """Networks of all folds, averaged, and the gate; arrays of networks are stacked."""

    pairs: Float[np.ndarray, "folds species species"]
    inward: Float[np.ndarray, "folds hidden inputs"]
    bias: Float[np.ndarray, "folds hidden"]
    outward: Float[np.ndarray, "folds species hidden"]
    gate: float

    def shift(self, env: Sites, residual: Sites, known: Known) -> Sites:
        """What is added to `eta` of each species, which does not see its own value."""
        total = np.zeros_like(env)
        for f in range(len(self.pairs)):
            total += added(self.network(f), env, residual, known)
        return self.gate * total / max(len(self.pairs), 1)

    def shift_of(self, env: Sites, residual: Sites, known: Known, *, species: int) -> Site:
        """What `shift` has for one species."""
        known = known & (np.arange(env.shape[1]) != species)
        given, total = np.where(known, residual, 0.0), np.zeros(len(env))
        inputs = np.concatenate([clipped_env(env), given, known], axis=1)
        for pairs, inward, bias, outward in map(self.network, range(len(self.pairs))):
            hidden = np.maximum(inputs @ inward.T + bias, 0.0)
            total += given @ pairs[species] + hidden @ outward[species]
        return self.gate * total / max(len(self.pairs), 1)

    def network(self, f: int) -> tuple[np.ndarray, ...]:
        """The arrays of one fold."""
        return self.pairs[f], self.inward[f], self.bias[f], self.outward[f]


def correction_of(arrays: Sequence[np.ndarray], *, gate: float) -> Correction:
    """The correction of stacked arrays: of pairs, inward, bias and outward."""
    pairs, inward, bias, outward = arrays
    return Correction(pairs, inward, bias, outward, gate)


def added(network: tuple[np.ndarray, ...], env: Sites, residual: Sites, known: Known) -> Sites:
    """What one network adds; hidden units of a known species are those without its value."""
    pairs, inward, bias, outward = network
    n_species = env.shape[1]
    of_env, of_given, of_known = np.split(inward, [n_species, 2 * n_species], axis=1)
    given = np.where(known, residual, 0.0)
    shift = given @ pairs.T
    before = clipped_env(env) @ of_env.T + given @ of_given.T + known @ of_known.T + bias
    step = max(1, _AT_ONCE // (n_species * len(bias)))
    for first in range(0, len(env), step):
        rows = slice(first, first + step)
        own = given[rows, :, None] * of_given.T + known[rows, :, None] * of_known.T
        hidden = np.maximum(before[rows, None] - own, 0.0)
        shift[rows] += np.einsum("nsh,sh->ns", hidden, outward)
    return shift


def clipped_env(env: Sites) -> Sites:
    """`eta` of the environment as networks see it."""
    return np.clip(env, -_ENV_LIMIT, _ENV_LIMIT)
