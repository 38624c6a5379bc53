"""EFA networks of one linear layer as mixtures of experts, and the refusal of all others."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from efa_cases import LENGTHS, rich_groups, rich_schema, small_model
from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS
from exfam_studies.experts.element_attention import ElementAttention
from exfam_studies.experts.view import attention_as_experts
from shape_checks import unchecked

SCHEMA = rich_schema(rich_groups(), known=("genre",))
LINEAR = {"n_layers": 1, "connection": "residual", "head_hidden_dim": 0}
EXACT = {"rtol": 0.0, "atol": 1e-10}


def precise(columns):
    return {k: x.double() if x.is_floating_point() else x for k, x in columns.items()}


def batch():
    """All groups, padded, in float64: more than a batch is allowed, which is annotated float32."""
    padded = rich_groups().pad(range(len(LENGTHS)))
    with unchecked():
        return replace(
            padded,
            values=precise(padded.values),
            attributes=precise(padded.attributes),
            group_attributes=precise(padded.group_attributes),
        )


def linear_model(**choices):
    """A model of one linear layer in both parts, all parameters random, set to predict."""
    return small_model(SCHEMA, **LINEAR | choices).double().eval().requires_grad_(False)


def assert_experts_are(network, view):
    eta = network.eta(batch())
    experts = view.experts(batch())
    there = batch().present
    assert float(eta[there].std(0).max()) > 1e-2
    torch.testing.assert_close(experts.eta[there], eta[there], **EXACT)
    assert float(experts.parts[there].abs().max()) > 1e-2
    return experts


NETWORKS = [
    *({"encoding": name} for name in ENCODINGS if name not in ("distance",)),
    {"connection": "none"},
    {"null_token": False},
    {"sees_mask": True},
    {"sees_mask": True, "null_token": False},
    {"direction": "causal", "sees_mask": True},
    {"conditional": "copies", "n_heads": 3, "sees_mask": True},
    {"dropout": 0.5},
]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("part", ["items", "values"])
def test_one_linear_layer_is_a_mixture_of_experts(part, network):
    model = linear_model(**network, item_sees_values=True)
    view = attention_as_experts(model, part=part)
    experts = assert_experts_are(getattr(model, f"{part[:-1]}_part"), view)
    total = experts.weights.sum(-1).movedim(1, -1)[batch().present]
    sums_to = (total - 1).abs() < 1e-6
    lone = total == 0
    assert (sums_to | lone).all() and sums_to.any()


@pytest.mark.parametrize(
    "choices", [{"join": "concatenate"}, {"tie": "reflection"}, {"dispersion": "item"}], ids=str
)
def test_joins_ties_and_dispersions_keep_the_mixture_exact(choices):
    model = linear_model(**choices)
    for part in ("item", "value"):
        network = getattr(model, f"{part}_part")
        assert_experts_are(network, ElementAttention(network))


def test_with_a_mask_token_the_experts_are_those_of_theorem_2():
    """The constant, divided among the experts of each head, leaves a mixture alone."""
    network = linear_model(sees_mask=True).value_part
    experts = ElementAttention(network).experts(batch())
    n_heads = experts.weights.shape[1]
    f = experts.contributions + experts.constant[:, None, :, None] / n_heads
    mixture = (experts.weights[..., None] * f).sum((1, 3))
    there = batch().present
    torch.testing.assert_close(mixture[there], network.eta(batch())[there], **EXACT)


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


def test_the_default_is_refused_with_all_that_it_takes():
    model = small_model(SCHEMA, items=False)
    remedies = "n_layers=1, connection='residual' or 'none', head_hidden_dim=0"
    with pytest.raises(ExfamError, match=f"Fit with {remedies}"):
        attention_as_experts(model)


def test_a_head_of_another_kind_is_refused():
    network = linear_model().value_part
    network.head = torch.nn.Identity()
    with pytest.raises(ExfamError, match="a head of type Identity"):
        ElementAttention(network)


def test_dropout_while_training_is_refused():
    model = linear_model(dropout=0.5, items=False)
    view = attention_as_experts(model)
    model.train()
    with pytest.raises(ExfamError, match=r"`model` must be set to predict.*`eval\(\)`"):
        view.experts(batch())


def test_a_model_without_attention_is_refused():
    with pytest.raises(ExfamError, match="`model` must have attention, got Linear"):
        attention_as_experts(torch.nn.Linear(2, 2))


def test_of_a_model_with_two_parts_one_is_named():
    model = linear_model()
    with pytest.raises(ExfamError, match="`part` must be one of 'items', 'values', got None"):
        attention_as_experts(model)
    assert attention_as_experts(model, part="items").network is model.item_part


def test_a_fitted_estimator_is_read_member_by_member():
    members = [linear_model(items=False), linear_model(items=False, seed=1)]
    fitted = SimpleNamespace(members_=members)
    assert attention_as_experts(fitted, member=1).network is members[1].value_part
    with pytest.raises(ExfamError, match=r"`member` must be in 0 .. 1, got 2"):
        attention_as_experts(fitted, member=2)
