"""Where one more station would make the map surest: exact under the Gaussian of a model's base."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.spatial import Delaunay, QhullError

from exfam.checks import ExfamError, check_whole
from exfam.columns.results import TabularResult
from exfam.fields.base.columns import MapColumns
from exfam.fields.base.new_sites import extend
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.corrected import CorrectedFieldPart
from exfam.fields.covariates import places_of
from exfam.fields.local.local_part import LocalBasePart
from exfam.fields.networks.links import model_unit

# Candidates and places of the map together.
MOST_PLACES = 3000


@dataclass(frozen=True, eq=False, repr=False)
class StationPlan(TabularResult):
    """By how much a measurement at each candidate lowers the mean predictive variance of a map.

    `reduction`: of each candidate, in the squared unit of the value (where logarithms or roots are
    Student's t, of these); `variance`: the mean over `places` without it; `spread`: the standard
    deviation at each place without it

    >>> sites, lower = np.zeros((2, 1)), np.array([1.0, 3.0])
    >>> plan = StationPlan(sites, lower, sites, np.array([2.0, 2.0]), 4.0)
    >>> plan.best, plan.share.tolist()
    (1, [0.25, 0.75])
    """

    candidates: Float[np.ndarray, "candidates space"]
    reduction: Float[np.ndarray, "candidates"]
    places: Float[np.ndarray, "places space"]
    spread: Float[np.ndarray, "places"]
    variance: float

    def to_dict(self) -> dict[str, np.ndarray]:
        """A row for each candidate, the one that lowers the mean variance most first."""
        order = np.argsort(-self.reduction, kind="stable")
        at = {f"coordinate_{k}": own[order] for k, own in enumerate(self.candidates.T)}
        return {**at, "reduction": self.reduction[order], "share": self.share[order]}

    @property
    def best(self) -> int:
        """The row of the candidate that lowers the mean variance most."""
        return int(self.reduction.argmax())

    @property
    def share(self) -> Float[np.ndarray, "candidates"]:
        """The reductions as shares of the variance without them."""
        return self.reduction / self.variance


def station_plan(
    model: Any, candidates: Any = None, *, places: Any = None, n_places: int = 400
) -> StationPlan:
    """Where one more station would lower the mean predictive variance of the map most.

    All sites of the training are taken to report, in the map and in those before that the model
    sees. Then variances do not depend on what they report, since the base is a Gaussian but for its
    tails: with the covariance C of anomalies given all that report, a measurement at c takes
    scale(g)^2 C_gc^2 / C_cc from the variance at g. Attention does not change variances much, and
    is left out.

    `model`: a fitted FieldGaussian, or a FieldEFA with a base
    `candidates`: coordinates of where one may measure, as `at` in `predict_dist`; the places of the
        map unless given
    `places`: where the map is wanted; unless given a grid of about `n_places` between the sites

    Raises ExfamError for models without a base or with more than 1,000 sites, those of earlier maps
    counted again, and for more than 3,000 candidates and places together.

    >>> from exfam import FieldGaussian
    >>> frame = {"day": [1, 1, 2, 2, 3, 3], "city": ["Oslo", "Bonn"] * 3, "x": [0, 5] * 3,
    ...     "celsius": [5.0, 9.0, 4.0, 7.0, 6.0, 9.0]}
    >>> model = FieldGaussian(time="day", site="city", coordinates="x", value="celsius",
    ...     metric="euclidean").fit(frame)
    >>> plan = station_plan(model, [[2.5], [9.0]], places=[[2.0], [3.0]])
    >>> plan.candidates[plan.best].tolist()
    [2.5]
    """
    part = _base_of(model)
    check_whole("n_places", n_places, least=4)
    wanted = _grid(model, int(n_places)) if places is None else places
    at_places, more = places_of(wanted, model, model.shape_)
    at_candidates, further = at_places, more
    if candidates is not None:
        at_candidates, further = places_of(candidates, model, model.shape_)
    if len(at_places) + len(at_candidates) > MOST_PLACES:
        raise ExfamError(
            f"`candidates` and `places` must be {MOST_PLACES:,} together at most, got "
            f"{len(at_candidates):,} and {len(at_places):,}. Choose fewer."
        )
    rows = np.concatenate([at_places, at_candidates])
    extra = None if more is None or further is None else np.concatenate([more, further])
    distinct, first, back = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    given = _given_known(model, part, distinct, None if extra is None else extra[first])
    target, source = np.split(back.ravel(), [len(at_places)])
    variance = given.diagonal()[target]
    lowered = np.square(given[np.ix_(target, source)]).mean(0) / given.diagonal()[source]
    return StationPlan(at_candidates, lowered, at_places, np.sqrt(variance), float(variance.mean()))


def _base_of(model: Any) -> FieldBasePart:
    model._check_fitted()
    part: Any = model.members_[0].value_part  # nn.Module's attributes have no better type
    part = part.base if isinstance(part, CorrectedFieldPart) else part
    if isinstance(part, LocalBasePart):
        raise ExfamError(
            "`model` must hold the covariance of all of its sites, 1,000 with those of earlier "
            f"maps at most, got {part.n_sites * (part.n_lags + 1):,}. Fit it to fewer sites or "
            "lags."
        )
    if not isinstance(part, FieldBasePart):
        raise ExfamError(
            "`model` must be a FieldGaussian, or a FieldEFA with a base, got "
            f"{type(model).__name__} without one."
        )
    return part


@torch.no_grad()
def _given_known(
    model: Any,
    part: FieldBasePart,
    places: Float[np.ndarray, "places space"],
    covariates: Float[np.ndarray, "places covariates"] | None,
) -> Float64[np.ndarray, "places places"]:
    """The covariance of values at places given all sites, in the squared unit of the value."""
    shape, known, normal = model.shape_, part.known(), part.normal
    points = normal.frame.points(torch.from_numpy(shape.placed(places)), metric=shape.metric)
    usual = normal.usual_at(points, _in_units(shape, covariates, len(points)))
    index = torch.arange(len(points))
    new = MapColumns(points, torch.zeros(len(points)).double(), part.n_sites + index)
    both, columns = known.both, known.sites.columns
    doubt = usual.doubt / usual.scale
    whole = extend(both.covariance, both.prior, known.kernel, columns, new, doubt).covariance
    n = len(both.covariance)
    shared = whole[:n, n:]
    given = whole[n:, n:] - shared.T @ torch.linalg.solve(whole[:n, :n], shared)
    scale = usual.scale * model_unit(model.family_).factor * part.calibration.stretch**0.5
    return (scale[:, None] * given * scale).numpy()


def _in_units(
    shape: Any, covariates: Float[np.ndarray, "places covariates"] | None, n: int
) -> Float64[torch.Tensor, "places covariates"]:
    """Covariates of places as models see them, those that never change."""
    if covariates is None:
        return torch.zeros(n, 0).double()
    numbers = (covariates - np.array(shape.covariate_center)) / np.array(shape.covariate_scale)
    return torch.from_numpy(numbers[:, list(shape.fixed_covariates)])


def _grid(model: Any, n: int) -> Float[np.ndarray, "places space"]:
    """Places between the sites, about as many along each axis as the area is long there."""
    sites, shape = model.site_coordinates_, model.shape_
    if len(shape.covariate_center):
        raise ExfamError(
            "`places` must be given with their covariates for a model that has some, got None."
        )
    low, high = sites.min(0), sites.max(0)
    span = high - low
    if shape.metric == "haversine":
        span = span * np.array([1.0, max(np.cos(np.radians(sites[:, 0].mean())), 0.05)])
    long = span > 0
    if not long.any():
        raise ExfamError("`places` must be given where all sites are at one place, got None.")
    # So that about n remain inside a hull of half the box.
    wanted = (2.0 if long.sum() > 1 else 1.0) * n
    apart = (np.prod(span[long]) / wanted) ** (1 / long.sum())
    counts = np.where(long, np.maximum(np.round(span / apart), 2), 1).astype(int)
    axes = [np.linspace(low[k], high[k], counts[k]) for k in range(len(low))]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(low))
    inside = _inside(sites[:, long], grid[:, long])
    return grid[inside] if inside.sum() >= 4 else grid


def _inside(sites: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Which places are in the hull of the sites; all where these have none."""
    if sites.shape[1] < 2 or len(sites) <= sites.shape[1]:
        return np.ones(len(grid), dtype=bool)
    try:
        return np.asarray(Delaunay(sites).find_simplex(grid) >= 0)
    except QhullError:
        return np.ones(len(grid), dtype=bool)
