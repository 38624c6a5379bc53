import numpy as np
import pytest
import torch

from exfam.checks import DataError
from exfam.groups import TARGET, Groups
from group_cases import bounds, full_groups, seen

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
