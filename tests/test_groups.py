"""Groups: columns, views, batches, and groups joined, split and compared."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold
from sklearn.utils import _safe_indexing

from exfam.checks import DataError, ExfamError
from exfam.groups import CONTEXT, TARGET, Groups
from group_cases import assert_same, bounds, full_groups, seen

FLAT = ("item", "position", "observed", "role", "source_row")
INDICES = [
    -1,
    np.int64(0),
    slice(1, None),
    slice(None, None, -1),
    [3, 0, 0],
    [],
    np.array([True, False, False, True]),
    [True, False, True, False],
]


@pytest.mark.parametrize("lags", [0, 2])
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_index_chooses_groups_and_copies_no_column(index, lags):
    groups = full_groups(lags=lags)
    view = groups[index]
    chosen = np.atleast_1d(np.arange(4)[index or slice(0) if isinstance(index, list) else index])
    assert len(view) == len(chosen)
    assert seen(view) == [seen(groups)[number] for number in chosen]
    assert view.group_names.tolist() == [10 + number for number in chosen]
    for name in FLAT:
        assert np.shares_memory(getattr(view, name), getattr(groups, name))
    for name in ("values", "attributes"):
        for key, column in getattr(view, name).items():
            assert np.shares_memory(column, getattr(groups, name)[key])


@pytest.mark.parametrize(
    "index, match",
    [
        (4, "below 4 groups, got 4"),
        ([0, -5], r"below 4 groups, got \[0, -5\]"),
        (1.0, "an int, slice, bool or int array, got 1.0"),
        (np.zeros((2, 2), dtype=int), "an int, slice, bool or int array"),
        ([True, False], r"must have 4 bools, got shape \(2,\)"),
    ],
)
def test_a_wrong_index(index, match):
    with pytest.raises(IndexError, match=match):
        full_groups()[index]


def test_counts():
    groups = full_groups(lags=1)
    assert len(groups) == groups.shape[0] == 4
    assert groups.n_rows == groups.n_elements == 9
    assert groups[2:].n_elements == 6 and groups[2:].n_rows == 9
    assert groups.lengths.tolist() == [3, 3, 2, 6]
    assert groups.n_targets == int((groups.role == TARGET).sum()) != 9
    assert groups[1].n_targets == 0 and groups.with_(role=None).n_targets == 9
    assert groups.n_items == 6
    assert groups.columns == ("item", "stars", "count", "genre", "place", "age", "sex")
    assert repr(groups).startswith("Groups(4 groups, 9 elements, 6 items, stars, count, genre")


def test_all_columns_are_optional_and_so_are_groups():
    groups = Groups(**bounds([2, 3]))
    assert groups.n_items == 0 and groups.n_rows == 5 and groups.columns == ()
    batch = groups.pad([0, 1])
    assert batch.item is None and batch.values == {} and batch.weight is None
    assert batch.present.tolist() == [[True, True, False], [True] * 3]
    assert batch.n_targets == 5
    none = Groups(start=[], stop=[], item=[])
    assert len(none) == none.n_elements == none.n_items == len(none.compact()) == 0
    assert not none.repeats_items()


def test_pad_puts_every_element_where_it_belongs():
    groups, weight = full_groups(), np.arange(9.0)
    batch = groups.pad(np.array([3, 1, 0]), weight=weight)
    assert batch.element.tolist() == [[5, 6, 7, 8], [-1] * 4, [0, 1, 2, -1]]
    present, rows = batch.present, batch.element[batch.present].numpy()
    assert torch.equal(present, batch.element >= 0)
    assert batch.item[present].tolist() == groups.item[rows].tolist()
    hidden = ~groups.observed[rows]
    assert hidden.any() and not hidden.all() and (groups.item[rows] == -1).any()
    for name in ("stars", "count"):
        expected = np.where(hidden, 0, groups.values[name][rows])
        assert batch.values[name][present].tolist() == expected.tolist()
    assert batch.observed[present].tolist() == groups.observed[rows].tolist()
    assert batch.target[present].tolist() == (groups.role[rows] == TARGET).tolist()
    assert batch.weight[present].tolist() == weight[rows].tolist()
    assert batch.weight.dtype == torch.float32
    assert batch.attributes["genre"].dtype == torch.int64
    assert batch.attributes["place"].shape == (3, 4, 2)
    assert batch.group_attributes["age"].shape == (3, 1)
    assert batch.group_attributes["sex"].tolist() == [1, 1, 0]
    assert batch.n_targets == int((groups.role[rows] == TARGET).sum())
    # Padding is zero and absent.
    columns = [batch.target, batch.observed, batch.item, batch.position, batch.weight]
    columns += [*batch.values.values(), *batch.attributes.values()]
    for column in columns:
        assert not column[~present].any()
    # A batch shares no memory with the columns, and moves with all its tensors.
    batch.item[:] = 77
    assert 77 not in groups.item
    moved = batch.to("meta")
    tensors = [moved.item, moved.present, moved.target, moved.weight, *moved.values.values()]
    assert all(tensor.device.type == "meta" for tensor in tensors)


def test_a_batch_of_empty_groups_has_a_length():
    assert full_groups().pad([1]).present.tolist() == [[False]]
    batch = Groups(start=[0], stop=[0], item=[], observed=[], role=[], values={"y": []}).pad([0])
    assert batch.item.tolist() == [[0]] and batch.values["y"].tolist() == [[0.0]]


def test_positions_count_from_zero_or_are_the_columns_own():
    lengths = [2, 3]
    counted = Groups(**bounds(lengths)).pad([1, 0]).position
    assert counted.tolist() == [[0, 1, 2], [0, 1, 0]] and counted.dtype == torch.int64
    whole = Groups(**bounds(lengths), position=[5, 6, 7, 8, 9]).pad([0]).position
    assert whole.tolist() == [[5, 6]] and whole.dtype == torch.int64
    sites = np.arange(10.0).reshape(5, 2)
    space = Groups(**bounds(lengths), position=sites).pad([1]).position
    assert space.tolist() == [sites[2:].tolist()] and space.dtype == torch.float64


def test_context_comes_first_and_is_no_target():
    lengths = [2, 3, 1]
    groups = Groups(
        **bounds(lengths),
        item=np.arange(6),
        context_start=[[0, 0], [0, 0], [0, 2]],
        context_stop=[[0, 0], [0, 2], [2, 5]],
    )
    batch = groups.pad([2, 1])
    assert batch.item.tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 0]]
    assert batch.target.tolist() == [[False] * 5 + [True], [False] * 2 + [True] * 3 + [False]]
    assert batch.present.sum(dim=1).tolist() == groups.lengths[[2, 1]].tolist() == [6, 5]
    assert batch.observed.equal(batch.present)
    assert batch.position.tolist() == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 0]]


EMPTY = np.zeros((1, 0), dtype=int)


@pytest.mark.parametrize(
    "columns, match",
    [
        ({"start": [0], "stop": [1, 2]}, "`stop` must have one row for each of 1 groups, got 2"),
        ({"start": [0.5], "stop": [1]}, "`start` must hold integers, got dtype float64"),
        ({"start": [[0]], "stop": [[1]]}, r"`start` must have 1 dimension.*got shape \(1, 1\)"),
        ({"item": [0, 1]}, r"`start` and `stop` .* <= 2.*got 0 and 3 at group 0"),
        ({"start": [3], "stop": [2]}, "got 3 and 2 at group 0"),
        ({"start": [-1]}, "0 <= start <= stop, got -1 and 3 at group 0"),
        ({"item": ["a", "b", "c"]}, "`item` must hold integers"),
        ({"item": [0, -2, 1]}, r"`item` must be a code >= 0 \(-1: unknown\), got -2 at 1"),
        ({"item": [0, 5, 1], "vocabulary": {"item": ["a", "b"]}}, "`item` must be a code >= 0 and"),
        ({"item": [0, 1, 2**40]}, "`item` must fit into int32, got 1099511627776"),
        ({"item": [0, 1, 2], "values": {"stars": [1.0]}}, r'`values\["stars"\]` must have one row'),
        ({"values": {"stars": ["a", "b", "c"]}}, r'`values\["stars"\]` must hold numbers'),
        ({"attributes": {"genre": np.zeros((3, 2, 2))}}, r'`attributes\["genre"\]` must have 1 or'),
        ({"group_attributes": {"age": [1.0, 2.0]}}, r'`group_attributes\["age"\]` .* 1 groups'),
        ({"observed": [0, 1, 1]}, "`observed` must hold booleans, got dtype int64"),
        ({"role": [0, 1, 2]}, r"`role` must be 0 \(target\) or 1 \(context\), got 2"),
        ({"vocabulary": {"item": [["a"]]}}, r'`vocabulary\["item"\]` must have 1 dimension'),
        ({"context_start": [[0]]}, "`context_start` and `context_stop` must be given together"),
        ({"context_start": EMPTY, "context_stop": [[0]]}, "`context_start` must have at least one"),
        ({"context_start": [[0, 0]], "context_stop": [[1]]}, "`context_stop` must have the shape"),
        (
            {"item": [0, 1, 2], "context_start": [[2]], "context_stop": [[4]]},
            "`context_start` and `context_stop` .* got 2 and 4 at group 0",
        ),
        ({"item": [0, 1, 2], "attributes": {"item": [0, 1, 2]}}, "`attributes` must have names of"),
    ],
)
def test_columns_must_agree(columns, match):
    with pytest.raises(DataError, match=match):
        Groups(**({"start": [0], "stop": [3]} | columns))


def test_arrays_of_the_right_dtype_are_not_copied_and_new_ones_checked():
    item, value = np.arange(3, dtype=np.int32), np.ones(3)
    groups = Groups(start=[0], stop=[3], item=item, values={"y": value})
    assert groups.item is item and groups.values["y"] is value
    with pytest.raises(DataError, match="`item` must hold integers"):
        groups.with_(item=np.zeros(3))


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
