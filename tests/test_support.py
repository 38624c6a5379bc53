"""Items of the context are taken out of the choice, or less likely."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.two_part import (
    DIRECTIONS,
    SUPPORTS,
    HardExclusion,
    RepeatPenalty,
    context_items,
    repeated,
)
from exfam.training.optimizer import TrainingSettings, make_optimizer
from model_cases import make_groups, more_padding, whole

N_ITEMS = 9
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def drawn_eta(batch, n_items=N_ITEMS):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*batch.item.shape, n_items, generator=generator)


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
@pytest.mark.parametrize("case", cases())
def test_context_items_and_repeats_are_those_of_the_definition(direction, case):
    batch = more_padding(whole(cases()[case]))
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
    eta = drawn_eta(batch)
    hard = HardExclusion()(eta, batch, direction).softmax(-1)
    rest = torch.where(context_items(batch, direction, N_ITEMS), 0.0, eta.exp())
    torch.testing.assert_close(hard, rest / rest.sum(-1, keepdim=True))
    assert torch.equal(SUPPORTS["none"]()(eta, batch, direction), eta)
    assert torch.equal(RepeatPenalty(initial=0.0)(eta, batch, direction), eta)
    large = RepeatPenalty(initial=1e4)(eta, batch, direction).softmax(-1)
    torch.testing.assert_close(large, hard)


def test_the_penalty_learns_within_a_short_fit_that_repeats_are_as_likely_as_any_item():
    batch = whole(make_groups(lengths=[8] * 40, repeats=True))
    part, n_steps = RepeatPenalty(), 100
    settings = TrainingSettings(learning_rate=3e-3)
    optimizer = make_optimizer(part, settings)
    for step in range(n_steps):
        for group in optimizer.param_groups:
            factor = settings.rate_factor(step=step, n_steps=n_steps)
            group["lr"] = settings.learning_rate * group["multiplier"] * factor
        log_probs = part(torch.zeros(*batch.item.shape, N_ITEMS), batch, "causal").log_softmax(-1)
        optimizer.zero_grad()
        (-log_probs.gather(-1, batch.item[..., None]).mean()).backward()
        optimizer.step()
    assert part.penalty.item() < 1.0


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


@pytest.mark.parametrize("function", [context_items, lambda b, d, n: repeated(b, d, n_items=n)])
def test_items_and_one_of_two_directions_are_needed(function):
    batch = whole(make_groups())
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        function(batch, "both", N_ITEMS)
    with pytest.raises(ExfamError, match="`item` must be given for an item part"):
        function(replace(batch, item=None), "causal", N_ITEMS)
