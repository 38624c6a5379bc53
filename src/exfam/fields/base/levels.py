"""A number of each site, between sites: kriging averaged over trends, lengths and nuggets."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from exfam.fields.networks.places import chord_distances, matern_3_2

# Trends are a constant or a plane, where there are covariates without and with them; lengths are
# in units of the sites' median distance, nuggets in that of the smooth part's variance.
LENGTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
NUGGETS = (0.01, 0.05, 0.2, 0.6, 2.0)
# Models of a smaller share of the weight are left out.
LEAST_WEIGHT = 1e-3
# Sites that weights are found by, and that one place is read from.
MOST_SITES, MOST_NEAR = 400, 64
RIDGE = 1e-9
# Entries of stacks of matrices that are worked on at once.
MOST_ENTRIES = 2**22

Numbers = Float64[Tensor, "places"]
Places = Float64[Tensor, "places space"]
Sites = Float64[Tensor, "sites space"]
Values = Float64[Tensor, "sites"]
Covariates = Float64[Tensor, "... covariates"]


class Moments(NamedTuple):
    """Mean and variance of each place's own number."""

    mean: Numbers
    variance: Numbers


class Model(NamedTuple):
    """One way to krige, about a trend.

    `n_plane`: terms of a plane in the first axes, 1 for a constant; `n_more`: covariates beside
    """

    n_plane: int
    n_more: int
    length: float
    nugget: float

    @property
    def n_terms(self) -> int:
        """Terms of the trend."""
        return self.n_plane + self.n_more

    def trend(self, points: Float64[Tensor, "*shape space"], more: Covariates) -> Tensor:
        """The terms at some points."""
        terms = [torch.ones_like(points[..., :1]), points[..., : self.n_plane - 1]]
        return torch.cat([*terms, more] if self.n_more else terms, -1)


def models(n_flat: int, n_more: int = 0) -> Iterator[Model]:
    """All models that are averaged, in the order of their weights."""
    for with_more in sorted({0, n_more}):
        for n_plane in (1, 1 + n_flat):
            for length in LENGTHS:
                for nugget in NUGGETS:
                    yield Model(n_plane, with_more, length, nugget)


def n_models(n_more: int = 0) -> int:
    """How many models there are."""
    return len(list(models(1, n_more)))


class SiteNumber(NamedTuple):
    """A number of each site, to be read at places between them.

    `more`: covariates of the sites; `weights`: of all models
    """

    points: Sites
    value: Values
    n_flat: int
    more: Covariates
    weights: Float64[Tensor, "models"]

    @classmethod
    def of(
        cls, points: Sites, value: Values, n_flat: int, more: Covariates | None = None
    ) -> "SiteNumber":
        """With weights of models: exp of the sum of leave-one-site-out log densities.

        0 for models of more terms than the sites can bear; those of a constant alone below 4 sites.
        """
        more = points[:, :0] if more is None else more
        most = min(MOST_SITES, len(points))
        some = torch.linspace(0, len(points) - 1, most).round().long().unique()
        few, nats = cls(points[some], value[some], n_flat, more[some], value.new_zeros(0)), []
        for model in models(n_flat, more.shape[1]):
            if len(some) < model.n_terms + 3:
                nats.append(value.new_tensor(-torch.inf))
                continue
            mean, variance = few._left_out(model)
            nats.append(-0.5 * ((few.value - mean).square() / variance + variance.log()).sum())
        stacked = torch.stack(nats)
        known = bool(torch.isfinite(stacked).any())
        weights = torch.softmax(stacked, 0) if known else torch.zeros_like(stacked)
        return cls(points, value, n_flat, more, weights)

    def of_others(self, sites: Int64[Tensor, "some"]) -> Moments:
        """The number of some sites from those of all others."""
        if not self.weights.any() or len(self.points) > MOST_SITES:
            alone = [self._alone(k) for k in sites.tolist()]
            return Moments(*(torch.cat(part) for part in zip(*alone, strict=True)))
        parts = [(weight, self._left_out(model)) for weight, model in self._models()]
        return Moments(*(part[sites] for part in _mixed(parts)))

    def at(self, places: Places, more: Covariates | None = None) -> Moments:
        """The number of new places with their covariates, from those of their nearest sites."""
        more = places[:, :0] if more is None else more
        value = self.value
        if not self.weights.any():  # too few sites
            spread = value.var() if len(value) > 1 else value.new_zeros(())
            return Moments(value.mean().expand(len(places)), spread.expand(len(places)))
        n_near = min(MOST_NEAR, len(self.points))
        at_once = max(1, MOST_ENTRIES // max(len(self.points), n_near**2))
        out = []
        for some in torch.arange(len(places)).split(at_once):
            apart = chord_distances(places[some], self.points)
            near = apart.topk(n_near, largest=False).indices
            new = _Located(places[some], more[some])
            known = _Located(self.points[near], self.more[near])
            parts = [
                (weight, _kriged(new, known, value[near], model))
                for weight, model in self._models()
            ]
            out.append(_mixed(parts))
        return Moments(*(torch.cat(part) for part in zip(*out, strict=True)))

    def _models(self) -> Iterator[tuple[Float64[Tensor, ""], Model]]:
        """Those that count, with their weights."""
        every = models(self.n_flat, self.more.shape[1])
        pairs = zip(self.weights, every, strict=True)
        return ((weight, model) for weight, model in pairs if weight > LEAST_WEIGHT)

    def _alone(self, site: int) -> Moments:
        keep = torch.arange(len(self.points)) != site
        points, value, more = (part[keep] for part in (self.points, self.value, self.more))
        others = self._replace(points=points, value=value, more=more)
        return others.at(self.points[~keep], self.more[~keep])

    def _left_out(self, model: Model) -> Moments:
        """With P = A^-1 - A^-1 X (X' A^-1 X)^-1 X' A^-1: v_i - (P v)_i / P_ii, and s^2 / P_ii."""
        points, value = self.points, self.value
        eye = torch.eye(len(points)).to(points)
        distance = chord_distances(points, points)
        inverse = torch.linalg.inv(matern_3_2(distance, model.length) + model.nugget * eye)
        x = model.trend(points, self.more)
        solved = inverse @ x
        middle = x.T @ solved + RIDGE * torch.eye(x.shape[1]).to(x)
        p = inverse - solved @ torch.linalg.solve(middle, solved.T)
        pivot, right = p.diagonal(), p @ value
        scale = _variance(value @ right, len(value) - model.n_terms)
        return Moments(value - right / pivot, scale / pivot)


def _mixed(parts: list[tuple[Tensor, Moments]]) -> Moments:
    """Mean and variance of the mixture."""
    weight = torch.stack([weight for weight, _ in parts])[:, None]
    weight = weight / weight.sum()
    mean = torch.stack([moments.mean for _, moments in parts])
    variance = torch.stack([moments.variance for _, moments in parts])
    middle = (weight * mean).sum(0)
    return Moments(middle, (weight * (variance + (mean - middle).square())).sum(0))


class _Located(NamedTuple):
    """Points and their covariates."""

    points: Float64[Tensor, "*shape space"]
    more: Covariates


def _kriged(
    new: _Located,
    known: _Located,
    value: Float64[Tensor, "places near"],
    model: Model,
) -> Moments:
    """Universal kriging of each place from its own near sites."""
    places, near = new.points, known.points
    n = near.shape[1]
    covariance = matern_3_2(chord_distances(near, near), model.length)
    covariance = covariance + model.nugget * torch.eye(n).to(near)
    shared = matern_3_2(chord_distances(places[:, None], near)[:, 0], model.length)
    x, x_new = model.trend(near, known.more), model.trend(places, new.more)
    factor = torch.linalg.cholesky(covariance)
    right = torch.cat([x, value[..., None], shared[..., None]], -1)
    solved = torch.cholesky_solve(right, factor)
    inner = x.mT @ solved + RIDGE * torch.eye(model.n_terms, right.shape[-1]).to(x)
    middle, of_value, of_shared = inner.split([model.n_terms, 1, 1], -1)
    beta = torch.linalg.solve(middle, of_value)
    rest = value[..., None] - x @ beta
    weights = solved[..., -1:]
    mean = (x_new[:, None] @ beta + weights.mT @ rest)[:, 0, 0]
    gap = x_new[..., None] - of_shared
    explained = (shared[..., None] * weights).sum((-2, -1))
    unknown = (gap.mT @ torch.linalg.solve(middle, gap))[:, 0, 0]
    total = (rest.mT @ torch.cholesky_solve(rest, factor))[:, 0, 0]
    scale = _variance(total, n - model.n_terms)
    return Moments(mean, scale * (1 + model.nugget - explained + unknown).clamp_min(RIDGE))


def _variance(total: Tensor, freedom: int) -> Tensor:
    return (total / max(1, freedom)).clamp_min(1e-20)
