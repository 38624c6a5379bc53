"""Groups: ragged columns in flat contiguous arrays with offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, no_type_check

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int8, Int32, Int64

from exfam.columns.parts import FrameColumns, Names
from exfam.groups.flat import (
    GROUP_FIELDS,
    checked_fields,
    pad_ranges,
)

if TYPE_CHECKING:
    from exfam.groups.batch import Batch

TARGET = 0
CONTEXT = 1

Index = int | np.integer | slice | Sequence[int] | np.ndarray


# Lists and narrower dtypes are turned into these fields' arrays, and `checked_fields` judges them.
@no_type_check
@dataclass(frozen=True, eq=False, repr=False)
class Groups:
    """Observations that come in groups: baskets, histories, table rows, days.

    Own elements of group g are rows `start[g]:stop[g]` of every flat column; all columns are
    optional. Indexing by int, slice, bool or int array gives Groups over the same flat columns
    (nothing is copied); `len` counts groups. Codes of -1 stand for labels the vocabulary does not
    know. `values` may be not `observed`: then they are neither predicted nor seen, and so are those
    that are NaN beside others that an element has. `context_start`
    and `context_stop` name further ranges of the flat columns that a group sees and does not
    predict (lags, windows). `ignored` counts elements dropped as unknown, by group. `ordered` says
    whether the order of elements within a group means something; otherwise groups are sets.
    `tied` elements are at the same point of the order as the one before them: where no `position`
    is given, they share its position.
    Raises DataError naming the column that disagrees with the others.

    >>> groups = Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1])
    >>> groups
    Groups(2 groups, 5 elements, 3 items)
    >>> groups[1].n_elements
    3
    """

    start: Int64[np.ndarray, "groups"]
    stop: Int64[np.ndarray, "groups"]
    item: Int32[np.ndarray, "elements"] | None = None
    values: dict[str, np.ndarray] = field(default_factory=dict)
    attributes: dict[str, np.ndarray] = field(default_factory=dict)
    group_attributes: dict[str, np.ndarray] = field(default_factory=dict)
    position: np.ndarray | None = None
    observed: Bool[np.ndarray, "elements"] | None = None
    role: Int8[np.ndarray, "elements"] | None = None
    source_row: Int64[np.ndarray, "elements"] | None = None
    context_start: Int64[np.ndarray, "groups ranges"] | None = None
    context_stop: Int64[np.ndarray, "groups ranges"] | None = None
    vocabulary: dict[str, np.ndarray] = field(default_factory=dict)
    group_names: np.ndarray | None = None
    ignored: Int64[np.ndarray, "groups"] | None = None
    ordered: bool = False
    tied: Bool[np.ndarray, "elements"] | None = None

    def __post_init__(self) -> None:
        self.__dict__.update(checked_fields(self.__dict__))

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        counts = [f"{len(self)} groups", f"{self.n_elements} elements"]
        if self.item is not None:
            counts.append(f"{self.n_items} items")
        names = [name for name in self.columns if name != "item"]
        return f"Groups({', '.join(counts + names)})"

    def __getitem__(self, index: Index) -> "Groups":
        chosen = self._positions(index)
        changes: dict[str, Any] = {
            name: array[chosen]
            for name in GROUP_FIELDS
            if (array := getattr(self, name)) is not None
        }
        changes["group_attributes"] = {
            name: array[chosen] for name, array in self.group_attributes.items()
        }
        return unchecked(self.__dict__ | changes)

    def _positions(self, index: Index) -> slice | np.ndarray:
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # scikit-learn's cross-validation indexes with [rows, ...]
        if isinstance(index, slice):
            return index
        chosen = np.asarray(index)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.dtype.kind not in "iub" or chosen.ndim > 1:
            raise IndexError(f"`index` must be an int, slice, bool or int array, got {index!r}.")
        if chosen.dtype == bool and chosen.shape != self.start.shape:
            raise IndexError(f"`index` must have {len(self)} bools, got shape {chosen.shape}.")
        is_numbers = chosen.dtype != bool and chosen.size
        if is_numbers and not (chosen.min() >= -len(self) and chosen.max() < len(self)):
            raise IndexError(f"`index` must be below {len(self)} groups, got {index!r}.")
        return np.atleast_1d(chosen)

    @property
    def shape(self) -> tuple[int]:
        """The number of groups, where scikit-learn's cross-validation looks for it."""
        return (len(self),)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns held: item, values, attributes, group attributes."""
        item = () if self.item is None else ("item",)
        return (*item, *self.values, *self.attributes, *self.group_attributes)

    @property
    def n_items(self) -> int:
        """Size of the item vocabulary; without one, the largest code + 1 (0 without items)."""
        if "item" in self.vocabulary:
            return len(self.vocabulary["item"])
        return 0 if self.item is None else int(self.item.max(initial=-1)) + 1

    @property
    def n_rows(self) -> int:
        """Rows of the flat columns, whether this view shows them or not."""
        flat = [self.item, *self.values.values(), *self.attributes.values()]
        flat += [self.position, self.observed, self.role, self.source_row, self.tied]
        held = (len(column) for column in flat if column is not None)
        return next(held, int(self.stop.max(initial=0)))

    @property
    def n_elements(self) -> int:
        """How many own elements the groups of this view have."""
        return int((self.stop - self.start).sum())

    @property
    def n_targets(self) -> int:
        """How many own elements are to be predicted."""
        if self.role is None:
            return self.n_elements
        return sum(int((self.role[chunk.elements()] == TARGET).sum()) for chunk in self.chunks())

    def has_value(
        self, column: str, rows: slice | Int64[np.ndarray, "rows"]
    ) -> Bool[np.ndarray, "rows"]:
        """Which elements, by rows of the flat columns, have a value of that column."""
        has = ~np.isnan(self.values[column][rows].astype(np.float64, copy=False))
        return has if self.observed is None else has & self.observed[rows]

    @property
    def lengths(self) -> Int64[np.ndarray, "groups"]:
        """Elements that each group sees: its own and those of its context ranges."""
        own = self.stop - self.start
        if self.context_start is None or self.context_stop is None:
            return own
        return own + (self.context_stop - self.context_start).sum(axis=1)

    def elements(self) -> Int64[np.ndarray, "own"]:
        """Flat indices of the own elements of this view, group after group.

        >>> Groups(start=[0, 2], stop=[2, 5])[[1, 0]].elements()
        array([2, 3, 4, 0, 1])
        """
        own = self.stop - self.start
        first = np.cumsum(own) - own
        return np.repeat(self.start - first, own) + np.arange(own.sum())

    def with_(self, **changes: Any) -> "Groups":
        """The same groups with some fields replaced, checked anew."""
        return replace(self, **changes)

    def pad(
        self,
        index: Int64[np.ndarray, "batch"] | Sequence[int],
        *,
        weight: Float[np.ndarray, "elements"] | None = None,
    ) -> "Batch":
        """The groups at `index` side by side; `weight` is one number an element of the columns.

        >>> groups = Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1])
        >>> groups.pad([1, 0]).item
        tensor([[2, 0, 1],
                [0, 1, 0]])
        """
        import torch

        from exfam.groups.batch import (
            Batch,
            as_attributes,
            pad_column,
            pad_position,
            pad_values,
        )

        index = np.atleast_1d(np.asarray(index, dtype=np.int64))
        context = (self.context_start, self.context_stop)
        ranges = [None if bound is None else bound[index] for bound in context]
        element, steps_back = pad_ranges(self.start[index], self.stop[index], *ranges)
        present = element >= 0
        target = present & (steps_back == 0)
        values, observed, missing = pad_values(self.values, element, self.observed)
        if self.role is not None and self.role.size:
            target = target & (self.role[element] == TARGET)
        return Batch(
            item=None if self.item is None else pad_column(self.item, element, np.int64),
            values=values,
            attributes=as_attributes(self.attributes, element),
            group_attributes=as_attributes(self.group_attributes, index),
            position=pad_position(self.position, element, tied=self.tied),
            present=torch.from_numpy(present),
            target=torch.from_numpy(target),
            observed=observed,
            missing=missing,
            element=torch.from_numpy(element),
            steps_back=torch.from_numpy(steps_back),
            weight=None if weight is None else pad_column(weight, element, np.float32),
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        group: str,
        order: Names = None,
        item: str | None = None,
        value: Names = None,
        attributes: Names = (),
        group_attributes: Names = (),
        position: Names = None,
        vocabulary: Mapping[str, Any] | None = None,
        unknown: str = "error",
        date_format: str | None = None,
        missing: Any = None,
    ) -> "Groups":
        """The rows of a pandas or polars frame, an Arrow table or a mapping of columns.

        Groups come in the order of their first rows. Elements are sorted by `order` (those of equal
        order are `tied`), where text counts as the numbers, dates or numbered names that it writes;
        other text has no order and is refused. Without `order` groups are sets; order="rows" says
        that the order of the rows means something. Columns keep their names. Text and booleans
        among the attributes become codes, numbers stay numbers; labels are coded in sorted order
        unless `vocabulary` has an entry (items under "item"). Of several values an element may lack
        some.

        `unknown`: what to do with labels that a given vocabulary lacks: "error"; "ignore" drops
            elements of unknown items and counts them in `ignored`; "unk" gives them code -1.
            Attributes get -1 under both (default "error")
        `date_format`: how text of `order` and `position` writes dates: "iso" or a format of
            `datetime.strptime` such as "%d/%m/%Y"; None for the one that all of a column fits
            (default None)
        `missing`: numbers and texts that stand for a missing value or attribute, beside None and
            NaN (default None)

        Raises DataError, or UnknownItemError, naming column and row.

        >>> frame = {"user": ["b", "a", "b"], "movie": ["x", "x", "y"], "stars": [4, None, 2]}
        >>> Groups.from_frame(frame, group="user", item="movie", value="stars")
        Groups(2 groups, 3 elements, 2 items, stars)
        """
        from exfam.columns.dialect import Dialect
        from exfam.groups.frames import read_frame

        columns = FrameColumns(group, order, item, value, attributes, group_attributes, position)
        dialect = Dialect(date_format=date_format, missing=missing)
        return read_frame(frame, columns, vocabulary=vocabulary, unknown=unknown, dialect=dialect)

    def to_frame(self, kind: str = "pandas") -> Any:
        """One row an own element, labels written out: a pandas, polars or arrow frame.

        Raises DataError where a value or attribute is called as a column of the frame's own, and
        ExfamError for a kind that is not installed.
        """
        from exfam.groups.frames import to_frame

        return to_frame(self, kind)

    def to_arrow(self) -> pa.Table:
        """One row a group, element columns as lists; `from_arrow` gives the same groups back.

        Elements that only context ranges show are in one more row at the end; the vocabulary is in
        the schema's metadata.
        """
        from exfam.groups.frames import to_arrow

        return to_arrow(self)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> "Groups":
        """The groups that `to_arrow` wrote. Raises DataError for any other table."""
        from exfam.groups.frames import from_arrow

        return from_arrow(table)

    @classmethod
    def concatenate(cls, parts: Sequence["Groups"]) -> "Groups":
        """One Groups with the groups of all parts, in order, over columns of its own.

        Raises DataError unless the parts have the same columns and vocabularies. Where only some
        say what is observed or what a role is, the others count as observed and as targets. The
        result is `ordered` if all parts are.
        """
        from exfam.groups.arrange import concatenate

        return concatenate(parts)

    def compact(self) -> "Groups":
        """The same groups over columns of their own: own elements first, in order, without gaps.

        Elements of context ranges follow them, each once.

        >>> Groups(start=[0, 2], stop=[2, 5], item=[0, 1, 2, 0, 1])[1:].compact().item
        array([2, 0, 1], dtype=int32)
        """
        from exfam.groups.arrange import compact

        return compact(self)

    def chunks(self, max_elements: int | None = None) -> "Iterator[Groups]":
        """Consecutive views that see at most `max_elements` elements each (or have one group).

        `max_elements`: 2 ** 20 if None (default None)
        """
        from exfam.groups.arrange import chunks

        return chunks(self, max_elements)

    def split(self, fractions: Sequence[float], seed: int) -> "tuple[Groups, ...]":
        """Disjoint random parts, by group, each in the original order.

        `fractions` are positive and sum to 1; sizes are rounded so that they add up.
        """
        from exfam.groups.arrange import split

        return split(self, fractions, seed=seed)

    def repeats_items(self) -> bool:
        """Whether any group sees an item twice (unknown items aside)."""
        return self.first_repeat() is not None

    def first_repeat(self) -> tuple[int, int, Int64[np.ndarray, "occurrences"]] | None:
        """The first group that sees an item twice: group, item code, rows of the flat columns.

        Elements of context ranges count, unknown items do not. None where no item repeats.
        """
        from exfam.groups.arrange import first_repeat

        return first_repeat(self)


def unchecked(fields: Mapping[str, Any]) -> Groups:
    """Groups of columns that were checked before, without a look at them; of all fields."""
    groups = object.__new__(Groups)
    groups.__dict__.update(fields)
    return groups
