from dataclasses import replace

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods.terms import LIKELIHOODS, LogProb, counted, likelihood_for
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
    shape = batch.present.shape

    def nats(term):
        return torch.where(term, -torch.rand(shape, generator=random) - 0.1, 0.0)

    observed = batch.target & batch.observed
    return LogProb(
        item=nats(batch.target & (batch.item >= 0)) if item else None,
        value={"a": nats(observed), "b": nats(observed)} if value else {},
    )


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_score_is_the_log_likelihood_of_all_terms_by_target(name):
    batch = whole(make_groups())
    log_prob = some(batch)
    nats, weight = LIKELIHOODS[name]().sums(log_prob, batch)
    by_hand = log_prob.item.sum() + log_prob.value["a"].sum() + log_prob.value["b"].sum()
    torch.testing.assert_close(nats, by_hand)
    assert weight == batch.n_targets == 18


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_loss_is_minus_the_log_likelihood(name):
    batch = whole(make_groups())
    likelihood = LIKELIHOODS[name]()
    log_prob = some(batch)
    nats, weight = likelihood.sums(log_prob, batch)
    loss, loss_weight = likelihood(Fixed(likelihood.direction, log_prob), batch)
    assert loss == -nats > 0 and loss_weight == weight


def test_a_weight_of_two_is_an_element_that_came_twice():
    groups = make_groups()
    weight = np.ones(18)
    weight[[3, 4, 10]] = 2, 0, 0.5
    batch = whole(groups, weight=weight)
    log_prob = some(batch)
    nats, total = LIKELIHOODS["causal"]().sums(log_prob, batch)
    each = log_prob.total()[batch.present]
    element = batch.element[batch.present]
    by_hand = (each * torch.from_numpy(weight).float()[element]).sum()
    torch.testing.assert_close(nats, by_hand)
    assert total == weight.sum()


def test_garbage_weights_of_padding_change_nothing():
    batch = whole(make_groups(), weight=np.ones(18))
    nan = replace(batch, weight=torch.where(batch.present, batch.weight, torch.nan))
    log_prob = some(batch)
    for likelihood in (kind() for kind in LIKELIHOODS.values()):
        assert likelihood.sums(log_prob, nan) == likelihood.sums(log_prob, batch)


def test_context_only_elements_do_not_count():
    role = np.where(np.arange(18) < 5, CONTEXT, TARGET).astype(np.int8)
    batch = whole(make_groups(role=role))
    _, weight = LIKELIHOODS["causal"]().sums(some(batch), batch)
    assert weight == 13


@pytest.mark.parametrize(
    ("item", "value", "expected"), [(True, True, 17), (True, False, 16), (False, True, 15)]
)
def test_an_element_counts_if_there_is_something_to_predict(item, value, expected):
    groups = make_groups()
    code = groups.item.copy()
    code[[0, 1]] = -1
    observed = np.ones(18, dtype=bool)
    observed[[1, 2, 3]] = False
    batch = whole(groups.with_(item=code, observed=observed))
    log_prob = some(batch, item=item, value=value)
    assert counted(log_prob, batch).sum() == expected
    assert LIKELIHOODS["causal"]().sums(log_prob, batch)[1] == expected


def test_a_sum_of_bidirectional_conditionals_is_called_what_it_is():
    assert likelihood_for("bidirectional").label == "pseudo-log-likelihood"
    assert likelihood_for("causal").label == "log-likelihood"


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_likelihood_knows_its_name_and_refuses_the_other_direction(name):
    likelihood = LIKELIHOODS[name]()
    assert likelihood.name == name
    other = {"causal": "bidirectional", "bidirectional": "causal"}[likelihood.direction]
    batch = whole(make_groups())
    with pytest.raises(
        ExfamError,
        match=f"`model` must be {likelihood.direction} for likelihood '{name}', got "
        f"direction='{other}'",
    ):
        likelihood(Fixed(other, some(batch)), batch)


def test_there_is_no_likelihood_for_another_direction():
    with pytest.raises(ExfamError, match="`direction` must be one of 'bidirectional', 'causal'"):
        likelihood_for("sideways")
