"""Heads of values: whole distributions, blind to the own value, scaled as values are scaled."""

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad

from efa_values.simulated_values import drawn_cells, without_own
from exfam.checks import DataError
from exfam.efa.values.cells import UNSEEN, ValueCells, value_cells
from exfam.efa.values.count_tables import count_others
from exfam.efa.values.heads import HEADS, TRANSFORM, HeadOptions
from exfam.efa.values.values_base import (
    ValueOptions,
    fit_values,
    log_prob_of_values,
    predict_values,
)
from exfam.efa.values.working_scale import WorkingScale, working_scale
from exfam.families.bin_mass import log_bin_mass
from exfam.groups import Groups

WHOLE = {"counts", "poisson", "negative-binomial", "binomial", "classes", "bernoulli"}
CONTINUOUS = [kind for kind in HEADS if kind not in WHOLE]
N_ITEMS = 12


def values_for(kind, cells):
    """Values that a head of this kind supports."""
    z = (cells.value - cells.value.mean()) / cells.value.std()
    if kind == "classes":
        return np.clip(np.round(z) + 3, 1, 5)
    if kind == "bernoulli":
        return (z > 0) * 1.0
    if kind == "binomial":
        return np.clip(np.round(2 * z) + 5, 0, 10)
    if kind in WHOLE:
        return np.floor(np.exp(0.7 * z + 1.0))
    return {"identity": z, "log": np.exp(z), "logit": 1 / (1 + np.exp(-z))}[TRANSFORM[kind]]


def options(kind, **changes):
    head = HeadOptions(kind=kind, classes=(1.0, 5), trials=10)
    return ValueOptions(head=head, rank=2, **changes)


def fitted(kind, causal=False):
    cells = drawn_cells(n_groups=80)
    cells = cells.with_value(values_for(kind, cells))
    base = fit_values(cells, N_ITEMS, options(kind, causal=causal, ordered=True))
    new = drawn_cells(n_groups=6, seed=9)
    new = new.with_value(values_for(kind, new))
    item = new.item.copy()
    item[2] = UNSEEN
    return base, ValueCells(new.offset, item, new.value)


BASES = {kind: fitted(kind) for kind in HEADS}


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_is_better_than_the_marginal_of_items_and_predicts_all(kind):
    base, cells = BASES[kind]
    prediction = predict_values(base, cells)
    assert np.isfinite(prediction.log_prob(cells.value)).all()
    gaps = without_own(cells, 4, np.nan)
    missing = predict_values(base, gaps)
    found = missing.log_prob(gaps.value)
    assert np.isnan(found[4]) and np.isfinite(np.delete(found, 4)).all()
    np.testing.assert_allclose(
        missing.cdf(cells.value)[4], prediction.cdf(cells.value)[4], atol=1e-9
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", HEADS)
def test_the_own_value_and_later_ones_change_nothing(kind, causal):
    base, cells = BASES[kind] if not causal else fitted(kind, causal=True)
    before = predict_values(base, cells)
    cell = 3
    other = cells.value[np.flatnonzero(cells.value != cells.value[cell])[0]]
    after = predict_values(base, without_own(cells, cell, other))
    at = cells.value
    seen = np.arange(cells.n_cells) <= cell if causal else np.arange(cells.n_cells) == cell
    np.testing.assert_allclose(after.log_prob(at)[seen], before.log_prob(at)[seen], atol=1e-10)
    np.testing.assert_allclose(after.cdf(at)[seen], before.cdf(at)[seen], atol=1e-10)
    assert (after.cdf(at)[~seen] != before.cdf(at)[~seen]).any()


def at(prediction_of, value, n_cells):
    return prediction_of(np.full(n_cells, float(value)))


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_probabilities_sum_to_one(kind):
    base, cells = BASES[kind]
    prediction, n = predict_values(base, cells), cells.n_cells
    low = {"classes": 1.0}.get(kind, base.options.head.start or 0.0)
    top = {"classes": 5, "bernoulli": 1, "binomial": 10}.get(kind, 3_000)
    total = np.zeros(n)
    for value in np.arange(low, top + 1):
        total += np.exp(at(prediction.log_prob, value, n))
        if value < low + 30:
            np.testing.assert_allclose(at(prediction.cdf, value, n), total, atol=1e-9)
    np.testing.assert_allclose(total + 1 - at(prediction.cdf, top, n), 1.0, atol=1e-6)
    np.testing.assert_allclose(total, at(prediction.cdf, top, n), atol=1e-6)
    assert (at(prediction.cdf, low - 1, n) == 0).all()


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_densities_integrate_to_the_cdf(kind):
    base, cells = BASES[kind]
    prediction, n = predict_values(base, cells), cells.n_cells
    low, high = (prediction.quantile(np.full(n, p)) for p in (0.02, 0.99))
    for cell in (0, 2, n - 1):
        area = quad(
            lambda y, j=cell: np.exp(at(prediction.log_prob, y, n)[j]), low[cell], high[cell]
        )
        assert abs(area[0] - 0.97) < 1e-6


@pytest.mark.parametrize("kind", HEADS)
def test_quantiles_invert_and_samples_follow_the_cdf(kind):
    base, cells = BASES[kind]
    prediction, n = predict_values(base, cells), cells.n_cells
    for p in (0.05, 0.5, 0.9):
        found = prediction.quantile(np.full(n, p))
        reached = prediction.cdf(found)
        if kind in WHOLE:
            assert (reached >= p - 1e-9).all() and (prediction.cdf(found - 1) < p + 1e-9).all()
        else:
            np.testing.assert_allclose(reached, p, atol=1e-8)
    draw = np.random.default_rng(0)
    drawn = np.stack([prediction.sample(draw) for _ in range(400)])
    middle = prediction.quantile(np.full(n, 0.5))
    share, expected = (drawn <= middle).mean(0), prediction.cdf(middle)
    assert np.abs(share - expected).max() < 5 * 0.5 / 20
    if kind not in {"counts", "log-student"}:
        mean, sd = prediction.mean(), np.sqrt(prediction.variance())
        assert np.abs((drawn.mean(0) - mean) / sd).max() < 5 / 20 + 0.1


@pytest.mark.parametrize("kind", ["counts", "log-student"])
def test_an_exponential_of_t_has_no_variance(kind):
    base, cells = BASES[kind]
    prediction = predict_values(base, cells)
    assert np.isinf(prediction.variance()).all() and not np.isfinite(prediction.mean()).any()


def test_blocks_of_groups_change_nothing():
    base, cells = BASES["counts"]
    whole = predict_values(base, cells).log_prob(cells.value)
    for block in (1, 13, 10**6):
        found = log_prob_of_values(base, cells, block=block)
        np.testing.assert_allclose(found, whole, atol=1e-12)
    assert log_prob_of_values(base, cells.take(np.arange(0))).shape == (0,)


def test_many_cells_are_held_out_once(monkeypatch):
    """With limits that are low, as with very many cells: one fold, a rank by a sample."""
    every = drawn_cells(n_groups=350)
    cells, new = every.take(np.arange(300)), every.take(np.arange(300, 350))
    plain = fit_values(cells, N_ITEMS, ValueOptions())
    for name, limit in (("MOST_IN_FOLDS", 900), ("HELD_OUT", 800), ("MOST_FOR_RANK", 1500)):
        monkeypatch.setattr(f"exfam.efa.values.cross_fit.{name}", limit)
    monkeypatch.setattr("exfam.efa.values.values_base.MOST_FOR_HEAD", 700)
    base = fit_values(cells, N_ITEMS, ValueOptions())
    one, other = (log_prob_of_values(fit, new).mean() for fit in (plain, base))
    assert one != other and abs(one - other) < 0.05 and base.rank == plain.rank == 4


def test_log_means_of_counts_are_those_of_samples():
    base, cells = BASES["counts"]
    prediction, draw = predict_values(base, cells), np.random.default_rng(1)
    logs = np.log1p(np.stack([prediction.sample(draw) for _ in range(600)]))
    error = (logs.mean(0) - prediction.mean_log1p()) / (logs.std(0) / np.sqrt(600))
    assert np.abs(error).max() < 5
    assert (prediction.median() == prediction.quantile(np.full(cells.n_cells, 0.5))).all()


@pytest.mark.parametrize("factor", [1e-8, 1e-3, 1e10])
@pytest.mark.parametrize("kind", ["real", "gaussian", "log-student", "log-normal", "gamma"])
def test_scaled_values_have_scaled_densities(kind, factor):
    shift = 5.0 * factor if TRANSFORM[kind] == "identity" else 0.0
    cells = drawn_cells(n_groups=80)
    cells = cells.with_value(values_for(kind, cells))
    base, new = BASES[kind]
    plain = predict_values(base, new).log_prob(new.value)
    scaled = fit_values(
        cells.with_value(factor * cells.value + shift), N_ITEMS, options(kind, ordered=True)
    )
    moved = new.with_value(factor * new.value + shift)
    found = predict_values(scaled, moved).log_prob(moved.value)
    # L-BFGS repeats its steps but for rounding, which it may widen.
    np.testing.assert_allclose(found + np.log(factor), plain, atol=1e-8)


@pytest.mark.parametrize(("kind", "value", "rule"), [
    ("classes", 6.0, "a whole number from 1 to 5"),
    ("bernoulli", 0.5, "a whole number from 0 to 1"),
    ("binomial", 11.0, "a whole number from 0 to 10"),
    ("counts", -1.0, "a whole number from 0 on"),
    ("gamma", 0.0, "a number > 0"),
    ("beta", 1.0, "between 0 and 1"),
])  # fmt: skip
def test_values_outside_the_support_are_refused(kind, value, rule):
    cells = drawn_cells()
    cells = cells.with_value(values_for(kind, cells))
    wrong = without_own(cells, 7, value)
    with pytest.raises(DataError, match=f"`value` must be {rule} for the head '{kind}', got"):
        fit_values(wrong, N_ITEMS, options(kind))


@pytest.mark.parametrize("kind", ["real", "counts", "poisson"])
def test_cells_without_any_value_are_refused(kind):
    cells = drawn_cells()
    nothing = cells.with_value(np.full(cells.n_cells, np.nan))
    with pytest.raises(DataError, match="`value` must have a number for some cell, got none"):
        fit_values(nothing, N_ITEMS, options(kind))


def test_values_without_a_scale_are_refused():
    with pytest.raises(DataError, match="`value` must have a number for some cell, got none"):
        working_scale(np.array([np.nan]))
    with (
        np.errstate(divide="ignore"),
        pytest.raises(DataError, match="`value` must have a finite log, got"),
    ):
        working_scale(np.array([1.0, 0.0]), transform="log")


def test_equal_values_have_a_scale_of_one():
    assert working_scale(np.full(9, 1e9)) == WorkingScale("identity", 0.0, 1e9, 1.0)


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


def test_others_are_counted_one_by_one():
    cells = ValueCells(np.array([0, 4]), np.zeros(4, int), np.array([1.0, 2.0, 2.0, 5.0]))
    for causal, equal, expected in (
        (False, True, [0, 1, 1, 0]),
        (True, True, [0, 0, 1, 0]),
        (False, False, [0, 2, 2, 3]),
        (True, False, [0, 1, 2, 3]),
    ):
        found = count_others(cells, cells.value, causal=causal, equal=equal)
        assert found.tolist() == expected


def test_cells_of_groups_leave_out_what_is_not_observed():
    groups = Groups(
        start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1], values={"y": [1.0, 2.0, 3.0, 4.0, 5.0]},
        observed=[True, True, False, True, True],
    )  # fmt: skip
    cells = value_cells(groups[[1]], "y")
    assert cells.offset.tolist() == [0, 3] and cells.item.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(cells.value, [np.nan, 4.0, 5.0])
