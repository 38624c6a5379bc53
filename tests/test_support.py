from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.support import (
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


def seen_by_hand(batch, direction, n_items):
    """One element at a time, straight from the definition."""
    rows, length = batch.item.shape
    seen = torch.zeros(rows, length, n_items, dtype=torch.bool)
    for b in range(rows):
        for i in range(length):
            for j in range(length):
                visible = j < i if direction == "causal" else j != i
                if visible and batch.present[b, j] and batch.item[b, j] >= 0:
                    seen[b, i, batch.item[b, j]] = True
    return seen


def cases():
    groups = make_groups(repeats=True, seed=1)
    unknown = groups.item.copy()
    unknown[[0, 3, 7]] = -1
    lag = np.array([[0], [0], [4], [5], [0]])
    role = np.where(np.arange(groups.n_elements) % 3 == 0, CONTEXT, TARGET).astype(np.int8)
    return {
        "plain": groups,
        "unknown items": groups.with_(item=unknown),
        "context ranges": groups.with_(
            context_start=lag, context_stop=lag + [[0], [2], [1], [3], [4]]
        ),
        "context-only elements": groups.with_(role=role),
    }


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", cases())
def test_context_items_are_those_that_the_definition_names(direction, case):
    batch = more_padding(whole(cases()[case]))
    by_hand = seen_by_hand(batch, direction, N_ITEMS)
    assert by_hand.any() and not by_hand.all()
    assert torch.equal(context_items(batch, direction, N_ITEMS), by_hand)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", cases())
def test_repeated_elements_are_those_whose_item_is_in_their_context(direction, case):
    batch = more_padding(whole(cases()[case]))
    own = batch.item.clamp_min(0)[..., None]
    in_context = seen_by_hand(batch, direction, N_ITEMS).gather(-1, own)[..., 0]
    expected = in_context & batch.present & (batch.item >= 0)
    assert expected.any()
    assert torch.equal(repeated(batch, direction, n_items=N_ITEMS), expected)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SUPPORTS)
def test_every_support_leaves_a_distribution(name, direction):
    batch = more_padding(whole(make_groups()))
    eta = torch.randn(*batch.item.shape, N_ITEMS, generator=torch.Generator().manual_seed(0))
    probs = SUPPORTS[name]()(eta, batch, direction).softmax(-1)
    torch.testing.assert_close(probs.sum(-1), torch.ones(batch.item.shape))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hard_exclusion_gives_context_items_nothing_and_keeps_the_odds_of_the_rest(direction):
    batch = whole(make_groups())
    eta = torch.randn(*batch.item.shape, N_ITEMS, generator=torch.Generator().manual_seed(0))
    probs = HardExclusion()(eta, batch, direction).softmax(-1)
    seen = context_items(batch, direction, N_ITEMS)
    assert (probs[seen] == 0).all()
    rest = torch.where(seen, 0.0, eta.exp())
    torch.testing.assert_close(probs, rest / rest.sum(-1, keepdim=True))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_penalty_is_between_no_exclusion_and_hard_exclusion(direction):
    batch = whole(make_groups())
    eta = torch.randn(*batch.item.shape, N_ITEMS, generator=torch.Generator().manual_seed(0))
    assert torch.equal(RepeatPenalty(initial=0.0)(eta, batch, direction), eta)
    torch.testing.assert_close(
        RepeatPenalty(initial=1e4)(eta, batch, direction).softmax(-1),
        HardExclusion()(eta, batch, direction).softmax(-1),
    )


def test_the_penalty_learns_within_a_short_fit_that_repeats_are_as_likely_as_any_item():
    batch = whole(make_groups(lengths=[8] * 40, repeats=True))
    part, n_steps = RepeatPenalty(), 100
    settings = TrainingSettings(learning_rate=3e-3)
    optimizer = make_optimizer(part, settings)
    for step in range(n_steps):
        for group in optimizer.param_groups:
            factor = settings.rate_factor(step=step, n_steps=n_steps)
            group["lr"] = settings.learning_rate * group["multiplier"] * factor
        eta = torch.zeros(*batch.item.shape, N_ITEMS)
        log_probs = part(eta, batch, "causal").log_softmax(-1)
        loss = -log_probs.gather(-1, batch.item[..., None]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert part.penalty.item() < 1.0


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_used_up_catalog_still_gives_a_distribution_and_finite_gradients(direction):
    groups = make_groups(lengths=[4], n_items=3, item=np.array([0, 1, 2, -1], dtype=np.int32))
    batch = more_padding(whole(groups))
    eta = torch.randn(*batch.item.shape, 3, generator=torch.Generator().manual_seed(0))
    log_probs = HardExclusion()(eta.requires_grad_(), batch, direction).log_softmax(-1)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(batch.item.shape))
    log_probs[0, 0, 0].backward()
    assert torch.isfinite(eta.grad).all()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_hard_exclusion_names_a_target_that_repeats(direction):
    groups = make_groups(lengths=[2, 3], item=np.array([0, 1, 5, 3, 5], dtype=np.int32))
    batch = whole(groups)
    first = 4 if direction == "causal" else 2
    with pytest.raises(
        ExfamError,
        match=rf"`item` must not repeat .* support='hard', got item code 5, .* at element {first} "
        r"\(. such elements in the batch\). Use support='none' or 'penalty'",
    ):
        HardExclusion()(torch.zeros(2, 3, N_ITEMS), batch, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_repeats_among_context_only_elements_are_no_error(direction):
    role = np.array([CONTEXT, CONTEXT, TARGET], dtype=np.int8)
    groups = make_groups(lengths=[3], item=np.array([5, 5, 3], dtype=np.int32), role=role)
    eta = HardExclusion()(torch.zeros(1, 3, N_ITEMS), whole(groups), direction)
    assert torch.isneginf(eta[0, 2, 5]) and torch.isfinite(eta[0, 2, 3])


def test_padding_with_any_item_is_not_seen():
    batch = more_padding(whole(make_groups()))
    other = replace(batch, item=torch.where(batch.present, batch.item, 7))
    for direction in DIRECTIONS:
        before, after = (context_items(b, direction, N_ITEMS) for b in (batch, other))
        assert torch.equal(before, after)


def test_groups_without_items_are_refused():
    batch = replace(whole(make_groups()), item=None)
    with pytest.raises(ExfamError, match="`item` must be given for an item part"):
        context_items(batch, "causal", N_ITEMS)


@pytest.mark.parametrize("function", [context_items, lambda b, d, n: repeated(b, d, n_items=n)])
def test_directions_are_two(function):
    with pytest.raises(ExfamError, match="`direction` must be one of 'causal', 'bidirectional'"):
        function(whole(make_groups()), "both", N_ITEMS)
