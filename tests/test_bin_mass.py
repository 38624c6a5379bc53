"""Masses of Student's t in intervals: exact in both tails, and their gradients."""

import numpy as np
import scipy.stats
import torch

from exfam.families.bin_mass import log_bin_mass


def test_masses_of_t_are_exact_in_both_tails():
    draw = np.random.default_rng(0)
    for df in (1.14, 3.0, 149.0):
        edge = np.concatenate([3 * draw.normal(size=50), [-40.0, 40.0]])
        zero = np.zeros_like(edge)
        given = [torch.from_numpy(a) for a in (zero - np.inf, edge, zero, zero)]
        found = log_bin_mass(*given, torch.tensor(df).double()).numpy()
        np.testing.assert_allclose(found, scipy.stats.t.logcdf(edge, df), atol=1e-9)
        low = np.linspace(-30, 30, 40_000)
        width = np.diff(low)
        zero = np.zeros_like(width)
        given = [torch.from_numpy(a) for a in (low[:-1].copy(), width, zero + 0.2, zero - 1.0)]
        inside = log_bin_mass(*given, torch.tensor(df).double()).exp().sum().item()
        both = scipy.stats.t.cdf((np.array([-30.0, 30.0]) - 0.2) * np.e, df)
        assert abs(inside - (both[1] - both[0])) < 1e-9


def test_masses_of_t_have_exact_gradients():
    low = torch.tensor([-np.inf, -0.5, 3.0, -9.0, -1.0], dtype=torch.float64)
    width = torch.tensor([0.2, 1.0, 0.5, 1.0, 1e-6], dtype=torch.float64)
    location = torch.linspace(0.1, 0.5, 5, dtype=torch.float64, requires_grad=True)
    log_scale = torch.linspace(-1.0, 0.4, 5, dtype=torch.float64, requires_grad=True)
    df = torch.tensor(4.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *given: log_bin_mass(low, width, *given), (location, log_scale, df), atol=1e-5
    )
