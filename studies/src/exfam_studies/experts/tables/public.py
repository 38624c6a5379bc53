"""Public tables whose rows to report on are of another kind than those to fit on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Shaped
from pyarrow import csv

from exfam.checks import check_choice
from exfam.reading.public_sets.files import Source, read_file

DAILY, HOURLY, WINE = (f"tabular/{name}.csv" for name in ("bike_day", "bike_hour", "wine_quality"))
SOURCE = Source(
    "tables",
    how_to_get="All are of the UCI Machine Learning Repository, https://archive.ics.uci.edu: put "
    "bike_day.csv and bike_hour.csv (day.csv and hour.csv of Bike Sharing), wine_quality.csv (red, "
    "then white, their semicolons made commas, after a first column `colour`), auto-mpg.csv "
    "(commas and a header), adult.data and adult.test into FOLDER/tabular, "
    "and set EXFAM_DATA=FOLDER.",
    md5={
        DAILY: "fc9dd35812a1ee180fe17e6ef72a4121",
        HOURLY: "095da5f944aa7f02773251cd52ed8b1d",
        WINE: "bba98cd6c36e0624f5336ce4bf0cc497",
        "tabular/auto-mpg.csv": "a84bbe082e411f11506702f33932566b",
        "tabular/adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
        "tabular/adult.test": "35238206dfdf7f1fe215bbb874adecdc",
    },
)

Columns = Mapping[str, Shaped[np.ndarray, "rows"]]

# Of bike sharing, in the order of its files; `instant` and `dteday` number the rows, `casual` and
# `registered` sum to the target, `yr` is what the parts differ by.
BIKE_KINDS = {
    "season": "categorical", "mnth": "categorical", "hr": "categorical", "holiday": "boolean",
    "weekday": "categorical", "workingday": "boolean", "weathersit": "ordinal", "temp": "numeric",
    "atemp": "numeric", "hum": "numeric", "windspeed": "numeric",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TableShift:
    """Named columns of rows to fit on and of rows of another kind, with what is to be predicted.

    `kinds`: of each column: categorical, ordinal, boolean or numeric. What is missing is None in
        columns of labels
    `task`: "classification", "ordinal" (y in the order of its labels) or "regression"
    `levels`: labels in order of those finite columns, and of "y", whose labels are known beforehand
    `shift`: which rows train, and which are reported on, in words
    """

    name: str
    train: Mapping[str, Shaped[np.ndarray, "train"]]
    train_y: Shaped[np.ndarray, "train"]
    test: Mapping[str, Shaped[np.ndarray, "test"]]
    test_y: Shaped[np.ndarray, "test"]
    kinds: Mapping[str, str]
    task: str
    shift: str
    levels: Mapping[str, Sequence[int | str]] = field(default_factory=dict)


def bike_sharing(every: str = "day") -> TableShift:
    """Bikes hired in 2011 and 2012: `cnt` of a day, or of an hour, by season, day and weather.

    `every`: "day" (365 and 366 rows) or "hour" (8,645 and 8,734 rows) (default "day")

    Raises ExfamError for another `every`; DataError if the file cannot be had or is another.
    """
    check_choice("every", every, ["day", "hour"])
    rows = read_columns(DAILY if every == "day" else HOURLY)
    kinds = {name: kind for name, kind in BIKE_KINDS.items() if name in rows}
    columns: Columns = {name: rows[name].astype(_TYPES[kind]) for name, kind in kinds.items()}
    train, test = part_table(columns, [rows["yr"] == 0, rows["yr"] == 1])
    y = rows["cnt"].astype(np.float64)
    return TableShift(
        name=f"bike-{every}",
        train=train,
        train_y=y[rows["yr"] == 0],
        test=test,
        test_y=y[rows["yr"] == 1],
        kinds=kinds,
        task="regression",
        shift="2011 to 2012",
    )


def wine_quality() -> TableShift:
    """Quality of Portuguese wines (3 to 9) by 11 measurements: 1,599 red ones, 4,898 white ones.

    No red wine has quality 9, five white ones have.
    Raises DataError if the file cannot be had or is another.
    """
    rows = read_columns(WINE)
    names = [name for name in rows if name not in ("colour", "quality")]
    red = rows["colour"] == "red"
    train, test = part_table({name: rows[name].astype(np.float64) for name in names}, [red, ~red])
    y = rows["quality"].astype(np.int64)
    return TableShift(
        name="wine",
        train=train,
        train_y=y[red],
        test=test,
        test_y=y[~red],
        kinds=dict.fromkeys(names, "numeric"),
        task="ordinal",
        shift="red to white",
        levels={"y": tuple(range(3, 10))},
    )


def read_columns(name: str) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns of a file of comma-separated values."""
    rows: pa.Table = csv.read_csv(BytesIO(read_file(SOURCE, name)))
    return {each: rows[each].to_numpy() for each in rows.column_names}


def part_table(
    columns: Columns, parts: Sequence[Bool[np.ndarray, "rows"]]
) -> list[dict[str, Shaped[np.ndarray, "part"]]]:
    """The columns of each part of the rows.

    >>> part_table({"a": np.array([1, 2, 3])}, [np.array([True, False, True])])
    [{'a': array([1, 3])}]
    """
    return [{name: column[part] for name, column in columns.items()} for part in parts]


_TYPES = {"categorical": np.int64, "ordinal": np.int64, "boolean": np.bool_, "numeric": np.float64}
