"""The network that sees the sum of a set's context: blind for its own element and for order."""

import numpy as np
import pytest
import torch

import exfam
from estimator_cases import ratings
from exfam import EFA
from exfam.efa.networks import context as contexts
from exfam.efa.networks.context import ContextMean, DeepContext
from exfam.embeddings import ItemEmbedding
from exfam.layers import lend_generator
from exfam.likelihoods.two_part import DIRECTIONS
from model_cases import make_groups

N_ITEMS, DIM = 12, 5
GROUPS = make_groups(lengths=(1, 4, 7, 2), n_items=N_ITEMS, ordered=True, repeats=True)
FRAME = ratings(n_users=40, n_movies=8, least=2)
SETS = {"group": "user", "item": "movie", "progress": False, "max_epochs": 1, "ensemble": 1}
every_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def deep(direction, hidden=0.0):
    generator = torch.Generator().manual_seed(0)
    items = ItemEmbedding(N_ITEMS, DIM, generator=generator)
    context = DeepContext(items, direction=direction, width=6, hidden=hidden, generator=generator)
    # Sizes of contexts count from the start.
    torch.nn.init.normal_(context.size.bias, generator=generator)
    return context.eval()


def batch_of(groups):
    return groups.pad(np.arange(len(groups)))


@every_direction
def test_an_element_is_blind_for_its_own_item_and_sees_all_of_its_context(direction):
    context, batch = deep(direction), batch_of(GROUPS)
    before = context(batch)
    length = batch.item.shape[1]
    for position in range(length):
        item = batch.item.clone()
        item[:, position] = (item[:, position] + 1) % N_ITEMS
        moved = (context(batch_of(GROUPS.with_(item=_flat(batch, item)))) - before).abs().amax(-1)
        other = torch.arange(length) > position
        seen = other if direction == "causal" else torch.arange(length) != position
        there = batch.present[:, [position]] & batch.present
        assert (moved[there & seen] > 1e-6).all()
        assert (moved[batch.present & ~(there & seen)] < 1e-6).all()


def _flat(batch, item):
    flat = np.zeros(GROUPS.n_rows, dtype=np.int64)
    flat[batch.element[batch.present].numpy()] = item[batch.present].numpy()
    return flat


@every_direction
def test_products_are_the_running_sums_of_longer_groups(direction, monkeypatch):
    context, batch = deep(direction), batch_of(GROUPS)
    weights = list(context.parameters())

    def outcome():
        outputs = context(batch)
        return outputs, torch.autograd.grad(outputs[batch.present].square().sum(), weights)

    by_product = outcome()
    monkeypatch.setattr(contexts, "_LONGEST_PRODUCT", 0)
    torch.testing.assert_close(outcome(), by_product, rtol=1e-5, atol=1e-6)


def test_the_order_of_a_set_and_its_padding_do_not_matter():
    context = deep("bidirectional")
    backwards = batch_of(GROUPS)
    lengths = (GROUPS.stop - GROUPS.start).tolist()
    flipped = np.concatenate(
        [GROUPS.item[a:b][::-1] for a, b in zip(GROUPS.start, GROUPS.stop, strict=True)]
    )
    forwards, other = context(backwards), context(batch_of(GROUPS.with_(item=flipped)))
    for group, n in enumerate(lengths):
        torch.testing.assert_close(forwards[group, :n].flip(0), other[group, :n])
        alone = context(batch_of(GROUPS[group : group + 1]))
        torch.testing.assert_close(forwards[group, :n], alone[0, :n])


def test_what_it_adds_to_the_mean_depends_on_how_many_there_are():
    context, batch = deep("bidirectional"), batch_of(GROUPS)
    mean = ContextMean(context.items, direction="bidirectional")(batch)
    added = context(batch) - mean
    assert torch.isfinite(added).all() and added[batch.present].std() > 0.01
    torch.nn.init.zeros_(context.last.weight)
    torch.testing.assert_close(context(batch), mean)
    # An empty context has no vectors, but differs from one of a single item.
    torch.testing.assert_close(mean[0, 0], torch.zeros(DIM))


def test_elements_are_hidden_in_training_alone():
    context, batch = deep("bidirectional", hidden=0.5), batch_of(GROUPS)
    shown = context(batch)
    torch.testing.assert_close(context(batch), shown)
    with lend_generator(torch.Generator().manual_seed(1), context.train()):
        one, other = context(batch), context(batch)
    assert not torch.allclose(one, shown) and not torch.allclose(one, other)
    # An empty context has nothing to be hidden.
    torch.testing.assert_close(one[0, 0], shown[0, 0])


def test_it_is_part_of_sets_with_a_base_and_saved_with_them(tmp_path):
    model = EFA(**SETS).fit(FRAME)
    head = model.members_[0].item_part.correction.head
    assert isinstance(head.beside, DeepContext)
    assert head.beside.second.in_features == model.resolved_["context_hidden_dim"]
    model.save(tmp_path / "model")
    loaded = exfam.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.log_prob(FRAME), model.log_prob(FRAME))
    without = EFA(**SETS, context_hidden_dim=0).fit(FRAME)
    assert isinstance(without.members_[0].item_part.correction.head.beside, ContextMean)
    ordered = EFA(**SETS, order="day", direction="causal").fit(FRAME)
    assert ordered.members_[0].item_part.correction.head.beside is None
