"""Joint distributions of tables by the chain rule: densities, draws and filled cells."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics.pairwise import cosine_similarity

from exfam.checks import DataError, ExfamError
from exfam.families import Categorical, Gaussian, Poisson
from exfam.families.mixtures import Mixture
from exfam.tables.answers.conditional import GivenCells, conditional, sample_rows
from exfam.tables.answers.decisions import DECISIONS, decide, impute
from exfam.tables.answers.distributions import (
    IndependentColumns,
    TableModel,
    cell_log_prob,
    chain_log_prob,
    column_distributions,
    pseudo_terms,
)
from exfam.tables.answers.orders import order_disagreement
from exfam.tables.answers.similarity import column_similarity
from exfam.tables.data import Column, TableSchema, label_array
from table_model_cases import (
    BOTH,
    DiscreteJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
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


NONE = [[np.nan] * 3]
GAUSSIAN, DISCRETE = gaussian_joint(), discrete_joint()


def conditions(model, given, of, **options):
    return conditional(model, GivenCells(given), of=of, unknown="unk", **options)


@pytest.mark.parametrize("order", [None, ["c", "a", "b"]])
def test_rows_are_drawn_from_the_joint_distribution(order):
    codes = sample_rows(DISCRETE, cells_of(DISCRETE.schema, NONE), n=2000, seed=0, order=order).code
    indices = np.ravel_multi_index(tuple(codes.T), DISCRETE.probs.shape)
    counts = np.bincount(indices, minlength=DISCRETE.probs.size)
    assert scipy.stats.chisquare(counts, 2000 * DISCRETE.probs.ravel()).pvalue > 1e-3


def test_present_cells_stay_and_condition_the_others():
    value = np.array([[2.0, np.nan, np.nan, 1.0], [np.nan, -1.0, 0.5, np.nan]])
    drawn = sample_rows(GAUSSIAN, cells_of(GAUSSIAN.schema, value), n=3000, seed=0)
    again = cells_of(GAUSSIAN.schema, drawn.value)
    assert (drawn.code == again.code).all() and (drawn.fraction == again.fraction).all()
    draws = drawn.value.reshape(3000, 2, 4)
    for row in range(2):
        known = ~np.isnan(value[row])
        assert (draws[:, row, known] == value[row, known]).all()
        at, rest = np.flatnonzero(known), np.flatnonzero(~known)
        mean, cov = GAUSSIAN.given(value[row, at], at, rest)
        white = np.linalg.solve(np.linalg.cholesky(cov), (draws[:, row, rest] - mean).T)
        for part in [*white, white.sum(0) / np.sqrt(2)]:
            assert scipy.stats.kstest(part, "norm").pvalue > 1e-3


def test_seeds_choose_draws_and_blocks_serve_many_rows(monkeypatch):
    cells = drop_cells(gaussian_rows(GAUSSIAN, 20))
    first, again, other = (sample_rows(GAUSSIAN, cells, n=2, seed=k).value for k in (0, 0, 1))
    assert (first == again).all() and (first != other).any()
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    draws = sample_rows(GAUSSIAN, cells, n=2, seed=0)
    for draw in (draws[:20], draws[20:]):
        assert (draw.value[cells.present] == cells.value[cells.present]).all()


def test_marginal_distributions_are_those_of_the_joint():
    given = cells_of(DISCRETE.schema, [[1, 2, 3], [0, np.nan, 1]])
    result = conditions(DISCRETE, given, ["b", "a"])
    joint = DISCRETE.probs[:, :, [3, 1]] / DISCRETE.probs[:, :, [3, 1]].sum((0, 1))
    for name, expected in (("b", joint.sum(0).T), ("a", joint.sum(1).T)):
        np.testing.assert_allclose(result.distributions[name].probs().numpy(), expected)


@pytest.mark.parametrize("order", [None, ["a", "b"]])
def test_the_joint_distribution_of_many_values_given_one_row(order):
    given = cells_of(DISCRETE.schema, [[np.nan, np.nan, 2]])
    pairs = cells_of(DISCRETE.schema, [[a, b, np.nan] for a in range(2) for b in range(3)])
    result = np.exp(conditions(DISCRETE, given, ["b", "a"], order=order).log_prob(pairs))
    expected = DISCRETE.probs[:, :, 2] / DISCRETE.probs[:, :, 2].sum()
    np.testing.assert_allclose(result, expected.ravel())


def test_the_order_decides_where_no_joint_distribution_is_behind():
    model = discrete_joint(heat=1.7)
    rows = discrete_rows(model, 20)
    ways = [conditions(model, rows, ["a", "b"], order=o) for o in (["a", "b"], ["b", "a"])]
    assert np.abs(ways[0].log_prob(rows) - ways[1].log_prob(rows)).max() > 0.01
    with pytest.raises(DataError, match="`order` must name the columns a, b and no others"):
        conditions(model, rows, ["a", "b"], order=["a", "c"])
    with pytest.raises(DataError, match="must have the 20 rows of `given`, got 2 rows"):
        ways[0].log_prob(rows[:2])


def finite(*probs):
    return Mixture(Categorical(len(probs)), torch.tensor([[probs]], dtype=torch.float64).log())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 1]),  # mean 1.3
        ([30, 3, 2, 1], [0, 1, 1]),  # mean 13.3: nearest 3, in falling order
        (["S", "M", "L", "XL"], [0, 1, 1]),
    ],
)
def test_ordered_labels_know_all_rules(labels, expected):
    distribution = finite(0.4, 0.15, 0.2, 0.25)
    column = Column("y", "ordinal", labels=label_array(labels))
    assert [decide(distribution, column, rule=rule).item() for rule in DECISIONS] == expected


def test_rules_must_suit_the_column():
    column, distribution = Column("y", "boolean", labels=label_array([0, 1])), finite(0.3, 0.7)
    assert decide(distribution, column, rule="argmax").tolist() == [1.0]
    with pytest.raises(ExfamError, match="must be 'argmax' for the boolean column 'y'"):
        decide(distribution, column, rule="mean")
    number = Column("y", "numeric", knots=np.array([0.0, 5.0]))
    gaussian = Mixture(Gaussian(), torch.tensor([[[1.3, 0.1]]]).double())
    assert decide(gaussian, number, rule="mean").item() == pytest.approx(1.3)
    with pytest.raises(ExfamError, match="'mean' or 'median' for the numeric column"):
        decide(gaussian, number, rule="argmax")


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_numbers_are_their_conditional_means(rule, monkeypatch):
    cells = drop_cells(gaussian_rows(GAUSSIAN, 30))
    result = impute(GAUSSIAN, cells, rule=rule, level=0.8)
    np.testing.assert_array_equal(result.filled, ~cells.present)
    for i, j in np.argwhere(result.filled):
        at = np.flatnonzero(cells.present[i])
        mean, cov = GAUSSIAN.given(cells.value[i, at], at, [j])
        assert result.cells.value[i, j] == pytest.approx(mean.item())
        ends = scipy.stats.norm(mean.item(), cov.item() ** 0.5).interval(0.8)
        np.testing.assert_allclose([result.low[i, j], result.high[i, j]], ends)
    kept = ~result.filled
    np.testing.assert_array_equal(result.cells.value[kept], cells.value[kept])
    assert np.isnan(result.low[kept]).all() and np.isnan(result.probability).all()
    encoded = cells_of(GAUSSIAN.schema, result.cells.value)
    np.testing.assert_array_equal(result.cells.code, encoded.code)
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 4)
    again = impute(GAUSSIAN, cells[::-1], rule=rule, level=0.8)
    np.testing.assert_allclose(again.cells.value[::-1], result.cells.value)
    np.testing.assert_allclose(again.low[::-1], result.low)


def test_labels_are_most_probable_or_median():
    model = discrete_joint()
    cells = drop_cells(discrete_rows(model, 60), share=0.5)
    result = impute(model, cells, rule="mean", level=0.9)
    for i, j in np.argwhere(result.filled):
        index = [*cells.code[i, :j], slice(-1), *cells.code[i, j + 1 :]]
        shares = model.known[tuple(index)] / model.known[tuple(index)].sum()
        best = shares.argmax() if j < 2 else np.searchsorted(shares.cumsum(), 0.5)
        assert result.cells.code[i, j] == best
        assert result.probability[i, j] == pytest.approx(shares[best])
        assert np.isnan(result.low[i, j]) == (j < 2)


def test_a_mean_count_is_a_count():
    schema = TableSchema((Column("n", "count", knots=np.array([0.0, 3.0, 9.0])),))
    model = IndependentColumns(schema, (Poisson(),), (torch.tensor([2.6]).double().log(),))
    result = impute(model, cells_of(schema, [[np.nan], [5.0]]), rule="mean", level=0.9)
    assert result.cells.value.tolist() == [[3.0], [5.0]]
    ends = scipy.stats.poisson(2.6).ppf([0.05, 0.95])
    assert [result.low[0, 0], result.high[0, 0]] == ends.tolist()
