"""Prevalence, and a logistic regression for each species: with squares, with other species."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from benchmarks.arena.communities.data import CommunityData, Sites
from benchmarks.arena.communities.judge import SHARES, best_community, with_known
from benchmarks.arena.kind import Contender, Fitted
from jaxtyping import Float

# Penalties of half the squared coefficients, as shares of the mean nats of a species.
PENALTIES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
OF_OTHERS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_STEPS = 60

Design = Float[np.ndarray, "sites columns"]
Designer = Callable[[pd.DataFrame], Design]


def designer(train: pd.DataFrame, *, squares: bool) -> Designer:
    """Standardized numbers, their squares, and a column for each label."""
    numbers = train.select_dtypes("number")
    center, spread = numbers.mean(), numbers.std().replace(0, 1)
    labels = {name: train[name].cat.categories for name in train.select_dtypes("category")}

    def design(frame: pd.DataFrame) -> Design:
        z = ((frame[numbers.columns] - center) / spread).to_numpy(dtype=float)
        parts = [z, z**2] if squares else [z]
        for name, categories in labels.items():
            codes = pd.Categorical(frame[name], categories=categories).codes
            parts.append((codes[:, None] == np.arange(len(categories))).astype(float))
        return np.column_stack(parts)

    return design


def fit_prevalence(data: CommunityData, seed: int) -> Fitted:
    """How often each species is present, with half a site more of each sort."""
    n = len(data.train)
    share = (data.train.present.sum(0) + 0.5) / (n + 1)

    def predict(sites: Sites) -> Any:
        return np.broadcast_to(share, sites.present.shape)

    return Fitted(predict, refit=lambda other: fit_prevalence(other, seed))


def fit_logistic(data: CommunityData, *, squares: bool) -> Fitted:
    """The penalty chosen on validation sites, one for all species."""
    tried = [({"penalty": penalty}, _logistic(data, penalty, squares)) for penalty in PENALTIES]
    return best_community(tried, data)


def _logistic(data: CommunityData, penalty: float, squares: bool) -> Fitted:
    design = designer(data.train.covariates, squares=squares)
    columns = design(data.train.covariates)
    weight = regress(columns, data.train.present, np.full(columns.shape[1], penalty))

    def predict(sites: Sites) -> Any:
        return _probability(design(sites.covariates), weight)

    return Fitted(predict, refit=lambda other: _logistic(other, penalty, squares))


def fit_others(data: CommunityData, seed: int) -> Fitted:
    """Penalties chosen on validation sites: that of covariates first, without other species."""
    own = fit_logistic(data, squares=True).settings["penalty"]
    tried = [
        ({"penalty": own, "penalty_of_others": penalty}, _others(data, own, penalty))
        for penalty in OF_OTHERS
    ]
    return best_community(tried, data)


def _others(data: CommunityData, own: float, penalty: float) -> Fitted:
    """Inputs are covariates, known species less their prevalence, and which are known.

    Each training site is there once for each share of its species that is known.
    """
    design, share = designer(data.train.covariates, squares=True), data.train.present.mean(0)

    def inputs(sites: Sites) -> Design:
        known = np.asarray(sites.known, dtype=float)
        return np.column_stack([design(sites.covariates), known * (sites.present - share), known])

    columns = np.concatenate([inputs(with_known(data.train, part)) for part in SHARES])
    present = np.tile(data.train.present, (len(SHARES), 1))
    n_species = present.shape[1]
    n_own = columns.shape[1] - 2 * n_species
    ridge = np.repeat([own, penalty], [n_own, 2 * n_species])
    blind = np.ones((columns.shape[1], n_species))
    for first in (n_own, n_own + n_species):
        blind[first : first + n_species] -= np.eye(n_species)
    weight = regress(columns, present, ridge, allowed=blind)

    def predict(sites: Sites) -> Any:
        return _probability(inputs(sites), weight)

    return Fitted(predict, refit=lambda other: _others(other, own, penalty))


def regress(
    columns: Design,
    present: Float[np.ndarray, "sites species"],
    ridge: Float[np.ndarray, "columns"],
    *,
    allowed: Float[np.ndarray, "columns species"] | None = None,
) -> Float[np.ndarray, "weights species"]:
    """Coefficients of all species at once, the last row being intercepts; by L-BFGS."""
    x = torch.as_tensor(np.column_stack([columns, np.ones(len(columns))]))
    y, penalty = torch.as_tensor(present), torch.as_tensor(np.append(ridge, 0.0))[:, None]
    may = torch.ones(x.shape[1], y.shape[1], dtype=torch.float64)
    if allowed is not None:
        may[:-1] = torch.as_tensor(allowed)
    share = (y.sum(0) + 0.5) / (len(y) + 1)
    weight = torch.zeros(x.shape[1], y.shape[1], dtype=torch.float64)
    weight[-1] = share.logit()
    weight.requires_grad_()
    lbfgs = torch.optim.LBFGS(
        [weight], max_iter=_STEPS, line_search_fn="strong_wolfe", tolerance_change=1e-8
    )

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        eta = x @ (weight * may)
        nats = torch.nn.functional.softplus(eta) - y * eta
        loss = nats.mean(0).sum() + 0.5 * (penalty * weight**2).sum()
        loss.backward()
        return loss

    lbfgs.step(closure)
    return (weight * may).detach().numpy()


def _probability(columns: Design, weight: np.ndarray) -> np.ndarray:
    eta = columns @ weight[:-1] + weight[-1]
    return 1 / (1 + np.exp(-np.clip(eta, -30, 30)))


CONTENDERS = {
    "prevalence": Contender(label="prevalence", fit=fit_prevalence),
    "logistic-linear": Contender(
        label="logistic regressions, linear",
        fit=lambda data, seed: fit_logistic(data, squares=False),
    ),
    "logistic-squares": Contender(
        label="logistic regressions, squares",
        fit=lambda data, seed: fit_logistic(data, squares=True),
    ),
    "logistic-others": Contender(
        label="logistic regressions, squares and other species", fit=fit_others
    ),
}
