"""Rows of tables under several orders against joint distributions that are known; columns alike."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics.pairwise import cosine_similarity

from exfam.checks import DataError, ExfamError
from exfam.tables.answers.disagreement import order_disagreement
from exfam.tables.answers.distributions import (
    TableModel,
    cell_log_prob,
    chain_log_prob,
    column_distributions,
    pseudo_terms,
)
from exfam.tables.answers.similarity import column_similarity
from exfam.tables.data import TableSchema
from table_model_cases import (
    BOTH,
    DiscreteJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    labels,
)


def known_log_prob(model, cells):
    """Log of the joint distribution of the present cells of each row."""
    if hasattr(model, "probs"):
        return np.log(model.known[tuple(cells.code.T)])
    result = np.zeros(len(cells))
    for row, value in enumerate(cells.value):
        at = np.flatnonzero(~np.isnan(value))
        if len(at):
            cov = model.cov[np.ix_(at, at)]
            result[row] = scipy.stats.multivariate_normal(model.mean[at], cov).logpdf(value[at])
    return result


@pytest.mark.parametrize("dropped", [False, True])
@BOTH
def test_the_chain_gives_the_joint_distribution_in_any_order(model, cells, dropped):
    assert isinstance(model, TableModel)
    cells = drop_cells(cells) if dropped else cells
    truth, names = known_log_prob(model, cells), model.schema.names
    assert len(np.unique(truth)) > 5
    for order in [None, *itertools.permutations(names)]:
        np.testing.assert_allclose(chain_log_prob(model, cells, order=order), truth, atol=1e-10)
    # Columns not named are marginalized, those given are context.
    some = chain_log_prob(model, cells, order=(names[2], names[0]))
    hidden = cells.hide([1, *range(3, len(names))])
    np.testing.assert_allclose(some, known_log_prob(model, hidden), atol=1e-10)
    conditional = chain_log_prob(model, cells, order=names[1:], given=names[:1])
    first = chain_log_prob(model, cells, order=names[:1])
    np.testing.assert_allclose(conditional, truth - first, atol=1e-10)
    result = order_disagreement(model, cells, n_orders=6, seed=0)
    pairs = ~np.eye(len(names), dtype=bool)
    assert len(set(result.orders)) == 6 and result.row_sd.max() < 1e-10
    assert result.pair_gap[pairs].max() < 1e-10 and np.isnan(result.pair_gap[~pairs]).all()


def test_orders_name_columns_once():
    model = discrete_joint()
    for order, message in (
        (["a", "z"], "must name columns .* got 'z'"),
        (["a", "b", "a"], "once, got 'a' twice"),
    ):
        with pytest.raises(DataError, match=message):
            chain_log_prob(model, discrete_rows(model, 3), order=order)


@BOTH
def test_pseudo_log_likelihood_has_leave_one_out_terms(model, cells, monkeypatch):
    cells = drop_cells(cells)
    parts, whole = pseudo_terms(model, cells), known_log_prob(model, cells)
    for j in range(len(model.schema)):
        present = cells.present[:, j]
        expected = (whole - known_log_prob(model, cells.hide([j])))[present]
        np.testing.assert_allclose(parts[present, j], expected, atol=1e-10)
        assert np.isnan(parts[~present, j]).all() and not present.all()
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(chain_log_prob(model, cells), whole, atol=1e-10)
    np.testing.assert_allclose(pseudo_terms(model, cells), parts)


def test_members_of_an_ensemble_are_averaged():
    members, cells = [discrete_joint(seed=k) for k in (0, 7)], discrete_rows(discrete_joint(), 20)

    def eta(cells, targets):
        return list(map(torch.cat, zip(*(m.eta(cells, targets) for m in members), strict=True)))

    first = members[0]
    model = SimpleNamespace(schema=first.schema, families=first.families, eta=eta)
    nats = [cell_log_prob(member, cells, ["b"]) for member in members]
    assert np.abs(nats[0] - nats[1]).max() > 0.1
    expected = np.log(np.mean(np.exp(nats), axis=0))
    np.testing.assert_allclose(cell_log_prob(model, cells, ["b"]), expected)
    distributions = column_distributions(model, cells, ["b", "a"])
    assert list(distributions) == ["b", "a"] and distributions["a"].eta.shape == (2, 20, 2)


SPOILED = discrete_joint(heat=1.7)
EVERY_ROW = cells_of(SPOILED.schema, list(itertools.product(*map(range, SPOILED.probs.shape))))


def test_conditionals_of_no_joint_distribution_disagree():
    result = order_disagreement(SPOILED, EVERY_ROW, n_orders=99, seed=0)
    assert len(result.orders) == 6  # as many as there are
    assert result.mean_row_sd > 0.05
    # Every order is a distribution of rows all the same.
    np.testing.assert_allclose(np.exp(result.log_prob).sum(0), 1.0)
    rest = chain_log_prob(SPOILED, EVERY_ROW, order=["b"])
    ways = (["a", "c"], ["c", "a"])
    paths = [chain_log_prob(SPOILED, EVERY_ROW, order=["b", *pair]) - rest for pair in ways]
    np.testing.assert_allclose(result.pair_gap[0, 2], np.abs(paths[0] - paths[1]).mean())
    np.testing.assert_array_equal(result.pair_gap, result.pair_gap.T)
    gaps = order_disagreement(SPOILED, EVERY_ROW.hide([1]), n_orders=2, seed=0).pair_gap
    assert np.isfinite(gaps[0, 2]) and np.isnan(gaps[1]).all()


def test_seeds_choose_orders_that_are_possible():
    first, again, other = (
        order_disagreement(SPOILED, EVERY_ROW, n_orders=5, seed=seed).orders for seed in (0, 0, 1)
    )
    assert first == again != other
    with pytest.raises(ExfamError, match="at least one row"):
        order_disagreement(SPOILED, EVERY_ROW[:0], n_orders=2, seed=0)
    alone = DiscreteJoint(TableSchema((labels("a", 2),)), np.array([0.5, 0.5]))
    with pytest.raises(ExfamError, match="`X` must have columns of several orders, got 'a' alone"):
        order_disagreement(alone, discrete_rows(alone, 3), n_orders=2, seed=0)


NAMES = ["age", "height", "weight", "size", "none"]


def test_columns_alike_have_the_cosines_of_scikit_learn():
    vectors = np.random.default_rng(0).normal(size=(1, 5, 3)).astype(np.float32)
    vectors[0, 3:] = [2.5 * vectors[0, 1] + 0.01, np.zeros(3)]
    result = column_similarity(vectors, NAMES)
    expected = cosine_similarity(vectors[0].astype(np.float64))
    np.testing.assert_allclose(result.cosine, expected, atol=1e-12)
    assert result.as_dict()["none"]["none"] == 0
    nearest = [name for name, _ in result.nearest("height", k=9)]
    assert nearest[0] == "size" and len(nearest) == 4
    here = result.nearest("height", k=2, among=["age", "weight", "height"])
    assert {name for name, _ in here} == {"age", "weight"} and here[0][1] >= here[1][1]
    with pytest.raises(DataError, match="must be one of the columns age, .* got 'mass'"):
        result.nearest("mass", k=1)
