"""A base in training is one fitted without the group; its other outputs are as documented."""

import numpy as np
import pytest
import torch

from efa_base.item_bases import KINDS, N_ITEMS, fit, outputs, rich_groups
from exfam.efa.base import ridge
from exfam.efa.base.fit_ridge import ridge_items
from exfam.efa.base.fit_transitions import fit_transition_items
from exfam.efa.base.histories import BACK_OFFS, KERNELS, LONGEST, N_FILTERS, kernel_counts
from exfam.efa.base.ridge import MOST_IN_CONTEXT
from exfam.efa.base.sets import Sets, held_items
from exfam.efa.base.transitions import TransitionItems
from exfam.efa.networks.based import present_elements
from exfam.efa.recommenders import ease
from exfam.groups import CONTEXT
from exfam.likelihoods import two_part
from model_cases import make_groups, whole

every_kind = pytest.mark.parametrize("kind", KINDS)
CHOSEN = torch.tensor([1, 4, 7])


@pytest.mark.parametrize("ranges", [False, True])
@every_kind
def test_training_is_leaving_the_group_out(kind, ranges):
    groups = rich_groups(ranges=ranges)
    base = fit(kind, groups)
    whole_batch = whole(groups)
    trained = outputs(base.train(), whole_batch)
    some = outputs(base, whole_batch, chosen=CHOSEN)
    torch.testing.assert_close(some, trained[:, CHOSEN])
    assert (trained - outputs(base.eval(), whole_batch)).abs().max() > 0.1
    row = present_elements(whole_batch)[0]
    for number in range(len(groups)):
        others = np.arange(len(groups)) != number
        expected = outputs(fit(kind, groups[others]), whole(groups[[number]]))
        torch.testing.assert_close(trained[row == number], expected, rtol=1e-4, atol=1e-4)
    assert trained.std(0).min() > 0.05


@pytest.mark.parametrize("at_a_time", [2, 1_000])
@every_kind
def test_groups_that_are_added_are_as_if_fitted_with_the_others(kind, at_a_time, monkeypatch):
    monkeypatch.setattr(ridge, "_GROUPS", at_a_time)
    groups = rich_groups(ranges=True)
    base, expected = fit(kind, groups[:6]), outputs(fit(kind, groups), whole(groups))
    before = outputs(base, whole(groups))
    base.add(groups[6:])
    added = outputs(base, whole(groups))
    torch.testing.assert_close(added, expected, rtol=1e-4, atol=1e-4)
    assert (added - before).abs().max() > 0.1


@pytest.mark.parametrize("n_covered", [N_ITEMS, 5])
def test_scores_are_those_of_ease_among_the_most_frequent(n_covered):
    strength, groups = 2.0, rich_groups(repeats=False)
    penalty = np.full(N_ITEMS, strength)
    base = ridge_items(held_items(groups, N_ITEMS), penalty, most=n_covered).eval()
    covered, rare = base.row >= 0, base.row < 0
    assert covered.sum() == n_covered
    if n_covered < N_ITEMS:
        assert base.count[covered].min() >= base.count[rare].max() > 0
    batch = whole(groups)
    known = (batch.target & (batch.item >= 0)).nonzero(as_tuple=True)
    scores = base.link_inputs(batch, known, torch.arange(N_ITEMS)).score
    role = np.where(groups.item < 0, CONTEXT, groups.role).astype(np.int8)
    context = two_part.context_items(batch, "bidirectional", N_ITEMS)[known].double().numpy()
    expected = ease(groups.with_(role=role), ridge=strength).scores(groups.with_(role=role))
    if n_covered < N_ITEMS:
        frequent = np.where(covered.numpy()[groups.item] & (groups.item >= 0), groups.item, -1)
        # EASE of a smaller catalog, by the same targets.
        weights = ease(groups.with_(item=frequent.astype(np.int32)), ridge=strength).weights
        expected = context @ weights * covered.numpy()
    # Items of the context have one less.
    np.testing.assert_allclose(scores, expected - context * covered.numpy(), atol=2e-5)
    assert np.ptp(expected) > 0.5


@pytest.mark.parametrize("kind", KINDS[:2])
def test_an_item_that_comes_twice_is_its_own_context(kind):
    groups = rich_groups()
    twice = make_groups(lengths=[3], item=np.array([2, 5, 2], dtype=np.int32), values={})
    once = make_groups(lengths=[3], item=np.array([7, 5, 2], dtype=np.int32), values={})
    base = fit(kind, groups)
    assert Sets.of(whole(twice), N_ITEMS).left_out.tolist() == [[-1, 5, -1]]
    torch.testing.assert_close(outputs(base, whole(twice))[0], outputs(base, whole(once))[0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_sizes_are_those_of_contexts_of_distinct_known_items(kind, training):
    batch = whole(rich_groups(ranges=True))
    where = present_elements(batch)
    base = fit(kind, rich_groups()).train(training)
    result = base.link_inputs(batch, where, CHOSEN).log_size
    expected = []
    for row, position in zip(*where, strict=True):
        others = batch.present[row].clone()
        others[position] = False
        seen = {int(item) for item in batch.item[row][others]} - {-1}
        expected.append(min(max(len(seen), 1), MOST_IN_CONTEXT))
    torch.testing.assert_close(result, torch.tensor(expected).log() - 1.5)
    assert len(set(expected)) > 4


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_ridge_outputs_do_not_depend_on_what_is_computed_together(kind, training, monkeypatch):
    groups = rich_groups(ranges=True)
    base, batch = fit(kind, groups).train(training), whole(groups)
    everything, where = outputs(base, batch), present_elements(batch)
    inputs = base.link_inputs(batch, where, CHOSEN)
    for number in range(len(groups)):
        alone = groups.pad([number])
        torch.testing.assert_close(outputs(base, alone), everything[where[0] == number])
        link = base.link_inputs(alone, present_elements(alone), CHOSEN)
        for part, of_all in zip(link, inputs, strict=True):
            rows = of_all if len(of_all) == 1 else of_all[where[0] == number]
            torch.testing.assert_close(part, rows)
    monkeypatch.setitem(ridge._AT_ONCE, "cpu", 2 * N_ITEMS)
    torch.testing.assert_close(outputs(base, batch), everything)


@pytest.mark.parametrize("kind", KINDS[:4])
def test_unknown_items_change_nothing(kind):
    """But how long ago what came before them was."""
    groups = make_groups(lengths=[3, 1], item=np.array([2, 5, 0, -1], dtype=np.int32), values={})
    more = make_groups(lengths=[5, 2], item=np.array([-1, 2, 5, 0, -1, -1, -1]), values={})
    base = fit(kind, rich_groups())
    result, expected = outputs(base, whole(more)), outputs(base, whole(groups))
    torch.testing.assert_close(result[1:4], expected[:3])
    torch.testing.assert_close(result[5:], expected[3:].expand(2, -1))
    for mode in (True, False):
        unknown = whole(
            make_groups(lengths=[2], item=np.array([-1, -1], dtype=np.int32), values={})
        )
        alone = outputs(base.train(mode), unknown)
        torch.testing.assert_close(alone[0], alone[1])


@pytest.mark.parametrize("kernel", KERNELS)
def test_counts_are_those_of_a_double_loop(kernel):
    random = np.random.default_rng(0)
    group = np.repeat(np.arange(5), [70, 1, 0, 30, 2])
    code = random.integers(-1, N_ITEMS, len(group))
    code[-33:-2] = np.where(np.arange(31) % 2, code[-33:-2], -1)
    expected = np.zeros((N_ITEMS, N_ITEMS))
    for first in range(len(code)):
        for second in range(first + 1, len(code)):
            distance = second - first
            near = group[first] == group[second] and distance <= kernel.reach
            if near and code[first] >= 0 and code[second] >= 0:
                expected[code[first], code[second]] += distance**-kernel.power
                if kernel.both_ways:
                    expected[code[second], code[first]] += distance**-kernel.power
    result = kernel_counts(code, group, N_ITEMS, kernel).toarray()
    np.testing.assert_allclose(result, expected)
    spaced = np.array([3, -1, 4])
    near = kernel_counts(spaced, np.zeros_like(spaced), N_ITEMS, kernel)[3, 4]
    assert near == (2**-kernel.power if kernel.reach > 1 else 0)


@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_filters_are_probabilities_and_outputs_their_mixture(training, ranges):
    groups = rich_groups(ranges=ranges)
    base, batch = fit("transitions", groups).train(training), whole(groups)
    filters, popularity = base.filters(batch, present_elements(batch), torch.arange(N_ITEMS))
    assert filters.shape[0] == 1 + N_FILTERS and filters.min() >= 0
    torch.testing.assert_close(filters.sum(-1), torch.ones(filters.shape[:2]))
    mix = torch.einsum("f,fri->ri", base.mixture, filters)
    expected = base.exponents[0] * popularity.log() + base.exponents[1] * mix.log()
    history = batch.item[:, None] == torch.arange(N_ITEMS)[:, None]
    times = (history.cumsum(2) - history.long()).transpose(1, 2)[present_elements(batch)]
    expected += base.repeats[0] * (times > 0) + base.repeats[1] * times.log1p()
    torch.testing.assert_close(outputs(base, batch), expected)


@pytest.mark.parametrize("ranges", [False, True])
def test_contexts_are_backed_off_as_in_a_loop(ranges):
    groups = rich_groups(ranges=ranges)
    batch = whole(groups)
    filters, popularity = fit("transitions", groups).filters(
        batch, present_elements(batch), torch.arange(N_ITEMS)
    )
    sequences = [groups.item[a:b].tolist() for a, b in zip(groups.start, groups.stop, strict=True)]
    of_contexts = filters[-LONGEST * len(BACK_OFFS) :].unflatten(0, (LONGEST, -1))
    for row, (group, position) in enumerate(zip(*present_elements(batch), strict=True)):
        chance = popularity[[0] * len(BACK_OFFS)].double().numpy()
        history = batch.item[group, :position].tolist()
        for length in range(1, LONGEST + 1):
            context = history[-length:]
            if len(context) == length and -1 not in context:
                near = np.zeros(N_ITEMS)
                for items in sequences:
                    for end in range(length, len(items)):
                        if items[end - length : end] == context and items[end] >= 0:
                            near[items[end]] += 1
                counts = np.array(BACK_OFFS)[:, None]
                chance = (near + counts * chance) / (near.sum() + counts)
            np.testing.assert_allclose(of_contexts[length - 1, :, row], chance, rtol=1e-5)
    assert (filters[-1] - filters[0]).abs().max() > 0.2


@pytest.mark.parametrize("is_process", [False, True])
def test_contexts_are_kept_where_they_say_more(is_process):
    """As where what comes next follows from the last two items, and not from either alone."""
    random = np.random.default_rng(0)
    item = random.integers(0, 4, (150, 8)).astype(np.int32)
    for column in range(2, 8) if is_process else ():
        item[:, column] = (item[:, column - 1] + item[:, column - 2]) % 4
    groups = make_groups(lengths=[8] * 150, item=item.ravel(), values={}, ordered=True)
    base = fit_transition_items(groups, 4, support="none")
    longer = slice(len(BACK_OFFS) * (1 - LONGEST), None)
    nats = outputs(base, whole(groups[:30]), chosen=torch.arange(4)).log_softmax(1)
    own = nats.gather(1, whole(groups[:30]).item.reshape(-1, 1))[:, 0].reshape(30, 8)[:, 2:]
    if is_process:
        assert base.mixture[longer].sum() > 0.5 and own.mean() > -0.4
    else:
        assert base.mixture[longer].sum() < 0.2 and own.mean() > -1.45
    base.mixture[longer] = 0
    expected = outputs(base, whole(groups), chosen=torch.arange(4))
    base.drop_contexts()
    assert len(base.context_2) == len(base.near_3) == 0
    torch.testing.assert_close(outputs(base, whole(groups), chosen=torch.arange(4)), expected)
    base.add(groups)
    assert len(base.context_2) == 0


def test_a_chain_costs_little_more_than_its_counts():
    """Each item from the last one alone: as good as smoothed counts of pairs."""
    random, n = np.random.default_rng(0), 12
    chances = random.dirichlet(np.full(n, 0.2), size=n)
    item = random.integers(0, n, (200, 15))
    for column in range(1, item.shape[1]):
        item[:, column] = [random.choice(n, p=chances[last]) for last in item[:, column - 1]]
    train, test = (
        make_groups(lengths=[15] * 100, item=part.ravel(), values={}, n_items=n, ordered=True)
        for part in np.split(item.astype(np.int32), 2)
    )
    base = fit_transition_items(train, n, support="none")
    nats = outputs(base, whole(test), chosen=torch.arange(n)).log_softmax(1)
    own = nats.gather(1, whole(test).item.reshape(-1, 1)).reshape(100, 15)[:, 1:]
    counts = np.full((n, n), 0.1)
    np.add.at(counts, (item[:100, :-1], item[:100, 1:]), 1)
    pairs = np.log(counts / counts.sum(1, keepdims=True))[item[100:, :-1], item[100:, 1:]]
    assert own.mean() > pairs.mean() - 0.01


def test_a_base_of_an_older_version_mixes_the_longest_contexts():
    groups = rich_groups()
    old, new = fit("transitions", groups), TransitionItems(N_ITEMS)
    n_contexts = LONGEST * len(BACK_OFFS)
    mixture = torch.rand(2 + N_FILTERS - n_contexts, generator=torch.Generator().manual_seed(0))
    new.allocate(**old.shape())
    new.load_state_dict(old.state_dict() | {"mixture": mixture})
    old.mixture.zero_()[: len(mixture) - 1] = mixture[:-1]
    old.mixture[-len(BACK_OFFS)] = mixture[-1]
    torch.testing.assert_close(new.mixture, old.mixture)
    torch.testing.assert_close(outputs(new.eval(), whole(groups)), outputs(old, whole(groups)))


@pytest.mark.parametrize("support", two_part.SUPPORTS)
def test_repeats_are_weighed_where_no_support_does(support):
    random = np.random.default_rng(0)
    item = np.concatenate([random.permutation(20)[:8] for _ in range(100)]).astype(np.int32)
    groups = make_groups(lengths=[8] * 100, item=item, n_items=20, values={}, ordered=True)
    base = fit_transition_items(groups, 20, support=support)
    if support != "none":
        assert (base.repeats == 0).all()
        return
    # What never came again is not to come.
    chance = outputs(base, whole(groups), chosen=torch.arange(20)).softmax(1)
    seen = two_part.context_items(whole(groups), "causal", 20).reshape(-1, 20)
    assert (chance * seen).sum(1).max() < 0.1 and base.repeats.sum() < -2
