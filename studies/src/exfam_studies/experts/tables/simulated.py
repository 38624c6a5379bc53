"""Tables whose columns move together in another way at test: the paper's simulation."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from exfam.checks import ExfamError, check_choice, check_positive

BINS = ("pooled", "train")
FLIPS = ("both", "train")
N_FLIPPED = 2
NOISE_OF_CAUSES, NOISE_OF_OTHERS, NOISE_OF_Y = 0.4, 0.3, 2.0
LARGEST_COEFFICIENT = 10.0


@dataclass(frozen=True, eq=False)
class ContinuousTables:
    """The numbers before they are binned; `coefficients` are those of the first columns."""

    train_x: Float[np.ndarray, "train features"]
    train_y: Float[np.ndarray, "train"]
    test_x: Float[np.ndarray, "test features"]
    test_y: Float[np.ndarray, "test"]
    coefficients: Float[np.ndarray, "causes"]


@dataclass(frozen=True, eq=False)
class ShiftedTables:
    """A table to fit on and one to report on, all columns and y as codes from 0, and their truth.

    `n_categories`: codes of each column and of y
    """

    train_x: Int64[np.ndarray, "train features"]
    train_y: Int64[np.ndarray, "train"]
    test_x: Int64[np.ndarray, "test features"]
    test_y: Int64[np.ndarray, "test"]
    n_categories: int
    continuous: ContinuousTables


def simulate_shifted_tables(
    *,
    n_informative: int,
    noise: float,
    corr: float,
    n_train: int = 2000,
    n_test: int = 2000,
    n_features: int = 5,
    n_categories: int = 10,
    bins: str = "pooled",
    flip: str = "both",
    seed: int,
) -> ShiftedTables:
    """Ordinal columns, correlated by `corr` in training and by 1 - `corr` in test.

    `n_informative`: the first so many columns generate y
    `noise`: columns are observed with normal noise of sd 0.4 `noise` if they generate y, else of
        0.3 `noise`
    `corr`: correlation of any two columns of the training rows before flipping, in (0, 1)
    `bins`: whether the quantiles that bin a column are of both tables together ("pooled": the
        paper's code) or of the training rows alone ("train")
    `flip`: whether the first two columns change their sign in both tables (the paper's code) or in
        the training rows alone (the paper's text); y follows the flipped columns

    Coefficients are uniform on (0, 10), y has normal noise of sd 2. All draws are from one
    generator, normal vectors through a Cholesky factor.
    Raises ExfamError for an argument out of range.
    Source: appendix D of "Bidirectional attention as a mixture of continuous word experts".

    >>> tables = simulate_shifted_tables(n_informative=5, noise=0.5, corr=0.9, seed=0)
    >>> tables.train_x.shape, int(tables.train_x.min()), int(tables.train_x.max())
    ((2000, 5), 0, 9)
    """
    _check(n_informative, noise, corr, n_features)
    check_choice("bins", bins, BINS)
    check_choice("flip", flip, FLIPS)
    for name, value in (("n_train", n_train), ("n_test", n_test), ("n_categories", n_categories)):
        check_positive(name, value)
    random = np.random.default_rng(seed)
    continuous = _draw(
        random,
        _Setting(n_informative, noise, corr, n_features, flips_test=flip == "both"),
        sizes=(n_train, n_test),
    )
    x = _binned(continuous.train_x, continuous.test_x, n_categories, pooled=bins == "pooled")
    y = _binned(
        continuous.train_y[:, None],
        continuous.test_y[:, None],
        n_categories,
        pooled=bins == "pooled",
    )
    return ShiftedTables(x[0], y[0][:, 0], x[1], y[1][:, 0], n_categories, continuous)


def _check(n_informative: int, noise: float, corr: float, n_features: int) -> None:
    check_positive("n_features", n_features)
    check_positive("n_informative", n_informative)
    check_positive("noise", noise, zero=True)
    if n_informative > n_features:
        raise ExfamError(
            f"`n_informative` must be at most n_features={n_features}, got {n_informative}."
        )
    if not 0 < corr < 1:
        raise ExfamError(f"`corr` must be above 0 and below 1, got {corr!r}.")


class _Setting(NamedTuple):
    n_informative: int
    noise: float
    corr: float
    n_features: int
    flips_test: bool


def _draw(
    random: np.random.Generator, setting: _Setting, *, sizes: tuple[int, int]
) -> ContinuousTables:
    true = [
        _correlated(random, corr, setting.n_features, size)
        for corr, size in zip((setting.corr, 1 - setting.corr), sizes, strict=True)
    ]
    true[0][:, :N_FLIPPED] *= -1
    if setting.flips_test:
        true[1][:, :N_FLIPPED] *= -1
    sd = np.where(
        np.arange(setting.n_features) < setting.n_informative, NOISE_OF_CAUSES, NOISE_OF_OTHERS
    )
    seen = [x + setting.noise * sd * random.standard_normal(x.shape) for x in true]
    coefficients = random.uniform(0, LARGEST_COEFFICIENT, setting.n_informative)
    y = [
        x[:, : setting.n_informative] @ coefficients + NOISE_OF_Y * random.standard_normal(len(x))
        for x in true
    ]
    return ContinuousTables(seen[0], y[0], seen[1], y[1], coefficients)


def _correlated(
    random: np.random.Generator, corr: float, n_features: int, size: int
) -> Float[np.ndarray, "rows features"]:
    covariance = np.full((n_features, n_features), corr) + (1 - corr) * np.eye(n_features)
    drawn = random.standard_normal((size, n_features)) @ np.linalg.cholesky(covariance).T
    return np.asarray(drawn)


def _binned(
    train: Float[np.ndarray, "train columns"],
    test: Float[np.ndarray, "test columns"],
    n_categories: int,
    *,
    pooled: bool,
) -> tuple[Int64[np.ndarray, "train columns"], Int64[np.ndarray, "test columns"]]:
    """Codes by the quantiles of each column."""
    known = np.concatenate([train, test]) if pooled else train
    edges = np.quantile(known, np.arange(1, n_categories) / n_categories, axis=0)
    codes = [
        np.stack([np.searchsorted(edges[:, j], x[:, j]) for j in range(x.shape[1])], axis=1).astype(
            np.int64
        )
        for x in (train, test)
    ]
    return codes[0], codes[1]
