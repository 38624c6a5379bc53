"""Families made of others, and single promises of the newer ones: words, files, limits, errors."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

import exfam
from estimator_cases import make, ratings, same_bits
from exfam.checks import ExfamError, SupportError
from exfam.families import (
    Beta,
    Gamma,
    Gaussian,
    NegativeBinomial,
    PerItem,
    Poisson,
    Tweedie,
    VonMises,
    Weibull,
    ZeroInflated,
    ZeroOneInflatedBeta,
    choose_family,
    family_from_config,
    family_of_words,
    family_to_config,
)

DOUBLE = torch.float64
WRITTEN = {
    "zero-inflated(negative-binomial)": ZeroInflated(NegativeBinomial()),
    "zero_inflated(family=poisson(link='one-plus-exp'))": ZeroInflated(
        Poisson(link="one-plus-exp")
    ),
    "zero-inflated(zero-inflated(gamma))": ZeroInflated(ZeroInflated(Gamma())),
    "zero-one-inflated-beta": ZeroOneInflatedBeta(),
    "tweedie(1.9)": Tweedie(1.9),
}


@pytest.mark.parametrize("words", WRITTEN)
def test_a_family_made_of_another_is_written_and_saved_as_it_is_nested(words):
    family = WRITTEN[words]
    assert choose_family(words) == family
    assert family_from_config(json.loads(json.dumps(family_to_config(family)))) == family
    mapping = {"name": "zero-inflated", "family": {"name": "poisson", "shift": 0}}
    assert family_of_words(mapping) == ZeroInflated(Poisson())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ZeroInflated(PerItem({0: Poisson()})),
            "`family` of ZeroInflated must be a family that is the same",
        ),
        (lambda: Tweedie(2.0), r"`power` must be a number from 1\.01 to 1\.99, got 2\.0\. Use"),
        (lambda: family_of_words("zero-inflated(7)"), "`family` must be a family .* got 7"),
        (lambda: family_of_words("zero-inflated"), "got none for 'family'. zero-inflated takes f"),
        (lambda: family_of_words("zero-inflated(beton)"), "got 'zero-inflated.beton.'. Write it"),
        (lambda: VonMises().from_mean(torch.zeros(1)), "`family` must be determined by its mean"),
    ],
)
def test_impossible_families_are_refused(call, message):
    with pytest.raises(ExfamError, match=message):
        call()


FRAME = ratings(least=0)


@pytest.mark.parametrize("family", ["zero-inflated(poisson)", Tweedie(), Weibull()], ids=str)
def test_models_fit_save_and_load_them(family, tmp_path):
    frame = FRAME if not isinstance(family, Weibull) else ratings(least=1)
    model = make("efa", parts="values", max_epochs=1, family=family).fit(frame)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert same_bits(loaded, model) and np.isfinite(model.score(frame))
    assert (model.predict(frame) >= 0).all()
    np.testing.assert_array_equal(loaded.log_prob(frame), model.log_prob(frame))


def test_values_outside_the_support_are_refused_by_row():
    frame = FRAME.assign(stars=-1.0)
    with pytest.raises(SupportError, match="`stars` must be .* got -1 at row"):
        make("efa", parts="values", family="zero-inflated(gamma)").fit(frame)


def test_zero_inflated_counts_are_the_textbook_formula():
    eta = torch.tensor([1.2, -0.4], dtype=DOUBLE)
    value = torch.arange(9, dtype=DOUBLE)
    rate, zero = float(eta[0].exp()), float(eta[1].sigmoid())
    expected = (1 - zero) * stats.poisson.pmf(value, rate) + zero * (value.numpy() == 0)
    probs = ZeroInflated(Poisson()).log_prob(value, eta).exp()
    np.testing.assert_allclose(probs, expected, rtol=1e-12)


def test_more_zeros_are_learned_and_none_are_left_where_there_are_none():
    random = np.random.default_rng(0)
    counts = torch.from_numpy(random.poisson(3.0, 4000) * (random.random(4000) < 0.7)).double()
    rate, weight = ZeroInflated(Poisson()).initial_eta(counts)
    assert abs(float(rate.exp()) - 3) < 0.15 and abs(float(weight.sigmoid()) - 0.3) < 0.03
    none = ZeroInflated(Poisson()).initial_eta(counts[counts > 0])
    assert none[1] < -5
    shares = torch.tensor([0.0] * 30 + [1.0] * 10 + [0.2, 0.6] * 30, dtype=DOUBLE)
    eta = ZeroOneInflatedBeta().initial_eta(shares)
    share = torch.cat([torch.zeros(1), eta[2:]]).softmax(0)
    torch.testing.assert_close(share, torch.tensor([0.6, 0.3, 0.1], dtype=DOUBLE))
    inner = shares[(shares > 0) & (shares < 1)]
    torch.testing.assert_close(eta[:2], Beta().initial_eta(inner))
    # Of atoms alone the family between is anything.
    assert ZeroOneInflatedBeta().initial_eta(torch.tensor([0.0, 1.0, 1.0])).isfinite().all()


@pytest.mark.parametrize("power", [1.01, 1.3, 1.7, 1.99])
def test_tweedie_has_its_mass_its_mean_and_its_cdf(power):
    family, eta = Tweedie(power), torch.tensor([0.7, -0.6], dtype=DOUBLE)
    x, weight = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(1500))
    log_at = -40 + 24 * (x + 1)
    density = (family.log_prob(log_at.exp(), eta) + log_at).exp() * 24 * weight
    zero = family.log_prob(torch.zeros(1, dtype=DOUBLE), eta).exp()
    assert abs(float(zero + density.sum()) - 1) < 1e-8
    assert abs(float((density * log_at.exp()).sum() / family.mean(eta)) - 1) < 1e-9
    middle = log_at[700].exp()
    below = zero + density[:700].sum() + density[700] / 2
    assert abs(float(family.cdf(middle, eta) - below)) < 0.01
    levels = torch.tensor([0.3, 0.9, 1 - 1e-12], dtype=DOUBLE)
    value = family.quantile(levels, eta)
    torch.testing.assert_close(family.cdf(value[value > 0], eta), levels[value > 0])


def test_tweedie_far_from_zero_is_gaussian():
    eta = torch.tensor([8.0, -9.0], dtype=DOUBLE)
    mean, spread = Tweedie().mean(eta), Tweedie().variance(eta).sqrt()
    value = mean + spread * torch.linspace(-1, 1, 5, dtype=DOUBLE)
    expected = Gaussian().log_prob(value, torch.stack([mean, spread.log()]))
    torch.testing.assert_close(Tweedie().log_prob(value, eta), expected, rtol=0, atol=1e-3)


def test_angles_are_those_of_torch_and_wrap_around():
    eta = torch.tensor([[-2.0, 0.3], [0.1, 0.2], [30.0, -40.0]], dtype=DOUBLE)
    around = torch.distributions.VonMises(torch.atan2(eta[:, 1], eta[:, 0]), eta.norm(dim=-1))
    value = torch.tensor([3.1, -3.1, -0.9], dtype=DOUBLE)
    torch.testing.assert_close(
        VonMises().log_prob(value, eta), around.log_prob(value), rtol=1e-5, atol=1e-5
    )
    drawn = VonMises().sample(eta.expand(20000, 3, 2), generator=torch.Generator().manual_seed(0))
    for row in range(3):
        integral = VonMises().cdf(drawn[:, row], eta[row])
        assert stats.kstest(integral.numpy(), "uniform").statistic < 1.63 / 20000**0.5
    # Zero concentration is the whole circle.
    flat = VonMises().quantile(torch.tensor([0.25, 0.5]), torch.zeros(2))
    torch.testing.assert_close(flat, torch.tensor([-np.pi / 2, 0.0]).float())


def test_exponential_lifetimes_are_weibull_of_shape_one():
    value = torch.tensor([0.1, 1.0, 5.0], dtype=DOUBLE)
    eta = torch.tensor([0.4, 0.0], dtype=DOUBLE)
    torch.testing.assert_close(
        Weibull().log_prob(value, eta), exfam.Exponential().log_prob(value, eta[:1])
    )
    drawn = torch.from_numpy(stats.weibull_min.rvs(1.7, scale=3.0, size=3000, random_state=0))
    shape, _, scale = stats.weibull_min.fit(drawn, floc=0)
    start = Weibull().initial_eta(drawn)
    np.testing.assert_allclose(start.exp(), [scale, shape], rtol=1e-4)
