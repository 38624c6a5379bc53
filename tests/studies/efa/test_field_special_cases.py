"""The latent factor model of fields, written as attention."""

import numpy as np
import pytest
import torch

from exfam.attention import Visibility
from exfam.checks import ExfamError
from exfam.conditionals import Static
from exfam.efa.networks.efa_network import EFANetwork
from exfam.encodings import NoEncoding
from exfam.fields.declarations import LatentFactorParameters
from exfam.fields.networks.climate import fit_climate
from exfam.fields.networks.factor_network import (
    build_field_latent_factor,
)
from exfam_studies.efa.field_special_cases import field_from_latent_factor
from map_cases import batch_of, make_maps


def built(groups, *, climate=None, **choices):
    metric = choices.pop("metric", "haversine")
    settings = LatentFactorParameters(**{"dim": 4, "hidden_dim": 8, **choices})
    generator = torch.Generator().manual_seed(0)
    more = {"metric": metric, "climate": climate, "generator": generator}
    return build_field_latent_factor(groups, settings, **more)


def randomized(part):
    generator = torch.Generator().manual_seed(0)
    part = part.double()
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return part


def ragged(*, lags=0):
    """Maps of unequal numbers of sites, some values missing."""
    groups = make_maps(12, seed=1, lags=lags, missing=0.3)
    stop = groups.stop - np.arange(12) % 4
    return groups if lags else groups.with_(stop=stop)


@pytest.mark.parametrize("k", [1, 3, None])
@pytest.mark.parametrize("lags", [0, 1])
@pytest.mark.parametrize("intercept", [False, True])
def test_proposition_2(k, lags, intercept):
    part = randomized(built(make_maps(), k=k, intercept=intercept))
    batch = batch_of(ragged(lags=lags))
    network = field_from_latent_factor(part, column="value")
    own = batch.target
    expected = part.eta(batch)[own]
    torch.testing.assert_close(network.eta(batch)[own], expected, atol=1e-11, rtol=1e-12)
    assert expected.std() > 0.1 and not batch.observed[own].all()


def test_over_all_sites_it_is_the_plain_network():
    part = randomized(built(make_maps(), k=None))
    ours = field_from_latent_factor(part, column="value")
    network = EFANetwork(
        ours.embedding,
        NoEncoding(),
        [ours.block],
        ours.head,
        conditional=Static(),
        visibility=Visibility(),
    )
    batch = batch_of(ragged())
    expected = part.eta(batch)[batch.present]
    torch.testing.assert_close(network.eta(batch)[batch.present], expected)
    near = field_from_latent_factor(randomized(built(make_maps(), k=1)), column="value")
    assert (near.eta(batch)[batch.present] - expected).abs().max() > 0.1


def test_a_model_of_anomalies_is_refused():
    groups = make_maps(8)
    climate = fit_climate(groups, kind="site", metric="haversine")
    with pytest.raises(ExfamError, match="`part` must be a model of the values as they are"):
        field_from_latent_factor(built(groups, climate=climate), column="value")
