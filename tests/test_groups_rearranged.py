import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold
from sklearn.utils import _safe_indexing

from exfam.checks import DataError, ExfamError
from exfam.groups import CONTEXT, Groups
from group_cases import assert_same, bounds, full_groups, seen

ragged = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@settings(max_examples=25)
@given(lengths=ragged, lags=st.integers(0, 2), data=st.data())
def test_any_view_sees_what_its_groups_see(lengths, lags, data):
    groups = full_groups(lengths, lags=lags)
    index = data.draw(st.lists(st.integers(-len(lengths), len(lengths) - 1), max_size=5))
    expected = [seen(groups)[number] for number in index]
    view = groups[index]
    assert seen(view) == expected
    assert seen(Groups.concatenate([view, groups])) == expected + seen(groups)
    cut = len(lengths) // 2
    assert_same(Groups.concatenate([groups[:cut], groups[cut:]]), groups)
    compact = view.compact()
    assert_same(compact, view)
    assert compact.elements().tolist() == list(range(view.n_elements))
    assert lags or compact.n_rows == view.n_elements
    assert not np.shares_memory(compact.item, view.item)
    table = view.to_arrow()
    assert_same(Groups.from_arrow(table), view)
    assert table.num_rows == len(view) + (lags > 0)


def test_concatenate_fills_in_what_only_some_parts_say():
    plain = Groups(**bounds([1]), item=[0])
    special = plain.with_(
        observed=[False], role=[CONTEXT], ignored=[2], context_start=[[0]], context_stop=[[1]]
    )
    joined = Groups.concatenate([plain, special, plain])
    assert joined.ignored.tolist() == [0, 2, 0]
    assert joined.lengths.tolist() == [1, 2, 1]
    assert [joined[number].n_targets for number in range(3)] == [1, 0, 1]
    assert joined.observed[joined.elements()].tolist() == [True, False, True]
    one, two = full_groups(lags=1), full_groups(lags=2)
    assert seen(Groups.concatenate([one, two])) == seen(one) + seen(two)


@pytest.mark.parametrize(
    "changes, match",
    [
        ({"item": None}, "`parts` must all have `item` or none, part 1 differs"),
        ({"group_names": None}, "`parts` must all have `group_names` or none"),
        ({"values": {}}, r"the same `values`, got \{\} in part 1 after \{'stars': 'numbers', "),
        ({"attributes": {"genre": np.ones(9), "place": np.ones((9, 3))}}, "'numbers x 3'"),
        ({"vocabulary": {"item": list("abcdef")}}, "that of 'sex' differs in part 1"),
        ({"vocabulary": {"item": list("abcdeg"), "sex": ["f", "m"]}}, "that of 'item' differs"),
    ],
)
def test_concatenate_wants_parts_alike(changes, match):
    with pytest.raises(ExfamError, match="`parts` must hold at least one Groups, got none"):
        Groups.concatenate([])
    groups = full_groups()
    with pytest.raises(DataError, match=match):
        Groups.concatenate([groups, groups.with_(**changes)])


def test_split_is_by_group_disjoint_and_complete():
    groups = full_groups(range(20))

    def names(seed):
        return [part.group_names.tolist() for part in groups.split((0.5, 0.3, 0.2), seed=seed)]

    assert [len(part) for part in names(3)] == [10, 6, 4]
    assert all(part == sorted(part) for part in names(3))
    assert sorted(sum(names(3), [])) == groups.group_names.tolist()
    assert names(3) == names(3) != names(4)
    for fractions, match in (
        ((1.2, -0.2), r"above 0 and sum to 1, got \(1.2, -0.2\)"),
        ((0.99, 0.01), r"leave no part empty, got \(0.99, 0.01\) of 20 groups"),
    ):
        with pytest.raises(ExfamError, match=match):
            groups.split(fractions, seed=0)


def test_the_first_repeat_is_found():
    groups = Groups(**bounds([2, 3, 3]), item=[0, 1, 2, 0, 1, 4, 3, 4])
    assert groups.repeats_items()
    group, item, elements = groups.first_repeat()
    assert (group, item, elements.tolist()) == (2, 4, [5, 7])
    assert not groups[:2].repeats_items()
    assert groups[[2, 0]].first_repeat()[0] == 0
    assert groups[1:].first_repeat()[2].tolist() == [5, 7]
    for item in (None, [-1, 0, -1]):  # unknown items do not repeat
        assert not Groups(**bounds([3]), item=item).repeats_items()
    groups = Groups(
        **bounds([2, 2]), item=[0, 1, 1, 2], context_start=[[0], [0]], context_stop=[[0], [2]]
    )
    group, item, elements = groups.first_repeat()  # that of the context
    assert (group, item, sorted(elements.tolist())) == (1, 1, [1, 2])
    assert not groups.with_(context_start=None, context_stop=None).repeats_items()


def test_scikit_learn_chooses_groups():
    groups = full_groups()
    assert seen(_safe_indexing(groups, np.array([2, 0]))) == [seen(groups)[2], seen(groups)[0]]
    folds = list(GroupKFold(2).split(groups, groups=[0, 0, 1, 1]))
    assert sorted(train.tolist() for train, _ in folds) == [[0, 1], [2, 3]]
