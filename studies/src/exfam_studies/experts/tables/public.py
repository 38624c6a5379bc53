"""Public tables whose rows to report on are of another kind than those to fit on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from jaxtyping import Bool, Shaped
from pyarrow import csv

from exfam.checks import check_choice
from exfam.reading.public_sets.published import PublicFiles, read_file

SOURCE = PublicFiles(
    "tables",
    how_to_get="All are of the UCI Machine Learning Repository, https://archive.ics.uci.edu: put "
    "bike_day.csv and bike_hour.csv (day.csv and hour.csv of Bike Sharing), wine_quality.csv (red, "
    "then white, their semicolons made commas, after a first column `colour`), auto-mpg.csv "
    "(commas and a header), adult.data and adult.test into FOLDER/tabular, "
    "and set EXFAM_DATA=FOLDER.",
    md5={
        "tabular/bike_day.csv": "fc9dd35812a1ee180fe17e6ef72a4121",
        "tabular/bike_hour.csv": "095da5f944aa7f02773251cd52ed8b1d",
        "tabular/wine_quality.csv": "bba98cd6c36e0624f5336ce4bf0cc497",
        "tabular/auto-mpg.csv": "a84bbe082e411f11506702f33932566b",
        "tabular/adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
        "tabular/adult.test": "35238206dfdf7f1fe215bbb874adecdc",
    },
)

Columns = Mapping[str, Shaped[np.ndarray, "rows"]]
_TYPES = {"categorical": np.int64, "ordinal": np.int64, "boolean": np.bool_, "numeric": np.float64}

# Of bike sharing; `instant` and `dteday` number the rows, `casual` and `registered` sum to the
# target, `yr` is what the parts differ by.
BIKE_KINDS = {
    "season": "categorical", "mnth": "categorical", "hr": "categorical", "holiday": "boolean",
    "weekday": "categorical", "workingday": "boolean", "weathersit": "ordinal", "temp": "numeric",
    "atemp": "numeric", "hum": "numeric", "windspeed": "numeric",
}  # fmt: skip
# All columns of the census in the order of its file. `fnlwgt` is a weight of the survey,
# `education` is another name of `education_num`, and `income` is predicted.
ADULT_KINDS = {
    "age": "numeric", "workclass": "categorical", "fnlwgt": "", "education": "",
    "education_num": "ordinal", "marital_status": "categorical", "occupation": "categorical",
    "relationship": "categorical", "race": "categorical", "sex": "categorical",
    "capital_gain": "numeric", "capital_loss": "numeric", "hours_per_week": "numeric",
    "native_country": "categorical", "income": "",
}  # fmt: skip
WHITE_COLLAR = ("Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support")
# What the census is split by -> its column, and the labels that train.
ADULT_SPLITS = {
    "occupation": ("occupation", WHITE_COLLAR),
    "country": ("native_country", ("United-States",)),
}
CYLINDERS = (4, 6, 8)
BINNED = ("displacement", "horsepower", "weight", "acceleration", "model year", "mpg")


@dataclass(frozen=True, eq=False)
class TableShift:
    """Named columns of rows to fit on and of rows of another kind, with what is to be predicted.

    `kinds`: of each column: categorical, ordinal, boolean or numeric. Missing labels are None
    `task`: "classification", "ordinal" (y in the order of its labels) or "regression"
    `levels`: labels in order of those columns, and of "y", that are known beforehand
    """

    train: Mapping[str, Shaped[np.ndarray, "train"]]
    train_y: Shaped[np.ndarray, "train"]
    test: Mapping[str, Shaped[np.ndarray, "test"]]
    test_y: Shaped[np.ndarray, "test"]
    kinds: Mapping[str, str]
    task: str
    levels: Mapping[str, Sequence[int | str]] = field(default_factory=dict)


def bike_sharing(every: str = "day") -> TableShift:
    """Bikes hired in 2011, then 2012: `cnt` of a "day" or an "hour", by season, day and weather."""
    check_choice("every", every, ["day", "hour"])
    rows = read_columns(f"tabular/bike_{every}.csv")
    kinds = {name: kind for name, kind in BIKE_KINDS.items() if name in rows}
    columns: dict[str, np.ndarray] = {
        name: rows[name].astype(_TYPES[kind]) for name, kind in kinds.items()
    }
    y = rows["cnt"].astype(np.float64)
    return _split(columns, y, rows["yr"] == 0, rows["yr"] == 1, kinds=kinds, task="regression")


def wine_quality() -> TableShift:
    """Grades of red, then of white Portuguese wines by 11 measurements; no red wine has a 9."""
    rows = read_columns("tabular/wine_quality.csv")
    columns = {
        name: column.astype(np.float64)
        for name, column in rows.items()
        if name not in ("colour", "quality")
    }
    y, red = rows["quality"].astype(np.int64), rows["colour"] == "red"
    kinds, levels = dict.fromkeys(columns, "numeric"), {"y": tuple(range(3, 10))}
    return _split(columns, y, red, ~red, kinds=kinds, task="ordinal", levels=levels)


def auto_mpg(bins: str = "pooled") -> TableShift:
    """Terciles of miles per gallon of American cars, then of European and Japanese ones.

    Six columns of three levels predict. `bins`: whether terciles are those of all rows, as in the
    paper's code ("pooled"), or of the rows to fit on ("train").
    """
    check_choice("bins", bins, ["pooled", "train"])
    rows = read_columns("tabular/auto-mpg.csv")
    kept = (rows["horsepower"] != "?") & np.isin(rows["cylinders"], CYLINDERS)
    rows = {name: column[kept] for name, column in rows.items()}
    american = rows["origin"] == 1
    known = american if bins == "train" else np.ones_like(american)
    columns: dict[str, np.ndarray] = {"cylinders": rows["cylinders"].astype(np.int64)}
    for name in BINNED:
        values = rows[name].astype(np.float64)
        # An edge itself falls below it.
        edges = np.quantile(values[known], [1 / 3, 2 / 3])
        columns[name] = np.searchsorted(edges, values).astype(np.int64)
    y = columns.pop("mpg")
    levels = {**dict.fromkeys([*columns, "y"], (0, 1, 2)), "cylinders": CYLINDERS}
    kinds = dict.fromkeys(columns, "ordinal")
    return _split(columns, y, american, ~american, kinds=kinds, task="ordinal", levels=levels)


def adult(by: str = "occupation") -> TableShift:
    """Whether an income is above 50,000 dollars, by a census; both files together.

    `by`: "occupation": white-collar ones train; "country": those born in the United States do
    """
    check_choice("by", by, ADULT_SPLITS)
    column, labels = ADULT_SPLITS[by]
    rows = adult_rows()
    known = np.array([label is not None for label in rows[column]])
    inside = np.isin(rows[column].astype(str), labels)
    kinds = {name: kind for name, kind in ADULT_KINDS.items() if kind and name != column}
    return _split(
        {name: rows[name] for name in kinds}, rows["income"], known & inside, known & ~inside,
        kinds=kinds, task="classification", levels={"y": ("<=50K", ">50K")},
    )  # fmt: skip


def adult_rows() -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns of both files of the census."""
    files = [read_file(SOURCE, f"tabular/adult.{part}").decode() for part in ("data", "test")]
    cells = [line.rstrip(".").split(", ") for file in files for line in file.splitlines()]
    # Each file has a line or two that is no row.
    whole = np.array([row for row in cells if len(row) == len(ADULT_KINDS)], dtype=object)
    whole[whole == "?"] = None
    types = {"numeric": np.float64, "ordinal": np.int64}
    return {
        name: column.astype(types[kind]) if kind in types else column
        for (name, kind), column in zip(ADULT_KINDS.items(), whole.T, strict=True)
    }


def read_columns(name: str) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns of a file of comma-separated values."""
    rows = csv.read_csv(BytesIO(read_file(SOURCE, name)))
    return {column: rows[column].to_numpy() for column in rows.column_names}


def _split(
    columns: Columns,
    y: Shaped[np.ndarray, "rows"],
    train: Bool[np.ndarray, "rows"],
    test: Bool[np.ndarray, "rows"],
    *,
    kinds: Mapping[str, str],
    task: str,
    levels: Mapping[str, Sequence[int | str]] | None = None,
) -> TableShift:
    parts = [{name: column[own] for name, column in columns.items()} for own in (train, test)]
    return TableShift(parts[0], y[train], parts[1], y[test], kinds, task, levels or {})
