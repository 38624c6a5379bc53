"""How sure pools are by which cells are missing: known effects, and what they leave alone."""

import numpy as np

from exfam.tables.base.gaps import fit_gap_effects, unevenness
from exfam.tables.base.pool import SHARES, Pool

N = 4000


def test_known_effects_are_found():
    random = np.random.default_rng(1)
    missing, effects = random.random((N, 3)) < 0.3, np.array([1.0, 0.0, -0.5])
    error = np.exp(unevenness(missing) @ effects) * random.standard_t(4.0, N)
    found, shrunk = (fit_gap_effects(error[:n], missing[:n], np.ones(n), df=4.0) for n in (N, 5))
    # What all effects have in common moves no row.
    np.testing.assert_allclose(found - found.mean(), effects - effects.mean(), atol=0.1)
    assert np.abs(shrunk).max() < np.abs(found).max() / 2


def test_rows_with_all_their_cells_or_none_are_as_they_were():
    pool = Pool(
        np.ones((len(SHARES), 1)), np.zeros((len(SHARES), 3)), by_gap=np.array([[2.0, -1.0]] * 3)
    )
    missing = np.array([[False, False], [True, True], [True, False], [False, True]])
    np.testing.assert_allclose(pool.by_gaps(missing, missing.mean(1)), [0.0, 0.0, 1.5, -1.5])
    assert not Pool(pool.weights, pool.scale).by_gaps(missing, missing.mean(1)).any()
    assert unevenness(np.empty((3, 0), bool)).shape == (3, 0)
