"""Deletion and insertion on models whose truth is known, and importances that find it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from exfam.checks import DataError, ExfamError
from exfam.families import Bernoulli
from exfam.tables.data.cells import Cells
from exfam.tables.data.schema import Column, TableSchema
from exfam.tables.experts.faithfulness import (
    deletion_insertion,
    faithfulness,
    permutation_importance,
)
from exfam.tables.experts.table_attention import expert_importance
from expert_cases import linear_table, random_cells

STRENGTH = np.array([0.5, 3.0, 0.0, 1.0])


@dataclass(frozen=True)
class KnownTruth:
    """Log odds of column y: the sum of +-strength of the other cells that are there."""

    schema: TableSchema = TableSchema(
        tuple(Column(name, "boolean", labels=np.array([False, True])) for name in "abcdy")
    )
    families: tuple[Bernoulli, ...] = (Bernoulli(),) * 5

    def eta(self, cells, targets):
        assert list(targets) == [4]
        sign = np.where(cells.code[:, :4] < 0, 0, 2 * cells.code[:, :4] - 1)
        return [torch.from_numpy(sign @ STRENGTH)[None, :, None]]


def drawn(n_rows=400, *, absent=0.0, seed=0):
    """Rows whose y is drawn from the model."""
    random = np.random.default_rng(seed)
    code = random.integers(0, 2, (n_rows, 5))
    odds = (2 * code[:, :4] - 1) @ STRENGTH
    code[:, 4] = random.random(n_rows) < 1 / (1 + np.exp(-odds))
    code[random.random(code.shape) < absent] = -1
    value = np.where(code < 0, np.nan, code)
    return Cells(code.astype(np.int32), np.zeros(code.shape, np.float32), value)


def by_column(importance, cells):
    return np.broadcast_to(np.append(importance, 99.0), cells.code.shape)


def nats_without(cells, columns):
    """Mean log p(y) by hand, the columns left out."""
    strength = STRENGTH.copy()
    strength[list(columns)] = 0.0
    shown = cells.present[:, 4]
    sign = np.where(cells.code[:, :4] < 0, 0, 2 * cells.code[:, :4] - 1)[shown]
    toward = (2 * cells.code[shown, 4] - 1) * (sign @ strength)
    return float(-np.logaddexp(0.0, -toward).mean())


def test_curves_are_the_scores_with_cells_taken_in_order():
    cells = drawn(absent=0.2)
    assert not cells.present[:, 4].all()
    result = deletion_insertion(KnownTruth(), cells, "y", importance=by_column(STRENGTH, cells))
    deleted = [(), (1,), (1, 3), (1, 3, 0), (0, 1, 2, 3)]
    inserted = [(0, 1, 2, 3), (0, 2, 3), (0, 2), (2,), ()]
    # A row that lacks a column goes on to its next one: only whole rows are known by hand.
    whole = cells[(cells.code >= 0).all(1)]
    of_whole = deletion_insertion(KnownTruth(), whole, "y", importance=by_column(STRENGTH, whole))
    np.testing.assert_allclose(of_whole.deleted, [nats_without(whole, out) for out in deleted])
    np.testing.assert_allclose(of_whole.inserted, [nats_without(whole, out) for out in inserted])
    for curve, ends in ((result.deleted, ((), range(4))), (result.inserted, (range(4), ()))):
        np.testing.assert_allclose(curve[[0, -1]], [nats_without(cells, out) for out in ends])
    steps = np.linspace(0.0, 1.0, 5)
    assert result.deletion_area == pytest.approx(np.trapezoid(result.deleted, steps))
    assert result.insertion_area == pytest.approx(np.trapezoid(result.inserted, steps))


def test_in_a_row_with_absent_cells_the_order_goes_on_to_the_next_cell_that_is_there():
    cells = drawn()
    lacking = cells.hide([1])
    result = deletion_insertion(KnownTruth(), lacking, "y", importance=by_column(STRENGTH, lacking))
    expected = [nats_without(cells, out) for out in [(1,), (1, 3), (1, 3, 0)]]
    np.testing.assert_allclose(result.deleted[:3], expected)
    np.testing.assert_allclose(result.deleted[3:], expected[-1])


def test_the_true_order_beats_random_and_its_reverse():
    cells = drawn()
    importances = {
        "truth": by_column(STRENGTH, cells),
        "reverse": by_column(-STRENGTH, cells),
    }
    result = faithfulness(KnownTruth(), cells, "y", importances=importances, seed=0)
    area = {name: each.deletion_area for name, each in result.items()}
    assert area["truth"] == area["permutation"] < area["random"] < area["reverse"]
    area = {name: each.insertion_area for name, each in result.items()}
    assert area["truth"] == area["permutation"] > area["random"] > area["reverse"]


def test_permutation_importance_finds_the_strengths():
    cells = drawn(2000)
    loss = permutation_importance(KnownTruth(), cells, "y", seed=0)
    assert loss.argsort().tolist()[2:] == [0, 3, 1]
    assert loss[2] == loss[4] == 0.0
    again = permutation_importance(KnownTruth(), cells, "y", seed=0)
    other = permutation_importance(KnownTruth(), cells, "y", seed=1)
    np.testing.assert_array_equal(loss, again)
    assert (loss[[0, 1, 3]] != other[[0, 1, 3]]).all()


def test_experts_order_cells_better_than_columns_as_a_whole():
    """Labels are drawn from the network itself, so that its own judgment of cells is right."""
    model, cells = linear_table(n_members=1), random_cells(3000, absent=0.0)
    probability = model.eta(cells, [3])[0][0].softmax(-1)
    label = probability.multinomial(1, generator=torch.Generator().manual_seed(0))[:, 0].numpy()
    cells.code[:, 3], cells.value[:, 3], cells.fraction[:, 3] = label, label, 0.0
    importances = {"experts": expert_importance(model, cells, "d")}
    result = faithfulness(model, cells, "d", importances=importances, seed=0)
    first_step = {name: each.deleted[0] - each.deleted[1] for name, each in result.items()}
    assert first_step["experts"] > max(first_step["permutation"], first_step["random"], 0.0)
    assert result["experts"].deletion_area < result["random"].deletion_area
    for other in ("permutation", "random"):
        assert result["experts"].insertion_area > result[other].insertion_area


def test_rows_without_the_target_and_importances_that_do_not_fit_are_refused():
    cells = drawn(5)
    with pytest.raises(DataError, match="`cells` must have a row with a cell in column 'y'"):
        permutation_importance(KnownTruth(), cells.hide([4]), "y", seed=0)
    with pytest.raises(ExfamError, match=r"`importance` must be one number for each of \(5, 5\)"):
        deletion_insertion(KnownTruth(), cells, "y", importance=np.ones((5, 4)))
    with pytest.raises(ExfamError, match="with 25 NaN"):
        deletion_insertion(KnownTruth(), cells, "y", importance=np.full((5, 5), np.nan))
