"""Decisions from distributions, and absent cells filled by them."""

import numpy as np
import pytest
import scipy.stats
import torch

from exfam.checks import ExfamError
from exfam.families import Categorical, Gaussian, NegativeBinomial, Poisson
from exfam.families.mixtures import Mixture
from exfam.tables.answers.imputation import DECISIONS, decide, impute
from exfam.tables.data import Column, TableSchema, label_array
from exfam.tables.networks.table_model import IndependentColumns, independent_columns
from table_model_cases import (
    cells_of,
    discrete_joint,
    discrete_rows,
    drop_cells,
    gaussian_joint,
    gaussian_rows,
)

GAUSSIAN = gaussian_joint()


def finite(*probs):
    return Mixture(Categorical(len(probs)), torch.tensor([[probs]], dtype=torch.float64).log())


def column_of(kind, labels=None):
    if labels is None:
        return Column("y", kind, knots=np.array([0.0, 5.0]))
    return Column("y", kind, labels=label_array(labels))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 1]),  # mean 1.3
        ([1, 2, 3, 30], [0, 2, 1]),  # mean 7.3: nearest 3
        ([30, 3, 2, 1], [0, 1, 1]),  # mean 13.3: nearest 3, in falling order
        (["S", "M", "L", "XL"], [0, 1, 1]),
    ],
)
def test_ordered_labels_know_all_rules(labels, expected):
    distribution, column = finite(0.4, 0.15, 0.2, 0.25), column_of("ordinal", labels)
    assert [decide(distribution, column, rule=rule).item() for rule in DECISIONS] == expected


def test_expected_squared_error_is_least_at_the_mean():
    probs = np.random.default_rng(0).dirichlet(np.ones(4) / 2, size=50)
    distribution = Mixture(Categorical(4), torch.from_numpy(np.log(probs + 1e-12))[None])
    labels = np.array([1.0, 2.0, 5.0, 9.0])
    cost = (probs[:, None] * (labels[:, None] - labels) ** 2).sum(-1)
    result = decide(distribution, column_of("ordinal", labels.tolist()), rule="mean")
    np.testing.assert_array_equal(result, cost.argmin(1))
    assert len(set(result)) == 4


@pytest.mark.parametrize("kind", ["categorical", "boolean"])
def test_labels_without_order_have_a_most_probable_one_alone(kind):
    column, distribution = column_of(kind, [False, True]), finite(0.3, 0.7)
    assert decide(distribution, column, rule="argmax").tolist() == [1.0]
    for rule in ("mean", "median"):
        with pytest.raises(ExfamError, match=f"must be 'argmax' for the {kind} column 'y'"):
            decide(distribution, column, rule=rule)
    with pytest.raises(ExfamError, match="`rule` must be one of 'argmax', 'mean', 'median'"):
        decide(distribution, column, rule="mode")


@pytest.mark.parametrize(("kind", "family"), [("numeric", Gaussian()), ("count", Poisson())])
def test_numbers_have_a_mean_and_a_median(kind, family):
    distribution = Mixture(family, torch.tensor([[[1.3, 0.1][: family.n_params]]]).double())
    mean, median = (decide(distribution, column_of(kind), rule=r) for r in ("mean", "median"))
    assert mean.item() == pytest.approx(distribution.mean().item())
    assert median.item() == distribution.quantile(0.5).item()
    with pytest.raises(ExfamError, match=f"'mean' or 'median' for the {kind} column"):
        decide(distribution, column_of(kind), rule="argmax")


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_numbers_are_their_conditional_means(rule, monkeypatch):
    cells = drop_cells(gaussian_rows(GAUSSIAN, 30))
    result = impute(GAUSSIAN, cells, rule=rule, level=0.8)
    assert result.cells.present.all()
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
    # Rows do not know each other.
    shuffled = np.random.default_rng(2).permutation(30)
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 4)
    again = impute(GAUSSIAN, cells[shuffled], rule=rule, level=0.8)
    np.testing.assert_allclose(again.cells.value, result.cells.value[shuffled])
    np.testing.assert_allclose(again.low, result.low[shuffled])


def test_labels_are_most_probable_or_median():
    model = discrete_joint()
    cells = drop_cells(discrete_rows(model, 60), share=0.5)
    result = impute(model, cells, rule="mean", level=0.9)
    for i, j in np.argwhere(result.filled):
        shares = model.probs[tuple(c if c >= 0 else slice(None) for c in cells.code[i])]
        index = int((~cells.present[i, :j]).sum())
        shares = shares.sum(tuple(axis for axis in range(shares.ndim) if axis != index))
        shares = shares / shares.sum()
        best = shares.argmax() if j < 2 else np.searchsorted(shares.cumsum(), 0.5)
        assert result.cells.code[i, j] == best
        assert result.probability[i, j] == pytest.approx(shares[best])
        assert np.isnan(result.low[i, j]) == (j < 2)
    assert len(set(result.cells.code[result.filled[:, 2], 2])) > 1


def test_a_mean_count_is_a_count():
    schema = TableSchema((Column("n", "count", knots=np.array([0.0, 3.0, 9.0])),))
    model = IndependentColumns(schema, (Poisson(),), (torch.tensor([2.6]).double().log(),))
    result = impute(model, cells_of(schema, [[np.nan], [5.0]]), rule="mean", level=0.9)
    assert result.cells.value.tolist() == [[3.0], [5.0]]
    ends = scipy.stats.poisson(2.6).ppf([0.05, 0.95])
    assert [result.low[0, 0], result.high[0, 0]] == ends.tolist()


def test_other_rules_and_levels_are_refused():
    cells = gaussian_rows(GAUSSIAN, 2)
    with pytest.raises(ExfamError, match="`rule` must be one of 'mean', 'median'"):
        impute(GAUSSIAN, cells, rule="argmax", level=0.9)
    with pytest.raises(ExfamError, match="`level` must be a number strictly between 0 and 1"):
        impute(GAUSSIAN, cells, rule="mean", level=1.0)


def test_independent_columns_have_the_shares_of_their_cells():
    count = Column("n", "count", knots=np.array([0.0, 9.0]))
    schema = TableSchema((column_of("categorical", ["a", "b"]), count))
    cells = cells_of(schema, [[0, 1.0], [1, 6.0], [1, np.nan], [np.nan, 2.0], [1, 3.0]])
    model = independent_columns(cells, schema=schema, families=[Categorical(2), NegativeBinomial()])
    labels, counts = model.eta(cells, [0, 1])
    np.testing.assert_allclose(model.families[0].probs(labels)[0, 3], [0.25, 0.75])
    assert model.families[1].mean(counts)[0, 0].item() == pytest.approx(3.0)
