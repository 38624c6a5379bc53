"""Deletion and insertion on models whose truth is known, and importances that find it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Bernoulli
from exfam.tables.data import Cells, Column, TableSchema
from exfam.tables.experts.faithfulness import (
    deletion_insertion,
    faithfulness,
    permutation_importance,
)

STRENGTH = np.array([0.5, 3.0, 0.0, 1.0])
COLUMNS = tuple(Column(name, "boolean", labels=np.array([False, True])) for name in "abcdy")


@dataclass(frozen=True)
class KnownTruth:
    """Log odds of column y: the sum of +-strength of the other cells that are there."""

    schema: TableSchema = TableSchema(COLUMNS)
    families: tuple[Bernoulli, ...] = (Bernoulli(),) * 5

    def eta(self, cells, targets):
        assert list(targets) == [4]
        return [torch.from_numpy(signs(cells) @ STRENGTH)[None, :, None]]


TRUTH = KnownTruth()


def signs(cells):
    return np.where(cells.code[:, :4] < 0, 0, 2 * cells.code[:, :4] - 1)


def drawn(n_rows=400, *, absent=0.0):
    """Rows whose y is drawn from the model."""
    random = np.random.default_rng(0)
    code = random.integers(0, 2, (n_rows, 5))
    odds = (2 * code[:, :4] - 1) @ STRENGTH
    code[:, 4] = random.random(n_rows) < 1 / (1 + np.exp(-odds))
    code[random.random(code.shape) < absent] = -1
    value = np.where(code < 0, np.nan, code)
    return Cells(code.astype(np.int32), np.zeros(code.shape, np.float32), value)


def by_column(importance, cells):
    return np.broadcast_to(np.append(importance, 99.0), cells.code.shape)


def curves(cells):
    return deletion_insertion(TRUTH, cells, "y", importance=by_column(STRENGTH, cells))


def nats_without(cells, *steps):
    """Mean log p(y) by hand, for each of the steps without its columns."""
    nats, cells = [], cells[cells.present[:, 4]]
    for columns in steps:
        strength = STRENGTH.copy()
        strength[list(columns)] = 0.0
        toward = (2 * cells.code[:, 4] - 1) * (signs(cells) @ strength)
        nats.append(-np.logaddexp(0.0, -toward).mean())
    return nats


def test_curves_are_the_scores_with_cells_taken_in_order():
    cells = drawn(absent=0.2)
    assert not cells.present[:, 4].all()
    result = curves(cells)
    for curve, ends in ((result.deleted, [(), range(4)]), (result.inserted, [range(4), ()])):
        np.testing.assert_allclose(curve[[0, -1]], nats_without(cells, *ends))
    steps = np.linspace(0.0, 1.0, 5)
    assert result.deletion_area == pytest.approx(np.trapezoid(result.deleted, steps))
    assert result.insertion_area == pytest.approx(np.trapezoid(result.inserted, steps))
    # A row that lacks a column goes on to its next one.
    whole, lacking = cells[(cells.code >= 0).all(1)], drawn().hide([1])
    deleted = nats_without(whole, (), (1,), (1, 3), (1, 3, 0), range(4))
    np.testing.assert_allclose(curves(whole).deleted, deleted)
    inserted = nats_without(whole, range(4), (0, 2, 3), (0, 2), (2,), ())
    np.testing.assert_allclose(curves(whole).inserted, inserted)
    gone = (1, 3, 0)
    deleted = nats_without(drawn(), (1,), (1, 3), gone, gone, gone)
    np.testing.assert_allclose(curves(lacking).deleted, deleted)


def test_the_true_order_beats_random_and_its_reverse():
    cells = drawn()
    importances = {"truth": by_column(STRENGTH, cells), "reverse": by_column(-STRENGTH, cells)}
    result = faithfulness(TRUTH, cells, "y", importances=importances, seed=0)
    area = {name: curve.deletion_area for name, curve in result.items()}
    assert area["truth"] == area["permutation"] < area["random"] < area["reverse"]
    area = {name: curve.insertion_area for name, curve in result.items()}
    assert area["truth"] == area["permutation"] > area["random"] > area["reverse"]


def test_rows_without_the_target_and_importances_that_do_not_fit_are_refused():
    cells = drawn(5)
    with pytest.raises(DataError, match="`cells` must have a row with a cell in column 'y'"):
        permutation_importance(TRUTH, cells.hide([4]), "y", seed=0)
    for importance, message in (
        (np.ones((5, 4)), r"`importance` must be one number for each of \(5, 5\)"),
        (np.full((5, 5), np.nan), "with 25 NaN"),
    ):
        with pytest.raises(ExfamError, match=message):
            deletion_insertion(TRUTH, cells, "y", importance=importance)
