"""Big maps: part by part is the same as at once, in bounded memory, or an error says what to do."""

import pytest
import torch
from torch.testing import assert_close

from exfam.checks import ExfamError
from exfam.fields.networks import network as network_module
from exfam.fields.networks import parts
from exfam.fields.networks.parts import Neighborhood, own_elements
from fields.network_cases import built
from map_cases import batch_of, make_maps

N_MAPS = 3


def eta_and_gradients(network, batch):
    network.zero_grad()
    eta = network.eta(batch)
    eta.square().sum().backward()
    return eta.detach(), [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("n_neighbors", [None, 3])
@pytest.mark.parametrize("most", [100, 500])
def test_parts_change_neither_parameters_nor_gradients(monkeypatch, n_neighbors, most):
    groups = make_maps(12, seed=1, lags=1, missing=0.2)[:N_MAPS]
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
    with torch.inference_mode():
        assert_close(network.eta(batch), whole[0], atol=1e-5, rtol=1e-4)


def test_maps_that_show_the_same_sites_share_a_search(monkeypatch):
    groups = make_maps(N_MAPS)
    batch = batch_of(groups)
    shown = batch.observed.clone()
    shown[2, :2] = False
    searches = []
    search = parts.nearest
    monkeypatch.setattr(parts, "nearest", lambda *a, **k: searches.append(0) or search(*a, **k))
    near = Neighborhood(3, "haversine")
    together = near.keys(batch, shown, own_elements(batch))
    assert len(searches) == 2
    for g in range(N_MAPS):
        alone = groups.pad([g])
        keys = near.keys(alone, shown[[g]], own_elements(alone))
        assert torch.equal(keys.column[0], together.column[g])
        assert torch.equal(keys.may_attend[0], together.may_attend[g])
    assert not torch.equal(together.column[0], together.column[2])


def test_maps_too_large_for_full_attention_ask_for_neighbors(monkeypatch):
    groups = make_maps(N_MAPS)
    full, near = built(groups), built(groups, n_neighbors=3)
    assert full.numbers_an_element(200) == 2 * full.numbers_an_element(100)
    assert near.numbers_an_element(200) == near.numbers_an_element(100)
    monkeypatch.setattr(network_module, "MOST_SCORES", 100)
    with pytest.raises(ExfamError, match="`n_neighbors` must be given for maps of 6 elements"):
        full.eta(groups.pad([0]))
    assert near.eta(groups.pad([0])).isfinite().all()
