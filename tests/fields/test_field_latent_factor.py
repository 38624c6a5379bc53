"""The latent factor model of fields."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from exfam.fields.declarations import LatentFactorParameters
from exfam.fields.latent_factor import NearestObserved, build_field_latent_factor
from exfam.fields.networks.climate import fit_climate
from exfam.geometry import distances
from map_cases import LEVEL, batch_of, field, in_order, make_maps, ragged_maps
from model_cases import generator, redraw

every_k = pytest.mark.parametrize("k", (1, 3, None))


def built(groups, *, climate=None, metric="haversine", **choices):
    settings = LatentFactorParameters(**{"dim": 4, "hidden_dim": 8, **choices})
    choices = {"metric": metric, "climate": climate, "generator": generator()}
    return build_field_latent_factor(groups, settings, **choices)


def nearest_of(batch, row, i, shown, *, k, metric):
    """The `k` nearest shown others of an element, by their distances one by one."""
    place = batch.attributes["coordinates"][row].numpy()
    away = distances(place[[i]], place, metric=metric)[0]
    others = [j for j in shown[row].nonzero()[:, 0].tolist() if j != i]
    return sorted(others, key=lambda j: away[j])[:k]


@every_k
def test_means_are_as_the_proposition_states_them(k):
    part, batch = redraw(built(make_maps(), k=k).double(), generator()), batch_of(ragged_maps())
    with torch.no_grad():
        mean, log_scale = part.eta(batch).unbind(-1)
        h = part.factors(batch)
    for b, i in batch.target.nonzero().tolist():
        near = nearest_of(batch, b, i, batch.observed, k=k, metric="haversine")
        expected = sum(h[b, i] @ h[b, j] * batch.values["value"][b, j].double() for j in near)
        assert mean[b, i].item() == pytest.approx(float(expected), abs=1e-9)
    assert mean.std() > 1 and torch.equal(log_scale, part.log_scale.expand_as(mean))


def test_equally_far_places_are_taken_in_an_order_of_their_own():
    place = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-1.0, 0.0]]
    batch = batch_of(field(np.zeros((1, 5)), place))
    order = torch.tensor([3, 0, 4, 2, 1])
    near = NearestObserved(2, "euclidean")
    again = near(in_order(batch, order))
    assert torch.equal(again, near(batch)[:, order][:, :, order])
    assert near(batch)[0, 0].nonzero()[:, 0].tolist() == [3, 4]


def test_anomalies_are_placed_back():
    groups = make_maps()
    climate = fit_climate(groups, kind="site", metric="haversine")
    part, plain, batch = built(groups, climate=climate), built(groups), batch_of(groups)
    location, scale, doubt = climate(batch)
    plain.load_state_dict(part.state_dict(), strict=False)
    anomaly = (batch.values["value"] - location) / scale
    inner, _ = plain.eta(replace(batch, values={"value": anomaly})).unbind(-1)
    mean, log_scale = part.eta(batch).unbind(-1)
    assert_close(mean, location + scale * inner)
    variance = (scale * part.log_scale.exp()) ** 2 + doubt**2
    assert_close((2 * log_scale).exp(), variance)


def test_it_starts_near_the_mean_of_the_neighbors():
    groups = make_maps(60)
    level = groups.values["value"] - np.tile(LEVEL, len(groups)) + 20.0
    groups = groups.with_(values={"value": level})
    part, batch = built(groups, k=2, intercept=True), batch_of(groups)
    near = part.neighbors(batch).double()
    mean = (near @ batch.values["value"][..., None])[..., 0] / near.sum(-1)
    assert ((part.eta(batch)[..., 0] - mean).abs() < 0.25 * mean.abs()).all()
