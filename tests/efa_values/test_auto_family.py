"""The family of values by what they look like, and zeros with a probability of their own."""

import numpy as np
import pytest
import torch

from efa_values.simulated_values import drawn_cells
from exfam.efa.values.auto_family import LEAST_FOR_BINS, auto_family
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.values_base import ValueOptions, fit_values
from exfam.families import (
    Bernoulli,
    Gamma,
    Histogram,
    Hurdle,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedStudentT,
    SinhStudentT,
    StudentT,
    ZeroInflated,
)
from exfam.groups import Groups


def as_groups(cells):
    item = np.zeros(cells.n_cells, dtype=int) if cells.item is None else cells.item
    observed = cells.observed
    values = {"y": np.where(observed, cells.value, 0.0)}
    start, stop = cells.offset[:-1], cells.offset[1:]
    return Groups(start=start, stop=stop, item=item, values=values, observed=observed)


def one_group(value):
    value = np.asarray(value, dtype=float)
    cells = ValueCells(np.array([0, len(value)]), np.zeros(len(value), dtype=int), value)
    return as_groups(cells)


@pytest.mark.parametrize(("value", "family"), [
    ([0, 1, 1, 0], Bernoulli()),
    ([1, 1], Bernoulli()),
    ([3, 5, 4, 3], Ordinal(5, start=1)),
    ([5, 7, 6], Ordinal(3, start=5)),
    ([-2, -1, 0], Ordinal(3, start=-2)),
    ([0, 3, 400, np.nan], RoundedStudentT()),
    ([1, 3, 400], RoundedStudentT(start=1)),
    ([7, 7], RoundedStudentT(start=1)),
    ([-1, 3, 400], StudentT()),
    ([0.5, 3, 400], StudentT()),
    ([0, 0, 0.5, 3, 400], ZeroInflated(LogStudentT())),
    ([0, 0, 0.4, 1], StudentT()),
    ([0, 1, 2, 3, 4, 5, 6, 7] * 2, RoundedStudentT()),
    ([0, 1, 2, 3, 4, 5, 6, 7] * 3, Ordinal(8)),
    ([0, 1, 2] * 2, Ordinal(3)),
    ([0, 0, 1, 0, 2, 1, 3, 0, 5, 1, 2], RoundedStudentT()),
    ([0, 0, 1, 0, 2, 1, 3, 0, 4, 1, 2], Ordinal(5)),
    ([1, 1, 2, 1, 3, 2, 4, 1, 6, 2, 3], Ordinal(6, start=1)),
    ([np.nan], StudentT()),
    # Values beyond an end that is rare may come; of few classes all are there.
    ([*range(-5, 5), *range(-4, 4)], StudentT()),
    ([*range(-5, 5)] * 3, Ordinal(10, start=-5)),
    ([*range(70, 80), *range(71, 79)], RoundedStudentT(start=1)),
])  # fmt: skip
def test_families_follow_from_values(value, family):
    assert auto_family(one_group(value), "y", ValueOptions()) == family


def test_values_with_two_peaks_have_a_histogram():
    cells, draw = drawn_cells(n_groups=400, share=0.8), np.random.default_rng(0)
    assert cells.n_cells > LEAST_FOR_BINS
    assert auto_family(as_groups(cells), "y", ValueOptions()) == StudentT()
    peaks = np.where(draw.random(cells.n_cells) < 0.5, -8.0, 8.0) + draw.normal(size=cells.n_cells)
    family = auto_family(as_groups(cells.with_value(peaks)), "y", ValueOptions())
    assert isinstance(family, Histogram) and family.n_params == 40
    alike = cells.with_value(np.where(np.arange(cells.n_cells) % 50 == 0, 0.5, 0.25))
    assert not isinstance(auto_family(as_groups(alike), "y", ValueOptions()), Histogram)


def test_families_are_compared_where_values_allow_several():
    draw = np.random.default_rng(0)
    level = draw.normal(size=(200, 1)) + np.linspace(0, 2, 6)
    of_counts = 0.7 * draw.normal(size=(400, 1)) + np.linspace(0, 1, 6)
    for value, family in (
        (np.exp(level + 0.5 * draw.normal(size=level.shape)), LogStudentT()),
        (draw.gamma(1.0, np.exp(level)), Gamma()),
        (100 + level + draw.normal(size=level.shape), StudentT()),
        (draw.poisson(np.exp(of_counts + 1)), NegativeBinomial()),
        # Of few values one with fewer numbers.
        (draw.poisson(np.exp(of_counts[200:230] + 1)), NegativeBinomial()),
        (draw.poisson(np.exp(0.5 * of_counts - 0.5)), RoundedStudentT()),
        (
            draw.poisson(np.exp(level[:80] + 1)) * (draw.random((80, 6)) < 0.6),
            ZeroInflated(NegativeBinomial()),
        ),
    ):
        n = len(value)
        cells = ValueCells(6 * np.arange(n + 1), np.tile(np.arange(6), n), value.ravel() * 1.0)
        assert auto_family(as_groups(cells), "y", ValueOptions()) == family


def test_skewed_numbers_of_either_sign_are_bent():
    draw = np.random.default_rng(0)
    level = 1.5 * draw.normal(size=(60, 1)) + np.linspace(0, 3, 6)
    for value, family in (
        (np.sinh(level + 0.5 * draw.normal(size=level.shape)), SinhStudentT),
        (level + draw.normal(size=level.shape), StudentT),
    ):
        cells = ValueCells(6 * np.arange(61), np.tile(np.arange(6), 60), value.ravel())
        assert isinstance(auto_family(as_groups(cells), "y", ValueOptions()), family)


@pytest.mark.parametrize("family", [Hurdle(Poisson()), ZeroInflated(Gamma())], ids=str)
def test_how_likely_zeros_are_depends_on_the_item_and_on_the_groups_others(family):
    draw, n = np.random.default_rng(0), 80
    is_zero = draw.random((n, 6)) < np.linspace(0.1, 0.6, 6) + 0.2 * draw.choice([-1, 1], (n, 1))
    value = np.where(is_zero, 0.0, 1.0 + draw.poisson(4.0, (n, 6)))
    cells = ValueCells(6 * np.arange(n + 1), np.tile(np.arange(6), n), value.ravel())
    base = fit_values(cells, 6, family, ValueOptions(rank=0))
    weight = base.eta(cells)[:, -1].reshape(n, 6).mean(0)
    assert weight[5] > weight[0] + 1
    others = np.where(np.arange(6) < 5, [[0.0], [5.0]], 4.0).ravel()
    pair = base.eta(ValueCells(np.array([0, 6, 12]), np.tile(np.arange(6), 2), others))
    assert pair[5, -1] > pair[11, -1]
    assert torch.isfinite(base.eta(cells)).all()
