"""Order disagreement: 0 for conditionals of one joint distribution, and only for those."""

import itertools

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.tables.answers.disagreement import order_disagreement
from exfam.tables.answers.distributions import chain_log_prob
from exfam.tables.data import TableSchema
from table_model_cases import (
    BOTH,
    DiscreteJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    labels,
)

SPOILED = discrete_joint(heat=1.7)
EVERY_ROW = cells_of(SPOILED.schema, list(itertools.product(*map(range, SPOILED.probs.shape))))


@pytest.mark.parametrize("dropped", [False, True])
@BOTH
def test_one_joint_distribution_has_none(model, cells, dropped):
    cells = drop_cells(cells) if dropped else cells
    result = order_disagreement(model, cells, n_orders=6, seed=0)
    assert len(set(result.orders)) == 6
    assert result.row_sd.max() < 1e-10 and result.largest_mean_gap < 1e-10
    pairs = ~np.eye(len(model.schema), dtype=bool)
    assert result.pair_gap[pairs].max() < 1e-10 and np.isnan(result.pair_gap[~pairs]).all()
    np.testing.assert_allclose(result.mixture_log_prob, chain_log_prob(model, cells), atol=1e-10)


def test_conditionals_of_no_joint_distribution_disagree():
    result = order_disagreement(SPOILED, EVERY_ROW, n_orders=99, seed=0)
    assert len(result.orders) == 6  # as many as there are
    assert result.mean_row_sd > 0.05 and result.largest_mean_gap > 0.01
    assert (result.pair_gap[~np.eye(3, dtype=bool)] > 0.01).all()
    np.testing.assert_array_equal(result.pair_gap, result.pair_gap.T)
    gap = np.ptp([chain_log_prob(SPOILED, EVERY_ROW, order=o).mean() for o in result.orders])
    np.testing.assert_allclose(result.largest_mean_gap, gap)
    # Every order is a distribution of rows all the same, and so is their mixture.
    np.testing.assert_allclose(np.exp(result.mixture_log_prob).sum(), 1.0)
    np.testing.assert_allclose(np.exp(result.log_prob).sum(0), 1.0)


def test_a_gap_is_the_one_of_its_definition():
    cells = discrete_rows(SPOILED, 30)
    result = order_disagreement(SPOILED, cells, n_orders=2, seed=0)
    rest = chain_log_prob(SPOILED, cells, order=["b"])
    ways = (["a", "c"], ["c", "a"])
    paths = [chain_log_prob(SPOILED, cells, order=["b", *pair]) - rest for pair in ways]
    np.testing.assert_allclose(result.pair_gap[0, 2], np.abs(paths[0] - paths[1]).mean())
    gaps = order_disagreement(SPOILED, cells.hide([1]), n_orders=2, seed=0).pair_gap
    assert np.isfinite(gaps[0, 2]) and np.isnan(gaps[1]).all()


def test_seeds_choose_orders_that_are_possible():
    first, again, other = (
        order_disagreement(SPOILED, EVERY_ROW, n_orders=5, seed=seed).orders for seed in (0, 0, 1)
    )
    assert first == again != other
    with pytest.raises(ExfamError, match="`n_orders` must be an integer >= 2, got 1"):
        order_disagreement(SPOILED, EVERY_ROW, n_orders=1, seed=0)
    with pytest.raises(ExfamError, match="at least one row"):
        order_disagreement(SPOILED, EVERY_ROW[:0], n_orders=2, seed=0)
    one = DiscreteJoint(TableSchema((labels("a", 2),)), np.array([0.5, 0.5]))
    with pytest.raises(ExfamError, match="`X` must have columns of several orders, got 'a' alone"):
        order_disagreement(one, discrete_rows(one, 3), n_orders=2, seed=0)
