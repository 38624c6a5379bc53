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
    FAMILIES,
    Beta,
    Categorical,
    Censored,
    Discretized,
    Exponential,
    Gamma,
    Gaussian,
    Hurdle,
    IntervalCensored,
    LogNormal,
    NegativeBinomial,
    PerItem,
    Poisson,
    StudentT,
    Truncated,
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
    "hurdle(truncated(negative-binomial, upper=9))": Hurdle(
        Truncated(NegativeBinomial(), upper=9.0)
    ),
    "interval-censored(log-normal, edges=(1, 2))": IntervalCensored(LogNormal(), (1.0, 2.0)),
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
        (lambda: Truncated(Gaussian()), "`lower` or `upper` must be a finite number, got None and"),
        (
            lambda: Censored(Gaussian(), upper=float("inf")),
            "must be a finite number, got None and i",
        ),
        (lambda: Truncated(Gaussian(), 2.0, 1.0), "`lower` must be below `upper`, got 2 and 1"),
        (lambda: Truncated(Poisson(), lower=0.5), r"must be values of Poisson\(.*got 0.5 and None"),
        (lambda: Censored(Poisson(), 0.0, 1e6), "`upper` must be at most 100000 steps above"),
        (
            lambda: Discretized(Poisson()),
            "`family` of Discretized must be a continuous family, got",
        ),
        (
            lambda: Discretized(Gamma(), start=0.5),
            "`start` must be a multiple of `step`, got 0.5",
        ),
        (
            lambda: IntervalCensored(Gamma(), ()),
            r"`edges` must be finite .* one, got \(\)",
        ),
        (lambda: IntervalCensored(Gamma(), (2.0, 1.0)), "`edges` must be finite numbers that incr"),
        (
            lambda: IntervalCensored(Gamma(), (1.0,)).from_mean(torch.ones(1)),
            "must be determined by its mean .* mean is of indices",
        ),
        (
            lambda: Truncated(Categorical(3), lower=1.0).from_mean(torch.ones(1)),
            "must be determined by its mean to be built from one, got Truncated",
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


@pytest.mark.parametrize(
    "family",
    ["zero-inflated(poisson)", Tweedie(), Weibull(), Censored(Gaussian(), upper=5.0)],
    ids=str,
)
def test_models_fit_save_and_load_them(family, tmp_path):
    frame = FRAME if not isinstance(family, Weibull) else ratings(least=1)
    model = make("efa", parts="values", max_epochs=1, family=family).fit(frame)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    assert same_bits(loaded, model) and np.isfinite(model.score(frame))
    assert (model.predict_variance(frame) >= 0).all()
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


CONTINUOUS = [
    Gamma(),
    Weibull(),
    Gaussian(),
    StudentT(df=4.0),
    LogNormal(),
    Exponential(),
    Tweedie(),
]
INNER = [*CONTINUOUS, Poisson(), NegativeBinomial(), ZeroInflated(Poisson())]


def ordinary(family):
    generator = torch.Generator().manual_seed(3)
    return 0.4 * torch.randn(family.n_params, generator=generator, dtype=DOUBLE) + 0.3


@pytest.mark.parametrize("family", INNER, ids=str)
def test_limits_of_any_family_are_the_laws_of_its_cdf(family):
    eta, low, high = ordinary(family), 1.0, 3.0
    truncated, censored = (kind(family, low, high) for kind in (Truncated, Censored))
    before = censored.before(low)
    mass = family.cdf(torch.tensor(high).double(), eta) - family.cdf(torch.tensor(before), eta)
    value = torch.tensor([1.0, 2.0, 3.0], dtype=DOUBLE)
    expected = family.log_prob(value, eta) - mass.log()
    torch.testing.assert_close(truncated.log_prob(value, eta), expected)
    drawn = family.sample(eta.expand(100_000, -1), generator=torch.Generator().manual_seed(0))
    within = drawn[(drawn >= low) & (drawn <= high)]
    for own, sample in ((truncated, within), (censored, drawn.clamp(low, high))):
        error = (sample.mean() - own.mean(eta)).abs() / (own.variance(eta) / len(sample)).sqrt()
        assert error < 4.5
        assert abs(float(sample.var() / own.variance(eta)) - 1) < 0.05
        at = own.quantile(torch.tensor([0.1, 0.45, 0.8]), eta)
        share = torch.stack([(sample <= q).double().mean() for q in at])
        assert (share - own.cdf(at, eta)).abs().max() < 0.01
        again = own.sample(eta.expand(20_000, -1), generator=torch.Generator().manual_seed(1))
        assert stats.ks_2samp(again, sample[:20_000]).statistic < 0.03
    ends = censored.log_prob(torch.tensor([low, high], dtype=DOUBLE), eta).exp()
    torch.testing.assert_close(ends[0], family.cdf(torch.tensor(low).double(), eta))
    beyond = 1 - family.cdf(torch.tensor(censored.before(high)).double(), eta)
    torch.testing.assert_close(ends[1], beyond)


@pytest.mark.parametrize(
    "family", [Gamma(), Gaussian(), StudentT(df=9.0), Beta(), LogNormal()], ids=str
)
def test_rounding_and_brackets_have_all_mass_and_its_mean(family):
    eta = ordinary(family) - torch.arange(family.n_params)  # of light tails
    rounded = Discretized(family, step=0.25)
    count = torch.arange(-8000, 8001, dtype=DOUBLE) / 4
    mass = rounded.log_prob(count[rounded.in_support(count)], eta).exp()
    value = count[rounded.in_support(count)]
    assert abs(float(mass.sum()) - 1) < 1e-6
    assert abs(float((mass * value).sum() - rounded.mean(eta))) < 1e-3
    torch.testing.assert_close(mass.cumsum(0), rounded.cdf(value, eta), rtol=0, atol=1e-6)
    brackets = IntervalCensored(family, edges=(0.2, 0.5))
    shares = family.cdf(torch.tensor([0.2, 0.5, torch.inf], dtype=DOUBLE), eta)
    torch.testing.assert_close(brackets.probs(eta).cumsum(-1), shares)


def test_far_beyond_the_limits_masses_stay_finite_and_slopes_point_back():
    eta = torch.tensor([-60.0, 0.0], dtype=DOUBLE, requires_grad=True)
    nats = Censored(Gaussian(), upper=2.0).log_prob(torch.tensor(2.0), eta)
    nats.backward()
    assert abs(float(nats.detach()) + 62**2 / 2) < 10 and 40 < eta.grad[0] < 80
    exact = torch.tensor([-8.0, 0.0], dtype=DOUBLE)
    tail = Censored(Gaussian(), upper=2.0).log_prob(torch.tensor(2.0), exact)
    torch.testing.assert_close(float(tail), float(stats.norm.logsf(10.0)), rtol=1e-9, atol=0)
    # A step so narrow that cdfs at both ends are all but equal.
    narrow = Discretized(Gaussian(), step=1e-9).log_prob(torch.tensor(0.0), torch.zeros(2).double())
    torch.testing.assert_close(float(narrow), float(np.log(1e-9) - np.log(2 * np.pi) / 2))
    one = Hurdle(Poisson()).mean(torch.tensor([-50.0, -40.0], dtype=DOUBLE))
    assert abs(float(one) - 1) < 1e-12


PIECES = ["1", "-2.5", "1e999", "None", "'x'", "(1.0, 2.0)", "[]", "poisson", "gamma()", "{}", "1j"]
OPTIONS = ["lower=", "upper=", "step=", "start=", "edges=", "power=", "n=", "family=", ""]


def some_words(random, depth=0):
    """A family as someone may write it, mostly wrongly."""
    given = [some_words(random, depth + 1)] if depth < 3 and random.random() < 0.6 else []
    given += [
        random.choice(OPTIONS) + random.choice(PIECES) for _ in range(int(random.integers(3)))
    ]
    return f"{random.choice(list(FAMILIES))}({', '.join(given)})"


def test_whatever_is_written_is_a_family_that_comes_back_or_an_error_with_what_was_got():
    random, built = np.random.default_rng(0), 0
    for _ in range(600):
        words = some_words(random)
        try:
            family = family_of_words(words)
        except ExfamError as error:
            assert "got" in str(error)
            continue
        built += 1
        assert family_from_config(json.loads(json.dumps(family_to_config(family)))) == family
        eta = torch.zeros(family.n_params)
        assert not family.quantile(0.9, eta).isnan() and not family.mean(eta).isnan()
    assert 20 < built < 580


def test_quantiles_of_sums_end_where_rounding_does(monkeypatch):
    cdf, calls = Tweedie._cdf, []
    monkeypatch.setattr(Tweedie, "_cdf", lambda *given: calls.append(1) or cdf(*given))
    level = torch.cat([torch.linspace(0.05, 0.999, 50), 1 - 10.0 ** -torch.arange(4, 12)])
    eta = torch.tensor([0.2, -0.4], dtype=DOUBLE)
    value = Tweedie().quantile(level.double(), eta)
    assert len(calls) < 40
    torch.testing.assert_close(Tweedie().cdf(value, eta), level.double(), rtol=1e-9, atol=1e-14)
