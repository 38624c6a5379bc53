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
    pseudo_terms,
    table_blocks,
)
from exfam.tables.networks.table_model import TableModel
from table_model_cases import BOTH, Ensemble, discrete_joint, discrete_rows, drop_cells


def known_log_prob(model, cells):
    """Log of the joint distribution of the present cells of each row."""
    result = np.zeros(len(cells))
    for row, (code, value) in enumerate(zip(cells.code, cells.value, strict=True)):
        at = np.flatnonzero(code >= 0)
        if hasattr(model, "probs"):
            marginal = model.probs.sum(tuple(np.flatnonzero(code < 0)))
            result[row] = np.log(marginal[tuple(code[at])])
        elif len(at):
            distribution = scipy.stats.multivariate_normal(
                model.mean[at], model.cov[np.ix_(at, at)]
            )
            result[row] = distribution.logpdf(value[at])
    return result


@pytest.mark.parametrize("dropped", [False, True])
@BOTH
def test_the_chain_gives_the_joint_distribution_in_any_order(model, cells, dropped):
    assert isinstance(model, TableModel)
    cells = drop_cells(cells) if dropped else cells
    truth = known_log_prob(model, cells)
    assert len(np.unique(truth)) > 5
    for order in [None, *itertools.permutations(model.schema.names)]:
        np.testing.assert_allclose(chain_log_prob(model, cells, order=order), truth, atol=1e-10)


@BOTH
def test_columns_not_named_are_marginalized_and_those_given_are_context(model, cells):
    names = model.schema.names
    some = chain_log_prob(model, cells, order=(names[2], names[0]))
    hidden = cells.hide([1, *range(3, len(names))])
    np.testing.assert_allclose(some, known_log_prob(model, hidden), atol=1e-10)
    conditional = chain_log_prob(model, cells, order=names[1:], given=names[:1])
    whole, first = chain_log_prob(model, cells), chain_log_prob(model, cells, order=names[:1])
    np.testing.assert_allclose(conditional, whole - first)


def test_without_one_joint_distribution_the_order_matters():
    model = discrete_joint(heat=1.7)
    cells = discrete_rows(model, 60)
    gap = chain_log_prob(model, cells) - chain_log_prob(model, cells, order=["c", "b", "a"])
    assert np.abs(gap).max() > 0.1
    for order, message in (
        (["a", "z"], "must name columns .* got 'z'"),
        (["a", "b", "a"], "once, got 'a' twice"),
    ):
        with pytest.raises(DataError, match=message):
            chain_log_prob(model, cells, order=order)


@BOTH
def test_pseudo_log_likelihood_has_leave_one_out_terms(model, cells):
    cells = drop_cells(cells)
    parts = pseudo_terms(model, cells)
    whole = known_log_prob(model, cells)
    for j in range(len(model.schema)):
        present = cells.present[:, j]
        expected = (whole - known_log_prob(model, cells.hide([j])))[present]
        np.testing.assert_allclose(parts[present, j], expected, atol=1e-10)
        assert np.isnan(parts[~present, j]).all() and not present.all()


@BOTH
def test_a_row_without_cells_has_probability_one(model, cells):
    empty = cells[:3].hide(range(len(model.schema)))
    assert chain_log_prob(model, empty).tolist() == [0.0] * 3
    assert np.isnan(pseudo_terms(model, empty)).all()
    assert chain_log_prob(model, cells[:0]).shape == (0,)


@BOTH
def test_rows_do_not_know_each_other(model, cells, monkeypatch):
    cells = drop_cells(cells)
    whole = chain_log_prob(model, cells), pseudo_terms(model, cells)
    shuffled = np.random.default_rng(3).permutation(len(cells))
    np.testing.assert_allclose(chain_log_prob(model, cells[shuffled]), whole[0][shuffled])
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    assert len(list(table_blocks(60))) == 9
    np.testing.assert_allclose(chain_log_prob(model, cells), whole[0])
    np.testing.assert_allclose(pseudo_terms(model, cells), whole[1])


def test_members_of_an_ensemble_are_averaged():
    model = Ensemble((discrete_joint(seed=0), discrete_joint(seed=7)))
    cells = discrete_rows(discrete_joint(), 20)
    nats = [cell_log_prob(member, cells, ["b"]) for member in model.members]
    assert np.abs(nats[0] - nats[1]).max() > 0.1
    expected = np.log(np.mean(np.exp(nats), axis=0))
    np.testing.assert_allclose(cell_log_prob(model, cells, ["b"]), expected)
    distributions = column_distributions(model, cells, ["b", "a"])
    assert list(distributions) == ["b", "a"] and distributions["a"].eta.shape == (2, 20, 2)
