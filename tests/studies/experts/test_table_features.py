import numpy as np
import pytest

from exfam_studies.experts.tables.features import (
    SHARES,
    learn_features,
    missing_cells,
    with_dropped,
    with_missing,
)
from studies.experts.table_cases import toy


def test_features_know_the_rows_to_fit_on_alone():
    table = toy("regression")
    features = learn_features(table)
    other = {**table.test, "color": np.array(["green"] * 200, dtype=object)}
    assert np.isnan(features.codes(other)[:, 0]).all() and features.unordered == [0]
    assert (features.design(other)[:, :2] == 0).all()
    whole = features.design(table.train)
    assert np.nanmean(whole[:, -1]) == pytest.approx(0, abs=1e-9)
    there = whole[~missing_cells(table.train["weight"]), -1]
    assert there.std() == pytest.approx(1)


def test_a_column_that_never_varies_stays_finite():
    table = toy("regression")
    table.train["weight"][:] = 1.0
    assert (learn_features(table).design(table.train)[:, -1] == 0).all()


@pytest.mark.parametrize("by", ["cell", "column"])
def test_cells_go_missing_at_random(by):
    columns = toy("regression").test
    before = np.mean([missing_cells(cells).mean() for cells in columns.values()])
    hidden = with_missing(columns, share=0.5, by=by, seed=0)
    gone = [missing_cells(cells).mean() for cells in hidden.values()]
    assert np.mean(gone) == pytest.approx(0.5 + before / 2, abs=0.1)
    assert ((np.array(gone) == 1).sum() == 2) == (by == "column")
    for name, column in hidden.items():
        there = ~missing_cells(column)
        assert (column[there] == columns[name][there]).all()
    again = with_missing(columns, share=0.5, by=by, seed=1)
    assert any((missing_cells(again[name]) != missing_cells(hidden[name])).any() for name in hidden)


def test_dropped_rows_come_once_with_every_share():
    table = toy("regression", n=400)
    table.train["weight"][:], table.train["color"][:] = 1.0, "red"
    whole = with_dropped(table, copies=5, seed=0)
    gone = np.stack([missing_cells(column) for column in whole.train.values()]).mean(0)
    by_copy = gone.reshape(5, 80, 5).transpose(1, 0, 2)
    # Row by row: copy c of row i has the share at index i + c.
    turned = [by_copy[:, c, (k - c) % 5].mean() for c in range(5) for k in range(5)]
    np.testing.assert_allclose(np.reshape(turned, (5, 5)), [SHARES] * 5, atol=0.15)
    assert (np.reshape(turned, (5, 5))[:, 0] == 0).all()
    np.testing.assert_array_equal(whole.train_y, np.tile(table.train_y, 5))
    there = ~missing_cells(whole.train["size"])
    np.testing.assert_array_equal(
        whole.train["size"][there], np.tile(table.train["size"], 5)[there]
    )
    once = with_dropped(table, copies=1, seed=0)
    assert len(once.train_y) == 400 and missing_cells(once.train["weight"]).any()
