"""Latent classes of groups: exact conditionals, groups that know nothing of themselves, fits."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import exfam
from efa_base.item_bases import N_ITEMS, fit, outputs, rich_groups
from exfam import EFA
from exfam.efa.attributes.new_in_ridge import NewItems, with_new_items, without_items
from exfam.efa.base import fit_ridge
from exfam.efa.base.choose import add_to_base, base_shape, empty_base
from exfam.efa.base.classes import ItemClasses, fold_of
from exfam.efa.base.sets import held_items
from exfam.efa.networks.based import present_elements
from model_cases import make_groups, whole

SIZE = torch.tensor([[3.0, 1.0, 6.0], [2.0, 4.0, 5.0]])
EVERY = torch.arange(N_ITEMS)


def classes_of(n_items=N_ITEMS, *, seed=0):
    """Some of two folds, whose numbers are random."""
    chance = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(n_items, 0.5), (2, 3)))
    classes = ItemClasses(chance.permute(2, 0, 1).float(), length=4 * SIZE, size=SIZE.clone())
    classes.weight.copy_(torch.tensor([0.6, 0.2]))
    return classes.eval()


def lifts(classes, batch, *, chosen=EVERY):
    return torch.cat([lift for _, lift in classes.lifts(batch, present_elements(batch)).of(chosen)])


def by_loops(classes, batch, row, position, *, fold=None):
    """The lift of every item at an element, by classes of all folds or of one."""
    among = slice(None) if fold is None else slice(fold, fold + 1)
    chance = classes.probability[:, among].flatten(1).double().numpy()
    prior = classes.size[among].flatten().double().numpy()
    others = {
        int(batch.item[row, at])
        for at in range(batch.item.shape[1])
        if at != position and batch.present[row, at] and batch.item[row, at] >= 0
    }
    weight = prior * np.prod(chance[sorted(others)], axis=0)
    expected = np.log(chance @ weight / weight.sum()) - np.log(chance @ prior / prior.sum())
    return torch.from_numpy(expected).float()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("ranges", [False, True])
def test_lifts_are_those_of_a_posterior_without_the_element(training, ranges):
    classes, groups = classes_of().train(training), rich_groups(ranges=ranges)
    batch = whole(groups)
    result, where = lifts(classes, batch), present_elements(batch)
    folds = fold_of(torch.from_numpy(groups.start), 2).tolist()
    assert set(folds) == {0, 1}
    for lift, row, position in zip(result, *where, strict=True):
        if training and groups.stop[row] == groups.start[row]:
            continue  # it has nothing that classes could know
        fold = folds[row] if training else None
        torch.testing.assert_close(lift, by_loops(classes, batch, row, position, fold=fold))
    torch.testing.assert_close(lifts(classes, batch, chosen=EVERY[[1, 7]]), result[:, [1, 7]])
    item = torch.arange(len(result)) % N_ITEMS
    own = classes.lifts(batch, where).of_own(item)
    torch.testing.assert_close(own, result.gather(1, item[:, None])[:, 0])
    assert result.std(0).min() > 0.05


def test_an_element_does_not_move_its_own_lifts_but_all_others():
    classes, batch = classes_of(), whole(rich_groups(repeats=False))
    before, (_, position) = lifts(classes, batch), present_elements(batch)
    other = torch.where(position == 2, 1, 0)
    item = batch.item.clone()
    item[:, 2] = torch.where(item[:, 2] >= 0, (item[:, 2] + 1) % N_ITEMS, -1)
    after = lifts(classes, replace(batch, item=item))
    unmoved = torch.isclose(before, after, atol=1e-6).all(1)
    assert unmoved[other == 1].all() and not unmoved[other == 0].all()


def test_in_training_a_group_knows_nothing_of_itself():
    classes, groups = classes_of(), rich_groups()
    batch, held = whole(groups), held_items(groups, N_ITEMS)
    row = present_elements(batch)[0]
    before, moved = lifts(classes.train(), batch), lifts(classes.eval(), batch)
    for number in range(len(groups)):
        own, length = classes_of(), classes.length.sum()
        own.add(held[[number]], groups.start[[number]])
        after = lifts(own.train(), batch)[row == number]
        torch.testing.assert_close(after, before[row == number])
        if held[[number]].nnz:
            assert not torch.allclose(lifts(own.eval(), batch), moved)
        # Counted once in each of the folds but one.
        assert own.length.sum() == pytest.approx(float(length + held[[number]].sum()))
    torch.testing.assert_close(own.probability.sum(0), torch.ones(2, 3))


@pytest.mark.parametrize("kind", ["ridge", "ridge of some"])
@pytest.mark.parametrize("training", [False, True])
def test_they_are_a_weighed_term_of_the_outputs(kind, training):
    batch = whole(rich_groups())
    base, where = fit(kind, rich_groups()), present_elements(batch)
    base.least_size = 2.0
    without = outputs(base.train(training), batch)
    base.classes = classes_of().train(training)
    log_size = base.link_inputs(batch, where, EVERY).log_size
    weight = (0.6 + 0.2 * log_size).masked_fill(log_size.isinf(), 0.0)[:, None]
    result = outputs(base, batch)
    torch.testing.assert_close(result, without + weight * lifts(base.classes, batch))
    item = torch.arange(len(result)) % N_ITEMS
    own = base.own(batch, where, item)
    torch.testing.assert_close(own, result.gather(1, item[:, None])[:, 0])
    assert log_size.isinf().any() and (result - without).abs().max() > 0.1
    loaded = empty_base(base_shape(base))
    loaded.load_state_dict(base.state_dict())
    torch.testing.assert_close(outputs(loaded.train(training), batch), result)


def test_new_items_are_of_the_classes_of_those_that_they_are_like():
    base = fit("ridge", rich_groups())
    base.classes = classes_of()
    share = np.zeros((1, N_ITEMS + 1))
    share[0, 4] = 1.0
    count = base.count[[4]].double().numpy()
    larger = with_new_items(base, NewItems(np.array([N_ITEMS]), share, count), n_items=N_ITEMS + 1)
    batch = whole(rich_groups())
    result = lifts(larger.classes, batch, chosen=torch.arange(N_ITEMS + 1))
    torch.testing.assert_close(result[:, :-1], lifts(base.classes, batch))
    torch.testing.assert_close(result[:, -1], result[:, 4])
    hidden = without_items(base, np.array([4])).classes
    unknown = replace(batch, item=torch.where(batch.item == 4, -1, batch.item))
    torch.testing.assert_close(lifts(hidden, batch), lifts(hidden, unknown))
    torch.testing.assert_close(
        lifts(hidden, batch)[:, 4], torch.zeros(len(result)), atol=1e-5, rtol=0
    )


def of_topics(n_groups, *, n_topics, seed, size=8, n_items=40):
    """Groups of items of one topic, each item likelier in one than in the others."""
    random = np.random.default_rng(seed)
    chance = np.random.default_rng(9).dirichlet(np.full(n_items, 0.3), n_topics)
    item = [
        random.choice(
            n_items,
            size,
            replace=False,
            p=chance[random.integers(n_topics)] * 0.98 + 0.02 / n_items,
        )
        for _ in range(n_groups)
    ]
    item = np.concatenate(item).astype(np.int32)
    return make_groups(lengths=[size] * n_groups, item=item, values={}, n_items=n_items)


@pytest.mark.parametrize("n_topics", [1, 6])
def test_classes_are_chosen_where_groups_have_topics_and_nothing_changes_elsewhere(
    n_topics, monkeypatch
):
    train, test = (of_topics(n, n_topics=n_topics, seed=n) for n in (400, 200))
    base = fit_ridge.fit_ridge_items(train, 40, support="none")
    monkeypatch.setattr(fit_ridge, "LEAST_GROUPS", 401)
    without = fit_ridge.fit_ridge_items(train, 40, support="none")
    assert without.classes is None
    if n_topics == 1:
        assert base.classes is None
        torch.testing.assert_close(base.state_dict(), without.state_dict(), rtol=0, atol=0)
        return
    nats = [
        outputs(part, whole(test), chosen=torch.arange(40)).log_softmax(1)
        .gather(1, whole(test).item.reshape(-1, 1)).mean()
        for part in (base, without)
    ]  # fmt: skip
    assert nats[0] > nats[1] + 0.01
    before = base.classes.size.sum()
    add_to_base(base, test, support="none", seed=0)
    n_folds = base.classes.size.shape[0]
    assert base.classes.size.sum() == pytest.approx(float(before) + 200 * (n_folds - 1))


def test_an_estimator_with_classes_is_saved_explained_and_added_to(tmp_path):
    groups = of_topics(400, n_topics=6, seed=0)
    frame = pd.DataFrame({"user": np.repeat(np.arange(400), 8), "movie": groups.item})
    names = {"group": "user", "item": "movie", "progress": False}
    model = EFA(**names, attention="none").fit(frame)
    base = model.members_[0].item_part.base
    assert base.classes is not None
    few, best = frame[:160], model.recommend(frame[:160], k=3)
    why = model.explain_item(few, best.items[:, 0])
    np.testing.assert_allclose(why.probability, best.probabilities[:, 0], rtol=1e-5)
    assert (why.classes > 0).any() and (why.correction == 0).all()
    weight = base.classes.weight.clone()
    base.classes.weight.zero_()
    alone = model.explain_item(few, best.items[:, 0])
    np.testing.assert_allclose(why.base - why.classes, alone.base, atol=1e-5)
    assert (alone.classes == 0).all()
    base.classes.weight.copy_(weight)
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    shuffled = few.sample(frac=1.0, random_state=0).sort_values("user", kind="stable")
    for other in (loaded.recommend(few, k=3), loaded.recommend(shuffled, k=3)):
        np.testing.assert_allclose(other.probabilities, best.probabilities, rtol=1e-4)
    loaded.partial_fit(few.assign(user=few["user"] + 1_000))
    size = loaded.members_[0].item_part.base.classes.size
    assert size.sum() == pytest.approx(float(base.classes.size.sum()) + 20 * (len(size) - 1))
