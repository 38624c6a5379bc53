"""Outputs as distributions: few numbers, fitted on rows that the outputs were not fitted to.

Labels have a temperature, and a share of the class frequencies mixed in. Of numbers, about a
location linear in the output stands a normal distribution or a Student t, whichever has the fewest
nats; the logarithm of its scale is linear in the output as well, and in the logarithm of a spread
where the outputs have a second column with one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
from benchmarks.arena.tabular.scales import Scale
from benchmarks.arena.values.distributions import StudentT
from jaxtyping import Float, Int64

DEGREES = (3.0, 4.0, 5.0, 10.0, 30.0, np.inf)
# Degrees are chosen as if one more row were so many scales away.
_FAR = np.array(5.0)
MIXED = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)
_MOST_RESIDUALS = 200
# Rows that the head of numbers is fitted to.
_MOST_ROWS = 4_000

Outputs = Float[np.ndarray, "rows"] | Float[np.ndarray, "rows labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """Probabilities of the codes of labels."""

    probs: Float[np.ndarray, "rows labels"]

    def log_prob(self, response: Int64[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        return np.log(self.probs[np.arange(len(response)), response])

    def center(self) -> Int64[np.ndarray, "rows"]:
        return self.probs.argmax(1)


@dataclass(frozen=True, eq=False)
class LabelHead:
    """softmax(outputs * temperature), mixed with class frequencies. `nats` are those it left."""

    temperature: float
    mixed: float
    frequency: Float[np.ndarray, "labels"]
    nats: float = np.nan

    def distribution(self, outputs: Float[np.ndarray, "rows labels"]) -> Labels:
        probs = scipy.special.softmax(outputs * self.temperature, axis=1)
        return Labels((1 - self.mixed) * probs + self.mixed * self.frequency)

    def described(self) -> dict[str, Any]:
        return {"temperature": round(self.temperature, 3), "mixed": self.mixed}


@dataclass(frozen=True, eq=False)
class Numbers:
    """A Student t on a scale of the response, and the mean that residuals suggest."""

    on_scale: StudentT
    scale: Scale
    residuals: Float[np.ndarray, "residuals"]

    def log_prob(self, response: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        return self.on_scale.log_prob(self.scale.to(response)) + self.scale.log_slope(response)

    def center(self) -> Float[np.ndarray, "rows"]:
        """The mean over residuals: that of a t of logarithms would be infinite."""
        spread = self.on_scale.scale[:, None] * self.residuals
        return self.scale.back(self.on_scale.loc[:, None] + spread).mean(1)


@dataclass(frozen=True, eq=False)
class NumberHead:
    """Location and logarithm of the scale, linear in standardized outputs, and degrees."""

    line: Float[np.ndarray, "5"]
    df: float
    unit: tuple[np.ndarray, np.ndarray]
    scale: Scale
    residuals: Float[np.ndarray, "residuals"]
    nats: float = np.nan

    def distribution(self, outputs: Outputs) -> Numbers:
        on_scale = _student(self.line, (_two(outputs) - self.unit[0]) / self.unit[1], self.df)
        return Numbers(on_scale, self.scale, self.residuals)

    def described(self) -> dict[str, Any]:
        return {"head": self.line.round(4).tolist(), "df": self.df}


def fit_label_head(
    outputs: Float[np.ndarray, "rows labels"], response: Int64[np.ndarray, "rows"]
) -> LabelHead:
    """The least nats on these rows and one more, drawn from the class frequencies."""
    n_rows, n_labels = outputs.shape
    frequency = np.bincount(response, minlength=n_labels) + 0.5
    frequency = frequency / frequency.sum()

    def loss(log_temperature: float, mixed: float) -> float:
        head = LabelHead(float(np.exp(log_temperature)), mixed, frequency)
        nats = -head.distribution(outputs).log_prob(response).sum()
        return float(nats - np.log(mixed) + log_temperature**2 / 2)

    best = None
    for mixed in MIXED:
        found = scipy.optimize.minimize_scalar(
            loss, bounds=(-3.0, 1.5), args=(mixed,), method="bounded", options={"xatol": 0.02}
        )
        if best is None or found.fun < best[0]:
            best = found.fun, found.x, mixed
    assert best is not None
    head = LabelHead(float(np.exp(best[1])), best[2], frequency)
    nats = -head.distribution(outputs).log_prob(response).mean()
    return LabelHead(head.temperature, head.mixed, frequency, float(nats))


def fit_number_head(
    outputs: Outputs, response: Float[np.ndarray, "rows"], scale: Scale
) -> NumberHead:
    """The least nats on these rows; slopes are as if normal about a constant scale."""
    aim, outputs = scale.to(response), _two(outputs)
    unit = outputs.mean(0), np.maximum(outputs.std(0), 1e-9)
    own = (outputs - unit[0]) / unit[1]
    start, prior = _start(aim, own[:, 0])
    step = max(1, len(aim) // _MOST_ROWS)

    def loss(line: Float[np.ndarray, "5"], df: float) -> float:
        nats = -_student(line, own[::step], df).log_prob(aim[::step]).mean()
        unlikely = np.square((line - start) / prior).sum() / 2 - StudentT(0, 1, df).log_prob(_FAR)
        return float(nats + unlikely / len(own[::step]))

    fits = [
        (scipy.optimize.minimize(loss, start, args=(df,), method="L-BFGS-B"), df) for df in DEGREES
    ]
    best, df = min(fits, key=lambda fit: fit[0].fun)
    given = _student(best.x, own, df)
    nats = -(given.log_prob(aim) + scale.log_slope(response)).mean()
    residuals = (aim - given.loc) / given.scale
    ranks = (np.arange(_MOST_RESIDUALS) + 0.5) / _MOST_RESIDUALS
    return NumberHead(best.x, df, unit, scale, np.quantile(residuals, ranks), float(nats))


def _start(
    aim: Float[np.ndarray, "rows"], own: Float[np.ndarray, "rows"]
) -> tuple[Float[np.ndarray, "5"], Float[np.ndarray, "5"]]:
    """The least squares line and its residuals' spread, and how far from there numbers may be."""
    slope = float((own * (aim - aim.mean())).mean())
    rest = max(float((aim - aim.mean() - slope * own).std()), 1e-6)
    start = np.array([aim.mean(), slope, np.log(rest), 0.0, 0.0])
    return start, np.array([rest, rest, 1.0, 0.3, 0.3])


def _two(outputs: Outputs) -> Float[np.ndarray, "rows 2"]:
    """Locations and logarithms of spreads, which are equal where there are none."""
    return outputs if outputs.ndim == 2 else np.stack([outputs, np.zeros_like(outputs)], axis=1)


def _student(line: Float[np.ndarray, "5"], own: Float[np.ndarray, "rows 2"], df: float) -> StudentT:
    log_spread = line[2] + np.clip(own, -4, 4) @ line[3:]
    return StudentT(line[0] + line[1] * own[:, 0], np.exp(np.clip(log_spread, -30, 30)), df)
