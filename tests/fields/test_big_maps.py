"""Big maps: part by part is the same as at once, in bounded memory, or an error says what to do."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.families import Gaussian
from exfam.fields.declarations import FieldNetworkParameters
from exfam.fields.networks import network as network_module
from exfam.fields.networks.assemble import build_field_network, field_shape
from exfam.fields.networks.climate import fit_climate
from exfam.fields.networks.neighborhood import NearestSites, own_elements
from exfam.groups import Groups

N_SITES, N_MAPS = 6, 3


def field(*, lags=0, n_sites=N_SITES, n_maps=N_MAPS):
    random = np.random.default_rng(0)
    places = np.tile(random.uniform(-20, 20, (n_sites, 2)), (n_maps, 1))
    start = np.arange(n_maps) * n_sites
    before = np.arange(n_maps)[:, None] - np.arange(lags, 0, -1)
    there = before >= 0
    first = np.where(there, start[before], 0)
    context = {"context_start": first, "context_stop": first + there * n_sites} if lags else {}
    return Groups(
        start=start,
        stop=start + n_sites,
        item=np.tile(np.arange(n_sites), n_maps),
        values={"v": random.normal(size=n_sites * n_maps)},
        observed=random.random(n_sites * n_maps) < 0.8,
        attributes={"coordinates": places},
        position=places,
        group_attributes={"time": np.arange(float(n_maps))},
        vocabulary={"item": np.arange(n_sites)},
        **context,
    )


def build(groups, *, lags=0, **settings):
    network = build_field_network(
        field_shape(groups, lags=lags, step=1.0, metric="haversine"),
        FieldNetworkParameters(
            embed_dim=8, n_heads=2, head_dim=4, n_layers=2, hide=0.0, dropout=0.0, **settings
        ),
        climate=fit_climate(groups, kind="site", metric="haversine"),
        family=Gaussian(),
        start=torch.zeros(2),
        generator=torch.Generator().manual_seed(0),
    )
    return network.train()


def eta_and_gradients(network, batch):
    network.zero_grad()
    eta = network.eta(batch)
    eta.square().sum().backward()
    return eta.detach(), [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("n_neighbors", [None, 3])
@pytest.mark.parametrize("most", [100, 500])
def test_parts_change_neither_parameters_nor_gradients(monkeypatch, n_neighbors, most):
    groups = field(lags=1)
    network = build(groups, lags=1, n_neighbors=n_neighbors)
    batch = groups.pad(np.arange(N_MAPS))
    calls = []
    outputs = network._outputs
    monkeypatch.setattr(network, "_outputs", lambda seen: calls.append(0) or outputs(seen))
    whole = eta_and_gradients(network, batch)
    # Without neighbors, maps with and without one before them are computed apart.
    assert len(calls) == (2 if n_neighbors is None else 1)
    monkeypatch.setattr(network_module, "MOST_NUMBERS", most)
    parted = eta_and_gradients(network, batch)
    assert len(calls) > 4
    torch.testing.assert_close(parted[0], whole[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(parted[1], whole[1], atol=1e-4, rtol=1e-4)
    with torch.inference_mode():
        torch.testing.assert_close(network.eta(batch), whole[0], atol=1e-5, rtol=1e-4)


def test_neighborhoods_of_all_others_are_full_attention():
    groups = field(lags=1)
    batch = groups.pad(np.arange(N_MAPS))
    near, full = (build(groups, lags=1, n_neighbors=k) for k in (N_SITES, None))
    near.load_state_dict(full.state_dict())
    torch.testing.assert_close(near.eta(batch), full.eta(batch), atol=1e-5, rtol=1e-4)


def test_maps_that_show_the_same_sites_share_a_search(monkeypatch):
    from exfam.fields.networks import neighborhood

    groups = field().with_(observed=None)
    batch = groups.pad(np.arange(N_MAPS))
    shown = batch.observed.clone()
    shown[2, :2] = False
    searches = []
    search = neighborhood.nearest
    monkeypatch.setattr(
        neighborhood, "nearest", lambda *a, **k: searches.append(0) or search(*a, **k)
    )
    near = NearestSites(3, "haversine")
    together = near.keys(batch, shown, own_elements(batch))
    assert len(searches) == 2
    for g in range(N_MAPS):
        alone = groups.pad([g])
        keys = near.keys(alone, shown[[g]], own_elements(alone))
        assert torch.equal(keys.column[0], together.column[g])
        assert torch.equal(keys.may_attend[0], together.may_attend[g])
    assert not torch.equal(together.column[0], together.column[2])


def test_maps_too_large_for_full_attention_ask_for_neighbors(monkeypatch):
    groups = field()
    network = build(groups)
    monkeypatch.setattr(network_module, "MOST_SCORES", 400)
    with pytest.raises(ExfamError, match="`n_neighbors` must be given for maps of 6 elements"):
        network.eta(groups.pad([0]))
    near = build(groups, n_neighbors=3)
    assert near.eta(groups.pad([0])).isfinite().all()


def test_numbers_an_element_grow_with_the_map_only_where_all_attend():
    groups = field()
    full, near = build(groups), build(groups, n_neighbors=3)
    assert full.numbers_an_element(200) == 2 * full.numbers_an_element(100)
    assert near.numbers_an_element(200) == near.numbers_an_element(100)
