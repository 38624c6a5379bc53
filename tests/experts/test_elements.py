"""EFA networks of one linear layer as mixtures of experts, and the refusal of all others."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from efa_cases import LENGTHS, rich_groups, rich_schema, small_model
from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS
from exfam_studies.experts.view import ElementAttention, attention_as_experts
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
    eta, there = getattr(model, f"{part[:-1]}_part").eta(batch()), batch().present
    experts = attention_as_experts(model, part=part).experts(batch())
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


def test_some_outputs_alone():
    view = attention_as_experts(linear_model(), part="items")
    whole, some = view.experts(batch()), view.experts(batch(), params=[4, 1])
    torch.testing.assert_close(some.contributions, whole.contributions[..., [4, 1]], **EXACT)
    torch.testing.assert_close(some.constant, whole.constant[..., [4, 1]], **EXACT)
    with pytest.raises(ExfamError, match=r"`params` must be in 0 .. 8, got 9"):
        view.experts(batch(), params=[9])


REFUSED = {
    "3 layers.*Fit with n_layers=1": {"n_layers": 3},
    "layer norm around attention.*connection='residual'": {"connection": "post-norm"},
    "layer norm before the head": {"connection": "pre-norm"},
    "a feed-forward layer with GELU.*feed_forward_dim=0": {"feed_forward_dim": 6},
    "weights that do not sum to 1.*attention='softmax'": {"attention": "mean"},
    "a head with a hidden layer.*head_hidden_dim=0": {"head_hidden_dim": 6},
    "a group's level beside attention.*group_offset=False": {"group_offset": True},
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_model_that_is_no_such_mixture_is_refused_by_the_part_at_fault(message):
    model = linear_model(items=False, **REFUSED[message])
    with pytest.raises(ExfamError, match=f"`model` must be one linear attention layer.*{message}"):
        attention_as_experts(model)


def test_what_has_no_such_experts_is_refused():
    network = linear_model().value_part
    network.head = torch.nn.Identity()
    with pytest.raises(ExfamError, match="a head of type Identity"):
        ElementAttention(network)
    members = [linear_model(dropout=0.5, items=False), linear_model(items=False, seed=1)]
    fitted = SimpleNamespace(members_=members)
    assert attention_as_experts(fitted, member=1).network is members[1].value_part
    with pytest.raises(ExfamError, match=r"`member` must be in 0 .. 1, got 2"):
        attention_as_experts(fitted, member=2)
    view = attention_as_experts(fitted)
    members[0].train()
    with pytest.raises(ExfamError, match=r"`model` must be set to predict.*`eval\(\)`"):
        view.experts(batch())
    remedies = "n_layers=1, connection='residual' or 'none', head_hidden_dim=0"
    for other, message in (
        (torch.nn.Linear(2, 2), "`model` must be one linear attention layer .*, got Linear"),
        (linear_model(), "`part` must be one of 'items', 'values', got None"),
        (small_model(SCHEMA, items=False), f"Fit with {remedies}"),
    ):
        with pytest.raises(ExfamError, match=message):
            attention_as_experts(other)
