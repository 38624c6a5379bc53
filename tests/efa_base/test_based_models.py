"""Models of a base and its correction: no leak, proper probabilities, factors as the table."""

from functools import partial

import numpy as np
import pytest
import torch

import model_cases as cases
from efa_base.item_bases import N_ITEMS, fit, outputs, rich_groups
from exfam.catalog import linear
from exfam.catalog.normalizer import ItemChoice, log_normalizer, log_prob_of
from exfam.catalog.ranking import all_log_probs, best_items, item_rank
from exfam.catalog.sampled import Drawn, sampled_log_prob
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.networks import based
from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.efa.networks.based import TRAINED_SCALE
from exfam.estimator import evaluate
from exfam.estimator.schema import Schema
from exfam.likelihoods import two_part
from exfam.likelihoods.two_part import SUPPORTS
from exfam.scores.metrics import ranks
from model_cases import generator, make_groups, whole

CASES = (("ridge", "bidirectional"), ("ridge of some", "bidirectional"), ("transitions", "causal"))
SIZES = {"embed_dim": 8, "n_heads": 2, "head_dim": 4, "n_layers": 1, "values": False}
every_case = pytest.mark.parametrize(("kind", "direction"), CASES)
every_support = pytest.mark.parametrize("support", SUPPORTS)
close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def model_of(kind, direction, *, support="none", encoding="none", **choices):
    """A base and a random correction, neither taken in full."""
    groups = rich_groups()
    schema = Schema.of(groups, families={})
    choices |= SIZES | {"support": support, "encoding": encoding}
    settings = EFASettings(**choices, direction=direction)
    model = build_efa(schema, settings, generator=generator(), base=fit(kind, groups))
    part = model.item_part
    start, present = part.eval().eta(whole(groups)), whole(groups).present
    if choices.get("tie", "none") == "none":
        close(start[present], TRAINED_SCALE * outputs(part.base, whole(groups)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator(1))
    part.weigh(1.2, 0.7)
    return model.eval()


def groups_for(support):
    """Repeats, also in context ranges, where the support allows them."""
    if support != "hard":
        return rich_groups(ranges=True)
    groups = rich_groups(repeats=False)
    return groups[groups.lengths < N_ITEMS]


def distinct(lengths=(5, 5, 5)):
    return make_groups(lengths=lengths, n_items=N_ITEMS, seed=3, values={}, ordered=True)


def parts_of(model):
    """The base alone, the correction alone, and both together."""
    part = model.item_part

    def base(batch):
        where = torch.ones_like(batch.present).nonzero(as_tuple=True)
        return part.offset(batch, where).tile(slice(0, len(where[0])), slice(0, N_ITEMS))

    return [base, part.correction.eta, part.eta]


@every_case
@pytest.mark.parametrize("tie", ["none", "same", "reflection"])
def test_no_output_sees_its_own_item_and_all_see_their_context(kind, direction, tie):
    model, batch = model_of(kind, direction, tie=tie), whole(distinct())
    shape = (*batch.present.shape, N_ITEMS)
    for outputs_of in parts_of(model):
        before = outputs_of(batch).reshape(shape).detach()
        for column in range(5):
            new = next(i for i in range(N_ITEMS) if i not in batch.item[1])
            after = outputs_of(cases.with_item(batch, 1, column, new)).reshape(shape).detach()
            moved = (after - before).abs().amax(-1)
            assert moved[[0, 2]].max() == 0
            sees = torch.arange(5) > column if direction == "causal" else torch.arange(5) != column
            assert moved[1, ~sees].max() < 1e-5
            assert moved[1, sees].min() > 1e-4 if sees.any() else column == 4


@pytest.mark.parametrize("training", [False, True])
def test_what_is_appended_changes_nothing_before_it(training):
    model, batch = model_of("transitions", "causal"), whole(distinct())
    model.item_part.base.train(training)
    part, short = model.item_part, cases.first_elements(batch, 3)
    if not training:
        close(part.eta(short), part.eta(batch)[:, :3])
    # In training the group that is taken out is the whole one.
    change = (part.eta(short) - part.eta(batch)[:, :3]).abs().max()
    assert change > 1e-3 if training else change < 1e-5


@pytest.mark.parametrize("kind", ["ridge", "ridge of some"])
def test_the_order_of_a_set_means_nothing(kind):
    model, batch = model_of(kind, "bidirectional", support="hard"), whole(distinct())
    order = torch.tensor([3, 0, 4, 2, 1])
    result, expected = model.log_prob(cases.permuted(batch, order)), model.log_prob(batch)
    close(result.item, expected.item[:, order])


@every_case
@every_support
@pytest.mark.parametrize("large", [False, True])
def test_probabilities_are_proper_and_do_not_depend_on_batches(
    kind, direction, support, large, monkeypatch
):
    monkeypatch.setattr(two_part, "LARGE_CATALOG", 1 if large else 10**9)
    groups = groups_for(support)
    model = model_of(kind, direction, support=support)
    padded = cases.more_padding(whole(groups))
    nats = model.log_prob(padded).item
    assert torch.equal(nats < 0, padded.target & (padded.item >= 0))
    excluded = two_part.context_items(padded, direction, N_ITEMS)
    results = []
    for most in (20, 10**6):
        monkeypatch.setattr(evaluate, "MAX_NUMBERS", most)
        probability = np.full((groups.n_rows, N_ITEMS), np.nan)
        for rows, some in evaluate.item_probabilities([model], groups):
            probability[rows] = some
        rank = evaluate.item_ranks([model], groups)
        results.append((probability, rank, evaluate.log_probs([model], groups)["item"]))
    for few, many in zip(*results, strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-4, atol=1e-6)
    probability, _, of_items = results[0]
    rows, target = padded.element[padded.target], padded.target
    np.testing.assert_allclose(probability[rows].sum(1), 1, atol=1e-5)
    assert (support == "hard") == (probability[rows][excluded[target]] == 0).all()
    known = target & (padded.item >= 0)
    np.testing.assert_allclose(of_items[padded.element[known]], nats[known].detach(), atol=2e-5)


@every_case
@every_support
@pytest.mark.parametrize("training", [False, True])
def test_factors_with_an_offset_are_the_dense_outputs(
    kind, direction, support, training, monkeypatch
):
    monkeypatch.setattr(linear, "TILE", 40)
    monkeypatch.setattr(linear, "TILE_ROWS", 8)
    monkeypatch.setattr(based, "MOST_AT_ONCE", 2**22 if training else 0)
    model, groups = model_of(kind, direction, support=support), groups_for(support)
    batch, part = whole(groups), model.train(training).item_part
    part.kept = None if training else KeptOutputs(part.base, train=groups, held_out=groups)
    where = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
    choice, own = model.choice(batch, where), batch.item[where]
    table = model.item_log_probs(batch)[where]
    rows = torch.arange(len(own))
    close(all_log_probs(choice).exp(), table.exp())
    weight = torch.randn(len(own), generator=generator(2))
    everything = Drawn(torch.arange(N_ITEMS), torch.zeros(N_ITEMS))
    expected = gradients(model, weight, table[rows, own])
    for result in (log_prob_of(choice, own), sampled_log_prob(choice, own, everything)):
        close(result, table[rows, own])
        close(gradients(model, weight, result), expected)
    normalizer = model.item_part.eta(batch)[where].logsumexp(-1)
    close(log_normalizer(ItemChoice(choice.eta)), normalizer)
    probability = table.detach().exp()
    order = probability.sort(dim=1, descending=True, stable=True)
    best = best_items([choice], k=3)
    close(best.log_prob.exp(), order.values[:, :3])
    by_table = ranks(probability.numpy(), own.numpy())
    np.testing.assert_array_equal(item_rank([choice], own), by_table)
    some = slice(2, 9)
    np.testing.assert_array_equal(item_rank([choice.part(some)], own[some]), by_table[some])
    assert np.ptp(by_table) > 3


def gradients(model, weight, nats):
    """Of all parameters that have one."""
    model.zero_grad()
    (weight * nats).sum().backward(retain_graph=True)
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    assert found and not any(buffer.requires_grad for buffer in model.item_part.base.buffers())
    return found
