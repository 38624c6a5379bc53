"""Processes of fields: where the sites are, and how the weather moves."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_discrete_lyapunov
from scipy.spatial.distance import cdist

from exfam.checks import ExfamError, check_choice, check_fraction, check_positive
from exfam.simulators.fields import FieldProcess

# Corners of the area by metric: (latitude, longitude) of the contiguous United States, or the unit
# square.
_AREAS = {"haversine": ((25.0, -124.0), (49.0, -67.0)), "euclidean": ((0.0, 0.0), (1.0, 1.0))}
_KM_PER_DEGREE = np.pi * 6371.0088 / 180
_LEVEL, _MEAN_SPREAD, _SCALE = 55.0, 8.0, 7.0
_NUGGET = 0.3
# Weight of weather that comes from outside the area, against 1 for a site right upwind.
_OUTSIDE = 0.05
_SMOOTHNESS = (0.5, 1.5, 2.5)


@dataclass(frozen=True)
class Regimes:
    """Kinds of weather that differ in where and how far it is alike, such as fronts.

    `directions`: along which each is alike, in degrees from east to north (default (0.0, 90.0))
    `lengths`: correlation length of each, as multiples of the field's (default (2.5, 2.5))
    `anisotropy`: how much longer it is along the direction than across (default 15.0)
    `share`: of the variance that has them, the rest moves with the wind (default 0.9)
    `stay`: probability of the same regime on the next map (default 0.7)

    With regimes the best prediction is no linear one: which neighbors say something of a site is
    seen from which of them agree.
    Raises ExfamError for fewer than two regimes, unequal numbers, or numbers out of range.

    >>> Regimes().directions
    (0.0, 90.0)
    """

    directions: tuple[float, ...] = (0.0, 90.0)
    lengths: tuple[float, ...] = (2.5, 2.5)
    anisotropy: float = 15.0
    share: float = 0.9
    stay: float = 0.7

    def __post_init__(self) -> None:
        if not len(self.directions) == len(self.lengths) >= 2:
            raise ExfamError(
                "`directions` and `lengths` must be as many, and two or more, got "
                f"{self.directions!r} and {self.lengths!r}."
            )
        for length in self.lengths:
            check_positive("lengths", length)
        check_positive("anisotropy", self.anisotropy)
        check_fraction("share", self.share)
        check_fraction("stay", self.stay)


@dataclass(frozen=True)
class FieldSettings:
    """What a field is like. Lengths are shares of the area's width from west to east.

    `metric`: "haversine" for sites in a box around the contiguous United States, of 25 to 49
        degrees north and 67 to 124 west; "euclidean" for the unit square (default "haversine")
    `length`: typical correlation length of what is new on a map (default 0.2)
    `smoothness`: of the Matern correlation; 0.5 is the exponential one, else 1.5 or 2.5
        (default 0.5)
    `anisotropy`: how much longer it is along its direction, which turns from place to place
        (default 2.0)
    `persistence`: share of the weather that is kept from map to map (default 0.9)
    `drift`: how far east it moves meanwhile (default 0.08)
    `noise`: standard deviation of the measurements, as a multiple of the field's (default 0.3)
    `season`: mean amplitude of the seasonal cycle, in units of value; those have a standard
        deviation of 7 apart from it (default 12.0)
    `regimes`: kinds of weather, or None (default None)

    Raises ExfamError for numbers out of range.

    >>> FieldSettings(metric="euclidean", regimes=Regimes()).length
    0.2
    """

    metric: str = "haversine"
    length: float = 0.2
    smoothness: float = 0.5
    anisotropy: float = 2.0
    persistence: float = 0.9
    drift: float = 0.08
    noise: float = 0.3
    season: float = 12.0
    regimes: Regimes | None = None

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, _AREAS)
        check_choice("smoothness", self.smoothness, _SMOOTHNESS)
        check_positive("length", self.length)
        check_positive("anisotropy", self.anisotropy)
        check_positive("noise", self.noise)
        check_positive("drift", self.drift, zero=True)
        check_positive("season", self.season, zero=True)
        check_fraction("persistence", self.persistence)


def draw_field_process(
    n_sites: int, *, settings: FieldSettings | None = None, seed: int
) -> FieldProcess:
    """A process at random sites: its means, seasons, scales and winds.

    Raises ExfamError unless there is a site.

    >>> process = draw_field_process(30, seed=0)
    >>> process.coordinates.shape, bool(np.allclose(np.diag(process.stationary), 1))
    ((30, 2), True)
    """
    check_positive("n_sites", n_sites)
    settings = settings or FieldSettings()
    random = np.random.default_rng(seed)
    low, high = np.array(_AREAS[settings.metric])
    coordinates = random.uniform(low, high, (n_sites, 2))
    place = _plane(coordinates, settings.metric)
    smooth = root(matern(cdist(place, place) / 0.5, smoothness=1.5))
    hills, sizes, seasons = (smooth @ random.standard_normal((n_sites, 3))).T
    nugget = random.standard_normal(n_sites)
    phase = random.uniform(0, 2 * np.pi, 2)
    transition, stationary = _winds(place, phase, settings)
    share, stay = (0.0, 0.0)
    if settings.regimes is not None:
        share, stay = settings.regimes.share, settings.regimes.stay
    width = len(str(n_sites))
    return FieldProcess(
        labels=np.array([f"site {n + 1:0{width}}" for n in range(n_sites)], dtype=object),
        coordinates=coordinates,
        metric=settings.metric,
        mean=_LEVEL + _MEAN_SPREAD * (hills + _NUGGET * nugget),
        amplitude=settings.season * np.exp(0.2 * seasons),
        scale=_SCALE * np.exp(0.25 * sizes),
        noise=settings.noise,
        transition=transition,
        stationary=(1 - share) * stationary,
        regime_covariance=_regimes(place, phase, settings),
        stay=stay,
    )


def matern(
    distance: Float[np.ndarray, "*shape"], *, smoothness: float
) -> Float[np.ndarray, "*shape"]:
    """Matern correlation at distances in units of its length; smoothness 0.5, 1.5 or 2.5.

    >>> matern(np.array([0.0, 1.0]), smoothness=0.5).round(3)
    array([1.   , 0.368])
    """
    scaled = np.sqrt(2 * smoothness) * distance
    polynomial = {0.5: 1.0, 1.5: 1 + scaled, 2.5: 1 + scaled + scaled**2 / 3}[smoothness]
    return polynomial * np.exp(-scaled)


def root(covariance: Float[np.ndarray, "sites sites"]) -> Float[np.ndarray, "sites sites"]:
    """The symmetric square root, of covariances without an inverse too.

    >>> root(np.diag([4.0, 0.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T


def _plane(coordinates: Float[np.ndarray, "sites 2"], metric: str) -> Float[np.ndarray, "sites 2"]:
    """Places to the east and north of a corner of the area, as shares of its width."""
    low, high = np.array(_AREAS[metric])
    if metric == "euclidean":
        return (coordinates - low) / (high[0] - low[0])
    # A plane that is true to distance in the middle: correlations in it are valid ones.
    narrow = np.cos(np.radians((low[0] + high[0]) / 2))
    north, east = (coordinates - low).T
    return np.stack([narrow * east, north], axis=1) / (narrow * (high[1] - low[1]))


def _correlation(
    place: Float[np.ndarray, "sites 2"],
    *,
    length: Float[np.ndarray, "sites"],
    angle: Float[np.ndarray, "sites"],
    anisotropy: float,
    smoothness: float,
) -> Float[np.ndarray, "sites sites"]:
    """A Matern correlation whose length and direction change from place to place.

    Source: Paciorek & Schervish (2006), eq. 8.
    """
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    kernel = anisotropy * along[:, :, None] * along[:, None, :]
    kernel = kernel + across[:, :, None] * across[:, None, :] / anisotropy
    kernel = length[:, None, None] ** 2 * kernel
    both = (kernel[:, None] + kernel[None]) / 2
    step = place[:, None] - place[None]
    far = np.einsum("ija,ijab,ijb->ij", step, np.linalg.inv(both), step)
    area = np.linalg.det(kernel) ** 0.25
    overlap = np.outer(area, area) / np.sqrt(np.linalg.det(both))
    return overlap * matern(np.sqrt(far), smoothness=smoothness)


def _lengths(
    place: Float[np.ndarray, "sites 2"], phase: float, settings: FieldSettings
) -> Float[np.ndarray, "sites"]:
    return settings.length * np.exp(0.3 * np.sin(2 * np.pi * place[:, 0] + phase))


def _winds(
    place: Float[np.ndarray, "sites 2"], phase: Float[np.ndarray, "2"], settings: FieldSettings
) -> tuple[Float[np.ndarray, "sites sites"], Float[np.ndarray, "sites sites"]]:
    """The transition and the stationary covariance, with variance 1 at every site."""
    upwind = place - np.array([settings.drift, 0.0])
    width = 0.25 / np.sqrt(len(place))
    near = np.exp(-0.5 * cdist(upwind, place, "sqeuclidean") / width**2)
    # Rows sum to less than 1: the process is stationary.
    transition = settings.persistence * near / (near.sum(axis=1, keepdims=True) + _OUTSIDE)
    innovation = _correlation(
        place,
        length=_lengths(place, phase[0], settings),
        angle=np.pi / 4 * np.sin(2 * np.pi * place[:, 1] + phase[1]),
        anisotropy=settings.anisotropy,
        smoothness=settings.smoothness,
    )
    stationary = solve_discrete_lyapunov(transition, innovation)
    sd = np.sqrt(np.diag(stationary))
    return transition * sd / sd[:, None], stationary / np.outer(sd, sd)


def _regimes(
    place: Float[np.ndarray, "sites 2"], phase: Float[np.ndarray, "2"], settings: FieldSettings
) -> Float[np.ndarray, "regimes sites sites"]:
    """The covariance of each regime; without regimes there is one, of 0."""
    regimes = settings.regimes
    if regimes is None:
        return np.zeros((1, len(place), len(place)))
    length = _lengths(place, phase[0], settings)
    correlations = [
        _correlation(
            place,
            length=longer * length,
            angle=np.full(len(place), np.radians(direction)),
            anisotropy=regimes.anisotropy,
            smoothness=settings.smoothness,
        )
        for direction, longer in zip(regimes.directions, regimes.lengths, strict=True)
    ]
    return regimes.share * np.stack(correlations)
