"""Public and simulated tables whose rows to report on are of another kind, and their features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64, Shaped
from pyarrow import csv

from exfam.checks import check_choice, check_inside
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

    @property
    def y_levels(self) -> list[Any]:
        """The levels of y in order: those fixed beforehand, else those of the training rows."""
        return list(self.levels.get("y", np.unique(self.train_y)))

    @property
    def y_numbers(self) -> Float[np.ndarray, "train"]:
        """The training rows' y as a number to regress on: its code, where it has levels."""
        y = self.train_y if self.task == "regression" else self.y_codes(self.train_y)
        return y.astype(np.float64)

    def y_codes(self, y: Shaped[np.ndarray, "rows"]) -> Int64[np.ndarray, "rows"]:
        """The index of each value among the levels."""
        index = {level: code for code, level in enumerate(self.y_levels)}
        return np.array([index[value] for value in y.tolist()], dtype=np.int64)

    def parted(self, train: np.ndarray, test: np.ndarray) -> "TableShift":
        """The table of these training and test rows alone, by index or by True and False."""
        return replace(
            self,
            train={name: column[train] for name, column in self.train.items()},
            train_y=self.train_y[train],
            test={name: column[test] for name, column in self.test.items()},
            test_y=self.test_y[test],
        )


def bike_sharing(every: str = "day") -> TableShift:
    """Bikes hired in 2011, then 2012: `cnt` of a "day" or an "hour", by season, day and weather."""
    check_choice("every", every, ["day", "hour"])
    rows = read_columns(f"tabular/bike_{every}.csv")
    kinds = {name: kind for name, kind in BIKE_KINDS.items() if name in rows}
    columns: dict[str, np.ndarray] = {
        name: rows[name].astype(_TYPES[kind]) for name, kind in kinds.items()
    }
    y = rows["cnt"].astype(np.float64)
    whole = TableShift(columns, y, columns, y, kinds, "regression")
    return whole.parted(rows["yr"] == 0, rows["yr"] == 1)


def wine_quality() -> TableShift:
    """Grades of red, then of white Portuguese wines by 11 measurements; no red wine has a 9."""
    rows = read_columns("tabular/wine_quality.csv")
    y, red = rows.pop("quality").astype(np.int64), rows.pop("colour") == "red"
    columns = {name: column.astype(np.float64) for name, column in rows.items()}
    kinds, levels = dict.fromkeys(columns, "numeric"), {"y": tuple(range(11))}
    return TableShift(columns, y, columns, y, kinds, "ordinal", levels).parted(red, ~red)


def auto_mpg(bins: str = "pooled") -> TableShift:
    """Terciles of miles per gallon of American cars, then of European and Japanese ones.

    Six columns of three levels predict. `bins`: whether terciles are those of all rows, as in the
    paper's code ("pooled"), or of the rows to fit on ("train").
    """
    check_choice("bins", bins, ["pooled", "train"])
    rows = read_columns("tabular/auto-mpg.csv")
    kept = (rows["horsepower"] != "?") & np.isin(rows["cylinders"], CYLINDERS)
    train = rows["origin"][kept] == 1
    known = train if bins == "train" else np.ones_like(train)
    columns = {"cylinders": np.searchsorted(CYLINDERS, rows["cylinders"][kept])}
    for name in BINNED:
        columns[name] = quantile_codes(rows[name][kept].astype(np.float64), known, n_levels=3)
    y = columns.pop("mpg")
    return coded_table(columns, y, train, n_levels=3)


def adult(by: str = "occupation") -> TableShift:
    """Whether an income is above 50,000 dollars, by a census; both files together.

    `by`: "occupation": white-collar ones train; "country": those born in the United States do
    """
    check_choice("by", by, ADULT_SPLITS)
    column, labels = ADULT_SPLITS[by]
    files = [read_file(SOURCE, f"tabular/adult.{part}").decode() for part in ("data", "test")]
    cells = [line.rstrip(".").split(", ") for file in files for line in file.splitlines()]
    # Each file has a line or two that is no row.
    table = np.array([row for row in cells if len(row) == len(ADULT_KINDS)], dtype=object)
    table[table == "?"] = None
    rows = dict(zip(ADULT_KINDS, table.T, strict=True))
    known, inside = ~missing_cells(rows[column]), np.isin(rows[column].astype(str), labels)
    kinds = {name: kind for name, kind in ADULT_KINDS.items() if kind and name != column}
    columns = {
        name: rows[name] if kind == "categorical" else rows[name].astype(_TYPES[kind])
        for name, kind in kinds.items()
    }
    y, levels = rows["income"], {"y": ("<=50K", ">50K")}
    whole = TableShift(columns, y, columns, y, kinds, "classification", levels)
    return whole.parted(known & inside, known & ~inside)


def read_columns(name: str) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns of a file of comma-separated values."""
    rows = csv.read_csv(BytesIO(read_file(SOURCE, name)))
    return {column: rows[column].to_numpy() for column in rows.column_names}


# Kinds whose values have an order enter as one number, these as a label each.
UNORDERED = "categorical"
# Shares of cells that are dropped.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
# Of longer tables each row comes once where cells are dropped in training.
_FEW_ROWS = 5000


def quantile_codes(
    values: Float[np.ndarray, "rows"], known: Bool[np.ndarray, "rows"], *, n_levels: int
) -> Int64[np.ndarray, "rows"]:
    """Bins of equally many of the known rows, from 0; what is at an edge is below it."""
    edges = np.quantile(values[known], np.arange(1, n_levels) / n_levels)
    return np.searchsorted(edges, values)


def coded_table(
    columns: Columns,
    y: Int64[np.ndarray, "rows"],
    train: Bool[np.ndarray, "rows"],
    *,
    n_levels: int,
) -> TableShift:
    """A table of columns and y that are codes from 0 to n_levels - 1 in order."""
    kinds = dict.fromkeys(columns, "ordinal")
    levels = dict.fromkeys([*columns, "y"], tuple(range(n_levels)))
    return TableShift(columns, y, columns, y, kinds, "ordinal", levels).parted(train, ~train)


def missing_cells(column: Shaped[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    """Which cells are NaN or None."""
    return np.asarray((column != column) | np.equal(column, np.array(None)), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class Features:
    """What the rows to fit on say of their columns: labels in order, means and sds of numbers."""

    kinds: Mapping[str, str]
    labels: Mapping[str, list[object]]
    scales: Mapping[str, tuple[float, float]]

    @property
    def unordered(self) -> list[int]:
        """Indices of the columns whose numbers are names only."""
        return [index for index, kind in enumerate(self.kinds.values()) if kind == UNORDERED]

    def codes(self, columns: Columns) -> Float[np.ndarray, "rows columns"]:
        """A number for each cell, codes of labels; NaN for what is missing or was never seen."""
        return np.stack([self._numbers(name, columns[name]) for name in self.kinds], axis=1)

    def design(self, columns: Columns) -> Float[np.ndarray, "rows features"]:
        """Standardized numbers, and a column of 0 and 1 for each label; 0 for what is missing."""
        parts = []
        for name in self.kinds:
            numbers = self._numbers(name, columns[name])[:, None]
            if name in self.labels:
                parts.append((numbers == np.arange(len(self.labels[name]))).astype(np.float64))
            else:
                mean, sd = self.scales[name]
                parts.append(np.nan_to_num((numbers - mean) / sd))
        return np.concatenate(parts, axis=1)

    def _numbers(self, name: str, column: Shaped[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        if name not in self.labels:
            return np.where(missing_cells(column), np.nan, column).astype(np.float64)
        index = {label: code for code, label in enumerate(self.labels[name])}
        return np.array([index.get(cell, np.nan) for cell in column.tolist()], dtype=np.float64)


def learn_features(table: TableShift) -> Features:
    """What the rows to fit on say of their columns."""
    labels, scales = {}, {}
    for name, kind in table.kinds.items():
        cells = table.train[name][~missing_cells(table.train[name])]
        if kind == UNORDERED:
            labels[name] = sorted(set(cells.tolist()))
        else:
            numbers = cells.astype(np.float64)
            scales[name] = float(numbers.mean()), float(numbers.std()) or 1.0
    return Features(table.kinds, labels, scales)


def with_missing(
    columns: Columns, *, share: float, by: str, seed: int
) -> dict[str, Shaped[np.ndarray, "rows"]]:
    """The columns with a share of cells, or of whole columns (`by`), missing at random."""
    check_choice("by", by, ["cell", "column"])
    random = np.random.default_rng(seed)
    n_rows = len(next(iter(columns.values())))
    if by == "column":
        chosen = random.permutation(len(columns)) < round(share * len(columns))
        hidden = np.broadcast_to(chosen, (n_rows, len(columns)))
    else:
        hidden = random.random((n_rows, len(columns))) < share
    return {
        name: np.where(gone, np.array(np.nan if column.dtype.kind == "f" else None), column)
        for (name, column), gone in zip(columns.items(), hidden.T, strict=True)
    }


def with_dropped(table: TableShift, *, seed: int) -> TableShift:
    """The table with cells of its training rows dropped: every copy of a row with another share."""
    n_rows = len(table.train_y)
    copies = len(SHARES) if n_rows <= _FEW_ROWS else 1
    copy, row = np.divmod(np.arange(copies * n_rows), n_rows)
    hidden = [
        with_missing(table.train, share=share, by="cell", seed=seed + number)
        for number, share in enumerate(SHARES)
    ]
    columns = {}
    for name, kind in table.kinds.items():
        by_share = np.stack([part[name].astype(object) for part in hidden])
        whole = by_share[(row + copy) % len(SHARES), row]
        columns[name] = whole.astype(np.float64) if kind == "numeric" else whole
    return replace(table, train=columns, train_y=table.train_y[row])


BINS = ("pooled", "train")
N_FEATURES, N_FLIPPED, N_LEVELS = 5, 2, 10
NOISE_OF_CAUSES, NOISE_OF_OTHERS, NOISE_OF_Y = 0.4, 0.3, 2.0
LARGEST_COEFFICIENT = 10.0


def simulate_numbers(
    *, n_informative: int, noise: float, corr: float, n_rows: int = 2000, seed: int
) -> list[Float[np.ndarray, "rows columns"]]:
    """Columns correlated by `corr` in training and by 1 - `corr` in test, and y after them.

    The first `n_informative` generate y, with coefficients uniform on (0, 10) and noise of sd 2.
    They are observed with noise of sd 0.4 `noise`, the others with 0.3 `noise`. The first two
    columns change their sign in both tables. Raises ExfamError for an argument out of range.
    Source: appendix D of "Bidirectional attention as a mixture of continuous word experts".
    """
    check_choice("n_informative", n_informative, range(1, N_FEATURES + 1))
    check_inside("corr", corr)
    random = np.random.default_rng(seed)
    true = []
    for own in (corr, 1 - corr):
        covariance = own + (1 - own) * np.eye(N_FEATURES)
        drawn = random.standard_normal((n_rows, N_FEATURES)) @ np.linalg.cholesky(covariance).T
        drawn[:, :N_FLIPPED] *= -1
        true.append(drawn)
    sd = np.where(np.arange(N_FEATURES) < n_informative, NOISE_OF_CAUSES, NOISE_OF_OTHERS)
    seen = [x + noise * sd * random.standard_normal(x.shape) for x in true]
    coefficients = random.uniform(0, LARGEST_COEFFICIENT, n_informative)
    y = [
        x[:, :n_informative] @ coefficients + NOISE_OF_Y * random.standard_normal(n_rows)
        for x in true
    ]
    return [np.column_stack(part) for part in zip(seen, y, strict=True)]


def simulate_shifted_tables(
    *,
    n_informative: int,
    noise: float,
    corr: float,
    bins: str = "pooled",
    n_levels: int = N_LEVELS,
    n_rows: int = 2000,
    seed: int,
) -> TableShift:
    """`simulate_numbers` as codes, by quantiles of both tables or of the training rows alone."""
    check_choice("bins", bins, BINS)
    numbers = simulate_numbers(
        n_informative=n_informative, noise=noise, corr=corr, n_rows=n_rows, seed=seed
    )
    train = np.arange(2 * n_rows) < n_rows
    known = train if bins == "train" else np.ones_like(train)
    *x, y = (quantile_codes(cells, known, n_levels=n_levels) for cells in np.concatenate(numbers).T)
    columns = {f"x{number}": codes for number, codes in enumerate(x)}
    return coded_table(columns, y, train, n_levels=n_levels)
