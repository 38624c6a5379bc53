"""Tables whose columns move together in another way at test: the paper's simulation."""

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError, check_choice
from exfam_studies.experts.tables.features import coded_table
from exfam_studies.experts.tables.public import TableShift

BINS = ("pooled", "train")
N_FEATURES, N_FLIPPED, N_LEVELS = 5, 2, 10
NOISE_OF_CAUSES, NOISE_OF_OTHERS, NOISE_OF_Y = 0.4, 0.3, 2.0
LARGEST_COEFFICIENT = 10.0

# Columns, with y after them, of the training and of the test table.
Numbers = list[Float[np.ndarray, "rows columns"]]


def simulate_numbers(
    *, n_informative: int, noise: float, corr: float, n_rows: int = 2000, seed: int
) -> Numbers:
    """Columns correlated by `corr` in training and by 1 - `corr` in test, and y after them.

    The first `n_informative` generate y, with coefficients uniform on (0, 10) and noise of sd 2.
    They are observed with noise of sd 0.4 `noise`, the others with 0.3 `noise`. The first two
    columns change their sign in both tables. Raises ExfamError for an argument out of range.
    Source: appendix D of "Bidirectional attention as a mixture of continuous word experts".
    """
    if not 1 <= n_informative <= N_FEATURES:
        raise ExfamError(
            f"`n_informative` must be from 1 to {N_FEATURES}, the number of columns, "
            f"got {n_informative}."
        )
    if not 0 < corr < 1:
        raise ExfamError(f"`corr` must be above 0 and below 1, got {corr!r}.")
    random = np.random.default_rng(seed)
    true = []
    for own in (corr, 1 - corr):
        covariance = np.full((N_FEATURES, N_FEATURES), own) + (1 - own) * np.eye(N_FEATURES)
        drawn = random.standard_normal((n_rows, N_FEATURES)) @ np.linalg.cholesky(covariance).T
        drawn[:, :N_FLIPPED] *= -1
        true.append(drawn)
    sd = np.where(np.arange(N_FEATURES) < n_informative, NOISE_OF_CAUSES, NOISE_OF_OTHERS)
    seen = [x + noise * sd * random.standard_normal(x.shape) for x in true]
    coefficients = random.uniform(0, LARGEST_COEFFICIENT, n_informative)
    y = [
        x[:, :n_informative] @ coefficients + NOISE_OF_Y * random.standard_normal(n_rows)
        for x in true
    ]
    return [np.column_stack(part) for part in zip(seen, y, strict=True)]


def simulate_shifted_tables(
    *,
    n_informative: int,
    noise: float,
    corr: float,
    bins: str = "pooled",
    n_levels: int = N_LEVELS,
    n_rows: int = 2000,
    seed: int,
) -> TableShift:
    """`simulate_numbers` as codes, by quantiles of both tables or of the training rows alone."""
    check_choice("bins", bins, BINS)
    numbers = simulate_numbers(
        n_informative=n_informative, noise=noise, corr=corr, n_rows=n_rows, seed=seed
    )
    known = np.concatenate(numbers) if bins == "pooled" else numbers[0]
    edges = np.quantile(known, np.arange(1, n_levels) / n_levels, axis=0)
    codes = [
        np.stack([np.searchsorted(*pair) for pair in zip(edges.T, part.T, strict=True)], axis=1)
        for part in numbers
    ]
    train, test = ((part[:, :-1], part[:, -1]) for part in codes)
    return coded_table(train, test, n_levels=n_levels)
