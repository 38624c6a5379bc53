"""Groups with one more element, a blank to be predicted: at the end, or in every gap."""

import numpy as np
from jaxtyping import Bool, Int64

from exfam.estimator.schema import AttributeSpec, Schema
from exfam.groups import CONTEXT, TARGET, Groups
from exfam.groups.arrange import group_of_elements, take, with_rows


def append_blank(groups: Groups, schema: Schema) -> Groups:
    """Groups with one blank element at the end of each: its item unknown, its values unobserved.

    The blank is the only target. Attributes that are `known` repeat those of the element before it;
    others, and those of a set, are unknown or average. The position goes on by the group's last
    step (a typical one after a single element); without positions it is the next, or the last
    one's if that one is `tied`. Elements of
    groups that are not `ordered` are sorted by a position that is one number.
    """
    return insert_blank(groups, schema, at=groups.stop - groups.start)


def insert_blank(groups: Groups, schema: Schema, *, at: Int64[np.ndarray, "groups"]) -> Groups:
    """As `append_blank`, with the blank before element `at` of each group, or at its end.

    Between two elements its position is the middle of theirs; it is `tied` to both if they are.
    """
    flat = _by_position(groups.compact())
    lengths = flat.stop - flat.start
    stop = np.cumsum(lengths + 1)
    blank = stop - lengths - 1 + at
    source, given = _sources(flat, blank, at)
    return with_rows(
        flat,
        source,
        start=stop - lengths - 1,
        stop=stop,
        item=None if flat.item is None else np.where(given, take(flat.item, source), -1),
        attributes=_next_attributes(flat, source, blank, schema),
        observed=given if flat.observed is None else given & take(flat.observed, source),
        position=_positions(flat, source, blank, at, schema),
        tied=None if flat.tied is None else _tied(flat, flat.tied, source, blank, at),
        role=np.where(given, CONTEXT, TARGET).astype(np.int8),
        source_row=None,
        context_start=None if flat.context_start is None else flat.context_start + len(flat),
        context_stop=None if flat.context_stop is None else flat.context_stop + len(flat),
    )


def gaps_of(
    groups: Groups, *, most: int
) -> tuple[Int64[np.ndarray, "gaps"], Int64[np.ndarray, "gaps"]]:
    """Where another element could be: of each gap its group, and the element that it is before.

    Of groups with more than `most` gaps so many, evenly spread, the first and the last among them.
    """
    lengths = groups.stop - groups.start
    count = np.minimum(lengths + 1, most)
    group = np.repeat(np.arange(len(groups)), count)
    nth = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
    at = np.rint(nth * lengths[group] / np.maximum(count[group] - 1, 1)).astype(np.int64)
    return group, at


def _by_position(flat: Groups) -> Groups:
    """Sets in the order of their positions, which no order of rows has a say in."""
    if flat.ordered or flat.position is None or flat.position.ndim > 1:
        return flat
    n_own = int((flat.stop - flat.start).sum())
    group = group_of_elements(flat)
    rows = np.arange(flat.n_rows)
    rows[:n_own] = np.lexsort((flat.position[:n_own], group))
    return with_rows(flat, rows)


def _sources(
    flat: Groups, blank: Int64[np.ndarray, "groups"], at: Int64[np.ndarray, "groups"]
) -> tuple[Int64[np.ndarray, "rows"], Bool[np.ndarray, "rows"]]:
    """The row that each row repeats, a blank the one before it; and which are no blanks."""
    lengths = flat.stop - flat.start
    n_own = int(lengths.sum())
    own = np.ones(n_own + len(flat), dtype=bool)
    own[blank] = False
    source = np.zeros(len(own), dtype=np.int64)
    source[own] = np.arange(n_own)
    source[blank] = np.where(lengths > 0, flat.start + np.maximum(at - 1, 0), 0)
    # Rows of context ranges follow the groups' own, blanks among them, as before.
    further = np.arange(n_own, flat.n_rows)
    return np.append(source, further), np.append(own, np.ones(len(further), dtype=bool))


def _next_attributes(
    flat: Groups, source: np.ndarray, blank: np.ndarray, schema: Schema
) -> dict[str, np.ndarray]:
    attributes = {name: take(column, source) for name, column in flat.attributes.items()}
    is_set = not flat.ordered and (flat.position is None or flat.position.ndim > 1)
    without = blank if is_set else blank[flat.stop == flat.start]
    for spec in schema.attributes:
        if not spec.of_group:
            rows = without if spec.known else blank
            kind = np.int64 if spec.n is not None else np.float64
            column, typical = attributes[spec.name].astype(kind), typical_rows(spec, len(rows))
            column[rows] = typical[:, 0] if typical.ndim > column.ndim else typical
            attributes[spec.name] = column
    return attributes


def typical_rows(spec: AttributeSpec, n: int) -> np.ndarray:
    """Rows of an unknown category, or of average numbers."""
    return np.full(n, -1) if spec.n is not None else np.tile(np.array(spec.center), (n, 1))


def _tied(
    flat: Groups, tied: np.ndarray, source: np.ndarray, blank: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """Blanks are tied within a run; before the first or after the last element if it is tied."""
    with_blank = take(tied, source)
    lengths = flat.stop - flat.start
    neighbor = flat.start + np.clip(at, 1, np.maximum(lengths - 1, 1))
    is_tied = lengths > 1
    is_tied[is_tied] = tied[neighbor[is_tied]]
    with_blank[blank] = is_tied & (at > 0)
    # A blank before the first element is itself the one that others are tied to.
    with_blank[blank[is_tied & (at == 0)] + 1] = True
    return with_blank


def _positions(
    flat: Groups, source: np.ndarray, blank: np.ndarray, at: np.ndarray, schema: Schema
) -> np.ndarray | None:
    if flat.position is None:
        return None
    position = take(flat.position, source)
    if position.dtype.kind == "u":
        position = position.astype(np.int64)
    lengths, before = flat.stop - flat.start, source[blank]
    last = before + 1 >= flat.stop
    # At the ends the step goes on that leads to the group's last, or away from its first element.
    other = np.where(last, np.maximum(before - 1, flat.start), before + 1)
    step = position[blank] - take(flat.position, other).astype(position.dtype)
    first = (at == 0) & (lengths > 0)
    half = -step // 2 if _is_whole(step) else -step / 2
    step = np.where(_like(first | last, step), step, half)
    if step.ndim == 1:
        alone = np.where(at == 0, -schema.position_scale, schema.position_scale)
        step = np.where(lengths > 1, step, alone).astype(position.dtype)
        step[lengths == 0] = 0
    else:
        step[lengths < 2] = 0
    new = np.where(_like(lengths, step) > 0, position[blank], 0) + step
    if _is_whole(new):
        # Encodings of whole numbers have a row for each from 0.
        new = np.where(_like(first, new), np.maximum(new, np.minimum(position[blank], 0)), new)
    position[blank] = new
    return position


def _is_whole(numbers: np.ndarray) -> bool:
    return numbers.dtype.kind in "iu"


def _like(column: np.ndarray, other: np.ndarray) -> np.ndarray:
    return column.reshape(-1, *[1] * (other.ndim - 1))
