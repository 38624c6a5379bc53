"""What single families promise beyond the laws of all: precision, limits, options, errors."""

import re

import numpy as np
import pytest
import torch
from scipy import stats

from exfam.checks import ExfamError
from exfam.efa.latent_factor import LatentFactor
from exfam.families import (
    Bernoulli,
    Binomial,
    Categorical,
    Exponential,
    Gamma,
    Gaussian,
    NegativeBinomial,
    Ordinal,
    PerItem,
    Poisson,
    choose_family,
    family_from_config,
    family_of_words,
)
from exfam.families.base import bounded
from exfam.families.numeric import log_rising_factorial, search_integer, stirling
from family_cases import MIXED

DOUBLE = torch.float64


def close(actual, expected, tolerance=1e-9, *, rtol=None):
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    rtol = tolerance if rtol is None else rtol
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=tolerance)


def refused(message):
    return pytest.raises(ExfamError, match=re.escape(message))


def test_bounds_pass_the_gradient_so_that_a_rate_that_overshoots_is_pulled_back():
    x = torch.tensor([-1e30, 0.5, 1e30], requires_grad=True)
    kept = bounded(x, -2.0, 2.0)
    kept.sum().backward()
    assert kept.tolist() == [-2.0, 0.5, 2.0] and x.grad.tolist() == [1.0, 1.0, 1.0]
    eta = torch.tensor([[80.0]], requires_grad=True)
    Poisson().log_prob(torch.tensor([3.0]), eta).backward()
    assert eta.grad < 0


@pytest.mark.parametrize("x", [1e-6, 0.3, 9.99, 10.0, 10.01, 250.0, 1e5])
def test_the_series_meets_the_gamma_function(x):
    at, k = torch.tensor(x, dtype=DOUBLE), torch.tensor([0.0, 1.0, 17.0, 400.0], dtype=DOUBLE)
    close(stirling(at), at * at.log() - at - at.lgamma(), 1e-9)
    close(log_rising_factorial(at, k), (at + k).lgamma() - at.lgamma() - k * at.log(), 1e-8)


def test_quantiles_of_large_counts_are_those_of_scipy():
    p = torch.tensor([0.01, 0.3, 0.5, 0.9, 0.9999], dtype=DOUBLE)
    rate = torch.tensor(12.0, dtype=DOUBLE)
    close(Poisson().quantile(p, rate[None]), stats.poisson.ppf(p, rate.exp()))
    eta = torch.stack([rate, 0.5 * rate - 1])
    size = eta[1].exp()
    expected = stats.nbinom.ppf(p, size, size / (size + rate.exp()))
    close(NegativeBinomial().quantile(p, eta), expected)
    # Numbers so large that their neighbors are more than 1 apart end it too.
    far = search_integer(lambda k: (k / 2.0**58).clamp(max=1), p, (5,))
    close(far, p * 2.0**58, 0.0, rtol=1e-15)
    # A cdf that never arrives ends the search.
    assert search_integer(lambda k: torch.full_like(k, 0.9), p, (5,))[3].isfinite()


@pytest.mark.parametrize("log_shape", [-6.0, 0.0, 2.4, 8.0, 14.0])
def test_negative_binomial_and_gamma_keep_single_precision(log_shape):
    count, eta = torch.tensor([0.0, 1.0, 30.0, 200.0]), torch.tensor([3.0, log_shape])
    shape, mean = torch.tensor([log_shape, 3.0], dtype=DOUBLE).exp().tolist()
    expected = stats.nbinom.logpmf(count.double(), shape, shape / (shape + mean))
    close(NegativeBinomial().log_prob(count, eta), expected, 1e-4, rtol=1e-5)
    value = 5.0 * (1 + torch.tensor([-2.0, 0.0, 1.0]) * 0.3 * min(1.0, shape**-0.5))
    eta = torch.stack([torch.tensor(5.0).log(), eta[1]])
    expected = stats.gamma.logpdf(value.double(), shape, scale=5.0 / shape)
    # The logarithm of a value near 5 is known to 1e-7, and weighs sqrt(shape) times its distance.
    close(Gamma().log_prob(value, eta), expected, 2e-3, rtol=1e-5)


def test_gaussians_and_ordinals_far_out_keep_single_precision():
    nats = Gaussian().log_prob(torch.tensor([10000.01]), torch.tensor([[10000.0, -3.0]]))
    scale = float(torch.tensor(-3.0).exp())
    close(nats, [stats.norm.logpdf(float(torch.tensor(10000.01)), 10000.0, scale)], 1e-5)
    # Far from both thresholds a difference of sigmoids is 0 in single precision.
    nats = Ordinal(3).log_prob(torch.tensor(1.0), torch.tensor([60.0, 0.0, 1.0]))
    upper = torch.nn.functional.softplus(torch.tensor(1.0, dtype=DOUBLE))
    close(nats.double(), -60.0 + (upper.exp() - 1).log(), 0.0, rtol=1e-6)
    assert not Gamma().in_support(torch.zeros(1)) and Exponential().in_support(torch.zeros(1))


def test_starts_by_hand():
    # Labels never seen keep half an observation.
    value = torch.tensor([0.0, 0.0, 2.0, 2.0])
    for family in (Categorical(3), Ordinal(3)):
        close(family.probs(family.initial_eta(value)), [4 / 9, 1 / 9, 4 / 9], 1e-6)
    close(Bernoulli().mean(Bernoulli().initial_eta(torch.zeros(10))), 0.05, 1e-6)
    # Where exp(eta) can move.
    close(Poisson(link="one-plus-exp").initial_eta(torch.zeros(1000)), [-4.605170], 1e-5)
    value = torch.tensor([0.0, 0.0, 1.0, 9.0, 15.0], dtype=DOUBLE)
    start = NegativeBinomial().initial_eta(value)
    close(NegativeBinomial().mean(start), value.mean())
    close(NegativeBinomial().variance(start), value.var(correction=0))
    with pytest.raises(ExfamError, match="`value` must hold at least one number .* none among 2"):
        Poisson().initial_eta(torch.tensor([-1.0, 0.5]))


def test_per_item_shares_columns_of_equal_families_and_chooses_by_element():
    assert MIXED.distinct == (Poisson(shift=1), Gaussian(), Gamma())
    assert MIXED.columns == ((0,), (1, 3), (2, 4))
    assert (MIXED.n_params, MIXED.n_dispersion) == (5, 2)
    eta = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
    item, value = torch.tensor([0, 1, 2, 3, -1]), torch.tensor([1.0, -2.0, 0.5, 4.0, 2.5])
    nats = MIXED.log_prob(value, eta, item=item)
    for row, code in enumerate(item.tolist()):
        family = MIXED.families.get(code, MIXED.default)
        columns = list(MIXED.columns[MIXED.distinct.index(family)])
        torch.testing.assert_close(nats[row], family.log_prob(value[row], eta[row, columns]))
    assert MIXED.in_support(value, item).all()
    assert MIXED.in_support(torch.full((5,), -2.0), item).tolist() == [False, True] + [False] * 3
    eta = MIXED.initial_eta(torch.tensor([2.0, 4.0, -1.0, -3.0]), item=torch.tensor([0, 3, 1, 1]))
    close(MIXED.mean(eta, item=torch.tensor([3, 1])), [3.0, -2.0], 1e-6)
    assert (eta[list(MIXED.columns[2])] == 0).all()


def test_per_item_of_one_family_is_that_family_of_items_it_knows():
    family, item = PerItem({0: Bernoulli(), 1: Bernoulli()}), torch.zeros(3, dtype=torch.int64)
    eta = torch.tensor([0.3])
    assert family.categories == (0, 1) and "bernoulli: 0 or 1" in family.support
    probs = family.probs(eta, item=item)
    torch.testing.assert_close(probs, Bernoulli().probs(eta).expand(3, 2))
    assert PerItem({0: Bernoulli(), 1: Binomial(2)}).n_categories is None
    with refused("`item` must be given to PerItem, got None"):
        family.mean(torch.zeros(1))
    for code in (2, -1):
        with refused(f"one of the 2 items with a family, got {code}"):
            family.mean(torch.zeros(1), item=torch.tensor([0, code]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Binomial(True), "`n` must be an integer >= 1, got"),
        (lambda: Categorical(0), "`n` must be an integer >= 1, got 0"),
        (lambda: Ordinal(1), "`n` must be an integer >= 2, got 1"),
        (lambda: Ordinal(3, start=False), "`start` must be an integer, got False"),
        (lambda: Poisson(shift=True), "`shift` must be an integer, got True"),
        (lambda: NegativeBinomial(shift=False), "`shift` must be an integer, got False"),
        (lambda: Poisson(link="exp"), "`link` must be one of 'log', 'one-plus-exp', got 'exp'"),
        (lambda: Poisson(shift=1, link="one-plus-exp"), '`shift` must be 0 with link="one-plus-ex'),
        (lambda: Gaussian(scale=0.0), "`scale` must be a number > 0, got 0.0"),
        (lambda: PerItem({}), "`families` must name at least one item, got none"),
        (lambda: PerItem({-1: Poisson()}), "`families` must be an integer >= 0, got -1"),
        (lambda: PerItem({0: MIXED}), "`families` must hold families other than PerItem, got "),
        (lambda: Gamma().log_prob(torch.ones(3), torch.zeros(3, 1)), "`eta` must have 2 columns f"),
        (lambda: MIXED.mean(torch.zeros(2), item=torch.tensor(0)), "`eta` must have 5 columns for"),
        (
            lambda: Gamma().from_mean(torch.ones(2), dispersion=torch.zeros(2, 3)),
            "`dispersion` must have 1 columns for Gamma(), got shape",
        ),
        (lambda: Bernoulli().quantile(torch.nan, torch.zeros(1)), "`p` must be in [0, 1], got "),
        (
            lambda: Bernoulli().quantile(torch.tensor([0.5, 2.0]), torch.zeros(1)),
            "`p` must be in [0, 1], got 2",
        ),
    ],
)
def test_impossible_options_and_arguments_are_refused(call, message):
    with refused(message):
        call()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"shift": 1}, "`config` must be a dictionary with a name, got "),
        ({"name": "zipf"}, "`name` must be one of 'bernoulli', .* got 'zipf'"),
        ({"name": "poisson", "shfit": 1}, r"options of poisson \(link, shift\), got 'shfit'"),
        ({"name": "bernoulli", "n": 1}, r"options of bernoulli \(none\), got 'n'"),
        ({"name": "binomial"}, "`config` must hold 'n' for binomial, got "),
        ({"name": "per-item", "families": [1]}, r"`families` must map item codes .* got \[1\]"),
        ({"name": "per-item", "families": {"x": 1}}, "`families` must map item codes to families"),
        ({"name": "gaussian", "standardized": {"center": 1.0}}, "`standardized` must hold a cente"),
        (
            {"name": "gaussian", "standardized": {"center": "1", "scale": 1.0}},
            "`center` must be a number, got '1'",
        ),
    ],
)
def test_impossible_configs_are_refused(config, message):
    with pytest.raises(ExfamError, match=message):
        family_from_config(config)


def test_hints_follow_the_support():
    assert Poisson(shift=1).hint == "Use Poisson(shift=0) for counts from 0."
    assert NegativeBinomial(shift=2).hint == "Use NegativeBinomial(shift=0) for counts from 0."
    assert Poisson().hint == "Use Gaussian() for real numbers." and Gaussian().hint == ""
    assert Ordinal(5).hint == "Use Ordinal(5, start=1) for 1 to 5, or a larger n."
    assert Categorical(3, start=1).hint == "Use Categorical(3, start=0) for 0 to 2, or a larger n."
    assert Binomial(5).hint.endswith("or Ordinal(5, start=1) for ratings 1 to 5.")
    assert "Ordinal" not in Binomial(1).hint


@pytest.mark.parametrize(
    ("given", "family"),
    [
        ("ordinal(n=5, start=1)", Ordinal(5, start=1)),
        ("Poisson(1)", Poisson(shift=1)),
        ("negative_binomial()", NegativeBinomial()),
        ("poisson", Poisson()),
    ],
)
def test_a_family_is_written_in_python_as_on_the_command_line(given, family):
    assert choose_family(given) == family == family_of_words(given)


def test_a_family_that_is_written_wrongly_is_refused_with_what_it_takes():
    with refused("`family` must be a family with arguments it takes, got 'm' as an argument."):
        choose_family("ordinal(n=5, m=1)")
    with refused("Pass 'ordinal(…)' or exfam.families.Ordinal(…)."):
        choose_family("ordinal")


def test_a_model_takes_and_keeps_a_family_with_arguments(tmp_path):
    frame = {"u": [k // 3 for k in range(30)], "i": list("abc") * 10, "v": [1, 3, 5] * 10}
    columns = {"group": "u", "item": "i", "value": "v"}
    written, built = (
        LatentFactor(**columns, family=family, parts="values", progress=False).fit(frame)
        for family in ("ordinal(n=5, start=1)", Ordinal(5, start=1))
    )
    np.testing.assert_array_equal(written.predict(frame), built.predict(frame))
    written.save(tmp_path / "model")
    loaded = LatentFactor.load(tmp_path / "model")
    assert loaded.family == "ordinal(n=5, start=1)"
    np.testing.assert_array_equal(loaded.predict(frame), written.predict(frame))
