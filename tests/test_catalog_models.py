"""Models of large catalogs say what the same models say of small ones."""

from functools import partial

import numpy as np
import pytest
import torch

from efa_cases import small_model
from exfam.checks import ExfamError
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_items
from exfam.efa.networks.marginals import MarginalItems
from exfam.estimator import evaluate
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.groups import CONTEXT, TARGET
from exfam.likelihoods import two_part
from exfam.likelihoods.two_part import DIRECTIONS, SUPPORTS, TwoPartModel
from model_cases import generator, make_groups, more_padding, redraw, whole

N_ITEMS = 9
SCHEMA = Schema.of(make_groups(), families={"value": Gaussian()})


def groups_with_everything(*, repeats):
    """Unknown items, context-only elements, context ranges, an empty group."""
    groups = make_groups(lengths=(4, 1, 6, 0, 5), repeats=repeats, seed=1)
    item = groups.item.copy()
    item[[3, 9]] = -1
    role = np.where(np.arange(16) % 5 == 0, CONTEXT, TARGET).astype(np.int8)
    if not repeats:
        return groups.with_(item=item, role=role)
    lag = np.array([[0], [0], [4], [5], [0]])
    ranges = {"context_start": lag, "context_stop": lag + [[0], [2], [1], [3], [4]]}
    return groups.with_(item=item, role=role, **ranges)


def marginal(direction, support):
    part = MarginalItems(torch.randn(N_ITEMS, generator=generator(3)).log_softmax(0))
    return TwoPartModel(direction=direction, item_part=part, support=SUPPORTS[support]())


def latent_factor(direction, support):
    source = generator()
    settings = LatentFactorSettings(direction=direction, dim=4, mask_vector=True)
    part = build_latent_factor_items(N_ITEMS, settings, generator=source)
    redraw(part, source, scale=0.5)
    return TwoPartModel(direction=direction, item_part=part, support=SUPPORTS[support]())


def efa(direction, support, **choices):
    network = {"direction": direction, "n_layers": 1, "support": support}
    return small_model(SCHEMA, values=False, **network, **choices)


MAKERS = [marginal, latent_factor, efa, partial(efa, tie="reflection")]
every_model = pytest.mark.parametrize("maker", MAKERS)
every_support = pytest.mark.parametrize("support", SUPPORTS)
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


@pytest.fixture
def both(monkeypatch):
    """Calls a function as for a small and as for a large catalog."""

    def call(function):
        result = []
        for large in (10**9, 1):
            monkeypatch.setattr(two_part, "LARGE_CATALOG", large)
            result.append(function())
        return result

    return call


@every_direction
@every_support
@every_model
def test_log_prob_and_gradients_are_the_same(maker, support, direction, both):
    model = maker(direction, support)
    batch = more_padding(whole(groups_with_everything(repeats=support != "hard")))

    def nats_and_gradients():
        model.zero_grad()
        nats = model.log_prob(batch).item
        if nats.requires_grad:
            (torch.randn(nats.shape, generator=generator(1)) * nats).sum().backward()
        return [nats.detach(), *(p.grad for p in model.parameters())]

    dense, result = both(nats_and_gradients)
    assert torch.equal(result[0] != 0, batch.target & (batch.item >= 0))
    torch.testing.assert_close(result, dense, rtol=1e-5, atol=1e-5)


@every_direction
@every_model
def test_a_used_up_catalog_is_kept_whole_and_a_target_that_repeats_is_named(maker, direction, both):
    """A group of all items and an unknown one, which nothing would be left for."""
    model = maker(direction, "hard")
    item = np.append(np.random.default_rng(0).permutation(N_ITEMS), -1).astype(np.int32)
    groups = make_groups(lengths=[10], item=item, values={})
    dense, result = both(lambda: list(evaluate.item_probabilities([model], groups)))
    probability = np.concatenate([some for _, some in result])
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(probability, dense[0][1], atol=1e-6)
    assert (probability[-1] > 0).all() and (probability[1] == 0).any()
    repeated = make_groups(lengths=[2, 3], item=np.array([0, 1, 5, 3, 5], dtype=np.int32))

    def refused():
        with pytest.raises(ExfamError, match="must not repeat .* support='hard', got item code 5"):
            model.log_prob(whole(repeated))

    both(refused)


@every_direction
@every_support
def test_all_answers_about_groups_are_the_same(support, direction, both, monkeypatch):
    monkeypatch.setattr(evaluate, "MAX_NUMBERS", 20)
    groups = groups_with_everything(repeats=support != "hard")
    members = [latent_factor(direction, support), efa(direction, support)]

    def result():
        probability = np.full((groups.n_rows, N_ITEMS), np.nan)
        for rows, some in evaluate.item_probabilities(members, groups):
            probability[rows] = some
        best, chance = np.full((groups.n_rows, 4), -1), np.full((groups.n_rows, 4), np.nan)
        for rows, items, some in evaluate.top_items(members, groups, k=4):
            best[rows], chance[rows] = np.where(some > 0, items, -1), some
        rank = evaluate.item_ranks(members, groups)
        return [probability, best, chance, rank, evaluate.log_probs(members, groups)["item"]]

    small, large = both(result)
    for expected, actual in zip(small, large, strict=True):
        np.testing.assert_allclose(expected, actual, rtol=1e-5, atol=1e-6)
    rank = large[3]
    assert np.array_equal(np.isnan(rank), groups.role == CONTEXT)
    assert np.array_equal(np.isinf(rank), (groups.role == TARGET) & (groups.item < 0))


@pytest.mark.parametrize(
    "call", [lambda *given: evaluate.top_items(*given, k=1), evaluate.item_ranks]
)
def test_ranking_needs_items_and_numbers(call, both):
    model = latent_factor("causal", "none")
    with torch.no_grad():
        model.item_part.mask_vector.fill_(torch.nan)

    def refused():
        with pytest.raises(ExfamError, match="must lead to log-probabilities that are numbers"):
            list(call([model], make_groups()))

    both(refused)
    with pytest.raises(ExfamError, match="must have an item part for item probabilities"):
        list(call([small_model(SCHEMA, items=False)], make_groups()))
