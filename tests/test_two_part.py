"""Models of an item part and a value part: exact sums, which terms count, items of the context."""

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
from exfam.families import Gaussian, Poisson
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.two_part import (
    DIRECTIONS,
    SUPPORTS,
    HardExclusion,
    Likelihood,
    LogProb,
    RepeatPenalty,
    TwoPartModel,
    context_items,
    counted,
    repeated,
)
from model_cases import groups_of_two_columns, make_groups, more_padding, redraw, whole

N_ITEMS = 9
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def seen_by_hand(batch, direction, n_items):
    """One element at a time, straight from the definition."""
    rows, length = batch.item.shape
    seen = torch.zeros(rows, length, n_items, dtype=torch.bool)
    for b, i, j in np.ndindex(rows, length, length):
        visible = j < i if direction == "causal" else j != i
        if visible and batch.present[b, j] and batch.item[b, j] >= 0:
            seen[b, i, batch.item[b, j]] = True
    return seen


def cases():
    groups = make_groups(repeats=True, seed=1)
    unknown = groups.item.copy()
    unknown[[0, 3, 7]] = -1
    lag = np.array([[0], [0], [4], [5], [0]])
    ranges = {"context_start": lag, "context_stop": lag + [[0], [2], [1], [3], [4]]}
    role = np.where(np.arange(groups.n_elements) % 3 == 0, CONTEXT, TARGET).astype(np.int8)
    return {
        "plain": groups,
        "unknown items": groups.with_(item=unknown),
        "context ranges": groups.with_(**ranges),
        "context-only elements": groups.with_(role=role),
    }


@every_direction
@pytest.mark.parametrize("groups", cases().values(), ids=cases())
def test_context_items_and_repeats_are_those_of_the_definition(direction, groups):
    batch = more_padding(whole(groups))
    by_hand = seen_by_hand(batch, direction, N_ITEMS)
    assert by_hand.any() and not by_hand.all()
    # Padding with any item is not seen.
    padded = replace(batch, item=torch.where(batch.present, batch.item, 7))
    for given in (batch, padded):
        assert torch.equal(context_items(given, direction, N_ITEMS), by_hand)
    own = batch.item.clamp_min(0)[..., None]
    again = by_hand.gather(-1, own)[..., 0] & batch.present & (batch.item >= 0)
    assert again.any() and torch.equal(repeated(batch, direction, n_items=N_ITEMS), again)


@every_direction
def test_hard_exclusion_gives_context_items_nothing_and_keeps_the_odds_of_the_rest(direction):
    batch = whole(make_groups())
    eta = torch.randn(*batch.item.shape, N_ITEMS, generator=torch.Generator().manual_seed(0))
    hard = HardExclusion()(eta, batch, direction).softmax(-1)
    rest = torch.where(context_items(batch, direction, N_ITEMS), 0.0, eta.exp())
    torch.testing.assert_close(hard, rest / rest.sum(-1, keepdim=True))
    assert torch.equal(SUPPORTS["none"]()(eta, batch, direction), eta)
    assert torch.equal(RepeatPenalty(initial=0.0)(eta, batch, direction), eta)
    large = RepeatPenalty(initial=1e4)(eta, batch, direction).softmax(-1)
    torch.testing.assert_close(large, hard)


@every_direction
def test_hard_exclusion_names_a_target_that_repeats(direction):
    groups = make_groups(lengths=[2, 3], item=np.array([0, 1, 5, 3, 5], dtype=np.int32))
    first = 4 if direction == "causal" else 2
    message = rf"`item` must not repeat .* item code 5, .* at element {first} \(. such elements"
    with pytest.raises(ExfamError, match=message):
        HardExclusion()(torch.zeros(2, 3, N_ITEMS), whole(groups), direction)
    role = np.array([CONTEXT, CONTEXT, TARGET], dtype=np.int8)
    groups = make_groups(lengths=[3], item=np.array([5, 5, 3], dtype=np.int32), role=role)
    eta = HardExclusion()(torch.zeros(1, 3, N_ITEMS), whole(groups), direction)
    assert torch.isneginf(eta[0, 2, 5]) and torch.isfinite(eta[0, 2, 3])


def test_items_and_a_direction_are_needed():
    batch = whole(make_groups())
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        context_items(batch, "both", N_ITEMS)
    with pytest.raises(ExfamError, match="`item` must be given for an item part"):
        repeated(replace(batch, item=None), "causal", n_items=N_ITEMS)


FAMILIES = {"value": Poisson(shift=1), "other": Gaussian()}
every_case = pytest.mark.parametrize(("direction", "support"), list(product(DIRECTIONS, SUPPORTS)))


def make_model(direction="bidirectional", support="none"):
    generator = torch.Generator().manual_seed(0)
    settings = LatentFactorSettings(direction=direction, dim=4)
    model = TwoPartModel(
        direction=direction,
        item_part=build_latent_factor_items(N_ITEMS, settings, generator=generator),
        value_part=build_latent_factor_values(N_ITEMS, FAMILIES, settings, generator=generator),
        families=FAMILIES,
        support=SUPPORTS[support](),
    )
    for part in (model.item_part, model.value_part):
        redraw(part, generator, scale=0.5)
    return model


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


def test_parts_must_fit_their_model():
    model = make_model("causal")
    item, value = {"item_part": model.item_part}, {"value_part": model.value_part}
    for direction, parts, match in (
        ("causal", {}, "`item_part` or `value_part` must be given, got neither"),
        ("causal", value, r"`families` must be given with a value part .* got \[\]"),
        ("causal", item | {"families": FAMILIES}, r"`families` .* got \['other', 'value'\]"),
        ("bidirectional", item, "`item_part` must be bidirectional as its model is, got"),
        ("both", {}, "`direction` must be one of 'causal', 'bidirectional'"),
    ):
        with pytest.raises(ExfamError, match=match):
            TwoPartModel(direction=direction, **parts)
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        Likelihood("sideways")


def test_the_loss_is_minus_the_log_likelihood_of_all_terms():
    model, batch = make_model(), whole(groups_of_two_columns())
    log_prob, likelihood = model.log_prob(batch), Likelihood("bidirectional")
    nats, weight = likelihood.sums(log_prob, batch)
    by_hand = log_prob.item.sum() + log_prob.value["value"].sum() + log_prob.value["other"].sum()
    torch.testing.assert_close(nats, by_hand)
    assert weight == batch.n_targets == 18
    assert likelihood(model, batch) == (-nats, weight)
    with pytest.raises(ExfamError, match="`model` must be causal for .* got direction='bi"):
        Likelihood("causal")(model, batch)


def test_a_weight_of_two_is_an_element_that_came_twice():
    weight = np.ones(18)
    weight[[3, 4, 10]] = 2, 0, 0.5
    batch, likelihood = whole(groups_of_two_columns(), weight=weight), Likelihood("bidirectional")
    log_prob = make_model().log_prob(batch)
    nats, total = likelihood.sums(log_prob, batch)
    own = torch.from_numpy(weight).float()[batch.element[batch.present]]
    torch.testing.assert_close(nats, (log_prob.total()[batch.present] * own).sum())
    assert total == weight.sum()
    nan = replace(batch, weight=torch.where(batch.present, batch.weight, torch.nan))
    assert likelihood.sums(log_prob, nan) == (nats, total)


def test_a_target_counts_if_there_is_something_to_predict():
    role = np.where(np.arange(18) < 13, TARGET, CONTEXT).astype(np.int8)
    groups = groups_of_two_columns(role=role, observed=~np.isin(np.arange(18), [1, 2, 3]))
    item = np.where(np.arange(18) < 2, -1, groups.item)
    batch = more_padding(whole(groups.with_(item=item)))
    both = make_model().log_prob(batch)
    assert torch.equal(both.item != 0, batch.target & (batch.item >= 0))
    for value in both.value.values():
        assert torch.equal(value != 0, batch.target & batch.observed)
    items, values = LogProb(item=both.item, value={}), LogProb(item=None, value=both.value)
    for log_prob, expected in ((both, 12), (items, 11), (values, 10)):
        assert counted(log_prob, batch).sum() == expected
        assert Likelihood("bidirectional").sums(log_prob, batch)[1] == expected
