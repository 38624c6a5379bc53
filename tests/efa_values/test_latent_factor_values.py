"""Latent factor models of values: the base at a rank, its factors, and levels alone."""

import numpy as np
import pandas as pd
import pytest

import exfam
from efa_values.simulated_values import drawn_cells, drawn_model
from efa_values.test_value_estimators import COLUMNS, FRAME, OTHER, bases, drawn
from estimator_cases import same_bits
from exfam import EFA, ExfamError, LatentFactor
from exfam.efa.networks.factor_network import LatentFactorValues
from exfam.efa.values.conditionals import group_factors
from exfam.families import Gaussian, Ordinal, PerItem, Poisson
from exfam.groups import Groups

VALUES = {**COLUMNS, "parts": "values", "progress": False}


def fit(frame=FRAME, **parameters):
    return LatentFactor(**{**VALUES, **parameters}).fit(frame)


@pytest.mark.parametrize(
    "options",
    [{}, {"direction": "causal", "order": "day"}, {"family": Ordinal(5, start=1)}],
    ids=str,
)
def test_it_is_the_base_of_efa_at_that_rank(options):
    family = {"family": "gaussian", **options}
    base = EFA(**VALUES, attention="none", validation_fraction=0.0, **family).fit(FRAME)
    (rank,) = {own.rank for own in bases(base)}
    assert rank > 0
    model = fit(dim=rank, **family)
    np.testing.assert_allclose(model.log_prob(OTHER), base.log_prob(OTHER), atol=1e-9)
    # All groups count, whatever the share that training would hold out.
    assert same_bits(fit(dim=rank, validation_fraction=0.5, **family), model)
    assert not hasattr(model, "histories_")
    more = drawn(n_users=100, seed=1)
    assert model.score(more) > fit(dim=0, **family).score(more) + 0.01


def test_levels_alone_are_item_means_and_shrunken_residuals():
    cells = drawn_cells(n_groups=200, rank=0)
    movie = np.array([f"m{item}" for item in cells.item])
    frame = pd.DataFrame({"user": cells.group, "movie": movie, "stars": cells.value})
    model = fit(frame, dim=0)
    rest = frame.stars - frame.groupby("movie").stars.transform("mean")
    by_user = rest.groupby(frame.user)
    # A level varies by 0.7 squared, the rest by 0.5 squared.
    shrunk = (by_user.transform("sum") - rest) / (by_user.transform("size") - 1 + 0.5**2 / 0.7**2)
    expected = frame.stars - rest + shrunk
    assert np.abs(model.predict(frame) - expected).mean() < 0.05 < shrunk.std()
    assert model.transform(frame).shape == (200, 0)
    alone = fit(frame, dim=0, item=None)
    marginal = exfam.Marginal(**COLUMNS, parts="values").fit(frame)
    assert model.score(frame) - 0.1 > alone.score(frame) > marginal.score(frame) + 0.05


def test_factors_of_groups_are_those_of_the_dense_gaussian():
    cells, model = drawn_cells(n_groups=8), drawn_model()
    means = group_factors(model, cells)
    assert means.shape == (8, 3) and means.std(0).min() > 0.1
    for group in range(8):
        own = slice(*cells.offset[group : group + 2])
        item = cells.item[own]
        loading, rest = model.loading[item], cells.value[own] - model.mu - model.level[item]
        covariance = loading @ loading.T + np.diag(model.noise[item])
        expected = loading.T @ np.linalg.solve(covariance, rest)
        np.testing.assert_allclose(means[group], expected[1:], atol=1e-10)


def test_vectors_are_factors_of_items_and_groups_by_column_side_by_side(tmp_path):
    frame = FRAME.assign(liked=(FRAME.stars > 3).astype(float))
    columns = {"value": ["stars", "liked"], "family": {"stars": "gaussian", "liked": "bernoulli"}}
    model, single = fit(frame, dim=2, **columns), fit(frame, dim=2)
    vectors, items = model.transform(frame), model.item_vectors_
    assert vectors.shape == (60, 4) and items.shape == (10, 4)
    np.testing.assert_allclose(vectors[:, :2], single.transform(frame), atol=1e-6)
    np.testing.assert_array_equal(items[:, :2], single.item_vectors_)
    np.testing.assert_array_equal(model.item_context_vectors_, items)
    # The taste that values were drawn by, of movies with even and odd numbers.
    leading = items[:, np.argmax(items[:, :2].std(0))]
    taste = np.array([1.0, -1.0])[[int(name[1:]) % 2 for name in model.vocabulary_["item"]]]
    assert abs(np.corrcoef(leading, taste)[0, 1]) > 0.9
    groups = Groups.from_frame(frame, **COLUMNS | {"value": ["stars", "liked"]})
    np.testing.assert_allclose(model.transform(groups[[7, 2]]), vectors[[7, 2]])
    context = groups.with_(role=np.ones(groups.n_rows, dtype=np.int8))
    np.testing.assert_array_equal(model.transform(context), vectors)
    assert model.transform(groups[:0]).shape == (0, 4)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(frame), vectors)
    np.testing.assert_array_equal(loaded.log_prob(frame), model.log_prob(frame))


def test_by_default_a_base_has_as_many_factors_as_gain_and_a_network_more():
    frame = drawn(n_users=10)
    assert [own.rank for own in bases(fit(frame))] == [16]
    raw = fit(frame, base="none", max_epochs=1)
    assert raw.item_vectors_.shape == (10, 32)
    assert fit(frame, parts="both", max_epochs=1).item_vectors_.shape == (10, 32)


def test_beside_items_it_is_as_alone_and_items_too():
    options = {"dim": 3, "max_epochs": 2, "ensemble": 2}
    both, items, values = (fit(parts=parts, **options) for parts in ("both", "items", "values"))
    assert len(both.members_) == 2 and len(values.members_) == 1
    expected = items.log_prob_parts(OTHER) | values.log_prob_parts(OTHER)
    for name, nats in both.log_prob_parts(OTHER).items():
        np.testing.assert_allclose(nats, expected[name], atol=1e-6)
    assert both.history_.best.train_nats == items.history_.best.train_nats
    np.testing.assert_array_equal(both.transform(OTHER), items.transform(OTHER))


@pytest.mark.parametrize(
    "options",
    [{"base": "none"}, {"family": PerItem({"m1": Poisson()}, default=Gaussian())}],
    ids=["chosen", "a family that bases do not know"],
)
def test_without_a_base_it_is_the_model_of_the_paper(options):
    model = fit(max_epochs=2, dim=3, **options)
    assert isinstance(model.members_[0].value_part, LatentFactorValues)
    assert len(model.history_.rows) == 2 and model.transform(OTHER).shape == (20, 3)
    with pytest.raises(ExfamError, match="`dim` must be at least 1 for items, and for values with"):
        fit(dim=0, **options)


def test_what_lacks_factors_is_refused():
    with pytest.raises(ExfamError, match="`dim` must be at least 1 for items"):
        fit(parts="both", dim=0)
    with pytest.raises(ExfamError, match="`item` must be given, .* Pass dim=0 for a level"):
        fit(item=None)
    with pytest.raises(ExfamError, match="`dim` must be an integer >= 0, got -1"):
        fit(drawn(n_users=2), dim=-1)
