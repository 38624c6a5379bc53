"""Laws of attention on amounts and counts: it corrects latent numbers, zeros by their mass."""

import copy
import functools

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import exfam
from exfam import FieldEFA, FieldGaussian
from exfam.families import StudentT
from exfam.fields.base.fit import fit_base
from exfam.fields.correction.cross_fit import cross
from exfam.fields.correction.train import fit_corrections
from fields.field_cases import COLUMNS
from fields.test_field_base import field_maps
from fields.test_field_families import FAMILIES
from fields.test_field_families import frame_of as all_days_of

every_family = pytest.mark.parametrize("name", ["roots", "counts", "logs"])


@functools.cache
def frame_of(name):
    whole = all_days_of(name)
    return whole[whole.day < whole.day.min() + pd.Timedelta(days=30)].reset_index(drop=True)


@functools.cache
def trained(name):
    settings = {"family": FAMILIES[name], "progress": False, "max_epochs": 2}
    return FieldEFA(**COLUMNS, **settings).fit(frame_of(name))


def opened(name, *, gate=1.0):
    """The same with gates that are open and attention that is anything."""
    estimator = copy.deepcopy(trained(name))
    part = estimator.members_[0].value_part
    part.gates.fill_(gate)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in part.members.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return estimator


def crossing_of_censored():
    maps = field_maps(n_maps=25, n_sites=5, n_lags=0)
    values = maps.panel.values.clamp_min(-0.5)
    panel = maps.panel._replace(values=values, censored=values == -0.5, limit=-0.5)
    base = fit_base(maps._replace(panel=panel))
    return cross(base)


@every_family
def test_closed_gates_are_the_base(name):
    frame = frame_of(name)
    assert trained(name).gain_ is not None
    base = FieldGaussian(**COLUMNS, family=FAMILIES[name]).fit(frame).log_prob(frame)
    assert_array_equal(opened(name, gate=0.0).log_prob(frame), base)
    assert np.nanmax(np.abs(opened(name).log_prob(frame) - base)) > 0.01


@every_family
def test_a_value_does_not_move_its_own_distribution(name):
    frame, model = frame_of(name), opened(name)
    row = int(np.flatnonzero(frame.v.notna())[8])
    other = frame.copy()
    other.loc[row, "v"] = 0.0 if name != "logs" and frame.v[row] > 0 else 9.0
    before, after = (model.predict_dist(rows).quantile(0.95) for rows in (frame, other))
    assert after[row] == pytest.approx(before[row], rel=1e-6)
    same_day = ((frame.day == frame.day[row]) & (frame.site != frame.site[row])).to_numpy()
    assert (after[same_day] != before[same_day]).any()


@every_family
def test_explained_and_stored(name, tmp_path):
    frame, model = frame_of(name), opened(name)
    model.save(tmp_path / "model")
    assert_array_equal(exfam.load(tmp_path / "model").log_prob(frame), model.log_prob(frame))
    day = frame[frame.day == frame.day[5]]
    (explanation,) = model.explain(day)
    of_sites = day.set_index("site").loc[explanation.site[explanation.own]].reset_index()
    latent = explanation.normal + explanation.contributions.sum(1) + explanation.shift
    positive, median = np.maximum(latent, 0), model.predict_dist(of_sites).quantile(0.5)
    wanted = {"roots": positive**2, "counts": (positive**2).round(), "logs": np.exp(latent)}
    assert_allclose(median, wanted[name], rtol=1e-5, atol=1e-6)
    assert np.abs(explanation.shift).max() > 0.001


def test_zeros_count_by_their_mass_and_the_rest_by_its_density():
    examples, _ = crossing_of_censored().stopping(0)
    censored = examples.limit < torch.inf
    assert censored.any() and not censored.all()
    shifts = 0.3 * torch.randn(*examples.value.shape, 2)
    moved = torch.stack(
        [
            examples.eta[..., 0] + shifts[..., 0] * examples.log_sd.exp(),
            examples.eta[..., 1] + shifts[..., 1],
            examples.eta[..., 2],
        ],
        -1,
    ).double()
    mass = StudentT().cdf(torch.where(censored, examples.limit, 0.0).double(), moved).log()
    density = StudentT().log_prob(examples.value.double(), moved)
    wanted = torch.where(censored, mass, density)
    assert_allclose(examples.nats(shifts), wanted, rtol=1e-4, atol=4e-3)


def test_training_on_zeros_stays_finite():
    crossing = crossing_of_censored()
    members, _, gain = fit_corrections(crossing, seeds=[0], most_epochs=1, progress=False)
    assert all(parameter.isfinite().all() for parameter in members[0].parameters())
    assert members[0].last.weight.abs().max() > 0 and np.isfinite(gain.base_nats)
    examples, _ = crossing.training(0)
    shifts = torch.zeros(*examples.value.shape, 2, requires_grad=True)
    examples.nats(shifts).sum().backward()
    assert shifts.grad.isfinite().all()
