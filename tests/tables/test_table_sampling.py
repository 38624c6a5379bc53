"""Draws and conditionals of table models against joint distributions that are known."""

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.tables.answers.conditional import conditional
from exfam.tables.answers.distributions import sample_rows
from exfam.tables.data.cells import Cells
from table_model_cases import (
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
)

NONE = [[np.nan] * 3]


def flat_counts(model, draws):
    codes = Cells.concatenate(draws).code
    indices = np.ravel_multi_index(tuple(codes.T), model.probs.shape)
    return np.bincount(indices, minlength=model.probs.size)


@pytest.mark.parametrize("order", [None, ["c", "a", "b"]])
def test_rows_are_drawn_from_the_joint_distribution(order):
    model = discrete_joint()
    empty = cells_of(model.schema, NONE)
    draws = sample_rows(model, empty, n=2000, seed=0, order=order)
    counts = flat_counts(model, draws)
    assert scipy.stats.chisquare(counts, 2000 * model.probs.ravel()).pvalue > 1e-3
    spoiled = 2000 * discrete_joint(seed=9).probs.ravel()
    assert scipy.stats.chisquare(counts, spoiled).pvalue < 1e-9


def test_present_cells_stay_and_condition_the_others():
    model = gaussian_joint()
    value = np.array([[2.0, np.nan, np.nan, 1.0], [np.nan, -1.0, 0.5, np.nan]])
    cells = cells_of(model.schema, value)
    draws = np.stack([draw.value for draw in sample_rows(model, cells, n=3000, seed=0)])
    for row in range(2):
        known = ~np.isnan(value[row])
        assert (draws[:, row, known] == value[row, known]).all()
        cross = model.cov[np.ix_(~known, known)] @ np.linalg.inv(model.cov[np.ix_(known, known)])
        mean = model.mean[~known] + cross @ (value[row, known] - model.mean[known])
        cov = model.cov[np.ix_(~known, ~known)] - cross @ model.cov[np.ix_(known, ~known)]
        white = np.linalg.solve(np.linalg.cholesky(cov), (draws[:, row, ~known] - mean).T)
        for part in [*white, white.sum(0) / np.sqrt(2)]:
            assert scipy.stats.kstest(part, "norm").pvalue > 1e-3


def test_columns_not_in_the_order_stay_absent():
    model = discrete_joint()
    draw = sample_rows(model, cells_of(model.schema, NONE), n=1, seed=0, order=["b"])[0]
    assert draw.present.tolist() == [[False, True, False]]


def test_seeds_choose_draws_and_blocks_serve_many_rows(monkeypatch):
    model = gaussian_joint()
    cells = drop_cells(gaussian_rows(model, 20))
    first, again, other = (sample_rows(model, cells, n=2, seed=k)[1].value for k in (0, 0, 1))
    assert (first == again).all() and (first != other).any()
    assert len(sample_rows(model, cells[:0], n=2, seed=0)[1]) == 0
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    draws = sample_rows(model, cells, n=2, seed=0)
    assert [len(draw) for draw in draws] == [20, 20]
    for draw in draws:
        assert (draw.value[cells.present] == cells.value[cells.present]).all()


def test_counts_of_draws_are_possible():
    model = discrete_joint()
    with pytest.raises(ExfamError, match="`n` must be an integer >= 1, got 0"):
        sample_rows(model, cells_of(model.schema, NONE), n=0, seed=0)


class TestConditional:
    def test_marginal_distributions_are_those_of_the_joint(self):
        model = discrete_joint()
        given = cells_of(model.schema, [[1, 2, 3], [0, np.nan, 1]])
        result = conditional(model, given, of=["b", "a"])
        joint = model.probs[:, :, [3, 1]] / model.probs[:, :, [3, 1]].sum((0, 1))
        np.testing.assert_allclose(result.distributions["b"].probs().numpy(), joint.sum(0).T)
        np.testing.assert_allclose(result.distributions["a"].probs().numpy(), joint.sum(1).T)

    @pytest.mark.parametrize("order", [None, ["a", "b"]])
    def test_the_joint_distribution_of_many_values_given_one_row(self, order):
        model = discrete_joint()
        given = cells_of(model.schema, [[np.nan, np.nan, 2]])
        pairs = [[a, b, np.nan] for a in range(2) for b in range(3)]
        result = conditional(model, given, of=["b", "a"], order=order)
        probs = np.exp(result.log_prob(cells_of(model.schema, pairs)))
        np.testing.assert_allclose(
            probs, (model.probs[:, :, 2] / model.probs[:, :, 2].sum()).ravel()
        )

    def test_the_order_decides_where_no_joint_distribution_is_behind(self):
        model = discrete_joint(heat=1.7)
        rows = discrete_rows(model, 20)
        ways = [conditional(model, rows, of=["a", "b"], order=o) for o in (["a", "b"], ["b", "a"])]
        assert np.abs(ways[0].log_prob(rows) - ways[1].log_prob(rows)).max() > 0.01

    def test_orders_name_its_columns(self):
        model = discrete_joint()
        rows = discrete_rows(model, 2)
        with pytest.raises(DataError, match="`order` must name the columns a, b and no others"):
            conditional(model, rows, of=["a", "b"], order=["a", "c"])

    def test_values_are_as_many_as_given(self):
        model = discrete_joint()
        rows = discrete_rows(model, 3)
        with pytest.raises(DataError, match="must have the 3 rows of `given`, got 2 rows"):
            conditional(model, rows, of=["a"]).log_prob(rows[:2])
