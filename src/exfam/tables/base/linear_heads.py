"""Penalised linear predictors of a response, and products of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from jaxtyping import Float64, Int64

from exfam.tables.base.heads import Head, Outputs, binned
from exfam.tables.base.products import Candidates, best_pairs, no_pairs, products_of
from exfam.tables.base.unit import Rows, Unit

# Penalties on squared weights, from the strictest; each fit starts from the one before.
PENALTIES = (3.0, 0.6, 0.12, 0.025, 0.005, 0.001)
# They are not followed further once so many have made held rows no better.
# One output takes its further steps for little time, and needs them where it is all but certain.
_STEPS, _STEPS_OF_ONE, _PATIENCE = 25, 60, 2
# Products are added so many at a time, so often, while held rows get better by so many
# standard errors.
_PAIRS_A_ROUND, _ROUNDS, _LEAST_ERRORS = 8, 3, 1.0
# Features that hardly ever vary are not blown up.
_LEAST_SPREAD = 0.05


@dataclass(frozen=True, eq=False)
class LinearHead:
    """A fitted predictor: outputs = (inputs - center) / spread @ weights + bias.

    Inputs are the features and, after them, products of pairs of standardized features.
    `products`: the two features of each; `penalty`: the chosen one; `validation`: the mean nats
        there
    """

    center: Float64[np.ndarray, " inputs"]
    spread: Float64[np.ndarray, " inputs"]
    weights: Float64[np.ndarray, "inputs outputs"]
    bias: Float64[np.ndarray, " outputs"]
    shared: Float64[np.ndarray, " shared"]
    products: Int64[np.ndarray, "products 2"]
    penalty: float
    validation: float

    def standardized(
        self, features: Float64[np.ndarray, "rows features"]
    ) -> Float64[np.ndarray, "rows inputs"]:
        n = features.shape[1]
        x = (features - self.center[:n]) / self.spread[:n]
        if not len(self.products):
            return x
        both = products_of(x, self.products)
        return np.hstack([x, (both - self.center[n:]) / self.spread[n:]])

    def outputs(self, features: Float64[np.ndarray, "rows features"]) -> Outputs:
        return self.standardized(features) @ self.weights + self.bias


def log_masses(
    head: LinearHead, features: Float64[np.ndarray, "rows features"], y: Rows, *, unit: Unit
) -> Rows:
    """The log-probability of whole numbers by a predictor of numbers in this unit."""
    log_scale = max(head.shared[0], np.log(unit.least))
    return binned(unit.bins_of(y), head.outputs(features)[:, 0], log_scale)[0]


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Rows to fit to, or to choose by: features, responses, weights."""

    features: Float64[np.ndarray, "rows features"]
    y: Rows
    weight: Rows


def fit_head(
    head: Head, train: HeadRows, held: HeadRows, *, penalties: Sequence[float] = PENALTIES
) -> LinearHead:
    """The predictor whose penalty is best on the held rows; stops once they get worse."""
    center, spread = _units(train.features)
    course = _course(head, train, held, (center, spread))
    bias, shared = head.start(train.y, train.weight)
    start = np.concatenate([np.zeros(len(center) * head.n_outputs), bias, shared])
    best = course.best(start, penalties)
    weights, bias, shared = course.train.parts(best.point)
    own = center, spread, weights, bias, head.bounded(shared)
    return LinearHead(*own, no_pairs(), best.penalty, best.nats)


def fit_products(
    head: Head, linear: LinearHead, train: HeadRows, held: HeadRows, *, candidates: Candidates
) -> LinearHead:
    """A fitted predictor with products, a few at a time while held rows get clearly better.

    Without any that help it is the predictor that was given.
    """
    course = _course(head, train, held, (linear.center, linear.spread))
    point = np.concatenate([linear.weights.ravel(), linear.bias, linear.shared])
    wider, best, pairs = _with_products(
        course, _Best(point, linear.penalty, linear.validation), candidates
    )
    if not len(pairs):
        return linear
    units = zip(
        (linear.center, linear.spread), _units(products_of(course.train.x, pairs)), strict=True
    )
    center, spread = (np.append(own, more) for own, more in units)
    weights, bias, shared = wider.train.parts(best.point)
    own = center, spread, weights, bias, head.bounded(shared)
    return LinearHead(*own, pairs, best.penalty, best.nats)


def _course(
    head: Head, train: HeadRows, held: HeadRows, units: tuple[np.ndarray, np.ndarray]
) -> "_Course":
    center, spread = units
    return _Course(
        *(
            _Objective(
                head, (part.features - center) / spread, part.y, part.weight / part.weight.sum()
            )
            for part in (train, held)
        )
    )


def _is_clear(gain: Rows, weight: Rows) -> bool:
    """Whether the mean gain of rows is more than so many of its standard errors."""
    mean = float(weight @ gain)
    error = float(np.sqrt(weight**2 @ (gain - mean) ** 2))
    return mean > _LEAST_ERRORS * error


def _units(x: Float64[np.ndarray, "rows features"]) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(0), np.maximum(x.std(0), _LEAST_SPREAD)


@dataclass(frozen=True, eq=False)
class _Best:
    point: np.ndarray
    penalty: float
    nats: float


@dataclass(frozen=True, eq=False)
class _Course:
    """Rows of training and held rows, standardized alike."""

    train: "_Objective"
    held: "_Objective"

    def best(self, start: np.ndarray, penalties: Sequence[float]) -> _Best:
        """The best minimum on the held rows, from the strictest penalty until they get worse."""
        point, best, n_worse = start, _Best(start, float(penalties[0]), np.inf), 0
        for penalty in penalties:
            point = self.train.minimized(point, penalty)
            nats = self.held.value(point, 0.0)[0]
            n_worse = n_worse + 1 if nats >= best.nats else 0
            if n_worse == _PATIENCE:
                break
            if not n_worse:
                best = _Best(point, float(penalty), nats)
        return best

    def widened(self, pairs: np.ndarray) -> "_Course":
        """With products of these features as well."""
        both = [products_of(part.x, pairs) for part in (self.train, self.held)]
        center, spread = _units(both[0])
        parts = zip((self.train, self.held), both, strict=True)
        return _Course(*(part.widened((own - center) / spread) for part, own in parts))


def _with_products(
    course: _Course, best: _Best, candidates: Candidates
) -> tuple[_Course, _Best, np.ndarray]:
    """Products added a few at a time, as long as the held rows get better."""
    pairs = no_pairs()
    for _ in range(_ROUNDS):
        more = best_pairs(
            course.train.x,
            course.train.slopes(best.point),
            candidates=candidates,
            taken=pairs,
            n=_PAIRS_A_ROUND,
        )
        if not len(more):
            break
        wider = course.widened(more)
        start = course.train.widened_point(best.point, len(more))
        nearby = [p for p in PENALTIES if p <= best.penalty][:2]
        again = wider.best(start, nearby)
        gain = course.held.by_row(best.point) - wider.held.by_row(again.point)
        if again.nats >= best.nats or not _is_clear(gain, course.held.weight):
            break
        course, best, pairs = wider, again, np.concatenate([pairs, more])
    return course, best, pairs


@dataclass(frozen=True, eq=False)
class _Objective:
    head: Head
    x: Float64[np.ndarray, "rows features"]
    y: Rows
    weight: Rows

    def parts(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n_features, n_outputs = self.x.shape[1], self.head.n_outputs
        weights, bias, shared = np.split(
            point, [n_features * n_outputs, (n_features + 1) * n_outputs]
        )
        return weights.reshape(n_features, n_outputs), bias, shared

    def widened(self, more: Float64[np.ndarray, "rows more"]) -> "_Objective":
        """With more features."""
        return _Objective(self.head, np.hstack([self.x, more]), self.y, self.weight)

    def widened_point(self, point: np.ndarray, n_more: int) -> np.ndarray:
        """The same predictor with weights of 0 for more features."""
        n = self.x.shape[1] * self.head.n_outputs
        return np.concatenate([point[:n], np.zeros(n_more * self.head.n_outputs), point[n:]])

    def by_row(self, point: np.ndarray) -> Rows:
        """The nats of each row."""
        weights, bias, shared = self.parts(point)
        return self.head.nats(self.x @ weights + bias, shared, self.y)[0]

    def slopes(self, point: np.ndarray) -> Outputs:
        """The weighted derivatives of the nats by the outputs."""
        weights, bias, shared = self.parts(point)
        return self.head.nats(self.x @ weights + bias, shared, self.y)[1] * self.weight[:, None]

    def minimized(self, point: np.ndarray, penalty: float) -> np.ndarray:
        most = _STEPS_OF_ONE if self.head.n_outputs == 1 else _STEPS
        options = {"maxiter": most, "maxcor": 10}
        result = scipy.optimize.minimize(
            self.value, point, args=(penalty,), jac=True, method="L-BFGS-B", options=options
        )
        minimum: np.ndarray = result.x
        return minimum

    def value(self, point: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        weights, bias, shared = self.parts(point)
        nats, slope, by_shared = self.head.nats(self.x @ weights + bias, shared, self.y)
        slope = slope * self.weight[:, None]
        by_weights = self.x.T @ slope + penalty * weights
        gradient = [by_weights.ravel(), slope.sum(0), self.weight @ by_shared]
        value = float(self.weight @ nats + penalty / 2 * (weights**2).sum())
        return value, np.concatenate(gradient)
