"""Laws of every family, over the registry."""

import copy
import itertools
import json
import math

import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import (
    FAMILIES,
    ExponentialFamily,
    Histogram,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    family_from_config,
    family_to_config,
)
from family_cases import CASES, Case, extreme_eta, law_columns, witness

DOUBLE = torch.float64
UNDETERMINED = {"categorical", "categorical from one", "ordinal"}
UNDETERMINED |= {"histogram", "histogram of one edge"}


def over(names):
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


every = over(list(CASES))
every_exponential = over([k for k, c in CASES.items() if isinstance(c.family, ExponentialFamily)])
every_finite = over([name for name, case in CASES.items() if case.family.n_categories])
every_determined = over([name for name in CASES if name not in UNDETERMINED])
both_floats = pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)


def close(actual, expected, tolerance=1e-9):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def lattice(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Points (one row each) that carry all the probability, and the log of their width.

    Gaussian points are evenly spaced, those of positive families evenly spaced in their log, those
    of heavy tails in the inverse of sinh.
    """
    eta = case.eta
    if case.discrete:
        points = torch.arange(3000, dtype=DOUBLE).unsqueeze(-1) + case.low
        return points.expand(-1, len(eta)), torch.zeros(1, dtype=DOUBLE)
    mean, sd = case.mean(eta), case.variance(eta).sqrt()
    if isinstance(case.law, StudentT):
        steps = torch.linspace(-150, 150, 400_001, dtype=DOUBLE).unsqueeze(-1)
        return mean + sd * steps.sinh(), (sd * steps.cosh() * 300 / 400_000).log()
    if isinstance(case.law, Histogram):
        points, width = (part.unsqueeze(-1) for part in pieces(case.law))
        return points.expand(-1, len(eta)), width.log()
    if case.low < 0:
        steps = torch.linspace(-12, 12, 40_001, dtype=DOUBLE).unsqueeze(-1)
        return mean + sd * steps, (sd * 24 / 40_000).log()
    steps = torch.linspace(-200, 12, 400_001, dtype=DOUBLE).unsqueeze(-1)
    points = mean * steps.exp()
    return points, points.log() + torch.tensor(212 / 400_000, dtype=DOUBLE).log()


def pieces(law: Histogram) -> tuple[torch.Tensor, torch.Tensor]:
    """Middles and widths of fine cells, of which none crosses an edge."""
    far = torch.linspace(0, 45, 200_001, dtype=DOUBLE)
    low, high = law.edges[0] - law.widths[0] * far.flip(0), law.edges[-1] + law.widths[-1] * far
    inner = [
        torch.linspace(left, right, 2001, dtype=DOUBLE)[1:]
        for left, right in itertools.pairwise(law.edges)
    ]
    borders = torch.cat([low, *inner, high[1:]])
    return (borders[1:] + borders[:-1]) / 2, borders.diff()


def test_the_cases_cover_the_registry():
    assert {case.family.name for case in CASES.values()} == set(FAMILIES)
    assert all(FAMILIES[name].name == name for name in FAMILIES)


@every
def test_log_prob_and_moments_are_those_of_torch_distributions(case):
    law, offset = witness(case.law, case.eta[:, law_columns(case)])
    actual = case.log_prob(case.values, case.eta)
    unit = (case.values - case.center) / case.scale
    close(actual, law.log_prob(unit - offset) - math.log(case.scale))
    assert actual.unique().numel() > 1
    if not isinstance(law, torch.distributions.Categorical):
        close(case.mean(case.eta), case.center + case.scale * (law.mean + offset))
        close(case.variance(case.eta), case.scale**2 * law.variance)


@every
def test_probabilities_sum_to_one_to_the_cdf_and_give_the_moments(case):
    points, log_width = lattice(case)
    mass = (case.log_prob(points, case.eta) + log_width).exp()
    close(mass.sum(0), torch.ones(7, dtype=DOUBLE), 1e-7)
    mean = case.mean(case.eta)
    masked = torch.where(mass > 0, points, 0.0)
    close((mass * masked).sum(0), mean, 1e-6)
    close((mass * (masked - mean) ** 2).sum(0), case.variance(case.eta), 1e-6)
    # A continuous cell reaches half its width beyond its point.
    cumulative = mass.cumsum(0) - (0 if case.discrete else mass / 2)
    close(case.cdf(points, case.eta), cumulative, 1e-6)


@every
def test_cdf_of_any_real_number(case):
    far = torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=DOUBLE).unsqueeze(-1)
    low, high, unknown = case.cdf(far, case.eta)
    assert (low == 0).all() and (high == 1).all() and unknown.isnan().all()
    if case.discrete:
        close(case.cdf(case.values + 0.5, case.eta), case.cdf(case.values, case.eta))
        assert (case.cdf(torch.tensor(case.low - 0.5, dtype=DOUBLE), case.eta) == 0).all()


@every
def test_quantile_is_the_first_value_whose_cdf_reaches_p(case):
    eta = case.eta
    for level in (0.001, 0.1, 0.5, 0.77, 0.999):
        value = case.quantile(level, eta)
        assert case.in_support(value).all()
        if case.discrete:
            assert (case.cdf(value, eta) >= level).all()
            assert (case.cdf(value - 1, eta) < level).all()
        else:
            close(case.cdf(value, eta), torch.full((7,), level, dtype=DOUBLE))
    low, high = case.quantile(torch.tensor([0.0, 1.0], dtype=DOUBLE).unsqueeze(-1), eta)
    assert (low == case.low).all()
    assert (high == (case.family.categories or (torch.inf,))[-1]).all()


@every
@both_floats
def test_samples_follow_the_law_and_are_seeded(case, dtype):
    eta = case.eta.to(dtype).expand(20_000, -1, -1)
    drawn, same, other = (case.sample(eta, generator=seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(drawn, same) and not torch.equal(drawn, other)
    assert drawn.dtype == dtype and drawn.shape == (20_000, 7)
    assert case.in_support(drawn).all() and drawn.unique().numel() > 1
    error = (drawn.double().mean(0) - case.mean(case.eta)).abs()
    assert (error < 5 * (case.variance(case.eta) / 20_000).sqrt()).all()
    median = case.quantile(0.5, case.eta)
    share = case.cdf(median, case.eta)
    assert ((drawn <= median.to(dtype)).double().mean(0) - share).abs().max() < 0.02


@every
def test_gradients_are_those_of_finite_differences(case):
    eta, value = case.eta.requires_grad_(), case.values
    assert torch.autograd.gradcheck(lambda eta: case.log_prob(value, eta), (eta,))


@every
@both_floats
def test_extreme_parameters_stay_finite(case, dtype):
    eta = extreme_eta(case.family.n_params, dtype).requires_grad_()
    start = 0.0 if case.low < 0 else case.low + (not case.discrete)
    for value in {start, start + 1, case.low + 1 if case.discrete else start + 1e3}:
        nats = case.log_prob(torch.tensor(value, dtype=dtype), eta)
        assert nats.dtype == dtype and not nats.isnan().any() and (nats < torch.inf).all()
        (gradient,) = torch.autograd.grad(nats.sum(), eta)
        assert gradient.isfinite().all()
        cdf = case.cdf(torch.tensor(value, dtype=dtype), eta)
        assert ((cdf >= 0) & (cdf <= 1)).all()
    assert case.mean(eta).isfinite().all()
    assert (case.variance(eta) >= 0).all() and case.variance(eta).isfinite().all()
    assert not case.quantile(0.3, eta.detach()).isnan().any()
    assert case.in_support(case.sample(eta, generator=seeded())).all()


@every
def test_unknown_parameters_give_unknown_results(case):
    eta = torch.full((2, case.family.n_params), torch.nan)
    value = torch.tensor(case.low + 1 if case.discrete else 1.0)
    results = [case.log_prob(value, eta), case.mean(eta), case.cdf(value, eta)]
    results += [case.quantile(0.5, eta), case.sample(eta, generator=seeded())]
    assert all(result.isnan().all() for result in results)


@every
def test_outside_the_support_nothing_is_possible(case):
    outside = [torch.nan, torch.inf, -torch.inf]
    outside += [case.low - 1] if case.low > -torch.inf else []
    outside += [case.low + 0.5, case.low - 0.25] if case.discrete else []
    outside += [case.family.categories[-1] + 1.0] if case.family.n_categories else []
    value = torch.tensor(outside, dtype=DOUBLE)
    assert not case.in_support(value).any() and case.in_support(case.values).all()
    eta = case.eta[:1].requires_grad_()
    nats = case.log_prob(value, eta)
    assert (nats == -torch.inf).all()
    (gradient,) = torch.autograd.grad(nats.sum(), eta)
    assert (gradient == 0).all()


@every
def test_values_broadcast_against_eta_and_may_be_integers(case):
    value, eta = case.values[:3].unsqueeze(-1), case.eta
    table = case.log_prob(value, eta)
    assert table.shape == (3, 7)
    for row in range(3):
        close(table[row], case.log_prob(value[row], eta))
    assert case.quantile(torch.rand(4, 1), eta).shape == (4, 7)
    assert case.cdf(value, eta).shape == (3, 7) and case.mean(eta[0]).shape == ()
    whole = torch.tensor([int(case.low) + 1 if case.low > -torch.inf else 2])
    close(case.log_prob(whole, eta), case.log_prob(whole.double(), eta))


@every
def test_single_precision_follows_double(case):
    value, eta = case.values, case.eta
    for single, double in (
        (case.log_prob(value, eta.float()), case.log_prob(value, eta)),
        (case.mean(eta.float()), case.mean(eta)),
        (case.cdf(value, eta.float()), case.cdf(value, eta)),
    ):
        assert single.dtype == torch.float32
        close(single.double(), double, 2e-5)


@every_determined
def test_from_mean_inverts_the_mean(case):
    family, eta = case.family, case.eta
    mean = case.mean(eta)
    back = case.from_mean(mean, dispersion=eta[:, family.n_params - family.n_dispersion :])
    assert back.shape == eta.shape
    close(case.mean(back), mean)
    close(case.variance(back), case.variance(eta))
    close(case.mean(case.from_mean(mean)), mean)
    # Impossible means are moved inside.
    far = case.from_mean(torch.tensor([-1e3, max(case.low, -5.0), 1e3, torch.nan]))
    assert far[:3].isfinite().all() and case.mean(far)[3].isnan()
    assert (case.mean(far)[:2] >= case.low).all()
    assert case.mean(far)[2] <= (family.categories or (torch.inf,))[-1]


@over(sorted(UNDETERMINED))
def test_from_mean_needs_a_family_with_one_location(case):
    with pytest.raises(ExfamError, match="`family` must be determined by its mean .* got "):
        case.from_mean(torch.zeros(2))


def initial(case, value):
    item = None if case.item is None else torch.full((len(value),), case.item)
    return case.family.initial_eta(value, item=item)


@every
def test_initial_eta_fits_the_sample(case):
    value = case.sample(case.eta[1].expand(5000, -1), generator=seeded())
    fitted = initial(case, value).requires_grad_()
    assert fitted.shape == case.eta[1].shape and fitted.dtype == value.dtype
    nats = case.log_prob(value, fitted.expand(5000, -1)).mean()
    (gradient,) = torch.autograd.grad(nats, fitted)
    by_moments = isinstance(case.law, NegativeBinomial)
    assert gradient.abs().max() < (0.05 if by_moments else 1e-5)
    if not isinstance(case.law, Histogram | Ordinal | StudentT):
        close(case.mean(fitted.detach()), value.mean(), 1e-6)


@every
def test_initial_eta_of_odd_samples(case):
    value = case.values[:1].float()
    assert initial(case, value).isfinite().all()
    if case.item is None:
        with_nan = torch.cat([value, torch.tensor([torch.nan])])
        assert torch.equal(initial(case, with_nan), initial(case, value))
    whole = torch.tensor([int(max(case.low, 0)) + 1] * 3)
    assert initial(case, whole).dtype == torch.get_default_dtype()


@every_finite
def test_probs_are_the_probabilities_of_the_categories(case):
    probs = case.probs(case.eta)
    close(probs.sum(-1), torch.ones(7, dtype=DOUBLE))
    values = torch.tensor(case.family.categories, dtype=DOUBLE)
    assert len(values) == case.family.n_categories
    close(probs, case.log_prob(values, case.eta.unsqueeze(-2)).exp())
    close(probs @ values, case.mean(case.eta))


def test_probs_needs_a_finite_family():
    with pytest.raises(ExfamError, match="`family` must have finitely many values .* Poisson"):
        Poisson().probs(torch.zeros(1))


@every_exponential
def test_an_exponential_family_is_written_by_its_statistics(case):
    family, eta, value = case.family, case.eta, case.values
    natural, statistic = family.natural(eta), family.sufficient_statistic(value)
    assert natural.shape == statistic.shape
    truncated = (natural * statistic).sum(-1) - family.log_normalizer(natural)
    close(truncated + family.log_base_measure(value), family.log_prob(value, eta))
    # The mean of the statistic is the gradient of the log-normalizer.
    points, log_width = lattice(case)
    mass = (family.log_prob(points, eta) + log_width).exp()
    inside = torch.where(family.in_support(points), points, points[:1])
    expected = (mass.unsqueeze(-1) * family.sufficient_statistic(inside)).sum(0)
    gradient = torch.func.grad(lambda natural: family.log_normalizer(natural).sum())
    close(gradient(natural), expected, 1e-6)


def test_the_likelihoods_of_the_paper():
    k, y = torch.randn(9, 1, dtype=DOUBLE, generator=seeded()), torch.arange(1.0, 10, dtype=DOUBLE)
    v1 = k[:, 0] * (y - 1) - k[:, 0].exp()
    close(Poisson(shift=1).log_prob(y, k), v1 - y.lgamma())
    rate = 1 + k[:, 0].exp()
    v2 = y * rate.log() - rate
    close(Poisson(link="one-plus-exp").log_prob(y, k), v2 - (y + 1).lgamma())


@every
def test_configs_round_trip_through_json(case):
    config = json.loads(json.dumps(family_to_config(case.family)))
    assert config["name"] == case.family.name
    assert family_from_config(config) == case.family
    assert hash(family_from_config(config)) == hash(case.family)
    assert copy.deepcopy(case.family) == case.family


@every
def test_dispersion_comes_last_and_leaves_the_mean(case):
    family, eta = case.family, case.eta
    assert 0 <= family.n_dispersion < family.n_params and family.support
    if family.n_dispersion and not isinstance(case.law, Ordinal):
        other = eta.clone()
        other[:, family.n_params - family.n_dispersion :] += 1
        close(case.mean(eta), case.mean(other))
