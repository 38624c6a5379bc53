"""A Gaussian process of the nearest values: Vecchia's approximation, fitted by their conditionals.

Anomalies have a Matern covariance of distances that may be stretched along any direction, times a
decay from one map to the next along which the field may move, and noise. Each value is predicted
from the nearest values that are shown, with a Student t about it.
Source: Katzfuss & Guinness (2021), A General Framework for Vecchia Approximations.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from benchmarks.arena.fields.data import FieldData, Maps
from benchmarks.arena.fields.judge import best_on_validation
from benchmarks.arena.fields.neighbors import nearest
from benchmarks.arena.fields.normals import KINDS, Normals, fit_normals
from benchmarks.arena.kind import Contender, Fitted
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Bool, Float
from torch import Tensor

KM_OF_A_DEGREE = 111.195
SMOOTHNESS = (0.5, 1.5)
# Nearest values of the map, and of the map before beside the site's own there.
N_SAME, N_BEFORE = 30, 9
# Values whose conditionals a fit sums, steps of its search, values predicted together.
N_LEARNED, MOST_STEPS, AT_ONCE = 1_500, 40, 2_000


@dataclass(frozen=True, eq=False)
class Around:
    """The values around targets: their anomalies, steps from the target, and which there are."""

    anomaly: Float[Tensor, "targets near"]
    step: Float[Tensor, "targets near space"]
    lag: Float[Tensor, "near"]
    there: Bool[Tensor, "targets near"]

    def __getitem__(self, rows: Any) -> "Around":
        return Around(self.anomaly[rows], self.step[rows], self.lag, self.there[rows])


def fit_local_process(data: FieldData, seed: int) -> Fitted:
    candidates = (
        ({"normals": kind, "smoothness": smoothness}, _fitted(kind, smoothness, data))
        for kind, smoothness in product(KINDS, SMOOTHNESS)
    )
    return best_on_validation(candidates, data)


def _fitted(kind: str, smoothness: float, data: FieldData) -> Fitted:
    normals = fit_normals(data, kind=kind)
    points = plane(data)
    chance = np.random.default_rng(0).random(data.train.target.shape)
    share = N_LEARNED / max(int(data.train.target.sum()), 1)
    learned = data.train.with_targets(data.train.target & (chance < share))
    of_map, site = learned.targets
    own = normals.anomalies(learned.time, learned.value)[of_map, site]
    numbers = _searched(
        around(learned, data, normals, points), torch.from_numpy(own), smoothness=smoothness
    )

    def predict(maps: Maps) -> StudentT:
        near = around(maps, data, normals, points)
        rows = torch.arange(len(near.anomaly)).split(AT_ONCE)
        with torch.no_grad():
            parts = [conditionals(numbers, near[some], smoothness=smoothness) for some in rows]
        mean, variance = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
        of_map, site = maps.targets
        scale, df = normals.scale[site], float(_df(numbers))
        loc = normals.location(maps.time)[of_map, site] + scale * mean
        return StudentT(loc, scale * np.sqrt(variance * (df - 2) / df), df)

    return Fitted(predict, refit=lambda other: _fitted(kind, smoothness, other))


def plane(data: FieldData) -> Float[Tensor, "sites space"]:
    """The sites' points in units of the median distance; latitudes and longitudes as a plane."""
    points = data.coordinates.astype(float)
    if data.metric == "haversine":
        east = np.cos(np.deg2rad(points[:, 0].mean()))
        points = KM_OF_A_DEGREE * np.stack([points[:, 0], east * points[:, 1]], axis=1)
    apart = np.sqrt(((points[:, None] - points) ** 2).sum(-1))
    return torch.from_numpy(points / max(float(np.median(apart[apart > 0])), 1e-9))


def around(
    maps: Maps, data: FieldData, normals: Normals, points: Float[Tensor, "sites space"]
) -> Around:
    """The nearest shown values of every target, and with a lag those of the map before."""
    _, own = maps.targets
    near = nearest(maps, data, k=N_SAME)
    site, lag = near.site, np.zeros(N_SAME)
    value = near.of(maps, normals.anomalies(maps.time, maps.visible))
    if data.lags:
        before = normals.anomalies(maps.time - 1, maps.before)
        earlier = nearest(
            Maps(
                time=maps.time,
                value=maps.before,
                shown=~np.isnan(maps.before),
                target=maps.target,
                before=maps.before,
                hidden_share=maps.hidden_share,
            ),
            data,
            k=N_BEFORE,
        )
        site = np.concatenate([site, own[:, None], earlier.site], axis=1)
        lag = np.concatenate([lag, np.ones(N_BEFORE + 1)])
        at_own = before[maps.targets][:, None]
        value = np.concatenate([value, at_own, earlier.of(maps, before)], axis=1)
    there = torch.from_numpy(~np.isnan(value))
    step = points[torch.from_numpy(site)] - points[torch.from_numpy(own)][:, None]
    anomaly = torch.from_numpy(np.nan_to_num(value))
    return Around(anomaly, step, torch.from_numpy(lag), there)


def _searched(
    near: Around, own: Float[Tensor, "targets"], *, smoothness: float
) -> Float[Tensor, "numbers"]:
    """The numbers under which the values are likeliest, each given those around it."""
    space = near.step.shape[-1]
    numbers = torch.zeros(4 + space * (space + 1) // 2 + space, dtype=own.dtype)
    # Noise is a tenth, correlations last a map or so, and tails are light.
    numbers[1], numbers[2], numbers[3] = -2.3, 0.0, 3.0
    numbers.requires_grad_()
    search = torch.optim.LBFGS([numbers], max_iter=MOST_STEPS, line_search_fn="strong_wolfe")

    def nats() -> Tensor:
        search.zero_grad()
        mean, variance = conditionals(numbers, near, smoothness=smoothness)
        df = _df(numbers)
        spread = (variance * (df - 2) / df).sqrt()
        # Drawn to where the search starts, so that what values do not say stays finite.
        loss = -torch.distributions.StudentT(df, mean, spread).log_prob(own).mean()
        loss = loss + 1e-3 * (numbers**2).mean()
        loss.backward()
        return loss

    search.step(nats)
    return numbers.detach()


def _df(numbers: Float[Tensor, "numbers"]) -> Float[Tensor, ""]:
    return 2.1 + numbers[3].clamp(-5, 5).exp()


def conditionals(
    numbers: Float[Tensor, "numbers"], near: Around, *, smoothness: float
) -> tuple[Float[Tensor, "targets"], Float[Tensor, "targets"]]:
    """Mean and variance of the anomaly of each target given the values around it.

    `numbers`: logs of the variance and of the noise, logit of the correlation of maps, log of the
    degrees of freedom, then the stretch as a triangle, and the way from a map to the next
    """
    space = near.step.shape[-1]
    signal, noise = numbers[:2].clamp(-12, 12).exp()
    stretch = torch.zeros(space, space, dtype=numbers.dtype)
    row, column = torch.tril_indices(space, space)
    stretch = stretch.index_put((row, column), numbers[4 : 4 + len(row)])
    diagonal = stretch.diagonal().clamp(-6, 6).exp()
    stretch = stretch.tril(-1) + torch.diag(diagonal)
    # Where a value of the map before has gone, in stretched units.
    place = (near.step + near.lag[:, None] * numbers[-space:]) @ stretch.T
    decay = torch.sigmoid(numbers[2])

    def covariance(step: Tensor, lag: Tensor) -> Tensor:
        apart = (step.pow(2).sum(-1) + 1e-12).sqrt()
        if smoothness == 1.5:
            apart = apart * 3**0.5
            return signal * decay**lag * (1 + apart) * (-apart).exp()
        return signal * decay**lag * (-apart).exp()

    between = covariance(place[:, :, None] - place[:, None], (near.lag[:, None] - near.lag).abs())
    both = near.there[:, :, None] & near.there[:, None]
    eye = torch.eye(len(near.lag), dtype=numbers.dtype)
    between = torch.where(both, between, 0.0) + eye * (noise + 1e-6 + (~near.there)[:, None])
    across = torch.where(near.there, covariance(place, near.lag), 0.0)
    factor = torch.linalg.cholesky(between)
    weights = torch.cholesky_solve(across[..., None], factor)[..., 0]
    variance = signal + noise - (weights * across).sum(-1)
    return (weights * near.anomaly).sum(-1), variance.clamp(min=1e-8)


CONTENDERS = {
    "local-process": Contender(label="local Gaussian process", fit=fit_local_process),
}
