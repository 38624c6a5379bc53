"""Which terms are summed, and which elements count."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.support import DIRECTIONS
from exfam.likelihoods.two_part import Likelihood, LogProb, counted
from model_cases import make_groups, whole


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
