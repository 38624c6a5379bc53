"""What is normal at new places is kept, and is what would be computed anew."""

import copy
import pickle

import pytest
import torch

from exfam.fields.base.new_sites import KeptNormal, NewNormal


@pytest.fixture
def computed():
    """What is normal, as a function of numbers; which places were ever computed; its source."""
    source, asked = torch.ones(1), []

    def of(kept, rows):
        def compute(some):
            asked.extend(some.tolist())
            return NewNormal(*(k * source * rows[some].sum(-1) for k in (1, 2, 3)))

        return kept.of(rows, source, compute)

    return of, asked, source


def test_only_new_places_are_computed_and_all_are_given_in_their_order(computed):
    of, asked, _ = computed
    rows, kept = torch.arange(12).double().reshape(6, 2), KeptNormal()
    of(kept, rows[[4, 1, 2]])
    assert asked == [0, 1, 2]
    normal = of(kept, rows)
    assert asked == [0, 1, 2, 0, 3, 5]
    assert torch.equal(normal.scale, 2 * rows.sum(-1))
    assert of(kept, rows[:0]).level.shape == (0,)


def test_what_has_changed_is_computed_anew_and_copies_begin_with_nothing(computed):
    of, asked, source = computed
    rows, kept = torch.arange(4).double().reshape(2, 2), KeptNormal()
    of(kept, rows)
    source.mul_(3)
    assert torch.equal(of(kept, rows).level, 3 * rows.sum(-1)) and len(asked) == 4
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        of(other, rows)
    assert len(asked) == 8


def test_no_more_is_kept_than_there_is_room_for(computed, monkeypatch):
    monkeypatch.setattr("exfam.fields.base.new_sites.MOST_KEPT", 3)
    of, asked, _ = computed
    rows, kept = torch.arange(8).double().reshape(4, 2), KeptNormal()
    of(kept, rows)
    of(kept, rows)
    assert len(asked) == 8
