"""Sites as estimators of communities read them: covariates, species, coordinates, effort."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from exfam.checks import DataError
from exfam.columns.dialect import BY_LOOKING, Dialect
from exfam.tables.data.frames import RawColumn, RawTable, cell_error, has_names, read_table
from exfam.tables.data.table_files import read_marked, table_of, warn_of_suspects

FAMILIES = ("presence", "count", "hurdle", "cover")
# What is covered wholly, or hardly: the density of a beta has no such values.
LEAST_COVER, MOST_COVER = 1e-4, 1 - 1e-3

Values = Float[np.ndarray, "sites species"]


@dataclass(frozen=True, eq=False)
class SpeciesTable:
    """Values of species at sites, NaN where they are not known."""

    names: tuple[str, ...]
    value: Values

    @property
    def there(self) -> Bool[np.ndarray, "sites species"]:
        return ~np.isnan(self.value)


def read_sites(
    X: Any, Y: Any, *, species: Sequence[str], dialect: Dialect = BY_LOOKING
) -> tuple[RawTable, SpeciesTable]:
    """Columns of `X` without species, and the species: of `Y`, or the named columns of `X`."""
    table = read_marked(table_of(X, dialect), dialect)
    warn_of_suspects(table.columns, dialect)
    if Y is not None:
        given = read_species(Y)
        _check_rows("Y", len(given.value), table.n_rows)
        if both := [name for name in given.names if name in table.columns]:
            raise DataError(
                f"`X` must not have a column that `Y` has, got {both[0]!r} in both. Rename it."
            )
        return table, given
    if not species:
        raise DataError(
            "`Y` must be a table of species, got None. Pass one, or name the species among the "
            "columns of `X` by the parameter `species`."
        )
    for name in species:
        if name not in table.columns:
            near = difflib.get_close_matches(name, table.columns, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " Name columns of `X`."
            raise DataError(f"`species` must name columns of `X`, got {name!r}.{hint}")
    return without(table, species), as_species({name: table.columns[name] for name in species})


def without(table: RawTable, names: Sequence[str]) -> RawTable:
    """The table without some columns."""
    kept = {name: column for name, column in table.columns.items() if name not in set(names)}
    return RawTable(kept, table.n_rows)


def read_species(Y: Any) -> SpeciesTable:
    """A table of numbers; columns of an array are "y0", "y1", …"""
    table = read_table(Y)
    columns = dict(table.columns)
    if not has_names(Y):
        columns = {f"y{k}": column for k, column in enumerate(columns.values())}
    return as_species(columns)


def as_species(columns: dict[str, RawColumn]) -> SpeciesTable:
    """Columns as numbers. Raises DataError for text, or numbers below 0."""
    values = []
    for name, column in columns.items():
        advice = "Give 0 and 1, counts or shares of cover."
        number = _numbers(name, column, "hold numbers, as a species", advice)
        if (number < 0).any():
            advice = "Give 0 and 1, counts or shares of cover; leave cells empty where unknown."
            raise cell_error(name, "be 0 or more", column, number < 0, advice=advice)
        values.append(number)
    return SpeciesTable(tuple(columns), np.stack(values, axis=1))


def _numbers(name: str, column: RawColumn, rule: str, advice: str) -> Float[np.ndarray, "sites"]:
    """A column of numbers, NaN where missing. Raises DataError for others."""
    if column.is_empty:
        return np.full(len(column), np.nan)
    if column.type not in ("number", "boolean"):
        raise cell_error(name, rule, column, ~column.missing, advice=advice)
    return np.where(column.missing, np.nan, column.values.astype(np.float64))


def match_known(known: SpeciesTable, names: Sequence[str], n_rows: int) -> Values:
    """Values of all species in the order of the fit, NaN for those that are not given."""
    _check_rows("known", len(known.value), n_rows)
    index = {name: k for k, name in enumerate(names)}
    value = np.full((n_rows, len(names)), np.nan)
    for k, name in enumerate(known.names):
        if name not in index:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " Leave it out."
            raise DataError(f"`known` must have species of the fit, got {name!r}.{hint}")
        value[:, index[name]] = known.value[:, k]
    return value


def read_effort(table: RawTable, name: str | None) -> Float[np.ndarray, "sites 1"]:
    """The log of the effort at each site; of 1 where it is missing."""
    if name is None or name not in table.columns:
        return np.zeros((table.n_rows, 1))
    column = table.columns[name]
    effort = _numbers(name, column, "hold numbers", "Give the effort at each site.")
    effort = np.where(column.missing, 1.0, effort)
    if (effort <= 0).any():
        advice = "A site without effort has no species to learn from: leave it out."
        raise cell_error(name, "be above 0", column, effort <= 0, advice=advice)
    return np.log(effort)[:, None]


def read_blocks(
    table: RawTable, name: str, *, random: np.random.Generator
) -> Int64[np.ndarray, "sites"]:
    """The number of each site's block: of numbers in their order, of labels in a random one."""
    if name not in table.columns:
        raise DataError(f"`blocks` must name a column of `X`, got {name!r}.")
    column = table.columns[name]
    if column.missing.any():
        raise cell_error(
            name, "have a value at each site", column, column.missing, advice="Fill it in."
        )
    _, code = np.unique(column.values, return_inverse=True)
    code = code.ravel().astype(np.int64)
    if code.max() == 0:
        raise DataError(f"`blocks` must name a column of at least two values, got {name!r} of one.")
    if column.labels is not None or column.category:
        code = random.permutation(int(code.max()) + 1)[code]
    return code


def read_points(table: RawTable, names: Sequence[str]) -> Float[np.ndarray, "sites dims"]:
    """Coordinates, NaN where one is missing."""
    columns = []
    for name in names:
        column = table.columns.get(name)
        if column is None:
            columns.append(np.full(table.n_rows, np.nan))
            continue
        if column.type == "text" and not column.is_empty:
            raise cell_error(
                name, "hold numbers", column, ~column.missing, advice="Give coordinates."
            )
        if column.type == "date":
            value = column.values.astype("datetime64[s]").astype(np.float64) / 86_400
        else:
            value = column.values.astype(np.float64)
        columns.append(np.where(column.missing, np.nan, value))
    return np.stack(columns, axis=1)


def family_of(table: SpeciesTable, wanted: str) -> str:
    """The family that values suit: "presence", "count" or "cover". Raises DataError for others."""
    value, there = table.value, table.there
    if not there.any():
        raise DataError("`Y` must hold a value of some species at some site, got none.")
    values = value[there]
    whole = bool((values == np.round(values)).all())
    if wanted == "presence" or (wanted == "auto" and whole and values.max() <= 1):
        return "presence"
    if wanted in ("count", "hurdle") or (wanted == "auto" and whole):
        _check_all(table, value != np.round(value), "be whole numbers", "or family='presence'")
        return wanted
    _check_all(table, value > 1, "be shares of cover, from 0 to 1", "Divide percents by 100")
    return "cover"


def _check_all(table: SpeciesTable, wrong: np.ndarray, rule: str, advice: str) -> None:
    wrong = wrong & table.there
    if wrong.any():
        row, k = np.argwhere(wrong)[0]
        raise DataError(
            f"Species {table.names[k]!r} must {rule}, got {table.value[row, k]:g} at row {row} "
            f"({wrong.sum()} of {wrong.size} cells). {advice}."
        )


def _check_rows(argument: str, got: int, expected: int) -> None:
    if got != expected:
        raise DataError(f"`{argument}` must have a row for each of `X`, {expected}, got {got}.")
