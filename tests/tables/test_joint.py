"""Log-probabilities of whole rows against joint distributions that are known."""

import itertools

import numpy as np
import pytest
import scipy.stats

from exfam.checks import DataError
from exfam.tables.answers.distributions import (
    cell_log_prob,
    chain_log_prob,
    column_distributions,
    pseudo_log_likelihood,
    pseudo_terms,
)
from table_model_cases import (
    Ensemble,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
)


def known_log_prob(model, cells):
    """Log of the joint distribution of the present cells of each row."""
    if hasattr(model, "probs"):
        out = []
        for code in cells.code:
            marginal = model.probs.sum(tuple(np.flatnonzero(code < 0)))
            out.append(np.log(marginal[tuple(code[code >= 0])]))
        return np.array(out)
    out = []
    for value in cells.value:
        at = np.flatnonzero(~np.isnan(value))
        if not len(at):
            out.append(0.0)
            continue
        distribution = scipy.stats.multivariate_normal(model.mean[at], model.cov[np.ix_(at, at)])
        out.append(distribution.logpdf(value[at]))
    return np.array(out)


CASES = {
    "discrete": (discrete_joint(), discrete_rows(discrete_joint(), 60)),
    "gaussian": (gaussian_joint(), gaussian_rows(gaussian_joint(), 60)),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.parametrize("dropped", [False, True])
def test_the_chain_gives_the_joint_distribution_in_any_order(case, dropped):
    model, cells = case
    cells = drop_cells(cells) if dropped else cells
    truth = known_log_prob(model, cells)
    assert len(np.unique(truth)) > 5
    for order in [None, *itertools.permutations(model.schema.names)]:
        np.testing.assert_allclose(chain_log_prob(model, cells, order=order), truth, atol=1e-10)


def test_columns_not_named_are_marginalized(case):
    model, cells = case
    some = model.schema.names[2], model.schema.names[0]
    np.testing.assert_allclose(
        chain_log_prob(model, cells, order=some),
        known_log_prob(model, cells.hide([1, *range(3, len(model.schema))])),
        atol=1e-10,
    )


def test_given_columns_are_context_alone(case):
    model, cells = case
    names = model.schema.names
    conditional = chain_log_prob(model, cells, order=names[1:], given=names[:1])
    whole, first = chain_log_prob(model, cells), chain_log_prob(model, cells, order=names[:1])
    np.testing.assert_allclose(conditional, whole - first)


def test_without_one_joint_distribution_the_order_matters():
    model = discrete_joint(heat=1.7)
    cells = discrete_rows(model, 60)
    gap = chain_log_prob(model, cells) - chain_log_prob(model, cells, order=["c", "b", "a"])
    assert np.abs(gap).max() > 0.1


def test_pseudo_log_likelihood_sums_leave_one_out_terms(case):
    model, cells = case
    cells = drop_cells(cells)
    parts = pseudo_terms(model, cells)
    whole = known_log_prob(model, cells)
    for j in range(len(model.schema)):
        present = cells.present[:, j]
        expected = (whole - known_log_prob(model, cells.hide([j])))[present]
        np.testing.assert_allclose(parts[present, j], expected, atol=1e-10)
        assert np.isnan(parts[~present, j]).all() and not present.all()
    np.testing.assert_allclose(pseudo_log_likelihood(model, cells), np.nansum(parts, 1))


def test_a_row_without_cells_has_probability_one(case):
    model, cells = case
    empty = cells[:3].hide(range(len(model.schema)))
    assert chain_log_prob(model, empty).tolist() == [0.0] * 3
    assert pseudo_log_likelihood(model, empty).tolist() == [0.0] * 3
    assert chain_log_prob(model, cells[:0]).shape == (0,)


def test_members_of_an_ensemble_are_averaged():
    model = Ensemble((discrete_joint(seed=0), discrete_joint(seed=7)))
    cells = discrete_rows(discrete_joint(), 20)
    each = [cell_log_prob(member, cells, ["b"]) for member in model.members]
    assert np.abs(each[0] - each[1]).max() > 0.1
    np.testing.assert_allclose(
        cell_log_prob(model, cells, ["b"]), np.log(np.mean(np.exp(each), axis=0))
    )
    distributions = column_distributions(model, cells, ["b", "a"])
    assert list(distributions) == ["b", "a"] and distributions["a"].eta.shape == (2, 20, 2)


@pytest.mark.parametrize(
    ("order", "message"),
    [(["a", "z"], "must name columns .* got 'z'"), (["a", "b", "a"], "once, got 'a' twice")],
)
def test_orders_name_columns_once(order, message):
    model = discrete_joint()
    with pytest.raises(DataError, match=message):
        chain_log_prob(model, discrete_rows(model, 3), order=order)
