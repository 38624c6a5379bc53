"""Moments from incomplete rows, and conditionals of them."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch.testing import assert_close

from exfam.fields.networks.joint_normal import JointNormal, SlotRows, fit_normal, leave_one_out
from map_cases import true_covariance

P = 5
JOINT = JointNormal(torch.arange(P, dtype=torch.float64), torch.from_numpy(true_covariance(P)))


def draw(n, *, missing, seed=0):
    random = np.random.default_rng(seed)
    value = random.multivariate_normal(np.arange(P), true_covariance(P), size=n)
    known = random.random(value.shape) >= missing
    return SlotRows(torch.from_numpy(value), torch.from_numpy(known))


def test_conditionals_are_ratios_of_joint_densities():
    rows = draw(12, missing=0.4)
    mean, variance = leave_one_out(JOINT, rows)
    for value, known, m, v in zip(rows.value, rows.known, mean, variance, strict=True):

        def log_density(at, value=value):
            if not at:
                return 0.0
            part = JOINT.covariance[at][:, at].numpy()
            return multivariate_normal(JOINT.mean[at].numpy(), part).logpdf(value[at].numpy())

        for i in range(P):
            others = [j for j in range(P) if known[j] and j != i]
            expected = log_density([*others, i]) - log_density(others)
            normal = torch.distributions.Normal(m[i], v[i].sqrt())
            assert normal.log_prob(value[i]).item() == pytest.approx(expected)


def test_values_that_are_not_known_do_not_matter():
    rows = draw(20, missing=0.2)
    garbage = SlotRows(torch.where(rows.known, rows.value, 1e6), rows.known)
    assert_close(leave_one_out(JOINT, garbage), leave_one_out(JOINT, rows))
    assert_close(fit_normal(garbage, ridge=0.1), fit_normal(rows, ridge=0.1))


def test_em_ends_where_the_penalized_likelihood_of_what_is_known_is_highest():
    rows, ridge = draw(60, missing=0.3), 0.2
    joint = fit_normal(rows, ridge=ridge)
    for _ in range(3):
        joint = fit_normal(rows, ridge=ridge, start=joint)

    def objective(mean, covariance):
        total = -0.5 * len(rows.value) * ridge * torch.linalg.inv(covariance).trace()
        for value, known in zip(*rows, strict=True):
            if known.any():
                part = covariance[known][:, known]
                normal = torch.distributions.MultivariateNormal(mean[known], part)
                total = total + normal.log_prob(value[known])
        return total

    mean, covariance = (moment.clone().requires_grad_() for moment in joint)
    best = objective(mean, covariance)
    best.backward()
    # Of what 60 rows weigh: a gradient of 60 / 2 is the pull of one standard error or more.
    assert mean.grad.abs().max() < 0.05 and covariance.grad.abs().max() < 0.05
    with torch.no_grad():
        assert objective(joint.mean, joint.covariance + 0.05 * torch.eye(P)) < best
        assert objective(joint.mean + 0.1, joint.covariance) < best


def test_a_slot_that_no_row_knows_stays_apart():
    rows = draw(30, missing=0.2)
    joint = fit_normal(SlotRows(rows.value, rows.known & (torch.arange(P) != 2)), ridge=0.1)
    assert joint.mean[2] == 0 and joint.covariance[2, 2] == pytest.approx(1.1)
    assert joint.covariance[2].count_nonzero() == 1
