"""Small networks of fields with random weights."""

import torch

from exfam.families import Gaussian
from exfam.fields.declarations import FieldNetworkParameters
from exfam.fields.networks.assemble import build_field_network, field_shape
from exfam.fields.networks.climate import fit_climate

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
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return network.eval()
