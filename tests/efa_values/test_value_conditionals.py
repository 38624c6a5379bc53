"""Conditionals of the factor model: exact, blind to the own value, causal where they say so."""

import numpy as np
import pytest

from efa_values.simulated_values import conditioned, drawn_cells, drawn_model, without_own
from exfam.checks import DataError
from exfam.efa.values.cells import UNSEEN, ValueCells
from exfam.efa.values.conditionals import (
    Conditionals,
    contributions_to_mean,
    given_earlier,
    given_others,
)
from exfam.efa.values.features import factor_features
from exfam.kernels.packed import invert

MODEL = drawn_model()
NAMES = ("mean", "variance", "chi_square", "n_context")


def cells_with_gaps():
    """Cells of which some have no value, and some an unseen item."""
    cells = drawn_cells(n_groups=8)
    value, item = cells.value.copy(), cells.item.copy()
    value[::7] = np.nan
    item[3::11] = UNSEEN
    return ValueCells(cells.offset, item, value)


def arrays(found: Conditionals, rows=slice(None)):
    return np.stack([getattr(found, name)[rows] for name in NAMES])


@pytest.mark.parametrize("causal", [False, True])
def test_they_are_those_of_the_dense_gaussian(causal):
    cells = cells_with_gaps()
    found = (given_earlier if causal else given_others)(MODEL, cells)
    for group in range(cells.n_groups):
        low, high = cells.offset[group : group + 2]
        item, value = cells.item[low:high], cells.value[low:high]
        for j in range(high - low):
            context = np.array([k for k in range(j if causal else high - low) if k != j], int)
            context = context[np.isfinite(value[context])]
            expected = (*conditioned(MODEL, item, value, context, j), len(context))
            np.testing.assert_allclose(arrays(found, low + j), expected, atol=1e-10)


def test_kalman_steps_are_one_inverse_of_prefixes():
    cells = cells_with_gaps()
    low, high = cells.offset[2:4]
    steps = arrays(given_earlier(MODEL, cells), slice(low, high))
    for stop in range(low + 1, high + 1):
        prefix = ValueCells(np.array([0, stop - low]), cells.item[low:stop], cells.value[low:stop])
        last = arrays(given_others(MODEL, prefix), -1)
        np.testing.assert_allclose(steps[:, stop - low - 1], last, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("value", [5.0, -30.0, np.nan])
def test_the_own_value_changes_nothing(causal, value):
    cells = drawn_cells()
    whole = factor_features(MODEL, cells, causal=causal, ordered=True)
    for cell in (0, 11, cells.n_cells - 4):
        changed = without_own(cells, cell, value)
        found = factor_features(MODEL, changed, causal=causal, ordered=True)
        for name in (*NAMES, "level", "neighbors"):
            before, after = getattr(whole, name)[cell], getattr(found, name)[cell]
            np.testing.assert_allclose(after, before, atol=1e-10)
        group = slice(*cells.offset[cells.group[cell] : cells.group[cell] + 2])
        assert (found.mean[group] != whole.mean[group]).any()


def test_no_later_value_is_seen():
    cells = drawn_cells()
    low, high = cells.offset[4:6]
    changed = cells.value.copy()
    changed[low + 3 : high] += 9.0
    before = factor_features(MODEL, cells, causal=True, ordered=True)
    after = factor_features(MODEL, cells.with_value(changed), causal=True, ordered=True)
    for name in (*NAMES, "neighbors"):
        one, other = getattr(before, name), getattr(after, name)
        assert (one[low : low + 4] == other[low : low + 4]).all()
    assert (before.mean[low + 4 : high] != after.mean[low + 4 : high]).all()


def test_the_order_of_a_group_means_nothing_unless_causal():
    cells = drawn_cells()
    order = np.concatenate(
        [
            np.random.default_rng(g).permutation(np.arange(low, high))
            for g, (low, high) in enumerate(zip(cells.offset, cells.offset[1:], strict=False))
        ]
    )
    shuffled = ValueCells(cells.offset, cells.item[order], cells.value[order])
    one, other = arrays(given_others(MODEL, cells), order), given_others(MODEL, shuffled)
    np.testing.assert_allclose(one, arrays(other), atol=1e-10)
    causal = arrays(given_earlier(MODEL, cells), order) - arrays(given_earlier(MODEL, shuffled))
    assert np.abs(causal).max() > 0.1


def test_neighbors_are_weighted_means():
    cells = ValueCells(np.array([0, 4]), np.zeros(4, int), np.array([1.0, np.nan, 3.0, 5.0]))
    model = drawn_model(n_items=1)
    rest = cells.value - model.mu - model.level[0]
    near = factor_features(model, cells, causal=False, ordered=True).neighbors
    for column, decay in enumerate((0.6, 0.9)):
        expected = (rest[0] + rest[2] + decay * rest[3]) / (3 + decay)
        np.testing.assert_allclose(near[1, column], expected)
    earlier = factor_features(model, cells, causal=True, ordered=True).neighbors
    np.testing.assert_allclose(earlier[0], 0.0)
    np.testing.assert_allclose(earlier[2, 0], 0.6 * rest[0] / 1.6)
    assert factor_features(model, cells, causal=True, ordered=False).neighbors.shape == (4, 0)


@pytest.mark.parametrize("causal", [False, True])
def test_contributions_add_up_to_the_mean(causal):
    cells = cells_with_gaps()
    chosen = np.array([0, 5, 20, cells.n_cells - 1])
    parts = contributions_to_mean(MODEL, cells, chosen, causal=causal)
    found = (given_earlier if causal else given_others)(MODEL, cells)
    np.testing.assert_allclose(parts.mean, found.mean[chosen], atol=1e-12)
    assert (parts.source != chosen[parts.target]).all()
    # Twice a residual says twice as much, and nothing else changes.
    pair = len(parts.source) // 2
    source = parts.source[pair]
    item = cells.item[source] if cells.item[source] >= 0 else MODEL.n_items
    level = MODEL.mu + MODEL.level[item]
    doubled = without_own(cells, source, 2 * cells.value[source] - level)
    after = contributions_to_mean(MODEL, doubled, chosen, causal=causal)
    factor = np.where(parts.source == source, 2.0, 1.0)
    np.testing.assert_allclose(after.by_level, factor * parts.by_level, atol=1e-12)
    np.testing.assert_allclose(after.by_factors, factor * parts.by_factors, atol=1e-12)


def test_inverses_are_exact():
    for n in (1, 2, 7):
        matrix = np.random.default_rng(n).normal(size=(n, n + 2))
        matrix = matrix @ matrix.T
        inverse = np.empty((n, n))
        log_determinant = invert(matrix.copy(), inverse)
        np.testing.assert_allclose(inverse @ matrix, np.eye(n), atol=1e-10)
        np.testing.assert_allclose(log_determinant, np.linalg.slogdet(matrix)[1], atol=1e-10)


def test_cells_that_disagree_are_refused():
    for offset in ([0, 3], [1, 2], [0, 3, 2]):
        with pytest.raises(DataError, match="`offset` must rise from 0 to the number of items and"):
            ValueCells(np.array(offset), np.zeros(2, int), np.zeros(2))


@pytest.mark.parametrize("causal", [False, True])
def test_neighbors_are_weighed_by_their_distance_in_the_order(causal):
    draw, n = np.random.default_rng(0), 9
    value = draw.normal(size=n)
    value[3] = np.nan
    tied = np.isin(np.arange(n), [2, 3, 5, 7])
    item, offset = draw.integers(0, 12, n), np.array([0, 6, 9])
    model, cells = drawn_model(), ValueCells(offset, item, value, tied)
    found = factor_features(model, cells, causal=causal, ordered=True).neighbors
    rest = value - model.mu - model.level[item]
    point = np.arange(n) if causal else np.cumsum(~tied)
    for column, decay in enumerate((0.6, 0.9)):
        for k in range(n):
            other = np.isfinite(rest) & ((np.arange(n) < 6) == (k < 6)) & (np.arange(n) != k)
            other &= (np.arange(n) < k) | (not causal)
            weight = decay ** (np.maximum(np.abs(point - point[k]), 1) - 1.0)[other]
            expected = (weight * rest[other]).sum() / (weight.sum() + 1)
            assert found[k, column] == pytest.approx(expected, abs=1e-12)
    moved = factor_features(model, cells.with_value(value), causal=causal, ordered=False)
    assert moved.neighbors.shape == (n, 0)
