"""Distributions given ranges and sets, and laws of knowing more."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from exfam import Between, OneOf
from exfam.checks import DataError, ExfamError
from exfam.families import Gaussian, Poisson
from exfam.tables.answers.conditional import GivenCells, conditional, given_cells
from exfam.tables.answers.conditions import read_conditions
from exfam.tables.answers.distributions import IndependentColumns, chain_log_prob
from exfam.tables.answers.orders import chosen_orders, mixed_log_prob, row_log_prob
from exfam.tables.data import Column, TableSchema, label_array
from table_laws import check_that_knowing_more_helps
from table_model_cases import (
    BOTH,
    DiscreteJoint,
    cells_of,
    discrete_joint,
    discrete_rows,
    gaussian_joint,
    labels,
    number,
)
from tables.table_estimator_cases import EVERY, fitted

DISCRETE, SPOILED, GAUSSIAN = discrete_joint(), discrete_joint(heat=1.7), gaussian_joint()
MODELS = pytest.mark.parametrize("model", [DISCRETE, SPOILED], ids=["one-joint", "no-joint"])


def answer(model, given, of, **options):
    """The conditional distribution given cells and conditions by name."""
    return conditional(
        model, given_cells(model.schema, given, unknown="error"), of=of, unknown="error", **options
    )


def test_sets_are_summed_over():
    given = {"a": True, "c": OneOf([1, 3])}
    model = DISCRETE
    result = answer(model, given, ["b"])
    joint = model.probs[1][:, [1, 3]].sum(1)
    np.testing.assert_allclose(result.probs("b")[0], joint / joint.sum())
    share = joint.sum() / model.probs[1].sum()
    np.testing.assert_allclose(np.exp(result.condition_log_prob), share)
    both = answer(model, {"a": OneOf([False]), "c": OneOf([0, 3, 3])}, ["b"])
    joint = model.probs[0][:, [0, 3]].sum(1)
    np.testing.assert_allclose(both.probs("b")[0], joint / joint.sum())
    np.testing.assert_allclose(np.exp(both.condition_log_prob), joint.sum())
    np.testing.assert_allclose(both.log_prob({"b": 2}), np.log(joint[2] / joint.sum()))


@MODELS
def test_a_set_of_one_label_is_the_label(model):
    others = {"a": [True, False, True]}
    label, alone = (answer(model, others | {"c": c}, ["b"]) for c in ([2, 2, 2], OneOf([2])))
    assert len(alone) == 3
    np.testing.assert_allclose(alone.probs("b"), label.probs("b"), rtol=1e-12)
    np.testing.assert_allclose(alone.log_prob({"b": [0, 1, 2]}), label.log_prob({"b": [0, 1, 2]}))


@MODELS
def test_what_always_holds_is_no_condition(model):
    free = answer(model, {"a": True}, ["b"])
    for condition in (OneOf([3, 2, 1, 0]), Between(), Between(0, 3), Between(high=3)):
        whole = answer(model, {"a": True, "c": condition}, ["b"])
        np.testing.assert_array_equal(whole.probs("b"), free.probs("b"))
        assert whole.condition_log_prob == 0
    number = answer(GAUSSIAN, {"u": 0.3, "v": Between(-np.inf)}, ["w"])
    expected = answer(GAUSSIAN, {"u": 0.3}, ["w"])
    np.testing.assert_array_equal(number.log_prob({"w": 1.0}), expected.log_prob({"w": 1.0}))


@MODELS
def test_the_total_probability_of_parts_is_that_of_the_whole(model):
    parts = [answer(model, {"c": OneOf(codes)}, ["b", "a"]) for codes in ([0], [2, 3], [0, 2, 3])]
    first, second, whole = (
        np.exp(part.condition_log_prob)[:, None] * part.probs("b") for part in parts
    )
    np.testing.assert_allclose(first + second, whole)
    pairs = {"a": [False, True, True], "b": [2, 0, 1]}
    joint = [np.exp(part.log_prob(pairs) + part.condition_log_prob) for part in parts]
    np.testing.assert_allclose(joint[0] + joint[1], joint[2])


def test_ordered_labels_lie_between_two():
    schema = DISCRETE.schema
    for condition, codes in (
        (Between(1, 2), [1, 2]),
        (Between(low=2), [2, 3]),
        (Between(high=0), [0]),
    ):
        (read,) = read_conditions(schema, {"c": condition}).values()
        assert read.codes.tolist() == codes
    sizes = Column("size", "ordinal", labels=label_array(["S", "M", "L", "XL"]))
    (read,) = read_conditions(TableSchema((sizes,)), {"size": Between("M", "XL")}).values()
    assert read.codes.tolist() == [1, 2, 3]


def truncated(low, high):
    """The distribution of v alone, cut to a range."""
    mean, sd = GAUSSIAN.mean[1], GAUSSIAN.cov[1, 1] ** 0.5
    return scipy.stats.truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)


@pytest.mark.parametrize(("low", "high"), [(-2.5, -1.0), (-1.0, np.inf), (-np.inf, -3.0)])
def test_ranges_have_the_moments_of_a_truncated_gaussian(low, high):
    result = answer(GAUSSIAN, {"v": Between(low, high)}, ["u", "w"])
    cut, slope = truncated(low, high), GAUSSIAN.cov[:, 1] / GAUSSIAN.cov[1, 1]
    mean = GAUSSIAN.mean + slope * (cut.mean() - GAUSSIAN.mean[1])
    rest = np.diag(GAUSSIAN.cov) - slope**2 * GAUSSIAN.cov[1, 1]
    for name, k in (("u", 0), ("w", 2)):
        prediction = result.predict_dist(name)
        np.testing.assert_allclose(prediction.mean, mean[k], atol=1e-4)
        variance = rest[k] + slope[k] ** 2 * cut.var()
        np.testing.assert_allclose(prediction.variance, variance, rtol=1e-3)
    whole = scipy.stats.norm(GAUSSIAN.mean[1], GAUSSIAN.cov[1, 1] ** 0.5)
    mass = whole.cdf(high) - whole.cdf(low)
    np.testing.assert_allclose(np.exp(result.condition_log_prob), mass)
    # The joint distribution of the others, by an integral over the range.
    pair, grid = {"u": 0.5, "w": 1.0}, cut.ppf((np.arange(4000) + 0.5) / 4000)
    rows = np.tile([0.5, np.nan, 1.0, np.nan], (len(grid), 1))
    rows[:, 1] = grid
    logs = chain_log_prob(GAUSSIAN, cells_of(GAUSSIAN.schema, rows), order=["u", "w"], given=["v"])
    np.testing.assert_allclose(np.exp(result.log_prob(pair)), np.exp(logs).mean(), rtol=1e-3)


def box(given):
    """The probability of a box of numbers, one dimension at a time."""
    at = [GAUSSIAN.schema.index(name) for name in given]
    cov = GAUSSIAN.cov[np.ix_(at, at)]
    low, high = ([getattr(c, end) for c in given.values()] for end in ("low", "high"))
    return scipy.stats.multivariate_normal(GAUSSIAN.mean[at], cov).cdf(high, lower_limit=low)


TWO = {"v": Between(-3.0, -1.0), "x": Between(3.0, 4.0)}
THREE = TWO | {"u": Between(0.0, 1.5)}


def test_several_ranges_hold_together():
    two = answer(GAUSSIAN, TWO, ["w"])
    np.testing.assert_allclose(np.exp(two.condition_log_prob), box(TWO), rtol=1e-3)
    three, again, other = (answer(GAUSSIAN, THREE, ["w"], seed=k) for k in (0, 0, 1))
    np.testing.assert_allclose(np.exp(three.condition_log_prob), box(THREE), rtol=1e-3)
    first, same, second = (own.predict_dist("w").mean for own in (three, again, other))
    assert first == same != second
    # By rejection: rows of the joint distribution that happen to lie in the box.
    rows = np.random.default_rng(0).multivariate_normal(GAUSSIAN.mean, GAUSSIAN.cov, 200_000)
    for result, given in ((two, TWO), (three, THREE)):
        kept = np.ones(len(rows), bool)
        for name, condition in given.items():
            value = rows[:, GAUSSIAN.schema.index(name)]
            kept &= (value >= condition.low) & (value <= condition.high)
        own = rows[kept, 2]
        error = own.std() / np.sqrt(len(own))
        prediction = result.predict_dist("w")
        assert len(own) > 2000 and abs(prediction.mean[0] - own.mean()) < 4 * error + 0.01
        assert prediction.sd[0] == pytest.approx(own.std(), rel=0.03)


def test_whole_numbers_are_summed_over():
    n, x = Column("n", "count", knots=np.array([0.0, 3.0, 9.0])), number("x")
    marginals = torch.tensor([2.6]).double().log(), torch.tensor([0.0, 0.0]).double()
    model = IndependentColumns(TableSchema((n, x)), (Poisson(), Gaussian()), marginals)
    poisson = scipy.stats.poisson(2.6)
    for condition, mass in (
        (Between(2, 4), poisson.cdf(4) - poisson.cdf(1)),
        (Between(1.5, 4.7), poisson.cdf(4) - poisson.cdf(1)),
        (Between(high=0), poisson.pmf(0)),
        (Between(low=3), poisson.sf(2)),
    ):
        result = answer(model, {"n": condition}, ["x"])
        np.testing.assert_allclose(np.exp(result.condition_log_prob), mass)
        np.testing.assert_allclose(result.predict_dist("x").sd, 1.0)
    wide = IndependentColumns(model.schema, model.families, (marginals[0] + 4, marginals[1]))
    result = answer(wide, {"n": Between(100, 200)}, ["x"])
    own = scipy.stats.poisson(2.6 * np.exp(4))
    np.testing.assert_allclose(np.exp(result.condition_log_prob), own.cdf(200) - own.cdf(99))
    with pytest.raises(DataError, match="can be true together, got ones of probability 0 at row 0"):
        answer(model, {"n": Between(2.2, 2.8)}, ["x"])


def test_more_copies_than_there_is_room_for_are_drawn(monkeypatch):
    probs = np.random.default_rng(3).dirichlet(np.ones(60)).reshape(30, 2)
    model = DiscreteJoint(TableSchema((labels("a", 30), labels("b", 2))), probs)
    given = {"a": OneOf(range(25))}
    exact = answer(model, given, ["b"])
    monkeypatch.setattr("exfam.tables.answers.particles._MOST_COPIES", 20)
    drawn = answer(model, given, ["b"])
    np.testing.assert_allclose(drawn.probs("b"), exact.probs("b"), atol=0.1)
    assert (drawn.probs("b") != exact.probs("b")).any()
    np.testing.assert_allclose(drawn.condition_log_prob, exact.condition_log_prob)


def test_blocks_of_rows_change_nothing(monkeypatch):
    given = {"u": np.linspace(0, 2, 9), "v": Between(-2.0, 0.0)}
    value = {"w": np.linspace(-1, 1, 9), "x": np.linspace(2, 4, 9)}
    whole = answer(GAUSSIAN, given, ["w", "x"])
    monkeypatch.setattr("exfam.tables.answers.distributions._ROWS_AT_ONCE", 7)
    parts = answer(GAUSSIAN, given, ["w", "x"])
    np.testing.assert_allclose(parts.log_prob(value), whole.log_prob(value))
    np.testing.assert_allclose(parts.predict_dist("w").mean, whole.predict_dist("w").mean)
    assert np.ptp(whole.condition_log_prob) > 0.1


def test_draws_follow_the_conditional():
    result = answer(GAUSSIAN, TWO, ["w", "u"])
    draws, again = (result.sample(3000, seed=0) for _ in range(2))
    np.testing.assert_array_equal(draws["w"], again["w"])
    for name in ("w", "u"):
        prediction = result.predict_dist(name)
        assert scipy.stats.kstest(draws[name], lambda x, p=prediction: p_cdf(p, x)).pvalue > 1e-3
    labeled = answer(DISCRETE, {"c": OneOf([0, 2])}, ["a", "b"]).sample(4000, seed=1)
    joint = DISCRETE.probs[:, :, [0, 2]].sum(2)
    counts = np.histogram2d(labeled["a"], labeled["b"], bins=(2, 3))[0]
    expected = 4000 * joint / joint.sum()
    assert scipy.stats.chisquare(counts.ravel(), expected.ravel()).pvalue > 1e-3


def p_cdf(prediction, value):
    """The cdf of a prediction of one row at many values."""
    return np.array([prediction.cdf(float(x))[0] for x in np.atleast_1d(value)])


def test_conditioned_columns_are_drawn_within_their_ranges():
    known = given_cells(GAUSSIAN.schema, {"v": Between(-2.0, -0.5)}, unknown="error")
    many = GivenCells(known.cells[np.zeros(3000, np.int64)], known.conditions)
    drawn = many.particles(GAUSSIAN, seed=0, drawn=True).drawn(1, seed=0).value[:, 1]
    assert scipy.stats.kstest(drawn, truncated(-2.0, -0.5).cdf).pvalue > 1e-3
    # Several: one of 32 candidates each, close to the box.
    known = given_cells(GAUSSIAN.schema, TWO, unknown="error")
    many = GivenCells(known.cells[np.zeros(3000, np.int64)], known.conditions)
    drawn = many.particles(GAUSSIAN, seed=0, drawn=True).drawn(1, seed=0).value[:, [1, 3]]
    rows = np.random.default_rng(1).multivariate_normal(GAUSSIAN.mean, GAUSSIAN.cov, 100_000)
    kept = rows[(np.abs(rows[:, 1] + 2) <= 1) & (np.abs(rows[:, 3] - 3.5) <= 0.5)][:, [1, 3]]
    error = kept.std(0) / np.sqrt(3000)
    assert (np.abs(drawn.mean(0) - kept.mean(0)) < 4 * error).all()
    assert (np.abs(drawn - [-2.0, 3.5]) <= [1.0, 0.5]).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Between(2, 1), "`low` must be at most `high`, got 2 and 1"),
        (lambda: Between(high=float("nan")), "`high` must be a number or None, got nan"),
        (lambda: OneOf([]), "`labels` must hold at least one label, got none"),
        (lambda: OneOf("clear"), "`labels` must be a list of labels, got 'clear'"),
    ],
)
def test_conditions_that_make_no_sense(build, message):
    with pytest.raises(ExfamError, match=message):
        build()


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (DISCRETE, {"b": Between(0, 1)}, "must be OneOf for the categorical column 'b'"),
        (DISCRETE, {"b": OneOf([7])}, "must name labels of the column 'b', 0, 1, 2, got 7"),
        (DISCRETE, {"c": Between(2, 9)}, "must name labels of the column 'c', .* got 9"),
        (GAUSSIAN, {"v": OneOf([1.0])}, "must be Between for the numeric column 'v'"),
        (GAUSSIAN, {"v": Between("a", "b")}, "must be Between two numbers for the numeric"),
        (GAUSSIAN, {"v": Between(900, 901)}, "can be true together, got ones of prob.* row 0"),
        (GAUSSIAN, {"w": Between(0, 1)}, "on columns that are not in `of`, got one on 'w'"),
        (GAUSSIAN, {"z": Between(0, 1)}, "'z'"),
    ],
)
def test_conditions_suit_their_column(model, given, message):
    with pytest.raises(DataError, match=message):
        answer(model, given, ["a" if model is DISCRETE else "w"])


def test_labels_in_falling_order_and_dates_are_refused():
    schema = TableSchema((labels("c", 4, "ordinal"), Column("when", "date", knots=np.zeros(1))))
    sizes = Column("size", "ordinal", labels=label_array(["S", "M", "L"]))
    with pytest.raises(DataError, match="`low` at or before `high` in the order .* of 'size'"):
        read_conditions(TableSchema((sizes,)), {"size": Between("L", "S")})
    with pytest.raises(DataError, match="columns that can be predicted, got 'when', which is a d"):
        read_conditions(schema, {"when": Between(0, 1)})


@BOTH
def test_knowing_more_never_costs(model, cells):
    check_that_knowing_more_helps(model, cells)


def test_a_model_that_knows_less_from_more_is_found():
    backwards = discrete_joint(heat=-1.0)
    with pytest.raises(AssertionError, match="knowing more costs"):
        check_that_knowing_more_helps(backwards, discrete_rows(backwards, 300))


EVERY_ROW = cells_of(SPOILED.schema, list(itertools.product(*map(range, SPOILED.probs.shape))))


def test_the_mean_over_orders_is_a_distribution_of_rows():
    several = row_log_prob(SPOILED, EVERY_ROW, order=None, n_orders=4, seed=0)
    np.testing.assert_allclose(np.exp(several).sum(), 1.0)
    orders = chosen_orders(SPOILED.schema.targets, order=None, n_orders=4, seed=0)
    assert len(set(orders)) == 4
    logs = np.stack([chain_log_prob(SPOILED, EVERY_ROW, order=order) for order in orders])
    np.testing.assert_allclose(several, np.log(np.exp(logs).mean(0)))
    assert (several >= logs.mean(0) - 1e-12).all()
    one, plain = (
        row_log_prob(SPOILED, EVERY_ROW, order=order, n_orders=n, seed=0)
        for order, n in ((None, 1), (["a", "b", "c"], None))
    )
    np.testing.assert_array_equal(one, plain)
    np.testing.assert_array_equal(one, mixed_log_prob(SPOILED, EVERY_ROW, orders=[list("abc")]))
    every = row_log_prob(SPOILED, EVERY_ROW, order=None, n_orders=None, seed=0)
    again = row_log_prob(SPOILED, EVERY_ROW, order=None, n_orders=99, seed=5)
    np.testing.assert_allclose(every, again)  # all six orders
    with pytest.raises(ExfamError, match="`n_orders` must be left out where `order` is given, got"):
        row_log_prob(SPOILED, EVERY_ROW, order=["a"], n_orders=2, seed=0)


@EVERY
def test_a_fitted_model_answers_conditions(kind):
    model = fitted(kind)
    given = {"height": Between(low=170.0), "city": OneOf(["Oslo", "Rome"]), "member": True}
    result = model.conditional(["grade"], given=given)
    np.testing.assert_allclose(result.probs("grade").sum(1), 1.0)
    assert -20 < result.condition_log_prob[0] < 0
    drawn = model.sample(60, given=given, seed=0)
    assert (drawn["height"] >= 170).all() and set(drawn["city"]) == {"Oslo", "Rome"}
    for name, values in model.sample(60, given=given, seed=0).items():
        np.testing.assert_array_equal(values, drawn[name])
    plain = model.sample(30, seed=0)
    ordered = model.sample(30, order=model.schema_.targets, seed=0)
    assert any((plain[name] != ordered[name]).any() for name in plain)
