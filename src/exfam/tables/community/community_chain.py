"""Whole communities by the chain rule over species: exact log-probabilities, and draws.

An order of the species makes a joint distribution of their conditionals. Orders differ a little, so
several are mixed: a log-probability is that of the mixture, and each draw takes one of its orders.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from exfam.tables.community.association import Sites
from exfam.tables.community.community_model import (
    FittedCommunity,
    SiteInputs,
    values_of_part,
)

# Fills in a species: of its index and its `eta` in each part, the value, NaN to leave it unknown.
Step = Callable[[int, list[np.ndarray]], np.ndarray]


def orders_of(n_species: int, *, n_orders: int, seed: int) -> np.ndarray:
    """Random orders of the species."""
    random = np.random.default_rng(seed)
    return np.stack([random.permutation(n_species) for _ in range(n_orders)])


def walk(
    model: FittedCommunity, inputs: SiteInputs, value: Sites, *, order: np.ndarray, step: Step
) -> Sites:
    """The values after each species of an order has been filled in, given those before it.

    `value`: what is known at the start, which later species see
    """
    value = value.copy()
    envs = [model.env(number, inputs) for number in range(len(model.parts))]
    states = [
        _state(model, number, value, env, np.arange(value.shape[1]))
        for number, env in enumerate(envs)
    ]
    for s in order:
        etas = []
        for part, env, (residual, there) in zip(model.parts, envs, states, strict=True):
            etas.append(part.eta_of(env, residual, there, species=int(s)))
        value[:, s] = step(int(s), etas)
        for number, env in enumerate(envs):
            own, there = _state(model, number, value, env, np.array([s]))
            states[number][0][:, s], states[number][1][:, s] = own[:, 0], there[:, 0]
    return value


def _state(
    model: FittedCommunity, number: int, value: Sites, env: Sites, species: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Residuals of some species in a part, and which are there."""
    part = model.parts[number]
    own, there = values_of_part(part.response.name, value[:, species])
    safe = part.response.safe(own, there)
    log_size = part.environment.log_size[species]
    residual = part.response.residual(safe, env[:, species], log_size)
    return np.where(there, residual, 0.0), there


def community_log_prob(
    model: FittedCommunity, inputs: SiteInputs, value: Sites, *, orders: np.ndarray
) -> Float[np.ndarray, "sites"]:
    """log p(all values that are there | covariates), of the mixture of the orders."""
    terms = np.zeros((len(orders), len(value)))
    for k, order in enumerate(orders):

        def step(s: int, etas: list[np.ndarray], k: int = k) -> np.ndarray:
            own = model.log_prob_of(s, value[:, s], etas)
            terms[k] += np.where(np.isnan(own), 0.0, own)
            return value[:, s]

        walk(model, inputs, np.full_like(value, np.nan), order=order, step=step)
    return logsumexp(terms, axis=0) - np.log(len(orders))


def chain_draw(
    model: FittedCommunity,
    inputs: SiteInputs,
    value: Sites,
    *,
    order: np.ndarray,
    random: np.random.Generator,
) -> Sites:
    """One draw of what is NaN in `value` at each site, given the rest."""

    def step(s: int, etas: list[np.ndarray]) -> np.ndarray:
        drawn = model.draw_of(s, etas, random)
        return np.where(np.isnan(value[:, s]), drawn, value[:, s])

    wanted = order[np.isnan(value[:, order]).any(0)]
    return walk(model, inputs, value, order=wanted, step=step)
