"""The family of each column of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from exfam.checks import ExfamError, support_error
from exfam.families import (
    Categorical,
    Family,
    Gaussian,
    Histogram,
    NegativeBinomial,
    Ordinal,
    PerItem,
    choose_family,
)
from exfam.tables.data import Column, TableSchema
from exfam.tables.estimator.plan import Response

_NO_NUMBERS = (Categorical, Ordinal, PerItem)


def column_families(
    schema: TableSchema, response: Response | None, given: Mapping[str, Any] | None = None
) -> tuple[Family, ...]:
    """The family of each column: of labels Categorical, of counts NegativeBinomial, of numbers
    Gaussian or, in bins, Histogram; the `given` one, or the response's own, if there is one.

    Numbers that were all equal in training have a Gaussian of standard deviation 1 around them, or
    bins of mean width 1: the least spread that fits them would be none.
    Raises ExfamError for given families of unknown columns, of labels or bins, or of labels.
    """
    by_name = _given_families(schema, given or {}, response)
    if response is not None and response.family is not None:
        by_name[response.name] = response.family
    return tuple(by_name.get(column.name) or _family(column) for column in schema.columns)


def _family(column: Column) -> Family:
    if column.labels is not None:
        return Categorical(len(column.labels))
    assert column.knots is not None
    if column.kind == "count":
        return NegativeBinomial()
    if column.binned:
        edges = tuple(column.knots.tolist())
        return Histogram(edges, tails=(column.scale,) * 2 if len(edges) == 1 else None)
    return Gaussian(scale=1.0) if len(column.knots) == 1 else Gaussian()


def check_label_families(schema: TableSchema, families: Sequence[Family]) -> None:
    """Raise ValueError unless each column of labels has a family of their codes, 0, 1, …."""
    for column, family in zip(schema.columns, families, strict=True):
        if column.labels is None:
            continue
        codes = tuple(range(len(column.labels)))
        if not isinstance(family, Categorical | Ordinal) or family.categories != codes:
            raise ValueError(
                f"the family of {column.name!r} must be of {len(column.labels)} labels from 0 on, "
                f"got {family!r}"
            )


def _given_families(
    schema: TableSchema, given: Mapping[str, Any], response: Response | None
) -> dict[str, Family]:
    others = [name for name in schema.names if response is None or name != response.name]
    for name in given:
        if name not in others:
            raise ExfamError(
                f"`families` must name columns of the table, got {name!r}, none of "
                f"{', '.join(map(repr, others))}."
            )
        column = schema.column(name)
        if column.labels is not None or column.binned:
            kind = "binned" if column.binned else column.kind
            raise ExfamError(
                f"`families` must name columns of continuous numbers or counts, got {name!r}, "
                f"which is {kind}. Leave it out, or declare another kind in `kinds`."
            )
    return {name: number_family(family, argument="families") for name, family in given.items()}


def number_family(given: Any, *, argument: str) -> Family:
    """A family of one number, from an instance or a name.

    Raises ExfamError for a family of labels or of items, naming the argument.
    """
    family = choose_family(given)
    if isinstance(family, _NO_NUMBERS):
        raise ExfamError(
            f"`{argument}` must be a family of one number, got {family}. Labels are declared in "
            "`kinds`, or predicted by MaskedTableClassifier."
        )
    return family


def check_support(name: str, family: Family, value: Float64[np.ndarray, "rows"]) -> None:
    """Raise SupportError, naming the row, for a value that the family cannot produce."""
    rows = np.flatnonzero(~np.isnan(value))
    wrong = ~family.in_support(torch.from_numpy(value[rows])).numpy()
    if wrong.any():
        first = rows[wrong][0]
        raise support_error(
            name,
            value[first],
            support=family.support,
            row=int(first),
            counts=(int(wrong.sum()), len(value)),
            hint=family.hint,
        )
