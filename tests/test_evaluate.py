"""What models say of groups: the same however batches are cut, in bounded memory."""

import numpy as np
import pytest
import torch

from efa_cases import small_model
from exfam.checks import ExfamError
from exfam.efa.networks.based import NoCorrection
from exfam.efa.networks.marginals import MarginalItems, MarginalValues
from exfam.estimator import evaluate
from exfam.estimator.evaluate import (
    device_of,
    evaluation_batches,
    item_probabilities,
    log_probs,
    value_parameters,
)
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.likelihoods.two_part import TwoPartModel
from model_cases import make_groups

GROUPS = make_groups(lengths=(4, 1, 6, 2, 5, 3), seed=1)


def members(*, n=2, items=True, values=True, conditional="auto", direction="bidirectional"):
    schema = Schema.of(GROUPS, families={"value": Gaussian()})
    network = {"direction": direction, "conditional": conditional, "n_layers": 1}
    return [
        small_model(schema, seed=seed, **network, items=items, values=values) for seed in range(n)
    ]


def answers(models):
    probability = np.zeros((GROUPS.n_rows, 9))
    for rows, some in item_probabilities(models, GROUPS):
        probability[rows] = some
    nats, eta = log_probs(models, GROUPS), value_parameters(models, GROUPS)
    return [nats["item"], nats["value"], probability, eta["value"].numpy()]


@pytest.mark.parametrize("direction", ["bidirectional", "causal"])
@pytest.mark.parametrize("conditional", ["copies", "static"])
def test_cuts_change_nothing_and_ensembles_mean_probabilities(direction, conditional, monkeypatch):
    models = members(direction=direction, conditional=conditional)
    models[0].train()
    whole, first, second = answers(models), answers(models[:1]), answers(models[1:])
    assert not models[0].training
    for part in (0, 1):
        by_hand = np.log((np.exp(first[part]) + np.exp(second[part])) / 2)
        np.testing.assert_allclose(whole[part], by_hand, rtol=1e-5)
    np.testing.assert_allclose(whole[2], (first[2] + second[2]) / 2, rtol=1e-5)
    monkeypatch.setattr(evaluate, "MAX_NUMBERS", 1)
    for small, large in zip(answers(models), whole, strict=True):
        assert np.isfinite(large).all() and large.std() > 0
        np.testing.assert_allclose(small, large, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("conditional", ["copies", "static"])
@pytest.mark.parametrize("limit", [1, 400, 4000])
def test_batches_stay_below_the_limit(conditional, limit):
    models = members(conditional=conditional)
    longest = int(GROUPS.lengths.max())
    need = max(64, 2 * longest) if conditional == "static" else max(64, longest * 2 * longest)
    batches = list(evaluation_batches(GROUPS, models, max_numbers=limit))
    assert all(b.present.numel() * need <= limit or len(b.present) == 1 for b in batches)
    assert (len(batches) == len(GROUPS)) == (limit == 1)
    rows = torch.cat([batch.element[batch.present] for batch in batches])
    assert sorted(rows.tolist()) == list(range(GROUPS.n_rows))


def test_models_without_parameters_say_where_they_are():
    """Bases of items have buffers alone; batches must follow them to a GPU."""
    assert device_of(NoCorrection(3, "causal").to("meta")).type == "meta"
    assert device_of(torch.nn.Module()).type == "cpu"


def marginal(**parts):
    return TwoPartModel(direction="causal", **{"item_part": None, "value_part": None} | parts)


def test_items_by_the_hundred_make_small_batches():
    wide = GROUPS.with_(vocabulary={"item": np.arange(400)})
    model = marginal(item_part=MarginalItems(torch.zeros(400)))
    sizes = [b.present.numel() for b in evaluation_batches(wide, [model], max_numbers=2_400)]
    assert max(sizes) <= 6 and len(sizes) > 3


def test_rows_that_are_no_targets_are_nan():
    role, observed = np.zeros(GROUPS.n_rows, dtype=np.int8), np.ones(GROUPS.n_rows, dtype=bool)
    item = GROUPS.item.copy()
    role[3], observed[5], item[7] = 1, False, -1
    groups = GROUPS.with_(role=role, observed=observed, item=item)
    nats = log_probs(members(), groups)
    assert np.flatnonzero(np.isnan(nats["item"])).tolist() == [3, 7]
    assert np.flatnonzero(np.isnan(nats["value"])).tolist() == [3, 5]
    eta = value_parameters(members(), groups)["value"][0, :, 0]
    assert torch.isnan(eta).nonzero().flatten().tolist() == [3]


def test_parts_that_are_not_there():
    assert "item" not in log_probs(members(items=False), GROUPS)
    assert list(log_probs(members(values=False), GROUPS)) == ["item"]
    with pytest.raises(ExfamError, match="`model` must have a value part to predict values"):
        value_parameters(members(values=False), GROUPS)
    with pytest.raises(ExfamError, match="must have an item part for item probabilities"):
        next(item_probabilities(members(items=False), GROUPS))
    # Models without parameters are on the CPU.
    values = MarginalValues(torch.zeros(1, 2))
    model = marginal(value_part=values, families={"value": Gaussian()})
    assert np.isfinite(log_probs([model], GROUPS)["value"]).all()


@pytest.mark.parametrize("part", ["item_part", "value_part"])
def test_a_models_nan_does_not_pass_for_no_target(part):
    models = members(n=1)
    with torch.no_grad():
        next(getattr(models[0], part).parameters()).fill_(torch.nan)
    with pytest.raises(ExfamError, match="`X` must lead to log-probabilities that are numbers"):
        log_probs(models, GROUPS)
