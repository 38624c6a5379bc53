"""Models of an item part and a value part: exact sums, which terms count, garbage kept out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import (
    LatentFactorSettings,
    build_latent_factor_items,
    build_latent_factor_values,
)
from exfam.families import Binomial, Gaussian, PerItem, Poisson
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.two_part import (
    DIRECTIONS,
    SUPPORTS,
    Likelihood,
    LogProb,
    TwoPartModel,
    counted,
)
from model_cases import make_groups, more_padding, whole

N_ITEMS = 9
FAMILIES = {"value": Poisson(shift=1), "other": Gaussian()}
every_case = pytest.mark.parametrize(("direction", "support"), list(product(DIRECTIONS, SUPPORTS)))


def make_model(direction="bidirectional", support="none", *, families=FAMILIES, seed=0):
    generator = torch.Generator().manual_seed(seed)
    settings = LatentFactorSettings(direction=direction, dim=4)
    model = TwoPartModel(
        direction=direction,
        item_part=build_latent_factor_items(N_ITEMS, settings, generator=generator),
        value_part=build_latent_factor_values(N_ITEMS, families, settings, generator=generator),
        families=families,
        support=SUPPORTS[support](),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "penalty" not in name:
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model


def groups_of_two_columns(**kwargs):
    random = np.random.default_rng(5)
    n = sum(kwargs.get("lengths", (4, 1, 6, 2, 5)))
    values = {"value": random.integers(1, 4, n), "other": random.normal(size=n)}
    return make_groups(values=values, **kwargs)


@every_case
def test_log_prob_is_that_of_the_item_and_of_the_families(direction, support):
    model, batch = make_model(direction, support), whole(groups_of_two_columns())
    log_prob = model.log_prob(batch)
    items, etas = model.item_log_probs(batch), model.value_eta(batch)
    torch.testing.assert_close(items.exp().sum(-1), torch.ones(batch.item.shape))
    for b, i in batch.present.nonzero().tolist():
        torch.testing.assert_close(log_prob.item[b, i], items[b, i, batch.item[b, i]])
        for column, family in FAMILIES.items():
            expected = family.log_prob(batch.values[column][b, i], etas[column][b, i])
            torch.testing.assert_close(log_prob.value[column][b, i], expected)


def test_what_is_not_a_target_has_log_prob_zero():
    role = np.where(np.arange(18) % 4 == 1, CONTEXT, TARGET).astype(np.int8)
    groups = groups_of_two_columns(role=role, observed=np.arange(18) % 3 != 0)
    unknown = groups.item.copy()
    unknown[2] = -1
    batch = more_padding(whole(groups.with_(item=unknown)))
    log_prob = make_model().log_prob(batch)
    assert torch.equal(log_prob.item != 0, batch.target & (batch.item >= 0))
    for column in FAMILIES:
        assert torch.equal(log_prob.value[column] != 0, batch.target & batch.observed)


@every_case
def test_garbage_where_nothing_is_observed_reaches_no_number_and_no_gradient(direction, support):
    batch = whole(groups_of_two_columns(observed=np.arange(18) % 3 != 0))
    results = []
    for garbage in (1.0, float("nan"), float("inf"), -7.5):
        values = {
            name: torch.where(batch.observed, value, garbage)
            for name, value in batch.values.items()
        }
        model = make_model(direction, support)
        log_prob = model.log_prob(replace(batch, values=values))
        nats, _ = Likelihood(direction).sums(log_prob, batch)
        nats.backward()
        results.append([nats.detach()] + [p.grad for p in model.parameters()])
    assert all(torch.isfinite(x).all() for x in results[0])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_item_and_value_parts_stand_alone():
    model, batch = make_model(), whole(groups_of_two_columns())
    both = model.log_prob(batch)
    items = TwoPartModel(direction="bidirectional", item_part=model.item_part)
    values = TwoPartModel(direction="bidirectional", value_part=model.value_part, families=FAMILIES)
    assert torch.equal(items.log_prob(batch).item, both.item)
    assert items.log_prob(batch).value == {} == items.value_eta(batch)
    assert values.log_prob(batch).item is None
    assert torch.equal(values.log_prob(batch).total(), sum(both.value.values()))
    with pytest.raises(ExfamError, match="`item_part` must be given for item probabilities"):
        values.item_log_probs(batch)


def test_the_item_chooses_the_family():
    families = {"value": PerItem({0: Binomial(4)}, default=Poisson(shift=1))}
    model = make_model(families=families)
    batch = whole(make_groups(lengths=[3], item=np.array([0, 4, 2], dtype=np.int32)))
    eta = model.value_eta(batch)["value"]
    expected = families["value"].log_prob(batch.values["value"], eta, item=batch.item)
    torch.testing.assert_close(model.log_prob(batch).value["value"], expected)


def test_models_side_by_side_under_vmap_equal_single_ones():
    batch = whole(groups_of_two_columns())
    models = [make_model(support="hard", seed=seed) for seed in range(3)]

    class Loss(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, batch):
            return self.model.log_prob(batch).total().sum()

    def loss(parameters, state):
        return torch.func.functional_call(Loss(models[0]), (parameters, state), (batch,))

    stacked = torch.func.stack_module_state([Loss(model) for model in models])
    gradients, values = torch.func.vmap(torch.func.grad_and_value(loss))(*stacked)
    for index, model in enumerate(models):
        alone = model.log_prob(batch).total().sum()
        alone.backward()
        torch.testing.assert_close(values[index], alone.detach())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[f"model.{name}"][index], parameter.grad)


def test_parts_must_fit_their_model():
    model = make_model("causal")
    causal = {"direction": "causal"}
    with pytest.raises(ExfamError, match="`item_part` or `value_part` must be given, got neither"):
        TwoPartModel(**causal)
    with pytest.raises(ExfamError, match=r"`families` must be given with a value part .* got \[\]"):
        TwoPartModel(value_part=model.value_part, **causal)
    with pytest.raises(ExfamError, match=r"`families` must be given .* got \['other', 'value'\]"):
        TwoPartModel(item_part=model.item_part, families=FAMILIES, **causal)
    with pytest.raises(ExfamError, match="`item_part` must be bidirectional as its model is, got"):
        TwoPartModel(direction="bidirectional", item_part=model.item_part)
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        TwoPartModel(direction="both")


class Fixed:
    """A model whose log-probabilities are given."""

    def __init__(self, direction, log_prob):
        self.direction = direction
        self._log_prob = log_prob

    def log_prob(self, batch):
        return self._log_prob


def some(batch, *, item=True, value=True):
    random = torch.Generator().manual_seed(0)

    def nats(term):
        return torch.where(term, -torch.rand(batch.present.shape, generator=random) - 0.1, 0.0)

    observed = batch.target & batch.observed
    return LogProb(
        item=nats(batch.target & (batch.item >= 0)) if item else None,
        value={"a": nats(observed), "b": nats(observed)} if value else {},
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_loss_is_minus_the_log_likelihood_of_all_terms(direction):
    batch, likelihood = whole(make_groups()), Likelihood(direction)
    log_prob = some(batch)
    nats, weight = likelihood.sums(log_prob, batch)
    by_hand = log_prob.item.sum() + log_prob.value["a"].sum() + log_prob.value["b"].sum()
    torch.testing.assert_close(nats, by_hand)
    assert weight == batch.n_targets == 18
    loss, loss_weight = likelihood(Fixed(direction, log_prob), batch)
    assert loss == -nats > 0 and loss_weight == weight
    (other,) = set(DIRECTIONS) - {direction}
    with pytest.raises(ExfamError, match=f"`model` must be {direction} for .* direction='{other}'"):
        likelihood(Fixed(other, log_prob), batch)


def test_a_weight_of_two_is_an_element_that_came_twice():
    weight = np.ones(18)
    weight[[3, 4, 10]] = 2, 0, 0.5
    batch = whole(make_groups(), weight=weight)
    log_prob = some(batch)
    nats, total = Likelihood("causal").sums(log_prob, batch)
    own = torch.from_numpy(weight).float()[batch.element[batch.present]]
    torch.testing.assert_close(nats, (log_prob.total()[batch.present] * own).sum())
    assert total == weight.sum()
    nan = replace(batch, weight=torch.where(batch.present, batch.weight, torch.nan))
    assert Likelihood("causal").sums(log_prob, nan) == (nats, total)


@pytest.mark.parametrize(
    ("item", "value", "expected"), [(True, True, 12), (True, False, 11), (False, True, 10)]
)
def test_a_target_counts_if_there_is_something_to_predict(item, value, expected):
    groups = make_groups(role=np.where(np.arange(18) < 13, TARGET, CONTEXT).astype(np.int8))
    code, observed = groups.item.copy(), np.ones(18, dtype=bool)
    code[[0, 1]] = -1
    observed[[1, 2, 3]] = False
    batch = whole(groups.with_(item=code, observed=observed))
    log_prob = some(batch, item=item, value=value)
    assert counted(log_prob, batch).sum() == expected
    assert Likelihood("causal").sums(log_prob, batch)[1] == expected


def test_there_is_no_likelihood_for_another_direction():
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        Likelihood("sideways")
