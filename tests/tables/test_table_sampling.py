"""Draws and conditionals of table models against joint distributions that are known."""

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError, ExfamError
from exfam.tables.answers.conditional import conditional, sample_rows
from exfam.tables.answers.distributions import chain_log_prob
from table_model_cases import (
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
)

NONE = [[np.nan] * 3]
GAUSSIAN, DISCRETE = gaussian_joint(), discrete_joint()


def conditions(model, given, of, **options):
    return conditional(model, given, of=of, unknown="unk", **options)


@pytest.mark.parametrize("order", [None, ["c", "a", "b"]])
def test_rows_are_drawn_from_the_joint_distribution(order):
    codes = sample_rows(DISCRETE, cells_of(DISCRETE.schema, NONE), n=2000, seed=0, order=order).code
    indices = np.ravel_multi_index(tuple(codes.T), DISCRETE.probs.shape)
    counts = np.bincount(indices, minlength=DISCRETE.probs.size)
    assert scipy.stats.chisquare(counts, 2000 * DISCRETE.probs.ravel()).pvalue > 1e-3
    spoiled = 2000 * discrete_joint(seed=9).probs.ravel()
    assert scipy.stats.chisquare(counts, spoiled).pvalue < 1e-9


def test_present_cells_stay_and_condition_the_others():
    value = np.array([[2.0, np.nan, np.nan, 1.0], [np.nan, -1.0, 0.5, np.nan]])
    cells = cells_of(GAUSSIAN.schema, value)
    draws = sample_rows(GAUSSIAN, cells, n=3000, seed=0).value.reshape(3000, 2, 4)
    for row in range(2):
        known = ~np.isnan(value[row])
        assert (draws[:, row, known] == value[row, known]).all()
        at, rest = np.flatnonzero(known), np.flatnonzero(~known)
        mean, cov = GAUSSIAN.given(value[row, at], at, rest)
        white = np.linalg.solve(np.linalg.cholesky(cov), (draws[:, row, rest] - mean).T)
        for part in [*white, white.sum(0) / np.sqrt(2)]:
            assert scipy.stats.kstest(part, "norm").pvalue > 1e-3


def test_draws_are_encoded_as_their_values():
    cells = drop_cells(gaussian_rows(GAUSSIAN, 50))
    draw = sample_rows(GAUSSIAN, cells, n=2, seed=3)
    encoded = cells_of(GAUSSIAN.schema, draw.value)
    np.testing.assert_array_equal(draw.code, encoded.code)
    np.testing.assert_array_equal(draw.fraction, encoded.fraction)
    assert draw.present.all()
    some = sample_rows(DISCRETE, cells_of(DISCRETE.schema, NONE), n=1, seed=0, order=["b"])
    assert some.present.tolist() == [[False, True, False]]


def test_seeds_choose_draws_and_blocks_serve_many_rows(monkeypatch):
    cells = drop_cells(gaussian_rows(GAUSSIAN, 20))
    first, again, other = (sample_rows(GAUSSIAN, cells, n=2, seed=k).value for k in (0, 0, 1))
    assert (first == again).all() and (first != other).any()
    assert len(sample_rows(GAUSSIAN, cells[:0], n=2, seed=0)) == 0
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    draws = sample_rows(GAUSSIAN, cells, n=2, seed=0)
    assert len(draws) == 40
    for draw in (draws[:20], draws[20:]):
        assert (draw.value[cells.present] == cells.value[cells.present]).all()
    with pytest.raises(ExfamError, match="`n` must be an integer >= 1, got 0"):
        sample_rows(GAUSSIAN, cells, n=0, seed=0)


def test_marginal_distributions_are_those_of_the_joint():
    given = cells_of(DISCRETE.schema, [[1, 2, 3], [0, np.nan, 1]])
    result = conditions(DISCRETE, given, ["b", "a"])
    joint = DISCRETE.probs[:, :, [3, 1]] / DISCRETE.probs[:, :, [3, 1]].sum((0, 1))
    for name, expected in (("b", joint.sum(0).T), ("a", joint.sum(1).T)):
        np.testing.assert_allclose(result.distributions[name].probs().numpy(), expected)


@pytest.mark.parametrize("order", [None, ["a", "b"]])
def test_the_joint_distribution_of_many_values_given_one_row(order):
    given = cells_of(DISCRETE.schema, [[np.nan, np.nan, 2]])
    pairs = [[a, b, np.nan] for a in range(2) for b in range(3)]
    result = conditions(DISCRETE, given, ["b", "a"], order=order)
    probs = np.exp(result.log_prob(cells_of(DISCRETE.schema, pairs)))
    expected = DISCRETE.probs[:, :, 2] / DISCRETE.probs[:, :, 2].sum()
    np.testing.assert_allclose(probs, expected.ravel())


def test_given_nothing_it_is_the_marginal_distribution():
    rows = gaussian_rows(GAUSSIAN, 10)
    result = conditions(GAUSSIAN, rows[:1].hide(range(4)), ["x", "u"])
    expected = chain_log_prob(GAUSSIAN, rows, order=["u", "x"])
    np.testing.assert_allclose(result.log_prob(rows), expected)
    assert result.distributions["x"].mean().item() == pytest.approx(3.0)


def test_an_absent_value_is_no_term():
    rows = gaussian_rows(GAUSSIAN, 5)
    result = conditions(GAUSSIAN, rows, ["u", "x"])
    alone = conditions(GAUSSIAN, rows.hide([0]), ["x"])
    np.testing.assert_allclose(result.log_prob(rows.hide([0])), alone.log_prob(rows))


def test_draws_are_of_the_columns_in_question():
    rows = drop_cells(gaussian_rows(GAUSSIAN, 30))
    draws = conditions(GAUSSIAN, rows, ["u", "x"]).sample(3, seed=0)
    assert list(draws) == ["u", "x"] and all(np.isfinite(draw).all() for draw in draws.values())
    first, second, _ = draws["u"].reshape(3, len(rows))
    assert (first != second).all()


def test_the_order_decides_where_no_joint_distribution_is_behind():
    model = discrete_joint(heat=1.7)
    rows = discrete_rows(model, 20)
    ways = [conditions(model, rows, ["a", "b"], order=o) for o in (["a", "b"], ["b", "a"])]
    assert np.abs(ways[0].log_prob(rows) - ways[1].log_prob(rows)).max() > 0.01
    with pytest.raises(DataError, match="`order` must name the columns a, b and no others"):
        conditions(model, rows, ["a", "b"], order=["a", "c"])
    with pytest.raises(DataError, match="must have the 20 rows of `given`, got 2 rows"):
        ways[0].log_prob(rows[:2])
