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
    Exponential,
    ExponentialFamily,
    Gamma,
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
EXPONENTIAL = {
    name: case for name, case in CASES.items() if isinstance(case.family, ExponentialFamily)
}
FINITE = {name: case for name, case in CASES.items() if case.family.n_categories}
UNDETERMINED = {"categorical", "categorical from one", "ordinal"}
UNDETERMINED |= {"histogram", "histogram of one edge"}
DETERMINED = {name: case for name, case in CASES.items() if name not in UNDETERMINED}

every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_exponential = pytest.mark.parametrize("case", EXPONENTIAL.values(), ids=EXPONENTIAL)
every_finite = pytest.mark.parametrize("case", FINITE.values(), ids=FINITE)
every_determined = pytest.mark.parametrize("case", DETERMINED.values(), ids=DETERMINED)
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
    mean, sd = case.family.mean(eta, **case.at), case.family.variance(eta, **case.at).sqrt()
    if isinstance(case.law, StudentT):
        steps = torch.linspace(-150, 150, 400_001, dtype=DOUBLE).unsqueeze(-1)
        return mean + sd * steps.sinh(), (sd * steps.cosh() * 300 / 400_000).log()
    if isinstance(case.law, Histogram):
        points, width = (each.unsqueeze(-1) for each in pieces(case.law))
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
def test_log_prob_is_that_of_torch_distributions(case):
    law, offset = witness(case.law, case.eta[:, law_columns(case)])
    actual = case.family.log_prob(case.values, case.eta, **case.at)
    unit = (case.values - case.center) / case.scale
    close(actual, law.log_prob(unit - offset) - math.log(case.scale))
    assert actual.unique().numel() > 1


@every
def test_moments_are_those_of_torch_distributions(case):
    law, offset = witness(case.law, case.eta[:, law_columns(case)])
    if not isinstance(law, torch.distributions.Categorical):
        mean = case.center + case.scale * (law.mean + offset)
        close(case.family.mean(case.eta, **case.at), mean)
        close(case.family.variance(case.eta, **case.at), case.scale**2 * law.variance)


@every
def test_probabilities_sum_to_one_and_give_the_moments(case):
    points, log_width = lattice(case)
    mass = (case.family.log_prob(points, case.eta, **case.at) + log_width).exp()
    close(mass.sum(0), torch.ones(7, dtype=DOUBLE), 1e-7)
    mean = case.family.mean(case.eta, **case.at)
    masked = torch.where(mass > 0, points, 0.0)
    close((mass * masked).sum(0), mean, 1e-6)
    close((mass * (masked - mean) ** 2).sum(0), case.family.variance(case.eta, **case.at), 1e-6)


@every
def test_cdf_is_the_sum_of_probabilities(case):
    points, log_width = lattice(case)
    mass = (case.family.log_prob(points, case.eta, **case.at) + log_width).exp()
    # A continuous cell reaches half its width beyond its point.
    cumulative = mass.cumsum(0) - (0 if case.discrete else mass / 2)
    close(case.family.cdf(points, case.eta, **case.at), cumulative, 1e-6)


@every
def test_cdf_of_any_real_number(case):
    cdf = case.family.cdf
    far = torch.tensor([-torch.inf, torch.inf, torch.nan], dtype=DOUBLE).unsqueeze(-1)
    low, high, unknown = cdf(far, case.eta, **case.at)
    assert (low == 0).all() and (high == 1).all() and unknown.isnan().all()
    if case.discrete:
        between = case.values + 0.5
        close(cdf(between, case.eta, **case.at), cdf(case.values, case.eta, **case.at))
        below = torch.tensor(case.low - 0.5, dtype=DOUBLE)
        assert (cdf(below, case.eta, **case.at) == 0).all()


@every
def test_quantile_is_the_first_value_whose_cdf_reaches_p(case):
    cdf, eta = case.family.cdf, case.eta
    for level in (0.001, 0.1, 0.5, 0.77, 0.999):
        found = case.family.quantile(level, eta, **case.at)
        assert case.family.in_support(found, case.at.get("item")).all()
        if case.discrete:
            assert (cdf(found, eta, **case.at) >= level).all()
            assert (cdf(found - 1, eta, **case.at) < level).all()
        else:
            close(cdf(found, eta, **case.at), torch.full((7,), level, dtype=DOUBLE))


@every
def test_quantiles_of_zero_and_one_are_the_ends_of_the_support(case):
    ends = torch.tensor([0.0, 1.0], dtype=DOUBLE).unsqueeze(-1)
    low, high = case.family.quantile(ends, case.eta, **case.at)
    assert (low == case.low).all()
    top = case.family.categories[-1] if case.family.n_categories else torch.inf
    assert (high == top).all()


@every
@both_floats
def test_samples_follow_the_law(case, dtype):
    eta = case.eta.to(dtype).expand(20_000, -1, -1)
    drawn = case.family.sample(eta, generator=seeded(), **case.at)
    assert drawn.dtype == dtype and drawn.shape == (20_000, 7)
    assert case.family.in_support(drawn, case.at.get("item")).all()
    assert drawn.unique().numel() > 1
    mean, sd = case.family.mean(case.eta, **case.at), case.family.variance(case.eta, **case.at)
    error = (drawn.double().mean(0) - mean).abs() / (sd / 20_000).sqrt()
    assert (error < 5).all()
    median = case.family.quantile(0.5, case.eta, **case.at)
    share = case.family.cdf(median, case.eta, **case.at)
    assert ((drawn <= median.to(dtype)).double().mean(0) - share).abs().max() < 0.02


@every
def test_samples_are_seeded(case):
    eta = case.eta.expand(50, -1, -1)
    first, same, other = (
        case.family.sample(eta, generator=seeded(seed), **case.at) for seed in (1, 1, 2)
    )
    assert torch.equal(first, same) and not torch.equal(first, other)


@every
def test_gradients_are_those_of_finite_differences(case):
    eta, value = case.eta.requires_grad_(), case.values
    assert torch.autograd.gradcheck(lambda eta: case.family.log_prob(value, eta, **case.at), (eta,))


@every
@both_floats
def test_extreme_parameters_stay_finite(case, dtype):
    eta = extreme_eta(case.family.n_params, dtype).requires_grad_()
    family, at = case.family, case.at
    start = 0.0 if case.low < 0 else case.low + (not case.discrete)
    for value in {start, start + 1, case.low + 1 if case.discrete else start + 1e3}:
        nats = family.log_prob(torch.tensor(value, dtype=dtype), eta, **at)
        assert nats.dtype == dtype and not nats.isnan().any() and (nats < torch.inf).all()
        (gradient,) = torch.autograd.grad(nats.sum(), eta)
        assert gradient.isfinite().all()
        cdf = family.cdf(torch.tensor(value, dtype=dtype), eta, **at)
        assert ((cdf >= 0) & (cdf <= 1)).all()
    assert family.mean(eta, **at).isfinite().all()
    assert (family.variance(eta, **at) >= 0).all() and family.variance(eta, **at).isfinite().all()
    assert not family.quantile(0.3, eta.detach(), **at).isnan().any()
    drawn = family.sample(eta, generator=seeded(), **at)
    assert family.in_support(drawn, at.get("item")).all()


@every
def test_unknown_parameters_give_unknown_results(case):
    eta = torch.full((2, case.family.n_params), torch.nan)
    value = torch.tensor(case.low + 1 if case.discrete else 1.0)
    for result in (
        case.family.log_prob(value, eta, **case.at),
        case.family.mean(eta, **case.at),
        case.family.cdf(value, eta, **case.at),
        case.family.quantile(0.5, eta, **case.at),
        case.family.sample(eta, generator=seeded(), **case.at),
    ):
        assert result.isnan().all()


@every
def test_outside_the_support_nothing_is_possible(case):
    outside = [torch.nan, torch.inf, -torch.inf]
    outside += [case.low - 1] if case.low > -torch.inf else []
    outside += [case.low + 0.5, case.low - 0.25] if case.discrete else []
    outside += [case.family.categories[-1] + 1.0] if case.family.n_categories else []
    value = torch.tensor(outside, dtype=DOUBLE)
    assert not case.family.in_support(value, case.at.get("item")).any()
    eta = case.eta[:1].requires_grad_()
    nats = case.family.log_prob(value, eta, **case.at)
    assert (nats == -torch.inf).all()
    (gradient,) = torch.autograd.grad(nats.sum(), eta)
    assert (gradient == 0).all()
    assert case.family.in_support(case.values, case.at.get("item")).all()


def test_zero_is_no_gamma_value_but_an_exponential_one():
    assert not Gamma().in_support(torch.zeros(1)).any()
    assert Exponential().in_support(torch.zeros(1)).all()


@every
def test_values_broadcast_against_eta(case):
    value, eta = case.values[:3].unsqueeze(-1), case.eta
    table = case.family.log_prob(value, eta, **case.at)
    assert table.shape == (3, 7)
    for row in range(3):
        close(table[row], case.family.log_prob(value[row], eta, **case.at))
    assert case.family.quantile(torch.rand(4, 1), eta, **case.at).shape == (4, 7)
    assert case.family.cdf(value, eta, **case.at).shape == (3, 7)
    assert case.family.mean(eta[0], **case.at).shape == ()


@every
def test_single_precision_follows_double(case):
    value, eta = case.values, case.eta
    for half, whole in (
        (
            case.family.log_prob(value, eta.float(), **case.at),
            case.family.log_prob(value, eta, **case.at),
        ),
        (case.family.mean(eta.float(), **case.at), case.family.mean(eta, **case.at)),
        (case.family.cdf(value, eta.float(), **case.at), case.family.cdf(value, eta, **case.at)),
    ):
        assert half.dtype == torch.float32
        torch.testing.assert_close(half.double(), whole, rtol=2e-5, atol=2e-5)


@every
def test_integer_values_are_welcome(case):
    value = torch.tensor([int(case.low) + 1 if case.low > -torch.inf else 2])
    nats = case.family.log_prob(value, case.eta, **case.at)
    close(nats, case.family.log_prob(value.double(), case.eta, **case.at))


@every_determined
def test_from_mean_inverts_the_mean(case):
    family, eta = case.family, case.eta
    mean = family.mean(eta, **case.at)
    dispersion = eta[:, family.n_params - family.n_dispersion :]
    back = family.from_mean(mean, dispersion=dispersion, **case.at)
    assert back.shape == eta.shape
    close(family.mean(back, **case.at), mean)
    close(family.variance(back, **case.at), family.variance(eta, **case.at))
    close(family.mean(family.from_mean(mean, **case.at), **case.at), mean)


@every_determined
def test_from_mean_moves_impossible_means_inside(case):
    mean = torch.tensor([-1e3, max(case.low, -5.0), 1e3, torch.nan])
    eta = case.family.from_mean(mean, **case.at)
    assert eta[:3].isfinite().all()
    moved = case.family.mean(eta, **case.at)
    assert moved[3].isnan()
    if case.low > -torch.inf:
        assert (moved[:2] >= case.low).all()
    if case.family.n_categories:
        assert moved[2] <= case.family.categories[-1]


@pytest.mark.parametrize("name", sorted(UNDETERMINED))
def test_from_mean_needs_a_family_with_one_location(name):
    with pytest.raises(ExfamError, match="`family` must be determined by its mean .* got "):
        CASES[name].family.from_mean(torch.zeros(2))


@every
def test_initial_eta_fits_the_sample(case):
    eta = case.eta[1]
    value = case.family.sample(eta.expand(5000, -1), generator=seeded(), **case.at)
    item = None if case.item is None else torch.full((5000,), case.item)
    fitted = case.family.initial_eta(value, item=item).requires_grad_()
    assert fitted.shape == eta.shape and fitted.dtype == value.dtype
    at = {} if item is None else {"item": item}
    nats = case.family.log_prob(value, fitted.expand(5000, -1), **at).mean()
    (gradient,) = torch.autograd.grad(nats, fitted)
    by_moments = isinstance(case.law, NegativeBinomial)
    assert gradient.abs().max() < (0.05 if by_moments else 1e-5)
    if not isinstance(case.law, Histogram | Ordinal | StudentT):
        close(case.family.mean(fitted.detach(), **case.at), value.mean(), 1e-6)


@every
def test_initial_eta_of_one_value_is_finite(case):
    value = case.values[:1].float()
    item = None if case.item is None else torch.tensor([case.item])
    assert case.family.initial_eta(value, item=item).isfinite().all()
    if item is None:
        with_nan = torch.cat([value, torch.tensor([torch.nan])])
        assert torch.equal(case.family.initial_eta(with_nan), case.family.initial_eta(value))


@every
def test_initial_eta_of_integers_is_real(case):
    value = torch.tensor([int(max(case.low, 0)) + 1] * 3)
    item = None if case.item is None else torch.full((3,), case.item)
    assert case.family.initial_eta(value, item=item).dtype == torch.get_default_dtype()


@every_finite
def test_probs_are_the_probabilities_of_the_categories(case):
    probs = case.family.probs(case.eta, **case.at)
    close(probs.sum(-1), torch.ones(7, dtype=DOUBLE))
    values = torch.tensor(case.family.categories, dtype=DOUBLE)
    assert len(values) == case.family.n_categories
    close(probs, case.family.log_prob(values, case.eta.unsqueeze(-2), **case.at).exp())
    close(probs @ values, case.family.mean(case.eta, **case.at))


def test_probs_needs_a_finite_family():
    with pytest.raises(ExfamError, match="`family` must have finitely many values .* Poisson"):
        Poisson().probs(torch.zeros(1))


@every_exponential
def test_the_mean_of_the_statistic_is_the_gradient_of_the_log_normalizer(case):
    points, log_width = lattice(case)
    mass = (case.family.log_prob(points, case.eta) + log_width).exp()
    inside = torch.where(case.family.in_support(points), points, points[:1])
    expected = (mass.unsqueeze(-1) * case.family.sufficient_statistic(inside)).sum(0)
    close(case.family.mean_statistic(case.eta), expected, 1e-6)


@every_exponential
def test_log_prob_is_written_by_its_statistics(case):
    family, eta, value = case.family, case.eta, case.values
    natural, statistic = family.natural(eta), family.sufficient_statistic(value)
    assert natural.shape == statistic.shape
    truncated = (natural * statistic).sum(-1) - family.log_normalizer(natural)
    close(truncated + family.log_base_measure(value), family.log_prob(value, eta))
    close(family.paper_loss(value, eta), -truncated)


def test_the_losses_the_paper_prints():
    k, y = torch.randn(9, 1, dtype=DOUBLE, generator=seeded()), torch.arange(1.0, 10, dtype=DOUBLE)
    v1 = k[:, 0].exp() - k[:, 0] * (y - 1)
    close(Poisson(shift=1).paper_loss(y, k), v1)
    rate = 1 + k[:, 0].exp()
    close(Poisson(link="one-plus-exp").paper_loss(y, k), rate - y * rate.log())
    dropped = Poisson(shift=1).log_prob(y, k) + v1
    close(dropped, -y.lgamma())


def test_mean_statistic_works_without_gradients():
    with torch.no_grad():
        close(Poisson().mean_statistic(torch.zeros(2, 1)), torch.ones(2, 1))


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
    assert 0 <= family.n_dispersion < family.n_params
    assert family.support
    if family.n_dispersion and not isinstance(case.law, Ordinal):
        other = eta.clone()
        other[:, family.n_params - family.n_dispersion :] += 1
        close(family.mean(eta, **case.at), family.mean(other, **case.at))
