"""Order disagreement: 0 for conditionals of one joint distribution, and only for those."""

import itertools

import numpy as np
import pytest

from exfam.checks import ExfamError
from exfam.tables.answers.disagreement import order_disagreement
from exfam.tables.answers.distributions import chain_log_prob
from table_model_cases import (
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("make", ["discrete", "gaussian"])
def test_one_joint_distribution_has_none(make, dropped):
    model, cells = {
        "discrete": (discrete_joint(), discrete_rows(discrete_joint(), 40)),
        "gaussian": (gaussian_joint(), gaussian_rows(gaussian_joint(), 40)),
    }[make]
    cells = drop_cells(cells) if dropped else cells
    result = order_disagreement(model, cells, n_orders=6, seed=0)
    assert len(set(result.orders)) == 6
    assert result.row_sd.max() < 1e-10 and result.largest_mean_gap < 1e-10
    pairs = ~np.eye(len(model.schema), dtype=bool)
    assert result.pair_gap[pairs].max() < 1e-10 and np.isnan(result.pair_gap[~pairs]).all()
    np.testing.assert_allclose(result.mixture_log_prob, chain_log_prob(model, cells), atol=1e-10)


def all_rows(model):
    return cells_of(model.schema, list(itertools.product(*map(range, model.probs.shape))))


def test_conditionals_of_no_joint_distribution_disagree():
    model = discrete_joint(heat=1.7)
    result = order_disagreement(model, all_rows(model), n_orders=6, seed=0)
    assert result.mean_row_sd > 0.05 and result.largest_mean_gap > 0.01
    assert (result.pair_gap[~np.eye(3, dtype=bool)] > 0.01).all()
    np.testing.assert_array_equal(result.pair_gap, result.pair_gap.T)
    gap = np.ptp([chain_log_prob(model, all_rows(model), order=o).mean() for o in result.orders])
    np.testing.assert_allclose(result.largest_mean_gap, gap)


def test_the_mixture_over_orders_is_a_distribution_of_rows_all_the_same():
    model = discrete_joint(heat=1.7)
    result = order_disagreement(model, all_rows(model), n_orders=4, seed=1)
    np.testing.assert_allclose(np.exp(result.mixture_log_prob).sum(), 1.0)
    np.testing.assert_allclose(np.exp(result.log_prob).sum(0), 1.0)


def test_a_gap_is_the_one_of_its_definition():
    model = discrete_joint(heat=1.7)
    cells = discrete_rows(model, 30)
    result = order_disagreement(model, cells, n_orders=2, seed=0)
    rest = chain_log_prob(model, cells, order=["b"])
    paths = [
        chain_log_prob(model, cells, order=["b", *pair]) - rest for pair in (["a", "c"], ["c", "a"])
    ]
    np.testing.assert_allclose(result.pair_gap[0, 2], np.abs(paths[0] - paths[1]).mean())


def test_a_pair_never_seen_together_has_no_gap():
    model = discrete_joint(heat=1.7)
    cells = discrete_rows(model, 10).hide([1])
    gaps = order_disagreement(model, cells, n_orders=2, seed=0).pair_gap
    assert np.isfinite(gaps[0, 2]) and np.isnan(gaps[1]).all()


@pytest.mark.parametrize("n", [1, 7])
def test_the_number_of_orders_is_possible(n):
    model = discrete_joint()
    with pytest.raises(ExfamError, match=f"`n_orders` must be from 2 to 6, .* got {n}"):
        order_disagreement(model, discrete_rows(model, 3), n_orders=n, seed=0)


def test_there_are_rows():
    model = discrete_joint()
    with pytest.raises(ExfamError, match="at least one row"):
        order_disagreement(model, discrete_rows(model, 3)[:0], n_orders=2, seed=0)
