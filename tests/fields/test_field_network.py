"""The network of a field: what its conditionals see, by whatever neighborhood and path."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.families import Gaussian, NegativeBinomial, Poisson, StudentT
from exfam.fields.declarations import FieldNetworkParameters
from exfam.fields.networks import network as network_module
from exfam.fields.networks.assemble import build_field_network, field_shape
from exfam.fields.networks.climate import Normal, fit_climate
from exfam.fields.networks.links import anomaly, placed
from exfam.fields.networks.parts import Hiding, Neighborhood, own_elements
from exfam.likelihoods.two_part import TwoPartModel
from map_cases import CLOSE, N_SITES, assert_leave_one_out, batch_of, field, make_maps
from model_cases import randomize

SMALL = {
    "embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 2, "feed_forward_dim": 8,
    "head_hidden_dim": 4, "read_out_heads": 4,
}  # fmt: skip


def built(groups, *, lags=0, family=None, **choices):
    """A network of random weights, set to predict."""
    family = family or Gaussian()
    generator = torch.Generator().manual_seed(0)
    network = build_field_network(
        field_shape(groups, lags=lags, step=1.0, metric="haversine"),
        FieldNetworkParameters(**SMALL | choices),
        climate=fit_climate(groups, kind="site", metric="haversine"),
        family=family,
        start=torch.zeros(family.n_params),
        generator=generator,
    )
    return randomize(network, generator).eval()


CHOICES = {
    "plain": {},
    "nearest": {"n_neighbors": 3},
    "no null tokens": {"null_token": False},
    "no read-out": {"read_out_heads": 0, "encoding": "none"},
    "read-out alone": {"n_layers": 0},
    "sites, nearest": {"site_embedding": True, "n_neighbors": 2},
    "bare": {"feed_forward_dim": 0, "head_hidden_dim": 0, "scale": "global"},
}
every_choice = pytest.mark.parametrize("choice", CHOICES)
every_null = pytest.mark.parametrize("null_token", [False, True])


def maps(*, lags=0, missing=0.3, n=12):
    return make_maps(n, seed=1, lags=lags, missing=missing)


def eta_of(network, batch):
    with torch.no_grad():
        return network.eta(batch)


@every_choice
@pytest.mark.parametrize("lags", [0, 1])
def test_conditionals_leave_the_element_out(choice, lags):
    groups = maps(lags=lags)
    assert_leave_one_out(built(groups, lags=lags, **CHOICES[choice]), batch_of(groups))


@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("k", [N_SITES, 40])
@every_null
def test_all_neighbors_are_all_sites(lags, k, null_token):
    groups = maps(lags=lags)
    batch = batch_of(groups)
    choices = {"lags": lags, "null_token": null_token}
    every, near = built(groups, **choices), built(groups, n_neighbors=k, **choices)
    assert (every.neighborhood.k, near.neighborhood.k) == (None, k)
    assert_close(eta_of(near, batch), eta_of(every, batch), **CLOSE)


def test_keys_of_the_nearest_are_the_nearest_that_are_shown():
    def keys_of(place, shown):
        values = np.arange(float(len(place)))[None]
        batch = field(values, place, observed=np.array([shown])).pad([0])
        keys = Neighborhood(2, "euclidean").keys(batch, batch.observed, own_elements(batch))
        return [
            sorted(keys.column[0, i][keys.may_attend[0, i]].tolist()) for i in range(len(place))
        ]

    place = np.array([[0.0], [1.0], [1.5], [7.0], [7.2]])
    seen = keys_of(place, [True, True, False, True, True])
    assert seen == [[1, 3], [0, 3], [0, 1], [1, 4], [1, 3]]


@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("missing", [0.0, 0.4])
@every_null
def test_maps_of_the_same_sites_are_computed_as_others_are(lags, missing, null_token, monkeypatch):
    groups = maps(lags=lags, missing=missing)
    batch = batch_of(groups[[5, 6, 9, 10]])
    network = built(groups, lags=lags, site_embedding=True, null_token=null_token)
    assert network_module._alike(batch)
    shared, weights = eta_of(network, batch), network.weights(batch)
    monkeypatch.setattr(network_module, "_alike", lambda batch: False)
    assert_close(eta_of(network, batch), shared, **CLOSE)
    assert_close(network.weights(batch).read_out, weights.read_out, **CLOSE)


@pytest.mark.parametrize("spread", [1, 60])
def test_maps_together_are_computed_as_each_by_itself(spread):
    groups = maps(lags=1)
    network, batch = built(groups, lags=1), batch_of(groups)
    with torch.no_grad():  # scores too far apart to be shared are computed row by row
        network.read_out.query.weight *= spread
    # The first map of each of three seasons has none before it.
    assert [len(rows) for rows in network_module._layouts(batch)] == [3, 9]
    alone = []
    for g in range(12):
        eta = eta_of(network, batch_of(groups, [g]))
        missing = batch.present.shape[1] - eta.shape[1]
        alone.append(torch.nn.functional.pad(eta, (0, 0, 0, missing)))
    own = batch.present & (batch.steps_back == 0)
    eta = eta_of(network, batch)[own]
    assert eta.isfinite().all() and eta.std() > 0.1
    assert_close(eta, torch.cat(alone)[own], rtol=1e-4, atol=1e-4)


def eta_and_gradients(network, batch):
    network.zero_grad()
    eta = network.eta(batch)
    eta.square().sum().backward()
    return eta.detach(), [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("n_neighbors", [None, 3])
@pytest.mark.parametrize("most", [100, 500])
def test_parts_change_neither_parameters_nor_gradients(monkeypatch, n_neighbors, most):
    groups = make_maps(12, seed=1, lags=1, missing=0.2)[:3]
    network = built(
        groups, lags=1, n_neighbors=n_neighbors, read_out_heads=16, hide=0.0, dropout=0.0
    ).train()
    batch = batch_of(groups)
    calls = []
    outputs = network._outputs
    monkeypatch.setattr(network, "_outputs", lambda seen: calls.append(0) or outputs(seen))
    whole = eta_and_gradients(network, batch)
    # Without neighbors, maps with and without one before them are computed apart.
    assert len(calls) == (2 if n_neighbors is None else 1)
    monkeypatch.setattr(network_module, "MOST_NUMBERS", most)
    parted = eta_and_gradients(network, batch)
    assert len(calls) > 4
    assert_close(parted[0], whole[0], atol=1e-5, rtol=1e-4)
    assert_close(parted[1], whole[1], atol=1e-4, rtol=1e-4)


def test_maps_too_large_for_full_attention_ask_for_neighbors(monkeypatch):
    groups = make_maps(3)
    full, near = built(groups), built(groups, n_neighbors=3)
    assert full.numbers_an_element(200) == 2 * full.numbers_an_element(100)
    assert near.numbers_an_element(200) == near.numbers_an_element(100)
    monkeypatch.setattr(network_module, "MOST_SCORES", 100)
    with pytest.raises(ExfamError, match="`n_neighbors` must be given for maps of 6 elements"):
        full.eta(groups.pad([0]))
    assert near.eta(groups.pad([0])).isfinite().all()


@every_choice
@pytest.mark.parametrize("family", [Gaussian(), StudentT(), NegativeBinomial()], ids=str)
def test_training_reaches_every_parameter(choice, family):
    groups = maps(lags=1)
    groups = groups.with_(values={"value": np.abs(groups.values["value"]).round()})
    network = built(groups, lags=1, family=family, dropout=0.0, **CHOICES[choice])
    model = TwoPartModel(direction="bidirectional", value_part=network, families={"value": family})
    model.train()
    torch.manual_seed(0)
    nats = model.log_prob(batch_of(groups)).value["value"]
    assert nats.isfinite().all()
    nats.sum().backward()
    for name, parameter in network.named_parameters():
        if name.startswith("value.field.") and not network.blocks:
            continue  # without attention anomalies are read as they are
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_hiding_is_for_training_and_for_some():
    batch = batch_of(maps(n=400, lags=1, missing=0.2))
    shown = batch.observed & batch.present
    hiding = Hiding(0.6)
    assert (hiding.eval()(batch) == shown).all()
    torch.manual_seed(0)
    hidden = shown & ~hiding.train()(batch)
    assert not (hiding(batch) & ~shown).any()
    assert 0.02 < hidden.sum() / shown.sum() < 0.6
    assert 0.05 < (hidden.sum(1) == 0).float().mean() < 0.95
    assert (Hiding(0.0).train()(batch) == shown).all()


@pytest.mark.parametrize("family", [Gaussian(), Gaussian(scale=2.0), StudentT()], ids=str)
def test_placing_undoes_anomalies(family):
    generator = torch.Generator().manual_seed(0)
    location = 10 * torch.randn(3, 4, generator=generator)
    scale = torch.rand(3, 4, generator=generator) + 0.5
    value = location + scale * torch.randn(3, 4, generator=generator)
    normal = Normal(location, scale, torch.zeros(3, 4))
    outputs = torch.randn(3, 4, family.n_params, generator=generator)
    outputs[..., 0] = anomaly(value, normal, family)
    eta = placed(outputs, normal, family)
    assert_close(eta[..., 0], value)
    if family.n_params > 1:
        # In the unit of the value, the log-density is that of the anomaly less the log scale.
        at = value + 0.3
        there = family.log_prob(anomaly(at, normal, family), outputs) - scale.log()
        assert_close(family.log_prob(at, eta), there)


def test_doubt_adds_to_the_variance_and_counts_are_standardized_as_logs():
    normal = Normal(torch.zeros(1), torch.full((1,), 2.0), torch.full((1,), 3.0))
    eta = placed(torch.tensor([[0.0, 0.5]]), normal, Gaussian())
    expected = (2 * np.exp(0.5)) ** 2 + 9
    assert Gaussian().variance(eta).item() == pytest.approx(expected, rel=1e-5)
    normal = Normal(torch.full((1, 2), 1.0), torch.full((1, 2), 0.5), torch.ones(1, 2))
    value = torch.tensor([[0.0, np.expm1(2.0)]]).float()
    assert_close(anomaly(value, normal, Poisson()), torch.tensor([[-2.0, 2.0]]))
    first = Normal(*(part[0, :1] for part in normal))
    eta = placed(torch.tensor([[0.4]]), first, Poisson())
    assert Poisson().mean(eta).item() == pytest.approx(np.exp(1.2), rel=1e-5)
