"""Laws of every family, over the registry."""

import copy
import json

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import (
    FAMILIES,
    Beta,
    CensoredStudentT,
    ExponentialFamily,
    Histogram,
    IntervalCensored,
    LogNormal,
    LogStudentT,
    NegativeBinomial,
    Ordinal,
    Poisson,
    RoundedRootStudentT,
    RoundedStudentT,
    SinhStudentT,
    StudentT,
    Truncated,
    VonMises,
    Weibull,
    family_from_config,
    family_to_config,
)
from exfam.families.wrapped import Wrapped
from family_cases import CASES, extreme_eta
from family_witnesses import by_scipy, log_prob
from model_cases import generator

DOUBLE = torch.float64
UNDETERMINED = {"categorical", "categorical from one", "ordinal"}
UNDETERMINED |= {"von-mises", "interval-censored", "histogram", "histogram of one edge"}
# Their most likely mean is another than that of the sample.
OTHER_MEANS = (
    Beta, CensoredStudentT, Histogram, LogNormal, LogStudentT, Ordinal, RoundedRootStudentT,
    RoundedStudentT, SinhStudentT, StudentT, VonMises, Weibull, Wrapped, IntervalCensored,
)  # fmt: skip
# Their means move with their dispersion.
MOVING = (
    IntervalCensored,
    CensoredStudentT,
    LogNormal,
    Ordinal,
    RoundedRootStudentT,
    Weibull,
    Wrapped,
)


def over(names):
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


every = over(list(CASES))
both_floats = pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)


def close(actual, expected, tolerance=1e-9):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def column(*numbers):
    return torch.tensor(numbers, dtype=DOUBLE).unsqueeze(-1)


def test_the_cases_cover_the_registry():
    assert {case.family.name for case in CASES.values()} == set(FAMILIES)
    assert all(FAMILIES[name].name == name for name in FAMILIES)


@every
def test_probabilities_and_moments_are_those_of_scipy(case):
    witness = by_scipy(case.inner, case.eta[:, case.columns].numpy())
    levels = torch.linspace(0.001, 0.999, 41, dtype=DOUBLE)
    value = case.quantile(levels.unsqueeze(-1), case.eta)
    unit = (value.numpy() - case.center) / case.scale
    nats = case.log_prob(value, case.eta)
    close(nats, torch.tensor(log_prob(witness, unit)) - case.log_scale(value))
    close(case.cdf(value, case.eta), torch.tensor(witness.cdf(unit)))
    mean = np.broadcast_to(case.center + case.scale * witness.mean(), 7)
    close(case.mean(case.eta), torch.tensor(mean))
    variance = np.broadcast_to(case.scale**2 * witness.var(), 7)
    close(case.variance(case.eta), torch.tensor(variance))
    assert nats.unique().numel() > 1


@every
def test_cdf_of_any_real_number(case):
    low, high, unknown = case.cdf(column(-torch.inf, torch.inf, torch.nan), case.eta)
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
            reached = case.cdf(value, eta)
            assert (reached >= level - 1e-9).all()
            close(
                reached[~case.has_mass(value)],
                torch.full_like(reached, level)[~case.has_mass(value)],
            )
    low, high = case.quantile(column(0.0, 1.0), eta)
    assert (low == case.low).all()
    assert (high == case.high).all()


@every
@both_floats
def test_samples_follow_the_distribution_and_are_seeded(case, dtype):
    eta = case.eta.to(dtype).expand(20_000, -1, -1)
    few, same, other = (case.sample(eta[:20], generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(few, same) and not torch.equal(few, other)
    drawn = case.sample(eta, generator=generator(0))
    assert drawn.dtype == dtype and drawn.shape == (20_000, 7)
    assert case.in_support(drawn).all() and drawn.unique().numel() > 1
    if case.family.has_mean:
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
    for value in set(case.near_and_far):
        nats = case.log_prob(torch.tensor(value, dtype=dtype), eta)
        assert nats.dtype == dtype and not nats.isnan().any() and (nats < torch.inf).all()
        (gradient,) = torch.autograd.grad(nats.sum(), eta)
        assert gradient.isfinite().all()
        cdf = case.cdf(torch.tensor(value, dtype=dtype), eta)
        assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (case.mean(eta).isfinite() == case.family.has_mean).all()
    assert (case.variance(eta) >= 0).all()
    assert (case.variance(eta).isfinite() == case.family.has_mean).all()
    assert not case.quantile(0.3, eta.detach()).isnan().any()
    assert case.in_support(case.sample(eta, generator=generator())).all()


@every
def test_unknown_parameters_give_unknown_results(case):
    eta = torch.full((2, case.family.n_params), torch.nan)
    value = torch.tensor(case.near_and_far[1])
    results = [case.log_prob(value, eta), case.mean(eta), case.cdf(value, eta)]
    results += [case.quantile(0.5, eta), case.sample(eta, generator=generator())]
    assert all(result.isnan().all() for result in results)


@every
def test_outside_the_support_nothing_is_possible(case):
    outside = [torch.nan, torch.inf, -torch.inf]
    outside += [case.low - 1] if case.low > -torch.inf else []
    outside += [case.high + 1] if case.high < torch.inf else []
    outside += [case.low + 0.5, case.low - 0.25] if case.discrete else []
    outside += [case.family.categories[-1] + 1.0] if case.family.n_categories else []
    outside += [0.0, 1.0, 1.5] if isinstance(case.inner, Beta) else []
    value = torch.tensor(outside, dtype=DOUBLE)
    assert not case.in_support(value).any() and case.in_support(case.values).all()
    eta = case.eta[:1].requires_grad_()
    nats = case.log_prob(value, eta)
    assert (nats == -torch.inf).all()
    (gradient,) = torch.autograd.grad(nats.sum(), eta)
    assert (gradient == 0).all()


@every
def test_values_broadcast_against_eta_may_be_integers_and_single(case):
    value, eta = case.values[:3].unsqueeze(-1), case.eta
    table = case.log_prob(value, eta)
    assert table.shape == (3, 7)
    close(table, torch.stack([case.log_prob(row, eta) for row in value]))
    assert case.quantile(torch.rand(4, 1), eta).shape == (4, 7)
    assert case.cdf(value, eta).shape == (3, 7) and case.mean(eta[0]).shape == ()
    whole = torch.tensor([int(case.low) + 1 if case.low > -torch.inf else 2])
    close(case.log_prob(whole, eta), case.log_prob(whole.double(), eta))
    for method in (case.log_prob, case.cdf, lambda _, eta: case.mean(eta)):
        single = method(case.values, eta.float())
        assert single.dtype == torch.float32
        close(single.double(), method(case.values, eta), 2e-5)


@over([name for name in CASES if name not in UNDETERMINED])
def test_from_mean_inverts_the_mean(case):
    family, eta = case.family, case.eta
    if isinstance(family, RoundedStudentT):
        eta[:, 3:] = -50.0  # a mean is the median of the smooth part
    mean = case.middle(eta)
    back = case.from_mean(mean, dispersion=eta[:, family.n_params - family.n_dispersion :])
    assert back.shape == eta.shape
    close(case.middle(back), mean)
    close(case.variance(back), case.variance(eta))
    # Within limits, other dispersions have other means.
    if not case.has_atoms and not isinstance(case.inner, Truncated):
        close(case.middle(case.from_mean(mean)), mean)
    # Impossible means are moved inside.
    far = case.from_mean(torch.tensor([-1e3, max(case.low, -5.0), 1e3, torch.nan]))
    assert far[:3].isfinite().all() and case.middle(far)[3].isnan()
    assert (case.middle(far)[:2] >= case.low).all()
    assert case.middle(far)[2] <= case.high


@over(sorted(UNDETERMINED))
def test_from_mean_needs_a_family_with_one_location(case):
    with pytest.raises(ExfamError, match="`family` must be determined by its mean .* got "):
        case.from_mean(torch.zeros(2))


def initial(case, value):
    item = None if case.item is None else torch.full((len(value),), case.item)
    return case.family.initial_eta(value, item=item)


@every
def test_initial_eta_fits_the_sample_and_takes_odd_ones(case):
    value = case.sample(case.eta[1].expand(2000, -1), generator=generator())
    fitted = initial(case, value).requires_grad_()
    assert fitted.shape == case.eta[1].shape and fitted.dtype == value.dtype
    nats = case.log_prob(value, fitted.expand(2000, -1)).mean()
    (gradient,) = torch.autograd.grad(nats, fitted)
    by_moments = isinstance(case.inner, NegativeBinomial)
    assert gradient.abs().max() < (0.05 if by_moments else 1e-5)
    if not isinstance(case.inner, OTHER_MEANS):
        close(case.mean(fitted.detach()), value.mean(), 1e-6)
    value = case.values[:1].float()
    of_one = initial(case, value)
    assert of_one.isfinite().all()
    if case.item is None:
        with_nan = torch.cat([value, torch.tensor([torch.nan])])
        assert torch.equal(initial(case, with_nan), of_one)
    whole = torch.tensor([int(max(case.low, 0)) + 1] * 3)
    if case.in_support(whole).all():
        assert initial(case, whole).dtype == torch.get_default_dtype()


@over([name for name, case in CASES.items() if case.family.n_categories])
def test_probs_are_the_probabilities_of_the_categories(case):
    probs = case.probs(case.eta)
    values = torch.tensor(case.family.categories, dtype=DOUBLE)
    assert len(values) == case.family.n_categories
    close(probs, case.log_prob(values, case.eta.unsqueeze(-2)).exp())


def test_probs_needs_a_finite_family():
    with pytest.raises(ExfamError, match="`family` must have finitely many values .* Poisson"):
        Poisson().probs(torch.zeros(1))


@over([k for k, c in CASES.items() if isinstance(c.family, ExponentialFamily)])
def test_an_exponential_family_is_written_by_its_statistics(case):
    family, eta, value = case.family, case.eta, case.values
    natural, statistic = family.natural(eta), family.sufficient_statistic(value)
    assert natural.shape == statistic.shape
    truncated = (natural * statistic).sum(-1) - family.log_normalizer(natural)
    close(truncated + family.log_base_measure(value), family.log_prob(value, eta))


def test_the_likelihoods_of_the_paper():
    k, y = (
        torch.randn(9, 1, dtype=DOUBLE, generator=generator()),
        torch.arange(1.0, 10, dtype=DOUBLE),
    )
    v1 = k[:, 0] * (y - 1) - k[:, 0].exp()
    close(Poisson(shift=1).log_prob(y, k), v1 - y.lgamma())
    rate = 1 + k[:, 0].exp()
    v2 = y * rate.log() - rate
    close(Poisson(link="one-plus-exp").log_prob(y, k), v2 - (y + 1).lgamma())


@every
def test_configs_round_trip_and_dispersion_comes_last(case):
    family, eta = case.family, case.eta
    config = json.loads(json.dumps(family_to_config(family)))
    assert config["name"] == family.name
    assert family_from_config(config) == family == copy.deepcopy(family)
    assert hash(family_from_config(config)) == hash(family)
    assert 0 <= family.n_dispersion < family.n_params and family.support
    moving = isinstance(case.inner, MOVING) or case.has_atoms
    if family.n_dispersion and not moving:
        eta = torch.cat([eta[:, : -family.n_dispersion], eta[:, -family.n_dispersion :] + 1], -1)
        close(case.middle(eta), case.middle(case.eta))
