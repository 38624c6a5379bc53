"""What a model must know of the data to be built: sizes, scales and starting values, as plain JSON.

A schema is taken from the training groups and saved with the model, so that a loaded model is built
exactly as it was fitted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exfam.checks import ExfamError, support_error, with_types
from exfam.families import (
    Family,
    Scaled,
    family_from_config,
    family_to_config,
    location_and_scale,
    scaled_to,
)
from exfam.groups import Groups
from exfam.groups.batch import LARGEST
from exfam.likelihoods.exposure import Exposure, exposure_of

# Squares of values, such as variances, are numbers below this.
_LARGEST = 1e150
# Rows that stand for all where a statistic needs them at once, such as a median.
MAX_SAMPLE = 1 << 20


@dataclass(frozen=True)
class ValueSpec:
    """A value column: its family, and the outputs that fit it best alone.

    `center` and `spread`: of the values as networks see them, standardized if they are continuous
    """

    column: str
    family: Family
    center: float
    spread: float
    initial_eta: tuple[float, ...]


@dataclass(frozen=True)
class AttributeSpec:
    """An attribute: a category (`n` codes) or numbers (`center` and `spread` of each).

    `known`: whether the model may see it of the very element whose item it predicts.
    """

    name: str
    of_group: bool
    known: bool
    n: int | None = None
    center: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()

    def check(self, groups: Groups) -> None:
        """Raise ExfamError unless the groups have the attribute as it was in training."""
        column = _attribute(groups, self.name, self.of_group)
        width = 1 if column.ndim == 1 else column.shape[1]
        got = "categories" if _is_code(column) else f"{width} number(s) each"
        wanted = "categories" if self.n is not None else f"{len(self.center)} number(s) each"
        if got != wanted:
            raise ExfamError(f"`{self.name}` must be {wanted}, as in training, got {got}.")
        pieces = _pieces(groups, column, self.of_group)
        if self.n is None:
            _check_finite(self.name, pieces)
        elif (highest := _highest(pieces)) >= self.n:
            raise ExfamError(
                f"`{self.name}` must be a code below {self.n}, as in training, got {highest}."
            )


@dataclass(frozen=True)
class Schema:
    """Items, values, attributes and positions of the training data."""

    n_items: int | None
    values: tuple[ValueSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    n_positions: int
    position_scale: float
    exposure: Exposure | None = None

    @property
    def families(self) -> dict[str, Family]:
        """The family of each value column."""
        return {value.column: value.family for value in self.values}

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        config = asdict(self)
        for value, spec in zip(config["values"], self.values, strict=True):
            value["family"] = family_to_config(spec.family)
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Schema":
        """The schema that `to_config` wrote."""
        values = tuple(
            with_types(
                ValueSpec(
                    column=value["column"],
                    family=family_from_config(value["family"]),
                    center=value["center"],
                    spread=value["spread"],
                    initial_eta=tuple(value["initial_eta"]),
                )
            )
            for value in config["values"]
        )
        attributes = tuple(
            with_types(
                AttributeSpec(
                    **{**spec, "center": tuple(spec["center"]), "spread": tuple(spec["spread"])}
                )
            )
            for spec in config["attributes"]
        )
        exposure = config.get("exposure")  # older versions had none
        more = {"exposure": None if exposure is None else with_types(Exposure(**exposure))}
        for value in values:
            if len(value.initial_eta) != value.family.n_params:
                raise ValueError(f"{len(value.initial_eta)} starting values for {value.family}")
        return with_types(cls(**{**config, "values": values, "attributes": attributes, **more}))

    def check(self, groups: Groups) -> None:
        """Raise if groups lack a column that the model uses, or hold what it cannot take."""
        if self.n_items is not None and groups.item is None:
            raise ExfamError("`item` must be given, as it was in training, got groups without.")
        check_in_support(groups, self.families)
        for spec in self.attributes:
            spec.check(groups)
        if self.exposure is not None:
            self.exposure.check(groups)

    @classmethod
    def of(
        cls,
        groups: Groups,
        *,
        families: Mapping[str, Family],
        attributes: Sequence[str] = (),
        known: Sequence[str] = (),
        offset: str | None = None,
    ) -> "Schema":
        """The schema of training groups; `attributes` names those that the model is to use.

        `offset`: the attribute that is the logarithm of an exposure

        Raises ExfamError for a name that the groups do not have, SupportError for a value that
        its family cannot produce.
        """
        check_in_support(groups, families)
        if unused := sorted(set(known) - set(attributes)):
            raise ExfamError(f"`known` must be among `attributes`, got {unused[0]!r}.")
        return cls(
            n_items=None if groups.item is None else groups.n_items,
            values=tuple(_value_spec(groups, name, families[name]) for name in families),
            attributes=tuple(_attribute_spec(groups, name, name in known) for name in attributes),
            n_positions=_n_positions(groups),
            position_scale=_position_scale(groups),
            exposure=None if offset is None else exposure_of(groups, offset, families),
        )


def _observed(groups: Groups, column: str) -> Iterator[np.ndarray]:
    """Flat indices of own elements whose value was observed, chunk by chunk of the groups."""
    if column not in groups.values:
        listed = ", ".join(repr(name) for name in groups.values) or "none"
        raise ExfamError(f"`value` column {column!r} must be in the groups, which have {listed}.")
    for chunk in groups.chunks():
        own = chunk.elements()
        yield own[groups.has_value(column, own)]


def _values(groups: Groups, column: str, own: np.ndarray) -> tuple[Tensor, Tensor | None]:
    """Values of some elements, in float64, and their items."""
    value = torch.as_tensor(np.asarray(groups.values[column][own], dtype=np.float64))
    return value, None if groups.item is None else torch.as_tensor(groups.item[own]).long()


def _sample(groups: Groups, column: str) -> tuple[Tensor, Tensor | None]:
    """Observed values that stand for all, and their items."""
    total = sum(len(own) for own in _observed(groups, column))
    own = sampled(_observed(groups, column), total=total).astype(np.int64)
    return _values(groups, column, own)


def check_in_support(groups: Groups, families: Mapping[str, Family]) -> None:
    """Raise SupportError naming the source row of the first value its family cannot produce."""
    for column, plain in families.items():
        value, item = _sample(groups, column)
        family = scaled_to(plain, value, item=item)
        total, wrong = 0, [np.zeros(0, dtype=np.int64)]
        for own in _observed(groups, column):
            total += len(own)
            wrong.append(_outside(groups, column, family, own))
        outside = np.concatenate(wrong)
        if len(outside):
            values = np.asarray(groups.values[column][outside], dtype=np.float64)
            row = outside[0] if groups.source_row is None else groups.source_row[outside[0]]
            raise support_error(
                column,
                values[0],
                support=family.support,
                row=int(row),
                counts=(len(outside), total),
                hint=_support_hint(family, values),
            )


def _outside(groups: Groups, column: str, family: Family, own: np.ndarray) -> np.ndarray:
    """Which of the elements `own` have a value that the family cannot produce."""
    value, item = _values(groups, column, own)
    # Of counts, models see single precision, in which 1e50 is infinite.
    seen = family.restore(family.standardize(value, item=item).float(), item=item)
    inside = family.in_support(value, item=item) & family.in_support(seen, item=item)
    return own[~(inside & (value.abs() < _LARGEST)).numpy()]


def _support_hint(family: Family, values: np.ndarray) -> str:
    """What to do about values that a family cannot produce."""
    if np.isfinite(values[0]) and abs(values[0]) > np.finfo(np.float32).max:
        return "Scale the column: continuous values may be below 1e150 in size, others below 3e38."
    if family.n_categories and (np.isfinite(values) & (values != np.floor(values))).any():
        return "Code half steps as whole numbers (2 * value, say), or use Gaussian()."
    return family.hint or "Choose another family, or drop such rows."


def _value_spec(groups: Groups, column: str, plain: Family) -> ValueSpec:
    value, item = _sample(groups, column)
    if not len(value):
        raise ExfamError(f"`{column}` must have at least one observed value, got none.")
    family = scaled_to(plain, value, item=item)
    if isinstance(family, Scaled):
        center, spread = location_and_scale(family.network_input(value).numpy())
    else:
        mean, deviation = moments(_inputs(groups, column, family))
        center, spread = float(mean), float(deviation) or 1.0
    initial = tuple(float(x) for x in family.initial_eta(value, item=item))
    return ValueSpec(column, family, center, spread, initial)


def _inputs(groups: Groups, column: str, family: Family) -> Iterator[np.ndarray]:
    for own in _observed(groups, column):
        value, item = _values(groups, column, own)
        yield family.network_input(value, item=item).numpy()


def _attribute(groups: Groups, name: str, of_group: bool) -> np.ndarray:
    """The column of an attribute of the groups or of the elements."""
    held = groups.group_attributes if of_group else groups.attributes
    if name not in held:
        listed = ", ".join(repr(n) for n in [*groups.attributes, *groups.group_attributes])
        raise ExfamError(
            f"`{name}` must be an attribute of the groups, which have {listed or 'none'}."
        )
    return held[name]


def _pieces(groups: Groups, column: np.ndarray, of_group: bool) -> Iterator[np.ndarray]:
    """An attribute of the groups, or of their own elements chunk by chunk."""
    if of_group:
        yield column
        return
    for chunk in groups.chunks():
        yield column[chunk.elements()]


def _is_code(column: np.ndarray) -> bool:
    return column.dtype.kind in "iu" and column.ndim == 1


def _highest(pieces: Iterable[np.ndarray]) -> int:
    """The highest code, -1 if there is none."""
    return max((int(piece.max(initial=-1)) for piece in pieces), default=-1)


def _check_finite(name: str, pieces: Iterable[np.ndarray]) -> None:
    total, wrong = 0, []
    got: list[Any] = []
    for piece in pieces:
        table = piece.reshape(len(piece), -1)
        rows = np.flatnonzero(~np.isfinite(table).all(1))
        wrong += (total + rows).tolist()
        got = got or table[rows[:1]].tolist()
        total += len(piece)
    if wrong:
        raise ExfamError(
            f"`{name}` must be finite, got {got[0]} at element {wrong[0]} ({len(wrong)} of "
            f"{total}). Fill or drop such rows."
        )


def _attribute_spec(groups: Groups, name: str, known: bool) -> AttributeSpec:
    of_group = name in groups.group_attributes
    column = _attribute(groups, name, of_group)
    if _is_code(column):
        labels = groups.vocabulary.get(name)
        pieces = _pieces(groups, column, of_group)
        n = len(labels) if labels is not None else max(_highest(pieces), 0) + 1
        return AttributeSpec(name, of_group, known, n=n)
    _check_finite(name, _pieces(groups, column, of_group))
    width = 1 if column.ndim == 1 else column.shape[1]
    mean, spread = moments(
        np.asarray(piece, dtype=np.float64).clip(-LARGEST, LARGEST).reshape(-1, width)
        for piece in _pieces(groups, column, of_group)
    )
    spread = np.where(spread > 0, spread, 1.0)
    return AttributeSpec(
        name, of_group, known, center=tuple(mean.tolist()), spread=tuple(spread.tolist())
    )


def _n_positions(groups: Groups) -> int:
    """Positions 0 .. n - 1 that may occur, with the one of a next element in each group.

    They are counted in the group unless integers are given, which go on by the group's last step.
    """
    n = int(groups.lengths.max(initial=1)) + 1
    position = groups.position
    if position is None or not np.issubdtype(position.dtype, np.integer) or position.ndim > 1:
        return n
    last = groups.stop[groups.stop - groups.start > 1] - 1
    step = position[last].astype(np.int64) - position[last - 1].astype(np.int64)
    step = max(int(step.max(initial=1)), int(_position_scale(groups)))
    return max(n, int(position.max(initial=0)) + 1 + step)


def _position_scale(groups: Groups) -> float:
    """Typical distance between neighbors in a group: the unit of distance encodings."""
    if groups.position is None:
        return 1.0
    steps = sampled(_steps(groups, groups.position), total=groups.n_elements)
    return float(np.median(steps)) if len(steps) else 1.0


def _steps(groups: Groups, position: np.ndarray) -> Iterator[np.ndarray]:
    """Distances above 0 between neighbors in a group."""
    for chunk in groups.chunks():
        own = chunk.elements()
        points = np.asarray(position[own], dtype=np.float64).reshape(len(own), -1)
        step = np.linalg.norm(np.diff(points, axis=0), axis=1)
        within = np.repeat(np.arange(len(chunk)), chunk.stop - chunk.start)
        yield step[(np.diff(within) == 0) & (step > 0)]


def moments(pieces: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of all rows; of one piece as NumPy has them, to the bit.

    Pieces are merged one by one. Source: Chan, Golub & LeVeque (1983), eq. 2.1.
    """
    n, mean, variance = 0, np.zeros(()), np.zeros(())
    for piece in pieces:
        if not len(piece):
            continue
        own_mean, own_variance = piece.mean(axis=0), piece.var(axis=0)
        total = n + len(piece)
        apart, share = own_mean - mean, len(piece) / total
        within = (n * variance + len(piece) * own_variance) / total
        mean = mean + apart * share if n else own_mean
        variance = within + apart**2 * (n / total) * share if n else own_variance
        n = total
    return np.asarray(mean), np.asarray(np.sqrt(variance))


def sampled(pieces: Iterable[np.ndarray], *, total: int, most: int | None = None) -> np.ndarray:
    """All rows if `total` is at most `most` (2 ** 20 if None), else about as many, drawn alike.

    The same pieces give the same sample.
    """
    draw = np.random.default_rng(0)
    share = (MAX_SAMPLE if most is None else most) / max(total, 1)
    kept = [piece if share >= 1 else piece[draw.random(len(piece)) < share] for piece in pieces]
    return np.concatenate(kept or [np.zeros(0)])
