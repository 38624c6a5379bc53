"""Laws of wild values: they are drawn in, no others are, and predictions hardly feel them."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from exfam import FieldGaussian
from exfam.fields.base.panel import FARTHEST, tamed
from fields.field_cases import COLUMNS, field_frame


def heavy(n, n_sites, *, df, seed=0):
    random = np.random.default_rng(seed)
    values = 50 + np.linspace(1, 3, n_sites) * random.standard_t(df, size=(n, n_sites))
    return torch.from_numpy(values), torch.from_numpy(random.random((n, n_sites)) > 0.2)


def test_gaussian_values_stay_as_they_are():
    values, shown = heavy(500, 20, df=1e6)
    assert torch.equal(tamed(values, shown), torch.where(shown, values, 0.0))


def test_few_values_of_a_heavy_tail_are_drawn_in():
    values, shown = heavy(2000, 20, df=5)
    moved = (tamed(values, shown) != values)[shown]
    assert 0 < float(moved.double().mean()) < 2e-3


@pytest.mark.parametrize("off", [1e2, -1e6, 1e12])
def test_a_wild_value_counts_as_one_that_is_just_far(off):
    values, shown = heavy(300, 6, df=1e6)
    wild, shown[7, 2] = values.clone(), True
    wild[7, 2] += off
    found = tamed(wild, shown)
    spread = values[:, 2][shown[:, 2]].std()
    assert 0.7 * FARTHEST < float((found[7, 2] - 50).abs() / spread) < 1.1 * FARTHEST
    others = torch.ones_like(shown)
    others[7, 2] = False
    assert torch.equal(found[others & shown], values[others & shown])


def test_units_move_along_and_equal_values_stay():
    values, shown = heavy(60, 4, df=3)
    values[3, 1] = 1e5
    assert_allclose(tamed(3 * values - 7, shown)[shown], (3 * tamed(values, shown) - 7)[shown])
    same = torch.full((5, 2), 3.0).double()
    assert torch.equal(tamed(same, torch.ones_like(same, dtype=torch.bool)), same)
    assert torch.equal(tamed(same, torch.zeros_like(same, dtype=torch.bool)), 0 * same)


def test_a_slip_of_the_pen_hardly_moves_what_is_predicted():
    frame = field_frame(n_days=200, missing=0.0)
    clean = FieldGaussian(**COLUMNS).fit(frame)
    row = int(np.flatnonzero(frame["site"] == "s2")[40])
    wild = frame.copy()
    wild.loc[row, "v"] = 1e6
    moved = FieldGaussian(**COLUMNS).fit(wild)
    ours, theirs = (model.predict_dist(frame) for model in (moved, clean))
    at_site = (frame["site"] == "s2").to_numpy()
    ratio = (ours.sd / theirs.sd)[at_site]
    assert ratio.min() > 0.9 and ratio.max() < 1.3
    assert np.abs(ours.mean - theirs.mean).max() < 0.3
