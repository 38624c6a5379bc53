"""Heads of values: parameters of families, blind to the own value, scaled as values are scaled."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from efa_values.simulated_values import drawn_cells, without_own
from exfam.checks import DataError, ExfamError, SupportError
from exfam.efa.values.cells import UNSEEN, ValueCells, value_cells
from exfam.efa.values.class_tables import Counted
from exfam.efa.values.head_counts import with_atoms
from exfam.efa.values.head_numbers import head_inputs
from exfam.efa.values.heads import head_of
from exfam.efa.values.values_base import (
    ValueOptions,
    fit_and_keep,
    fit_values,
    log_prob_of_values,
    refitted,
    restored_base,
)
from exfam.efa.values.working_scale import WorkingScale, working_scale
from exfam.families import (
    Bernoulli,
    Binomial,
    Categorical,
    Censored,
    Discretized,
    Exponential,
    Gamma,
    Gaussian,
    Histogram,
    Hurdle,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    RoundedStudentT,
    SinhStudentT,
    StudentT,
    Truncated,
    Tweedie,
    Weibull,
    ZeroInflated,
)
from exfam.groups import Groups

N_ITEMS = 12
FAMILIES = {
    "gaussian": Gaussian(),
    "gaussian-of-one-scale": Gaussian(scale=0.6),
    "student-t": StudentT(),
    "student-t-of-4": StudentT(df=4.0),
    "sinh-student-t": SinhStudentT(bend=0.5),
    "histogram": Histogram((-1.0, -0.4, 0.1, 0.7, 1.5)),
    "gamma": Gamma(),
    "exponential": Exponential(),
    "gamma-within": Truncated(Gamma(), lower=0.3),
    "weibull": Weibull(),
    "weibull-cut-off": Censored(Weibull(), upper=6.0),
    "tweedie": Tweedie(),
    "zeros-and-gamma": Hurdle(Gamma()),
    "zeros-and-poisson": ZeroInflated(Poisson()),
    "poisson-smooth": Discretized(LogNormal(), start=0.0),
    "poisson": Poisson(),
    "poisson-above-1": Poisson(link="one-plus-exp"),
    "poisson-from-1": Poisson(shift=1),
    "negative-binomial": NegativeBinomial(),
    "rounded-student-t": RoundedStudentT(),
    "rounded-student-t-from-1": RoundedStudentT(start=1),
    "ordinal": Ordinal(5, start=1),
    "categorical": Categorical(5, start=1),
    "bernoulli": Bernoulli(),
    "binomial": Binomial(10),
    "binomial-of-many": Binomial(100),
}


def values_for(name, cells):
    """Values that the family supports."""
    z = (cells.value - cells.value.mean()) / cells.value.std()
    if name in ("ordinal", "categorical"):
        return np.clip(np.round(z) + 3, 1, 5)
    if name == "bernoulli":
        return (z > 0) * 1.0
    if name.startswith("binomial"):
        return np.clip(np.round(2 * z) + 5, 0, 10)
    if name.startswith(("poisson", "negative", "rounded")):
        return np.floor(np.exp(0.7 * z + 1.0)) + name.endswith("from-1")
    if name == "beta":
        return 1 / (1 + np.exp(-z))
    if name == "zeros-and-poisson":
        return np.floor(np.exp(0.7 * z + 1.0)) * (np.arange(len(z)) % 5 > 0)
    if name in ("exponential", "tweedie", "zeros-and-gamma"):  # with zeros
        return np.where(z < z.min() + 0.3, 0.0, np.exp(z))
    if name == "gamma-within":
        return np.exp(z).clip(min=0.3)
    if name == "weibull-cut-off":
        return np.exp(z).clip(max=6.0)
    return np.exp(z) if name.startswith(("log", "gamma", "weibull")) else z


@cache
def fitted(name, **options):
    every = drawn_cells(n_groups=86)
    every = every.with_value(values_for(name, every))
    options = ValueOptions(rank=2, ordered=True, **options)
    base = fit_values(every.take(np.arange(80)), N_ITEMS, FAMILIES[name], options)
    new = every.take(np.arange(80, 86))
    item = new.item.copy()
    item[2] = UNSEEN
    return base, ValueCells(new.offset, item, new.value)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_base_predicts_all_values_and_is_ahead_of_their_margin(name):
    base, cells = fitted(name)
    found = log_prob_of_values(base, cells)
    assert np.isfinite(found).all()
    family, value = base.family, torch.from_numpy(cells.value)
    alone = family.log_prob(value, family.initial_eta(value)).numpy()
    assert found.mean() > alone.mean()
    gaps = without_own(cells, 4, np.nan)
    missing = log_prob_of_values(base, gaps)
    assert np.isnan(missing[4]) and np.isfinite(np.delete(missing, 4)).all()
    torch.testing.assert_close(base.eta(gaps)[4], base.eta(cells)[4], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_own_value_and_later_ones_change_nothing(name, causal):
    base, cells = fitted(name, causal=True) if causal else fitted(name)
    before, cell = base.eta(cells), 3
    other = cells.value[np.flatnonzero(cells.value != cells.value[cell])[0]]
    after = base.eta(without_own(cells, cell, other))
    seen = np.arange(cells.n_cells) <= cell if causal else np.arange(cells.n_cells) == cell
    torch.testing.assert_close(after[seen], before[seen], atol=1e-10, rtol=1e-10)
    assert (after[~seen] != before[~seen]).any()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_base_comes_back_from_plain_values(name):
    base, cells = fitted(name)
    again = restored_base(json.loads(json.dumps(base.config())), base.arrays())
    torch.testing.assert_close(again.eta(cells), base.eta(cells), rtol=0, atol=0)
    assert again.family == base.family and again.rank == base.rank


@pytest.mark.parametrize("name", FAMILIES)
def test_no_change_is_no_change_and_any_other_one_counts(name):
    base, cells = fitted(name)
    eta = base.eta(cells)
    change = eta.new_zeros(len(eta), base.head.n_changes)
    torch.testing.assert_close(base.head.changed(eta, change), eta, rtol=0, atol=0)
    for output in range(base.head.n_changes):
        other = change.clone()
        other[:, output] = 0.3
        value = torch.from_numpy(cells.value)
        moved = base.family.log_prob(value, base.head.changed(eta, other))
        assert (moved != base.family.log_prob(value, eta)).any()


def test_blocks_of_groups_change_nothing():
    base, cells = fitted("rounded-student-t")
    whole = log_prob_of_values(base, cells)
    for block in (1, 13, 10**6):
        found = log_prob_of_values(base, cells, block=block)
        np.testing.assert_allclose(found, whole, atol=1e-12)
    assert log_prob_of_values(base, cells.take(np.arange(0))).shape == (0,)


def test_many_cells_are_held_out_once(monkeypatch):
    """With limits that are low, as with very many cells: one fold, a rank by a sample."""
    every = drawn_cells(n_groups=350)
    cells, new = every.take(np.arange(300)), every.take(np.arange(300, 350))
    plain = fit_values(cells, N_ITEMS, StudentT(), ValueOptions())
    for name, limit in (("MOST_IN_FOLDS", 900), ("HELD_OUT", 800), ("MOST_FOR_RANK", 1500)):
        monkeypatch.setattr(f"exfam.efa.values.cross_fit.{name}", limit)
    monkeypatch.setattr("exfam.efa.values.values_base.MOST_FOR_HEAD", 700)
    base = fit_values(cells, N_ITEMS, StudentT(), ValueOptions())
    one, other = (log_prob_of_values(fit, new).mean() for fit in (plain, base))
    assert one != other and abs(one - other) < 0.05
    assert {base.rank, plain.rank} <= {4, 8}


def test_kept_features_are_those_of_models_without_the_group():
    cells = drawn_cells(n_groups=8)
    value = cells.value.copy()
    value[5] = np.nan
    cells = cells.with_value(value)
    base, kept = fit_and_keep(cells, N_ITEMS, StudentT(), ValueOptions(rank=2))
    assert sorted(kept.cells.tolist()) == np.flatnonzero(cells.observed).tolist()
    own = base.features(cells).take(kept.cells)
    assert np.abs(kept.features.mean - own.mean).max() > 0.05
    np.testing.assert_array_equal(kept.features.n_context, own.n_context)


def test_a_base_of_more_groups_has_the_same_numbers_of_its_head():
    cells, new = drawn_cells(n_groups=80), drawn_cells(n_groups=40, seed=3)
    base = fit_values(cells, N_ITEMS, StudentT(), ValueOptions(rank=2))
    again = refitted(base, new)
    np.testing.assert_array_equal(again.numbers, base.numbers)
    assert again.working == base.working and not np.allclose(again.model.level, base.model.level)
    torch.testing.assert_close(refitted(again, cells).eta(new), base.eta(new), rtol=0, atol=0)


def test_a_base_of_more_groups_has_the_same_prior():
    cells = drawn_cells(n_groups=80)
    base = fit_values(cells, N_ITEMS, StudentT(), ValueOptions(rank=4))
    other = refitted(replace(base, prior_items=100.0), cells)
    again = restored_base(json.loads(json.dumps(other.config())), other.arrays())
    torch.testing.assert_close(refitted(again, cells).eta(cells), other.eta(cells), rtol=0, atol=0)
    assert not np.allclose(other.model.loading, base.model.loading)


def test_far_out_a_scale_is_that_of_the_outermost_usual_means():
    _, cells = fitted("gaussian")
    features = fitted("gaussian")[0].features(cells)
    at = [head_inputs(replace(features, mean=features.mean * 0 + mean)) for mean in (2.5, 20.0)]
    torch.testing.assert_close(at[0].scale, at[1].scale, rtol=0, atol=0)
    assert (at[0].location != at[1].location).any()


def test_few_values_make_no_others_certain():
    """Of a light tail, where one value that is missed would cost more than all gains."""
    cells = drawn_cells(n_groups=300)
    standard = cells.with_value((cells.value - cells.value.mean()) / cells.value.std())
    few, new = standard.take(np.arange(20)), standard.take(np.arange(20, 300))
    both = [fit_values(few, N_ITEMS, Gaussian(), ValueOptions(rank=rank)) for rank in (4, 0)]
    nats = [log_prob_of_values(base, new) for base in both]
    assert nats[0].mean() > nats[1].mean() and nats[0].min() > -20


def test_common_counts_have_atoms():
    value = np.repeat([0.0, 6.0, 7.0, 24.0, np.nan], [3, 9, 1, 4, 2])
    assert with_atoms(RoundedStudentT(), value).atoms == (0, 6, 24)
    assert with_atoms(RoundedStudentT(), value, most=2).atoms == (6, 24)
    assert with_atoms(RoundedStudentT(atoms=(1,)), value).atoms == (1,)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("name", ["student-t", "gaussian"])
def test_scaled_values_have_scaled_densities(name, factor):
    shift = 0.0 if name.startswith("log") else 5.0 * factor
    cells = drawn_cells(n_groups=86)
    cells = cells.with_value(values_for(name, cells)).take(np.arange(80))
    base, new = fitted(name)
    plain = log_prob_of_values(base, new)
    options = ValueOptions(rank=2, ordered=True)
    moved = cells.with_value(factor * cells.value + shift)
    scaled = fit_values(moved, N_ITEMS, FAMILIES[name], options)
    found = log_prob_of_values(scaled, new.with_value(factor * new.value + shift))
    # L-BFGS repeats its steps but for rounding, which it may widen.
    np.testing.assert_allclose(found + np.log(factor), plain, atol=1e-6)


@pytest.mark.parametrize(("name", "value", "rule"), [
    ("ordinal", 6.0, "an integer from 1 to 5"),
    ("bernoulli", 0.5, "0 or 1"),
    ("binomial", 11.0, "an integer from 0 to 10"),
    ("rounded-student-t", -1.0, "an integer >= 0"),
    ("gamma", 0.0, "a finite number > 0"),
])  # fmt: skip
def test_values_outside_the_support_are_refused(name, value, rule):
    cells = drawn_cells()
    cells = cells.with_value(values_for(name, cells))
    wrong = without_own(cells, 7, value)
    with pytest.raises(SupportError, match=f"`value` must be {rule} for .*, got {value:g} "):
        fit_values(wrong, N_ITEMS, FAMILIES[name], ValueOptions())


def test_families_that_no_head_knows_are_refused():
    of_items = PerItem({0: Gaussian()}, default=Poisson())
    for family in [of_items, Categorical(65), Histogram(tuple(map(float, range(70))))]:
        assert head_of(family) is None
    with pytest.raises(ExfamError, match="`family` must be one that a base of values knows, got"):
        fit_values(drawn_cells(), N_ITEMS, of_items, ValueOptions())


@pytest.mark.parametrize("name", ["student-t", "rounded-student-t", "poisson"])
def test_cells_without_any_value_are_refused(name):
    cells = drawn_cells()
    nothing = cells.with_value(np.full(cells.n_cells, np.nan))
    with pytest.raises(DataError, match="`value` must have a number for some cell, got none"):
        fit_values(nothing, N_ITEMS, FAMILIES[name], ValueOptions())


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


def test_values_and_bins_are_counted():
    value = np.array([0.0, 1.0, 1.5, 4.0, np.nan, 9.0])
    assert Counted((0.0, 1.0, 4.0), 1.0).index(value).tolist() == [0, 1, -1, 2, -1, -1]
    bins = Counted((0.0, 1.0, 4.0), 1.0, are_edges=True)
    assert bins.n == 4 and bins.index(value).tolist() == [0, 1, 2, 2, -1, 3]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["negative-binomial", "rounded-student-t", "gamma"])
def test_amounts_are_sums_of_the_others_and_move_locations(name, causal):
    cells = drawn_cells(n_groups=30)
    cells = cells.with_value(values_for(name, cells))
    options = ValueOptions(rank=0, causal=causal)
    base = fit_values(cells, N_ITEMS, FAMILIES[name], options)
    amounts, mean = base.features(cells).amounts, base.model.amount[cells.item]
    np.testing.assert_array_equal(amounts[:, 0], mean)
    for group in range(3):
        own = np.arange(cells.offset[group], cells.offset[group + 1])
        for cell in own:
            others = own[own < cell] if causal else own[own != cell]
            np.testing.assert_allclose(
                amounts[cell, 1:], [cells.value[others].sum(), mean[others].sum()]
            )
    assert np.abs(base.numbers[-3:-1]).max() > 1e-3
    still = base.numbers.copy()
    still[-3:-1] = 0.0
    assert not torch.allclose(base.eta(cells), replace(base, numbers=still).eta(cells))


def test_cells_of_groups_leave_out_what_is_not_observed():
    groups = Groups(
        start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1], values={"y": [1.0, 2.0, 3.0, 4.0, 5.0]},
        observed=[True, True, False, True, True],
    )  # fmt: skip
    cells = value_cells(groups[[1]], "y")
    assert cells.offset.tolist() == [0, 3] and cells.item.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(cells.value, [np.nan, 4.0, 5.0])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("shape", ["one value", "equal values", "single values", "far out"])
def test_odd_groups_are_fitted(name, shape):
    """Warnings are errors here, too."""
    cells = drawn_cells(n_groups=30)
    value = values_for(name, cells)
    if shape == "one value":
        cells, value = ValueCells(np.array([0, 0, 1]), np.zeros(1, int), value[:1]), value[:1]
    elif shape == "equal values":
        value = np.full_like(value, value[0])
    elif shape == "single values":
        cells = ValueCells(np.arange(31), np.arange(30) % N_ITEMS, value[:30])
        value = value[:30]
    elif FAMILIES[name].in_support(torch.tensor(1e9)):
        value[[7, 90]] = 1e9
    cells = cells.with_value(value)
    base = fit_values(cells, N_ITEMS, FAMILIES[name], ValueOptions(rank=2, ordered=True))
    assert np.isfinite(log_prob_of_values(base, cells)).all()
