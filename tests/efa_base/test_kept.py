"""Kept outputs of a base are those that it computes, and sums at entries those of whole tables."""

import pytest
import torch

from efa_base.item_bases import KINDS, N_ITEMS, fit, outputs, rich_groups
from exfam.efa.base import kept as kept_outputs
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.base.sets import Sets
from exfam.efa.networks.based import present_elements
from model_cases import generator, whole

SOME, close = torch.tensor([7, 1, 4]), torch.testing.assert_close


@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_kept_outputs_are_those_of_the_base_computed_once(kind, training, ranges, monkeypatch):
    """In training in half precision, up to what is added to all items of a row."""
    groups = rich_groups(ranges=ranges)
    base, batches = fit(kind, groups), [groups.pad([n]) for n in (8, 2, 0, 9)]
    kept, atol = KeptOutputs(base, train=groups, held_out=groups), 5e-3 if training else 0
    for mode in (not training, training):
        base.train(mode)
        expected = [outputs(base, batch).log_softmax(1) for batch in batches]
        for _ in range(2):
            everything = [outputs(kept, batch) for batch in batches]
    close([rows.log_softmax(1) for rows in everything], expected, atol=atol, rtol=0)
    some = [outputs(kept, batch, chosen=SOME) for batch in batches]
    close(some, [rows[:, SOME] for rows in everything])
    own = [kept.own(batch, present_elements(batch), batch.item[batch.present]) for batch in batches]
    is_new = [bool(batch.steps_back.any()) for batch in batches]
    assert any(is_new) == ranges
    lacks_own = [result is None for result in own]
    assert lacks_own == ([False] * len(own) if hasattr(base, "own") else is_new)
    monkeypatch.setattr(type(base), "outputs", lambda _, b, where, c: torch.zeros(len(where[0]), 9))
    assert [not outputs(kept, batch).any() for batch in batches] == is_new


def test_sums_at_entries_are_those_of_the_table():
    table = torch.randn(N_ITEMS, N_ITEMS, generator=generator())
    batch = whole(rich_groups(ranges=True))
    own, seen = Sets.of(batch, N_ITEMS, own=True), Sets.of(batch, N_ITEMS)
    assert len(seen.item) > len(own.item) > 0
    for sets, other in ((own, seen), (seen, own), (seen, seen)):
        rows = torch.randperm(N_ITEMS, generator=generator())
        expected = sets.sums_of(table[rows][:, rows])[other.group, other.item]
        close(sets.sums_at(table, other, rows), expected)
        group, column = other.group.flip(0), other.item.flip(0)
        close(sets.sums_of_one(table, group, column), sets.sums_of(table)[group, column])


@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_output_of_one_item_a_row_is_that_among_all(kind, training, ranges):
    groups = rich_groups(ranges=ranges)
    base, batch = fit(kind, groups).train(training), whole(groups)
    where = present_elements(batch)
    for shift in range(N_ITEMS):
        item = (batch.item[where].clamp_min(0) + shift) % N_ITEMS
        expected = outputs(base, batch).gather(1, item[:, None])[:, 0]
        close(base.own(batch, where, item), expected)


@pytest.mark.parametrize("held_out", [slice(8, 10), None])
@pytest.mark.parametrize(("most", "mode"), [(20, False), (10**6, True), (10**6, False)])
def test_what_fits_into_memory_is_kept(most, mode, held_out, monkeypatch):
    monkeypatch.setattr(kept_outputs, "MOST_BYTES", most)
    groups = rich_groups()
    base, given = fit("transitions", groups).train(mode), held_out and groups[held_out]
    kept = KeptOutputs.of(base, groups[:8], given)
    for number, is_kept in ((2, mode), (8, not mode and held_out is not None)):
        batch = groups.pad([number])
        own = kept.own(batch, present_elements(batch), batch.item[batch.present])
        assert (own is not None) == (most == 10**6 and is_kept)
    kept.forget_training()
    batch = groups.pad([2 if mode else 8])
    own = kept.own(batch, present_elements(batch), batch.item[batch.present])
    assert (own is not None) == (most == 10**6 and not mode and held_out is not None)
