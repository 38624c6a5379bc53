"""Parts of the default model of a column: encodings, filling in, predictors, pools."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import torch
from scipy.special import log_softmax
from sklearn.linear_model import RidgeCV

from exfam.tables.base import views
from exfam.tables.base.encode import learn_column, squashed, unsquashed
from exfam.tables.base.heads import LatentRootHead, OrderedHead, SoftmaxHead, StudentHead
from exfam.tables.base.linear_heads import HeadRows, _Objective, fit_head
from exfam.tables.base.pool import (
    SHARES,
    _LabelNats,
    _NumberNats,
    disagreement,
    doubt_outside,
    pool_labels,
    pool_numbers,
    widened,
)
from exfam.tables.base.residual_network import ResidualNetwork
from exfam.tables.base.response_task import held_by_fold
from exfam.tables.base.ridge import PENALTIES, fit_plain_ridge
from exfam.tables.base.unit import Unit, units_of
from exfam.tables.base.views import learn_fill

RANDOM = np.random.default_rng
ROOTS = Unit(center=1.2, spread=0.7, scale="root")
HEADS = {
    "softmax": (SoftmaxHead(3), lambda random: random.integers(0, 3, 60)),
    "ordered": (OrderedHead(4), lambda random: random.integers(0, 4, 60)),
    "student": (StudentHead(), lambda random: random.normal(size=60)),
    "count": (LatentRootHead(ROOTS), lambda random: ROOTS.to_unit(1.0 * random.poisson(2.0, 60))),
}


def test_numbers_far_out_grow_as_their_logarithm():
    unit = np.array([-1e6, -2.0, -0.5, 0.0, 1.9, 2.0, 50.0])
    squeezed = squashed(unit)
    np.testing.assert_array_equal(squeezed[1:6], unit[1:6])
    assert np.abs(squeezed).max() < 17 and (np.diff(squeezed) > 0).all()
    np.testing.assert_allclose(unsquashed(squeezed), unit)
    assert np.isfinite(unsquashed(squashed(np.array([1e300]))) ** 2)


def test_encodings_do_not_depend_on_the_unit():
    value = RANDOM(0).lognormal(size=300)
    one, other = (learn_column(scale * value, is_label=False) for scale in (1.0, 1e-6))
    np.testing.assert_allclose(one.numbers(value), other.numbers(1e-6 * value), atol=1e-9)
    np.testing.assert_allclose(one.edges, other.edges, atol=1e-9)


def test_a_value_that_many_rows_hold_is_an_edge():
    value = np.r_[np.zeros(200), RANDOM(0).normal(5, 1, 100)]
    code = learn_column(value, is_label=False)
    assert np.isclose(code.edges, code.numbers(np.zeros(1))[0, 0]).any()
    steps = code.steps(code.numbers(value)[:, 0])
    assert steps.min() == -0.5 and steps.max() == 0.5


@pytest.mark.parametrize("value", [np.full(20, 3.0), np.full(20, np.nan)])
def test_columns_that_say_nothing_have_finite_features(value):
    code = learn_column(value, is_label=False)
    assert np.isfinite(code.steps(np.zeros(3))).all()
    assert code.n_features == 2 + code.steps(np.zeros(3)).shape[1]


@pytest.mark.parametrize("many", [False, True])
def test_missing_numbers_are_conditional_means(many, monkeypatch):
    monkeypatch.setattr(views, "_MANY_NUMBERS", 3 if many else 400)
    random = RANDOM(0)
    mixed = random.normal(size=(2000, 4)) @ random.normal(size=(4, 4))
    numbers = np.where(random.random(mixed.shape) < 0.2, np.nan, mixed)
    fill = learn_fill(numbers)
    filled, row = fill(numbers), np.flatnonzero(np.isnan(numbers).sum(1) == 2)[0]
    seen, missing = ~np.isnan(numbers[row]), np.isnan(numbers[row])
    z = ((numbers[row] - fill.mean) / fill.spread)[seen]
    weights = fill.correlation[np.ix_(missing, seen)] @ np.linalg.inv(
        fill.correlation[np.ix_(seen, seen)]
    )
    np.testing.assert_allclose(
        filled[row, missing], (weights @ z) * fill.spread[missing] + fill.mean[missing], rtol=1e-6
    )
    np.testing.assert_array_equal(filled[~np.isnan(numbers)], numbers[~np.isnan(numbers)])
    error = np.square(filled - mixed)[np.isnan(numbers)].mean()
    assert error < 0.7 * np.square(fill.mean - mixed)[np.isnan(numbers)].mean()
    np.testing.assert_allclose(fill(np.full((1, 4), np.nan))[0], fill.mean)


@pytest.mark.parametrize("name", HEADS)
def test_derivatives_of_predictors(name):
    head, drawn = HEADS[name]
    random = RANDOM(1)
    y, x = drawn(random).astype(float), random.normal(size=(60, 3))
    bias, shared = head.start(y, np.ones(60))
    point = np.concatenate([random.normal(size=3 * head.n_outputs), bias, shared])
    objective = _Objective(head, x, y, np.full(60, 1 / 60))
    value, slope = (lambda p, k=k: objective.value(p, 0.3)[k] for k in (0, 1))
    assert scipy.optimize.check_grad(value, slope, point) < 1e-5


def test_predictors_are_distributions():
    score = RANDOM(0).normal(size=7) * 4
    log_probs = OrderedHead(5).log_probs(score, np.array([-1.0, 0.3, -2.0, 1.0]))
    np.testing.assert_allclose(np.exp(log_probs).sum(1), 1.0)
    nats, _, _ = StudentHead().nats(np.zeros((3, 1)), np.full(1, 0.4), np.arange(3.0))
    witness = scipy.stats.t(5, scale=np.exp(0.4)).logpdf(np.arange(3.0))
    np.testing.assert_allclose(-nats, witness)


def test_the_penalty_is_the_best_on_held_rows():
    random = RANDOM(2)
    x, noise = random.normal(size=(400, 30)), random.normal(size=400)
    parts = [HeadRows(x[k::2], (x[:, 0] + noise)[k::2], np.ones(200)) for k in (0, 1)]
    strict = fit_head(StudentHead(), *parts, penalties=(3.0,))
    best = fit_head(StudentHead(), *parts)
    assert best.validation < strict.validation and best.penalty < 3.0


def test_ridge_regression_is_that_of_scikit_learn():
    random = RANDOM(3)
    x = random.standard_t(3, size=(80, 6)) * [1, 1, 9, 1, 1, 0]
    y = x @ [2.0, 1.0, -0.2, 0.0, 0.0, 1.0] + random.normal(size=80)
    fitted = fit_plain_ridge(HeadRows(x, y, np.full(80, 3.0)))
    unit = (x[:, :5] - x[:, :5].mean(0)) / x[:, :5].std(0)
    witness = RidgeCV(80 * PENALTIES).fit(unit, y)
    assert np.isclose(witness.alpha_, 80 * fitted.penalty)
    np.testing.assert_allclose(fitted.outputs(x)[:, 0], witness.predict(unit))


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_numbers_that_training_knows_to_the_last_digit_have_a_scale(slope):
    x = RANDOM(0).normal(size=(60, 2))
    y, weight = slope * x[:, 0], np.ones(60)
    part = HeadRows(x, y, weight)
    fitted = fit_head(StudentHead(), part, part, penalties=(1e-3, 1e-12))
    assert -12 <= fitted.shared[0] < 0
    np.testing.assert_allclose(fitted.outputs(x)[:, 0], y, atol=0.05)


def test_a_network_adds_nothing_before_training():
    network = ResidualNetwork(5, 3, generator=torch.Generator().manual_seed(0))
    assert not network.correction(RANDOM(0).normal(size=(8, 5))).any()


def test_members_of_a_network_are_one_network_whose_units_they_scale():
    network = ResidualNetwork(5, 3, generator=torch.Generator().manual_seed(0)).eval()
    random = RANDOM(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.from_numpy(random.normal(size=parameter.shape)) / 5)
    x = torch.from_numpy(random.normal(size=(8, 5)) * 4).float()
    for member, outputs in enumerate(network(x)):
        own = (network.input_scale, network.wide_scale, network.deep_scale)
        scale, wide, deep = (part[member] for part in own)
        hidden = (network.wide(x.clamp(-5, 5) * scale) * wide).relu()
        hidden = (network.deep(hidden) * deep).relu()
        expected = hidden @ network.head[member] + network.bias[member]
        torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-5)


def test_pools_of_labels_prefer_the_member_that_knows():
    random = RANDOM(3)
    logits, y = random.normal(size=(800, 3)) * 2, np.empty(800)
    for row, chances in enumerate(np.exp(log_softmax(logits, axis=1))):
        y[row] = random.choice(3, p=chances)
    members = np.stack([np.full((800, 3), -np.log(3)), log_softmax(logits, axis=1)])
    pool = pool_labels([members] * len(SHARES), y, np.ones(800))
    assert (pool.weights[:, 1] > 0.8).all() and (pool.weights[:, 0] < 0.2).all()


def test_pools_of_numbers_know_their_scale_and_tails():
    random = RANDOM(4)
    location = random.normal(size=3000)
    for draw, heavier in (
        (random.normal(size=3000), False),
        (random.standard_t(2.5, 3000), True),
    ):
        members = np.stack([np.zeros(3000), location])
        zero = [np.zeros(3000)] * len(SHARES)
        pool = pool_numbers([members] * len(SHARES), zero, location + 0.5 * draw, np.ones(3000))
        assert (pool.df < 4) == heavier and pool.weights[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_derivatives_of_pools(kind):
    random = RANDOM(7)
    share, y = random.dirichlet(np.ones(30)), random.normal(size=30)
    if kind == "labels":
        nats = _LabelNats(random.normal(size=(3, 30, 4)), random.integers(0, 4, 30), share)
    else:
        scales = random.normal(size=(2, 30))
        nats = _NumberNats(
            random.normal(size=(3, 30)), *scales, y, share, log_least=-0.7, n_apart=2
        )
    point = random.normal(size=6)[: 4 if kind == "labels" else 6]
    value, slope = (lambda free, k=k: nats(free)[k] for k in (0, 1))
    assert scipy.optimize.check_grad(value, slope, point) < 1e-5


def test_pools_of_numbers_are_wider_where_members_disagree():
    random = RANDOM(5)
    apart = np.where(np.arange(3000) < 2000, 0.0, 3.0)
    members = np.stack([np.zeros(3000), -apart, apart])
    y = (0.1 + apart) * random.normal(size=3000)
    zero = [np.zeros(3000)] * len(SHARES)
    pool = pool_numbers([members] * len(SHARES), zero, y, np.ones(3000))
    inner = disagreement([members], n_apart=1)
    weights = np.repeat(pool.weights[:1], 3000, axis=0)
    distances = [np.zeros(3000), np.full(3000, 9.0)]
    outer = [doubt_outside([members], weights, far, n_apart=1) for far in distances]
    inside, outside = (np.exp(widened(pool.scale[:1], zero[0], inner, own)) for own in outer)
    assert 0.05 < inside[0] < 0.2 and 2 < inside[-1] < 4
    assert np.isclose(outside[0], inside[0]) and outside[-1] > 2 * inside[-1]


def test_what_a_member_apart_says_makes_rows_outside_wider_by_its_weight():
    """And no density counts that is narrower than numbers are recorded."""
    members = np.stack([np.zeros(400), RANDOM(6).normal(size=400) * 9, np.ones(400)])
    inner = disagreement([members], n_apart=2)
    assert not inner.any() and disagreement([members], n_apart=1).all()
    weights, far = np.tile([0.0, 0.5, 0.5], (400, 1)), np.ones(400)
    apart = (members[1] - members[2]) / 2
    doubt = doubt_outside([members], weights, far, n_apart=2)
    np.testing.assert_allclose(doubt, 1.5**2 * 0.5 * apart**2)
    zero, y = [np.zeros(400)], np.ones(400)
    pool = pool_numbers([members], zero, y, y, least=0.3, n_apart=2)
    assert widened(pool.scale, zero[0], inner)[0] > np.log(0.3) - 2


@pytest.mark.parametrize("scale", ["identity", "log", "asinh"])
def test_densities_are_of_the_number_itself(scale):
    y = RANDOM(0).lognormal(size=20) * 1e3
    if scale == "asinh":
        y = np.append(y, -y)
    unit = Unit(center=2.0, spread=0.5, scale=scale, bend=600.0)
    z, step = unit.to_unit(y), 1e-6
    slope = (unit.to_unit(y * (1 + step)) - unit.to_unit(y * (1 - step))) / (2 * step * y)
    np.testing.assert_allclose(unit.log_slope(y), np.log(slope), atol=1e-5)
    zero = np.zeros(len(y))
    eta = torch.from_numpy(unit.eta(zero, zero, 4.0))
    witness = scipy.stats.t(4).logpdf(z) + unit.log_slope(y)
    np.testing.assert_allclose(unit.family.log_prob(torch.from_numpy(y), eta), witness, rtol=1e-5)


def test_what_lies_behind_a_count_is_near_its_root_and_behind_none_below_its_edge():
    head, count = LatentRootHead(ROOTS), np.array([0.0, 0.0, 3.0, 400.0])
    y, location = ROOTS.to_unit(count), np.array([-3.0, 1.0, 0.0, 0.0])
    found = head.completed(location, np.zeros(1), y)
    low, width = ROOTS.bins_of(count)
    assert (found[:2] <= width[:2]).all() and found[0] < found[1]
    assert ((low <= found) & (found <= low + width))[2:].all()
    np.testing.assert_array_equal(ROOTS.counts(y), count)


@pytest.mark.parametrize("scale", ["identity", "log", "root", "asinh"])
def test_masses_of_whole_numbers_sum_to_one(scale):
    first = 0.0 if scale == "root" else 1.0
    unit = Unit(center=2.0, spread=0.1, scale=scale)
    low, width = unit.bins_of(np.arange(first, 60.0))
    t = scipy.stats.t(5)
    upper = np.where(np.isinf(low), width, low + width)
    mass = t.cdf(upper) - t.cdf(low)
    assert mass.sum() == pytest.approx(t.cdf(upper[-1]) - t.cdf(low[0]))
    assert mass.sum() > 0.99 or scale == "identity"


def test_units_are_those_of_the_numbers_with_a_bend_below_most_and_one_amid_them():
    y = np.append(RANDOM(0).lognormal(2.0, 1.5, 300), np.zeros(20))
    identity, logs, *bent = units_of(y + 1, ["identity", "log", "asinh"])
    assert (identity.scale, logs.scale) == ("identity", "log")
    size = np.median(y + 1)
    assert [unit.bend for unit in bent] == pytest.approx([size, size / 10])
    for unit in (identity, logs, *bent):
        assert np.median(unit.to_unit(y + 1)) == pytest.approx(0.0, abs=1e-9)
    assert units_of(np.zeros(5), ["asinh"]) == []


@pytest.mark.parametrize("n_rows", [1, 3, 7, 200, 2000, 4000, 20_000])
def test_folds_hold_out_rows_once_and_train_on_others(n_rows):
    held = held_by_fold(n_rows, random=RANDOM(0))
    assert held.sum(0).max() == 1 and (held.any(1)).all()
    assert n_rows >= 3000 or held.all(0).sum() == (n_rows if n_rows < 4 else 0)
    stretches = held_by_fold(n_rows, random=RANDOM(0), in_order=True)
    assert all((np.diff(np.flatnonzero(own)) == 1).all() for own in stretches)


def test_a_scale_has_to_be_one_of_three():
    with pytest.raises(ValueError, match="`scale` must be one of"):
        Unit(scale="square")
