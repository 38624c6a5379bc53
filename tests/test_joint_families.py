"""Distributions of several values together, against SciPy."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from exfam import EFA, DirichletMultinomial, ExfamError, Gaussian, MultivariateNormal
from exfam.families.joint import JOINT_FAMILIES

N = 3
every_family = pytest.mark.parametrize("family", [kind(N) for kind in JOINT_FAMILIES.values()])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def etas_of(family, *, rows=4, seed=0):
    return torch.randn(rows, family.n_params, generator=generator(seed), dtype=torch.float64)


def scipy_normal(eta):
    covariance = MultivariateNormal(N).covariance(eta)
    return stats.multivariate_normal(eta[:N].numpy(), covariance.numpy())


def test_normal_densities_are_those_of_scipy():
    family, value = MultivariateNormal(N), torch.randn(4, N, generator=generator(1)).double()
    eta = etas_of(family)
    expected = [scipy_normal(own).logpdf(y) for own, y in zip(eta, value.numpy(), strict=True)]
    np.testing.assert_allclose(family.log_prob(value, eta), expected, rtol=1e-9)
    assert family.log_prob(value.float(), eta[0].float()).dtype == torch.float32


def test_compositions_have_the_probabilities_and_moments_of_scipy():
    family, total = DirichletMultinomial(N), 7
    for own in etas_of(family):
        witness = stats.dirichlet_multinomial(own.exp().numpy(), total)
        counts = torch.tensor([[3, 0, 4], [7, 0, 0], [2, 3, 2]])
        np.testing.assert_allclose(
            family.log_prob(counts, own), witness.logpmf(counts.numpy()), rtol=1e-9
        )
        given = torch.tensor(float(total))
        np.testing.assert_allclose(family.mean(own, given), witness.mean(), rtol=1e-9)
        np.testing.assert_allclose(family.covariance(own, given), witness.cov(), rtol=1e-9)
    rows = [y for y in product(range(total + 1), repeat=N) if sum(y) == total]
    assert float(family.log_prob(torch.tensor(rows), own).exp().sum()) == pytest.approx(1.0)


def test_large_concentrations_are_a_multinomial():
    share = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    counts = torch.tensor([1, 2, 4])
    nats = DirichletMultinomial(N).log_prob(counts, share.log() + 25)
    assert float(nats) == pytest.approx(
        stats.multinomial(7, share.numpy()).logpmf(counts.numpy()), rel=1e-8
    )


def test_some_of_the_values_have_the_distribution_of_these():
    family = MultivariateNormal(N)
    eta = etas_of(family)
    both = family.marginal(eta, [2, 0])
    sub = MultivariateNormal(2)
    torch.testing.assert_close(sub.mean(both), eta[:, [2, 0]])
    covariance = family.covariance(eta)[:, [2, 0]][..., [2, 0]]
    torch.testing.assert_close(sub.covariance(both), covariance)
    alone = family.marginal(eta, [1])
    y = torch.tensor([0.3], dtype=torch.float64)
    sd = family.covariance(eta)[:, 1, 1].sqrt().numpy()
    np.testing.assert_allclose(
        Gaussian().log_prob(y, alone), stats.norm.logpdf(0.3, eta[:, 1].numpy(), sd), rtol=1e-9
    )
    counts, eta = DirichletMultinomial(N), etas_of(DirichletMultinomial(N))[0]
    summed = sum(
        counts.log_prob(torch.tensor([a, 2, 5 - 2 - a]), eta).exp() for a in range(5 - 2 + 1)
    )
    of_one = DirichletMultinomial(2).log_prob(torch.tensor([2, 3]), counts.marginal(eta, [1]))
    assert float(of_one.exp()) == pytest.approx(float(summed))
    assert torch.equal(counts.marginal(eta, [1, 0, 2]), eta[[1, 0, 2]])


@every_family
def test_draws_have_the_moments_and_give_their_parameters_back(family):
    rows, eta = 20_000, etas_of(family, rows=1)[0] / 2
    total = [] if family.name == "multivariate-normal" else [torch.full((rows,), 9.0)]
    drawn = family.sample(eta.expand(rows, -1), *total, generator=generator(3))
    again = family.sample(eta.expand(rows, -1), *total, generator=generator(3))
    assert torch.equal(drawn, again) and len(drawn.unique(dim=0)) > 20
    given = [part[0] for part in total]
    np.testing.assert_allclose(drawn.mean(0), family.mean(eta, *given), atol=0.08)
    np.testing.assert_allclose(drawn.T.cov(), family.covariance(eta, *given), atol=0.25)
    assert all((drawn.sum(-1) == 9).all() for _ in total)
    np.testing.assert_allclose(family.initial_eta(drawn[:4000]), eta, atol=0.12)


@every_family
def test_what_cannot_occur_has_no_probability_and_no_gradient(family):
    eta = etas_of(family, rows=1)[0].requires_grad_()
    for wrong in (np.nan, np.inf):
        value = torch.tensor([[wrong, 1.0, 1.0], [1.0, 1.0, 1.0]])
        nats = family.log_prob(value, eta)
        assert nats[0] == -torch.inf and nats[1].isfinite()
        (slope,) = torch.autograd.grad(torch.where(nats.isfinite(), nats, 0.0).sum(), eta)
        assert slope.isfinite().all()
        with pytest.raises(ExfamError, match=r"`value` must be rows of .*, got \[.* at row 0"):
            family.initial_eta(value)
    with pytest.raises(ExfamError, match="`eta` must have .* columns for"):
        family.log_prob(torch.ones(N), torch.zeros(1))
    with pytest.raises(ExfamError, match="`value` must have 3 columns for"):
        family.log_prob(torch.ones(2), eta.detach())
    for columns in ([], [0, 0], [3]):
        with pytest.raises(ExfamError, match="`columns` must be different numbers from 0 to 2"):
            family.marginal(eta.detach(), columns)
    with pytest.raises(ExfamError, match="`n` must be at most 64 values together, got 65"):
        type(family)(65)


@pytest.mark.parametrize("family", ["dirichlet-multinomial", "dirichlet-multinomial(n=3)"])
def test_models_have_families_of_one_value(family):
    frame = {"g": [1, 1, 2, 2], "a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}
    with pytest.raises(ExfamError, match="`family` must be of one value, got dirichlet-multinom"):
        EFA(group="g", value=["a", "b"], family=family).fit(frame)
    with pytest.raises(ExfamError, match="`family` must be of one value, got MultivariateNormal"):
        EFA(group="g", value=["a", "b"], family={"a": MultivariateNormal(2)}).fit(frame)
