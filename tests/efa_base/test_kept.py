"""Kept outputs of a base are those that it computes, and sums at entries those of whole tables."""

import pytest
import torch

from efa_base.item_bases import KINDS, N_ITEMS, fit, outputs, rich_groups
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.base.sets import Sets
from exfam.efa.networks import based
from exfam.efa.networks.based import BaseOffset, present_elements
from model_cases import generator, whole

EVERY = torch.arange(N_ITEMS)


@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kept_outputs_are_those_that_are_computed_and_computed_once(
    kind, training, ranges, monkeypatch
):
    """In training in half precision, up to what is added to all items of a row."""
    groups = rich_groups(ranges=ranges)
    base, batches = fit(kind, groups), [groups.pad([n]) for n in (8, 2, 0, 9)]
    kept, atol = KeptOutputs(base, groups, validates=True), 5e-3 if training else 0
    for mode in (not training, training):
        base.train(mode)
        expected = [outputs(base, batch).log_softmax(1) for batch in batches]
        for _ in range(2):
            results = [outputs(kept, batch).log_softmax(1) for batch in batches]
    torch.testing.assert_close(results, expected, atol=atol, rtol=0)
    some = [outputs(kept, batch, chosen=EVERY[[7, 1]]) for batch in batches]
    everything = [outputs(kept, batch) for batch in batches]
    torch.testing.assert_close(some, [rows[:, [7, 1]] for rows in everything])
    own = [kept.own(batch, present_elements(batch), batch.item[batch.present]) for batch in batches]
    is_new = [bool(batch.steps_back.any()) for batch in batches]
    assert [result is None for result in own] == is_new and any(is_new) == ranges
    monkeypatch.setattr(type(base), "outputs", lambda _, b, where, c: torch.zeros(len(where[0]), 9))
    assert [not outputs(kept, batch).any() for batch in batches] == is_new


def test_without_validation_groups_of_the_same_data_only_training_is_kept():
    groups, others = rich_groups(), rich_groups(seed=2)
    base = fit("transitions", groups)
    kept = KeptOutputs(base, groups, validates=False)
    for shown in (groups, others):
        batch = whole(shown)
        assert torch.equal(outputs(kept, batch), outputs(base, batch))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("most", [0, 2**22])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_an_offset_are_outputs(kind, most, keeps, monkeypatch):
    monkeypatch.setattr(based, "MOST_AT_ONCE", most)
    groups, scale = rich_groups(ranges=not keeps), torch.tensor(0.5)
    base, batch, where = fit(kind, groups), whole(groups), present_elements(whole(groups))
    offset = KeptOutputs(base, groups, validates=True) if keeps else base
    offset = BaseOffset(offset, batch, where, EVERY, scale)
    expected, some = outputs(base, batch) * scale, EVERY[[7, 1, 4]]
    close = torch.testing.assert_close
    close(offset.tile(slice(3, 9), slice(2, 5)), expected[3:9, 2:5])
    close(offset.at(slice(3, 9)).among(some).tile(slice(1, 4), slice(0, 2)), expected[4:7, [7, 1]])
    item = torch.randint(N_ITEMS, (len(expected),), generator=generator())
    close(offset.own(item), expected[torch.arange(len(item)), item])


def test_sums_at_entries_are_those_of_the_table():
    table = torch.randn(N_ITEMS, N_ITEMS, generator=generator())
    batch = whole(rich_groups(ranges=True))
    own, seen = Sets.of(batch, N_ITEMS, own=True), Sets.of(batch, N_ITEMS)
    assert len(seen.item) > len(own.item) > 0
    for sets, other in ((own, seen), (seen, own), (seen, seen)):
        expected = sets.sums_of(table)[other.group, other.item]
        torch.testing.assert_close(sets.sums_at(table, other), expected)
    unknown = whole(rich_groups().with_(item=torch.full((45,), -1).numpy()))
    nothing = Sets.of(unknown, N_ITEMS)
    assert nothing.sums_at(table, nothing).shape == (0,)
