"""Values of groups without any other, and counts that are equal by chance."""

import numpy as np
import pytest
import torch
from scipy import stats

from efa_values.simulated_values import drawn_cells
from exfam.efa.values.cells import ValueCells
from exfam.efa.values.head_counts import CountHead
from exfam.efa.values.values_base import ValueOptions, fit_values, log_prob_of_values
from exfam.families import Family, LogStudentT, Ordinal, RoundedStudentT, StudentT

N_ITEMS, LENGTH = 10, 7


def of_equal_groups(n_groups, *, seed, map_value=lambda value: value):
    """Groups of seven items, each with a level of its own."""
    draw = np.random.default_rng(seed)
    level = np.linspace(-1.5, 1.5, N_ITEMS)
    item = np.array([draw.permutation(N_ITEMS)[:LENGTH] for _ in range(n_groups)])
    value = level[item] + 0.8 * draw.normal(size=(n_groups, 1)) + draw.normal(size=item.shape)
    offset = LENGTH * np.arange(n_groups + 1)
    return ValueCells(offset, item.ravel(), map_value(value).ravel())


@pytest.mark.parametrize(("family", "map_value"), [
    (StudentT(), lambda value: value),
    (LogStudentT(), np.exp),
    (Ordinal(5, start=1), lambda value: np.clip(np.rint(3 + value), 1, 5)),
], ids=["real", "amount", "class"])  # fmt: skip
def test_what_is_known_without_other_values_is_the_items_law(family, map_value):
    cells = of_equal_groups(150, seed=0, map_value=map_value)
    new = of_equal_groups(150, seed=1, map_value=map_value)
    base = fit_values(cells, N_ITEMS, family, ValueOptions(rank=0))
    alone = log_prob_of_values(base, new.alone(np.arange(new.n_cells)))
    own = cells.item == new.item[:, None]
    if isinstance(family, Ordinal):
        shares = [(own & (cells.value == k)).sum(1) + 0.5 for k in range(1, 6)]
        chosen = new.value.astype(int) - 1
        of_items = np.log(np.choose(chosen, shares) / np.sum(shares, 0))
    else:
        unit = np.log if family == LogStudentT() else np.asarray
        at = np.array([unit(cells.value[mine]) for mine in own], dtype=object)
        mean, sd = (np.array([f(one) for one in at], dtype=float) for f in (np.mean, np.std))
        of_items = stats.norm.logpdf(unit(new.value), mean, sd)
        of_items -= np.log(new.value) if family == LogStudentT() else 0.0
    assert alone.mean() > of_items.mean() - 0.02
    assert log_prob_of_values(base, new).mean() > alone.mean() + 0.1


def test_cells_that_are_alone_have_no_context():
    cells = drawn_cells(n_groups=5)
    alone = cells.alone(np.array([3, 0]))
    assert alone.n_groups == alone.n_cells == 2
    np.testing.assert_array_equal(alone.value, cells.value[[3, 0]])
    base = fit_values(cells, 12, StudentT(), ValueOptions())
    np.testing.assert_array_equal(base.features(alone).n_context, 0.0)


def of_counts(n_groups, *, seed):
    """Counts all over some hundreds: those that are equal are so by chance."""
    draw = np.random.default_rng(seed)
    value = np.rint(np.exp(draw.normal(5.0, 1.0, 4 * n_groups))) + 1
    return ValueCells(4 * np.arange(n_groups + 1), np.zeros(len(value), dtype=int), value)


def test_counts_that_are_equal_by_chance_are_no_likelier_than_others():
    train, new = of_counts(40, seed=0), of_counts(500, seed=1)
    found = {}
    for name, family in (("chosen", RoundedStudentT(start=1)), ("smooth", LogStudentT())):
        base = fit_values(train, 1, family, ValueOptions(rank=0))
        found[name] = log_prob_of_values(base, new).mean()
    assert found["chosen"] > found["smooth"] - 0.05


def test_counts_that_are_named_keep_their_weight():
    draw = np.random.default_rng(0)
    many = np.rint(np.exp(draw.normal(5.0, 1.0, 118))) + 400
    value = np.append(many, [7.0, 7.0])
    cells = ValueCells(2 * np.arange(61), np.zeros(120, dtype=int), draw.permutation(value))

    def weight(family: Family) -> float:
        base = fit_values(cells, 1, family, ValueOptions(rank=0))
        assert isinstance(base.head, CountHead)
        mass = base.family.log_prob(torch.full((120,), 7.0), base.eta(cells)).exp()
        return float(mass.mean())

    assert weight(RoundedStudentT(start=1, atoms=(7,))) > 2 * weight(RoundedStudentT(start=1))
