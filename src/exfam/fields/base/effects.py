"""What covariates that change add to values: a coefficient of each site, drawn to a common one."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64
from scipy.spatial import cKDTree
from torch import Tensor

from exfam.fields.base.columns import map_columns
from exfam.fields.base.conditionals import LEAST_VARIANCE, OfBlocks, given_near
from exfam.fields.base.kernel import MovingKernel, start_numbers

# Shares of the sites' own coefficients that are tried.
SHARES = (0.0, 0.5, 0.9)
# Of what is nearly a site's own least squares.
OWN_ALONE = 0.99
# Of the common coefficients, in observations, and of whatever may be singular.
COMMON_RIDGE, RIDGE = 1.0, 1e-6
# Of a site, as a share of the usual one's: what bounds its weight.
LEAST_NOISE = 1e-3
# Sites around each that a value may be compared with, how many are, and of how many values.
N_AROUND, N_USED, MOST_VALUES = 30, 15, 40_000

Values = Float64[Tensor, "times sites"]
Covariates = Float64[Tensor, "times sites covariates"]


class EffectChoice(NamedTuple):
    """How much of the coefficients is a site's own, and what they are found from.

    `beside`: from what values and covariates are beside those of the sites around, in a usual
    kernel; else from values and covariates as they are
    """

    own: float
    beside: bool


class Effects(NamedTuple):
    """What a unit of each covariate adds at each site, and at new ones."""

    own: Float64[Tensor, "sites covariates"]
    common: Float64[Tensor, "covariates"]


def without_effects(
    values: Values,
    covariates: Covariates | None,
    coefficients: Float64[Tensor, "*sites covariates"] | None,
) -> Values:
    """Values less what covariates add to them."""
    if covariates is None or coefficients is None:
        return values
    return values - (covariates * coefficients).sum(-1)


def site_effects(
    values: Values,
    shown: Bool[Tensor, "times sites"],
    x: Float64[Tensor, "times columns"],
    covariates: Covariates,
    *,
    choice: EffectChoice,
    points: Float64[Tensor, "sites space"],
    n_flat: int,
) -> Effects:
    """Least squares beside each site's course, whose columns are `x`.

    Common coefficients weigh sites by what they say. Each site's own have them as a prior that
    counts as a usual site's observations do, (1 - own) / own times.
    """
    left = beside_courses(torch.cat([values[..., None], covariates], -1), shown, x)
    parts = list((left / _relative_noise(left, shown)[:, None]).unbind(-1))
    if choice.beside and len(points) > 1:
        around = _around(points, n_flat)
        parts = _beside(parts, *_some_rows(shown), around)
    z, y = torch.stack(parts[1:], -1), parts[0]
    return _coefficients(*_moments(z, y), own=choice.own)


def _relative_noise(
    left: Covariates, shown: Bool[Tensor, "times sites"]
) -> Float64[Tensor, "sites"]:
    """Of each site's values beside its own effects, in that of the usual site."""
    y, z = left[..., 0], left[..., 1:]
    own = _coefficients(*_moments(z, y), own=OWN_ALONE).own
    noise = (y - (z * own).sum(-1)).square().sum(0) / shown.sum(0).clamp_min(1)
    usual = noise.mean().clamp_min(torch.finfo(y.dtype).tiny)
    return (noise / usual + LEAST_NOISE).sqrt()


def _moments(z: Covariates, y: Values) -> tuple[Tensor, Tensor]:
    return torch.einsum("tsk,tsl->skl", z, z), torch.einsum("tsk,ts->sk", z, y)


def _coefficients(
    squares: Float64[Tensor, "sites covariates covariates"],
    products: Float64[Tensor, "sites covariates"],
    *,
    own: float,
) -> Effects:
    eye = torch.eye(squares.shape[-1]).to(squares)
    common = torch.linalg.solve(squares.sum(0) + COMMON_RIDGE * eye, products.sum(0))
    if not own:
        return Effects(common.expand(len(products), -1), common)
    usual = squares.mean(0)
    prior = (1 - own) / own * usual + RIDGE * (1 + usual.diagonal().mean()) * eye
    right = products + prior @ common
    return Effects(torch.linalg.solve(squares + prior, right[..., None])[..., 0], common)


def beside_courses(
    columns: Covariates, shown: Bool[Tensor, "times sites"], x: Float64[Tensor, "times columns"]
) -> Covariates:
    """What the courses of each site leave of some columns; 0 where nothing is shown."""
    seen = shown.double()
    columns = columns * seen[..., None]
    eye = torch.eye(x.shape[1]).to(x)
    squares = torch.einsum("ts,ti,tj->sij", seen, x, x) + RIDGE * eye
    fit = torch.linalg.solve(squares, torch.einsum("ti,tsk->sik", x, columns))
    return columns - torch.einsum("ti,sik->tsk", x, fit) * seen[..., None]


def _around(points: Float64[Tensor, "sites space"], n_flat: int) -> OfBlocks:
    """The sites nearest to each, in the kernel that fits of kernels start from."""
    n_around = min(N_AROUND, len(points) - 1)
    where = points.numpy()
    index = torch.from_numpy(cKDTree(where).query(where, k=n_around + 1)[1])
    own = torch.arange(len(points))[:, None]
    # Of sites at one point the first may be another: the site itself goes first.
    order = torch.argsort((index != own).long(), dim=1, stable=True)
    index = torch.cat([own, index.gather(1, order)[:, 1:]], 1)
    kernel = MovingKernel(start_numbers(n_flat), n_flat)
    block = kernel.of(map_columns(points, 0).take(index))
    return OfBlocks(block, index[:, 1:])


def _some_rows(shown: Bool[Tensor, "times sites"]) -> tuple[Tensor, Tensor]:
    """Rows that values are compared on: all if they are alike, else evenly taken ones."""
    n_rows, n_sites = shown.shape
    most = max(1, MOST_VALUES // n_sites)
    if n_rows > most and len(torch.unique(shown, dim=0)) > max(1, n_rows // 4):
        n_rows = most
    rows = torch.linspace(0, len(shown) - 1, n_rows).round().long()
    return rows, shown[rows]


def _beside(parts: list[Values], rows: Tensor, shown: Tensor, around: OfBlocks) -> list[Values]:
    """Some rows less what the sites around make of them, in standard deviations of that."""
    out = []
    for part in parts:
        given = given_near(part[rows], shown, around, n_used=N_USED)
        left = (part[rows] - given.mean) / given.variance.clamp_min(LEAST_VARIANCE).sqrt()
        out.append(torch.where(shown, left, 0.0))
    return out
