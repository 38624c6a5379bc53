"""EFA networks of one linear layer as mixtures of experts, and the refusal of all others."""

from dataclasses import replace

import pytest
import torch

from efa_cases import LENGTHS, rich_groups, rich_schema, small_model
from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS
from exfam_studies.experts.view import element_experts
from shape_checks import unchecked

SCHEMA = rich_schema(rich_groups(), known=("genre",))
LINEAR = {"n_layers": 1, "connection": "residual", "head_hidden_dim": 0}
EXACT = {"rtol": 0.0, "atol": 1e-10}


def batch():
    """All groups, padded, in float64: more than a batch is allowed, which is annotated float32."""
    padded, precise = rich_groups().pad(range(len(LENGTHS))), {}
    for name in ("values", "attributes", "group_attributes"):
        columns = getattr(padded, name).items()
        precise[name] = {k: x.double() if x.is_floating_point() else x for k, x in columns}
    with unchecked():
        return replace(padded, **precise)


def linear_model(**choices):
    """A model of one linear layer in both parts, all parameters random, set to predict."""
    return small_model(SCHEMA, **LINEAR | choices).double().eval().requires_grad_(False)


NETWORKS = [
    *({"encoding": name} for name in ENCODINGS if name != "distance"),
    {"connection": "none", "null_token": False},
    {"sees_mask": True},
    {"direction": "causal", "sees_mask": True},
    {"conditional": "copies", "n_heads": 3, "sees_mask": True},
    {"dropout": 0.5, "join": "concatenate"},
    {"tie": "reflection", "dispersion": "item"},
]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("part", ["items", "values"])
def test_one_linear_layer_is_a_mixture_of_experts(part, network):
    model = linear_model(**{"item_sees_values": True, **network})
    eta, there = model.part(part).eta(batch()), batch().present
    experts = element_experts(model.part(part), batch())
    assert float(eta[there].std(0).max()) > 1e-2
    torch.testing.assert_close(experts.eta[there], eta[there], **EXACT)
    assert float(experts.parts[there].abs().max()) > 1e-2
    total = experts.weights.sum(-1).movedim(1, -1)[there]
    sums_to = (total - 1).abs() < 1e-6
    assert (sums_to | (total == 0)).all() and sums_to.any()
    if network == {"sees_mask": True}:
        # The constant, divided among the experts of each head, leaves a mixture alone: theorem 2.
        shared = experts.constant[:, None, :, None] / experts.weights.shape[1]
        mixture = (experts.weights[..., None] * (experts.contributions + shared)).sum((1, 3))
        torch.testing.assert_close(mixture[there], eta[there], **EXACT)


REFUSED = {
    "3 layers.*Fit with n_layers=1": {"n_layers": 3},
    "layer norm.*connection='residual'": {"connection": "post-norm"},
    "layer norm.*connection='residual' or 'none'": {"connection": "pre-norm"},
    "a feed-forward layer with GELU.*feed_forward_dim=0": {"feed_forward_dim": 6},
    "weights that do not sum to 1.*attention='softmax'": {"attention": "mean"},
    "a head with a hidden layer.*head_hidden_dim=0": {"head_hidden_dim": 6},
    "a group's level beside attention.*group_offset=False": {"group_offset": True},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_network_that_is_no_such_mixture_is_refused_by_the_part_at_fault(message):
    network = linear_model(items=False, **REFUSED[message]).part()
    with pytest.raises(ExfamError, match=f"`network` must be one linear .* layer.*{message}"):
        element_experts(network, batch())


def test_what_has_no_such_experts_is_refused():
    network = linear_model(items=False).part()
    with pytest.raises(ExfamError, match=r"`network` must be set to predict.*`eval\(\)`"):
        element_experts(network.train(), batch())
    network.head = torch.nn.Identity()
    with pytest.raises(ExfamError, match="a head of type Identity"):
        element_experts(network, batch())
    remedies = "n_layers=1, connection='residual' or 'none', head_hidden_dim=0"
    with pytest.raises(ExfamError, match=f"Fit with {remedies}"):
        element_experts(small_model(SCHEMA, items=False).part(), batch())
