"""Processes of fields: values at sites, map after map.

The value of site s on the map of time t, in days, is

    y_t(s) = mean(s) + amplitude(s) cos(2 pi (t - 200) / 365.25)
           + scale(s) { x_t(s) + u_t(s) + noise e_t(s) }

with x_t = transition x_{t-1} + an innovation, stationary with covariance `stationary`; u_t normal
with covariance `regime_covariance[r_t]`, independent from map to map given the regimes r_t; and
standard normal e_t. Regimes are a Markov chain: `stay` with the last one, or any other alike.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int64

_YEAR = 365.25
_WARMEST = 200.0


@dataclass(frozen=True, eq=False)
class FieldProcess:
    """The truth behind a simulated field; the module has the formula.

    `coordinates` are (latitude, longitude) in degrees if `metric` is "haversine", (east, north) if
    "euclidean". `mean`, `amplitude` and `scale` are in the unit of the values, `noise` is a
    multiple of `scale`. Without regimes there is one, whose covariance is 0.
    """

    labels: np.ndarray
    coordinates: Float[np.ndarray, "sites 2"]
    metric: str
    mean: Float[np.ndarray, "sites"]
    amplitude: Float[np.ndarray, "sites"]
    scale: Float[np.ndarray, "sites"]
    noise: float
    transition: Float[np.ndarray, "sites sites"]
    stationary: Float[np.ndarray, "sites sites"]
    regime_covariance: Float[np.ndarray, "regimes sites sites"]
    stay: float

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return len(self.labels)

    @property
    def innovation(self) -> Float[np.ndarray, "sites sites"]:
        """Covariance of what x_t adds to the transition of x_{t-1}."""
        return self.stationary - self.transition @ self.stationary @ self.transition.T

    @property
    def regime_change(self) -> Float[np.ndarray, "regimes regimes"]:
        """Probability of each regime (column) after each (row); all are equally frequent."""
        n = len(self.regime_covariance)
        if n == 1:
            return np.ones((1, 1))
        return np.where(np.eye(n, dtype=bool), self.stay, (1 - self.stay) / (n - 1))

    def expected(
        self, site: Int64[np.ndarray, "*shape"], time: Float[np.ndarray, "*times"]
    ) -> Float[np.ndarray, "*shape"]:
        """Mean of a value given its site and its time alone; `time` in days broadcasts to `site`.

        >>> from exfam.simulators import simulate_field
        >>> process = simulate_field(5, 3, seed=0).truth
        >>> bool(process.expected(np.array([2]), np.array([200.0])) > process.mean[2])
        True
        """
        season = np.cos(2 * np.pi * (time - _WARMEST) / _YEAR)
        return self.mean[site] + self.amplitude[site] * season

    def covariance(self, lag: int = 0) -> Float[np.ndarray, "sites sites"]:
        """Cov(y_t(row), y_{t-lag}(column)), seasons apart, in the squared unit of the values.

        `lag`: in maps (default 0)

        >>> from exfam.simulators import simulate_field
        >>> process = simulate_field(5, 3, seed=0).truth
        >>> process.covariance(1).shape
        (5, 5)
        """
        shared = np.linalg.matrix_power(self.transition, lag) @ self.stationary
        if lag == 0:
            shared = shared + self.regime_covariance.mean(axis=0)
            shared = shared + self.noise**2 * np.eye(self.n_sites)
        return self.scale[:, None] * shared * self.scale
