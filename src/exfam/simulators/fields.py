"""Fields of known truth: values at sites, map after map, one per day.

The value of site s on the map of time t, in days, is

    y_t(s) = mean(s) + amplitude(s) cos(2 pi (t - 200) / 365.25)
           + scale(s) { x_t(s) + noise e_t(s) }

with x_t = transition x_{t-1} + an innovation, stationary with covariance `stationary`, and standard
normal e_t. Weather moves east from map to map. Sites lie in the contiguous United States.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float, Int64
from scipy.linalg import solve_discrete_lyapunov
from scipy.spatial.distance import cdist

from exfam.checks import check_fraction, check_positive
from exfam.families import Family
from exfam.groups import Groups

_YEAR = 365.25
_WARMEST = 200.0
_FIRST_DAY = np.datetime64("2001-01-01")
# Corners of the area: latitudes and longitudes.
_LOW, _HIGH = np.array((25.0, -124.0)), np.array((49.0, -67.0))
_LEVEL, _MEAN_SPREAD, _SCALE = 55.0, 8.0, 7.0
_NUGGET, _NOISE = 0.3, 0.3
# Of what is new on a map: the length of its correlation, and how much longer it is along its
# direction. Of the weather: what is kept from map to map, and how far east it moves meanwhile.
# Lengths are shares of the area's width.
_LENGTH, _ANISOTROPY, _PERSISTENCE, _DRIFT = 0.2, 2.0, 0.9, 0.08
# Weight of weather that comes from outside the area, against 1 for a site right upwind.
_OUTSIDE = 0.05

Sites = Float[np.ndarray, "sites"]
Points = Float[np.ndarray, "sites 2"]
BySites = Float[np.ndarray, "sites sites"]
Maps = Float[np.ndarray, "steps sites"]


@dataclass(frozen=True, eq=False)
class FieldProcess:
    """The truth behind a simulated field; the module has the formula.

    `coordinates` are (latitude, longitude) in degrees. `mean`, `amplitude` and `scale` are in the
    unit of the values, `noise` is a multiple of `scale`.
    """

    labels: np.ndarray
    coordinates: Points
    mean: Sites
    amplitude: Sites
    scale: Sites
    noise: float
    transition: BySites
    stationary: BySites

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return len(self.labels)

    def expected(
        self, site: Int64[np.ndarray, "*shape"], time: Float[np.ndarray, "*times"]
    ) -> Float[np.ndarray, "*shape"]:
        """Mean of a value given its site and its time alone; `time` in days broadcasts to `site`.

        >>> process = simulate_field(5, 3, seed=0).truth
        >>> bool(process.expected(np.array([2]), np.array([200.0])) > process.mean[2])
        True
        """
        season = np.cos(2 * np.pi * (time - _WARMEST) / _YEAR)
        return self.mean[site] + self.amplitude[site] * season

    def covariance(self, lag: int = 0) -> BySites:
        """Cov(y_t(row), y_{t-lag}(column)), seasons apart, in the squared unit of the values."""
        shared = np.linalg.matrix_power(self.transition, lag) @ self.stationary
        if lag == 0:
            shared = shared + self.noise**2 * np.eye(self.n_sites)
        return self.scale[:, None] * shared * self.scale


@dataclass(frozen=True, eq=False)
class SimulatedField:
    """A simulated field, one map per day, and the truth behind it.

    `frame` has the columns time, site, two coordinates and value, which is null where it is not
    observed; `source_row` of `groups` is its row. `complete` holds all values, hidden ones too.
    Of counts `truth` is the process of what the first parameter follows, and `eta` has the
    parameters that they were drawn with.
    """

    groups: Groups
    frame: pa.Table
    truth: FieldProcess
    complete: Maps
    eta: Float[np.ndarray, "steps sites params"] | None = None


def simulate_field(
    n_sites: int = 40,
    n_steps: int = 300,
    *,
    season: float = 12.0,
    lags: int = 0,
    missing: float = 0.0,
    seed: int,
) -> SimulatedField:
    """A field of Gaussian values at random sites, maps being the days from 2001-01-01 on.

    `season`: mean amplitude of the seasonal cycle, in units of value; those have a standard
        deviation of 7 apart from it
    `lags`: how many maps before its own a group sees
    `missing`: share of the values that are hidden, at random

    Raises ExfamError for numbers out of range.

    >>> field = simulate_field(20, 50, seed=0)
    >>> field.groups
    Groups(50 groups, 1000 elements, 20 items, value, coordinates, time)
    >>> field.frame.column_names
    ['time', 'site', 'latitude', 'longitude', 'value']
    """
    process, random, state = _draw_states(n_sites, n_steps, season, seed)
    noise = process.noise * random.standard_normal(state.shape)
    complete = _expected(process, n_steps) + process.scale * (state + noise)
    return _simulated(process, complete, random, missing=missing, lags=lags)


def simulate_counts(
    n_sites: int = 40,
    n_steps: int = 300,
    *,
    family: Family,
    season: float = 12.0,
    missing: float = 0.0,
    level: float = 1.0,
    spread: float = 0.7,
    dispersion: float = 1.0,
    seed: int,
) -> SimulatedField:
    """Values of a family whose first parameter is a Gaussian field, such as the log of a rate.

    There is no closed form of what a count says of the others: `eta` is the truth. Arguments are
    those of `simulate_field`, and

    `family`: Poisson(), NegativeBinomial() or any other
    `level`, `spread`: mean and standard deviation of the first parameter over sites and seasons
    `dispersion`: the other parameters, such as the log of a size

    >>> from exfam.families import Poisson
    >>> field = simulate_counts(10, 20, family=Poisson(), seed=0)
    >>> bool((field.complete >= 0).all()), field.eta.shape
    (True, (20, 10, 1))
    """
    check_positive("spread", spread, zero=True)
    process, random, state = _draw_states(n_sites, n_steps, season, seed)
    signal = _expected(process, n_steps) + process.scale * state
    variance = process.mean.var() + (process.amplitude**2 / 2 + process.scale**2).mean()
    eta = np.full((n_steps, n_sites, family.n_params), dispersion)
    eta[..., 0] = level + spread * (signal - process.mean.mean()) / np.sqrt(variance)
    generator = torch.Generator().manual_seed(int(random.integers(2**31)))
    drawn = family.sample(torch.from_numpy(eta), generator=generator)
    complete = drawn.numpy().astype(np.float64)
    return _simulated(process, complete, random, missing=missing, lags=0, eta=eta)


def _draw_process(n_sites: int, *, season: float, seed: int) -> FieldProcess:
    """A process at random sites: its means, seasons, scales and winds."""
    check_positive("n_sites", n_sites)
    check_positive("season", season, zero=True)
    random = np.random.default_rng(seed)
    coordinates = random.uniform(_LOW, _HIGH, (n_sites, 2))
    points = _plane(coordinates)
    far = np.sqrt(3) * cdist(points, points) / 0.5
    smooth = _root((1 + far) * np.exp(-far))
    hills, sizes, seasons = (smooth @ random.standard_normal((n_sites, 3))).T
    nugget = random.standard_normal(n_sites)
    transition, stationary = _winds(points, random.uniform(0, 2 * np.pi, 2))
    width = len(str(n_sites))
    return FieldProcess(
        labels=np.array([f"site {n + 1:0{width}}" for n in range(n_sites)], dtype=object),
        coordinates=coordinates,
        mean=_LEVEL + _MEAN_SPREAD * (hills + _NUGGET * nugget),
        amplitude=season * np.exp(0.2 * seasons),
        scale=_SCALE * np.exp(0.25 * sizes),
        noise=_NOISE,
        transition=transition,
        stationary=stationary,
    )


def _root(covariance: BySites) -> BySites:
    """The symmetric square root, of covariances without an inverse too."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T


def _plane(coordinates: Points) -> Points:
    """Points to the east and north of a corner of the area, as shares of its width."""
    # A plane that is true to distance in the middle: correlations in it are valid ones.
    narrow = np.cos(np.radians((_LOW[0] + _HIGH[0]) / 2))
    north, east = (coordinates - _LOW).T
    return np.stack([narrow * east, north], axis=1) / (narrow * (_HIGH[1] - _LOW[1]))


def _winds(points: Points, phase: Float[np.ndarray, "2"]) -> tuple[BySites, BySites]:
    """The transition and the stationary covariance, with variance 1 at every site."""
    upwind = points - np.array([_DRIFT, 0.0])
    width = 0.25 / np.sqrt(len(points))
    near = np.exp(-0.5 * cdist(upwind, points, "sqeuclidean") / width**2)
    # Rows sum to less than 1: the process is stationary.
    transition = _PERSISTENCE * near / (near.sum(axis=1, keepdims=True) + _OUTSIDE)
    stationary = solve_discrete_lyapunov(transition, _innovation(points, phase))
    sd = np.sqrt(np.diag(stationary))
    return transition * sd / sd[:, None], stationary / np.outer(sd, sd)


def _innovation(points: Points, phase: Float[np.ndarray, "2"]) -> BySites:
    """An exponential correlation whose length and direction change over the area.

    Source: Paciorek & Schervish (2006), eq. 8.
    """
    length = _LENGTH * np.exp(0.3 * np.sin(2 * np.pi * points[:, 0] + phase[0]))
    angle = np.pi / 4 * np.sin(2 * np.pi * points[:, 1] + phase[1])
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    kernel = _ANISOTROPY * along[:, :, None] * along[:, None, :]
    kernel = kernel + across[:, :, None] * across[:, None, :] / _ANISOTROPY
    kernel = length[:, None, None] ** 2 * kernel
    both = (kernel[:, None] + kernel[None]) / 2
    step = points[:, None] - points[None]
    far = np.einsum("ija,ijab,ijb->ij", step, np.linalg.inv(both), step)
    area = np.linalg.det(kernel) ** 0.25
    overlap = np.outer(area, area) / np.sqrt(np.linalg.det(both))
    return overlap * np.exp(-np.sqrt(far))


def _draw_states(
    n_sites: int, n_steps: int, season: float, seed: int
) -> tuple[FieldProcess, np.random.Generator, Maps]:
    """The process, what draws the rest, and x of all maps."""
    check_positive("n_steps", n_steps)
    process = _draw_process(n_sites, season=season, seed=seed)
    # The process took draws of [seed]; values go on with others.
    random = np.random.default_rng([seed, 1])
    shape, transition = (n_steps, n_sites), process.transition
    innovation = process.stationary - transition @ process.stationary @ transition.T
    state = random.standard_normal(shape) @ _root(innovation)
    state[0] = _root(process.stationary) @ random.standard_normal(n_sites)
    for step in range(1, n_steps):
        state[step] += transition @ state[step - 1]
    # Draws that nothing needs any more: the fields of a seed stay what they were.
    random.random(n_steps)
    random.standard_normal(shape)
    return process, random, state


def _times(n_steps: int) -> Float[np.ndarray, "steps"]:
    """Days since 1970."""
    return _FIRST_DAY.astype(np.int64) + np.arange(n_steps, dtype=np.float64)


def _expected(process: FieldProcess, n_steps: int) -> Maps:
    site = np.tile(np.arange(process.n_sites), (n_steps, 1))
    return process.expected(site, _times(n_steps)[:, None])


def _simulated(
    process: FieldProcess,
    complete: Maps,
    random: np.random.Generator,
    *,
    missing: float,
    lags: int,
    eta: np.ndarray | None = None,
) -> SimulatedField:
    """The values as groups and as a frame, some of them hidden."""
    check_fraction("missing", missing)
    check_positive("lags", lags, zero=True)
    hidden = random.random(complete.shape) < missing
    value = np.where(hidden, np.nan, complete).ravel()
    n_steps, n_sites = complete.shape
    step = np.arange(n_steps)
    # An empty range stands for a map before the first one.
    back = step[:, None] - np.arange(lags, 0, -1)
    coordinates = np.tile(process.coordinates, (n_steps, 1))
    groups = Groups(
        start=step * n_sites,
        stop=(step + 1) * n_sites,
        item=np.tile(np.arange(n_sites), n_steps),
        values={"value": value},
        attributes={"coordinates": coordinates},
        group_attributes={"time": _times(n_steps)},
        position=coordinates,
        observed=~hidden.ravel() if hidden.any() else None,
        source_row=np.arange(n_steps * n_sites),
        context_start=np.maximum(back, 0) * n_sites if lags else None,
        context_stop=np.maximum(back + 1, 0) * n_sites if lags else None,
        vocabulary={"item": process.labels},
        group_names=(_FIRST_DAY + step).astype(str).astype(object),
    )
    columns = {
        "time": np.repeat(_FIRST_DAY + step, n_sites),
        "site": pa.array(np.tile(process.labels, n_steps)),
        **dict(zip(("latitude", "longitude"), coordinates.T, strict=True)),
        "value": pa.array(value, mask=hidden.ravel()),
    }
    return SimulatedField(groups, pa.table(columns), process, complete, eta)
