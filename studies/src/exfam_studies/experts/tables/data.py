"""Public and simulated tables whose rows to report on are of another kind, and their features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO

import numpy as np
from jaxtyping import Bool, Float, Shaped
from pyarrow import csv

from exfam.checks import ExfamError, check_choice
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


# Kinds whose values have an order enter as one number, these as a label each.
UNORDERED = "categorical"
# Shares of cells that are dropped.
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7)
# Of longer tables each row comes once where cells are dropped in training.
_FEW_ROWS = 5000

CodedPart = tuple[np.ndarray, np.ndarray]


def coded_table(train: CodedPart, test: CodedPart, *, n_levels: int) -> TableShift:
    """A table of columns x0, x1, … and y, all codes from 0 to n_levels - 1 in order."""
    names = [f"x{number}" for number in range(train[0].shape[1])]
    return TableShift(
        train=dict(zip(names, train[0].T, strict=True)),
        train_y=train[1],
        test=dict(zip(names, test[0].T, strict=True)),
        test_y=test[1],
        kinds=dict.fromkeys(names, "ordinal"),
        task="ordinal",
        levels=dict.fromkeys([*names, "y"], range(n_levels)),
    )


def missing_cells(column: Shaped[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    """Which cells are NaN or None."""
    if column.dtype != object:
        return np.asarray(column != column)
    return np.array([cell is None or cell != cell for cell in column], dtype=bool)


@dataclass(frozen=True, eq=False)
class Features:
    """What the rows to fit on say of their columns: labels in order, means and sds of numbers."""

    kinds: Mapping[str, str]
    labels: Mapping[str, list[object]]
    means: Mapping[str, float]
    sds: Mapping[str, float]

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
                parts.append(np.nan_to_num((numbers - self.means[name]) / self.sds[name]))
        return np.concatenate(parts, axis=1)

    def _numbers(self, name: str, column: Shaped[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        numbers = np.full(len(column), np.nan)
        there = ~missing_cells(column)
        if name not in self.labels:
            numbers[there] = column[there].astype(np.float64)
            return numbers
        index = {label: code for code, label in enumerate(self.labels[name])}
        numbers[there] = [index.get(label, np.nan) for label in column[there].tolist()]
        return numbers


def learn_features(table: TableShift) -> Features:
    """What the rows to fit on say of their columns."""
    labels, means, sds = {}, {}, {}
    for name, kind in table.kinds.items():
        cells = table.train[name][~missing_cells(table.train[name])]
        if kind == UNORDERED:
            labels[name] = sorted(set(cells.tolist()))
        else:
            numbers = cells.astype(np.float64)
            means[name], sds[name] = float(numbers.mean()), float(numbers.std()) or 1.0
    return Features(table.kinds, labels, means, sds)


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
    parts = {}
    for index, (name, column) in enumerate(columns.items()):
        floating = column.dtype.kind == "f"
        changed = column.copy() if floating else column.astype(object)
        changed[hidden[:, index]] = np.nan if floating else None
        parts[name] = changed
    return parts


def n_copies(table: TableShift) -> int:
    """How many times each row comes where cells of training rows are dropped."""
    return len(SHARES) if len(table.train_y) <= _FEW_ROWS else 1


def with_dropped(table: TableShift, *, seed: int) -> TableShift:
    """The table with cells of its training rows dropped: each of `n_copies` with another share."""
    copies, turn = n_copies(table), np.arange(len(table.train_y)) % len(SHARES)
    hidden = [
        with_missing(table.train, share=share, by="cell", seed=seed + number)
        for number, share in enumerate(SHARES)
    ]
    columns = {}
    for name in table.train:
        by_share = np.stack([part[name].astype(object) for part in hidden])
        rows = [
            by_share[(turn + copy) % len(SHARES), np.arange(len(turn))] for copy in range(copies)
        ]
        whole = np.concatenate(rows)
        columns[name] = whole.astype(np.float64) if table.kinds[name] == "numeric" else whole
    return replace(table, train=columns, train_y=np.tile(table.train_y, copies))


BINS = ("pooled", "train")
N_FEATURES, N_FLIPPED, N_LEVELS = 5, 2, 10
NOISE_OF_CAUSES, NOISE_OF_OTHERS, NOISE_OF_Y = 0.4, 0.3, 2.0
LARGEST_COEFFICIENT = 10.0

# Columns, with y after them, of the training and of the test table.
Numbers = list[Float[np.ndarray, "rows columns"]]


def simulate_numbers(
    *, n_informative: int, noise: float, corr: float, n_rows: int = 2000, seed: int
) -> Numbers:
    """Columns correlated by `corr` in training and by 1 - `corr` in test, and y after them.

    The first `n_informative` generate y, with coefficients uniform on (0, 10) and noise of sd 2.
    They are observed with noise of sd 0.4 `noise`, the others with 0.3 `noise`. The first two
    columns change their sign in both tables. Raises ExfamError for an argument out of range.
    Source: appendix D of "Bidirectional attention as a mixture of continuous word experts".
    """
    if not 1 <= n_informative <= N_FEATURES:
        raise ExfamError(
            f"`n_informative` must be from 1 to {N_FEATURES}, the number of columns, "
            f"got {n_informative}."
        )
    if not 0 < corr < 1:
        raise ExfamError(f"`corr` must be above 0 and below 1, got {corr!r}.")
    random = np.random.default_rng(seed)
    true = []
    for own in (corr, 1 - corr):
        covariance = np.full((N_FEATURES, N_FEATURES), own) + (1 - own) * np.eye(N_FEATURES)
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
    known = np.concatenate(numbers) if bins == "pooled" else numbers[0]
    edges = np.quantile(known, np.arange(1, n_levels) / n_levels, axis=0)
    codes = [
        np.stack([np.searchsorted(*pair) for pair in zip(edges.T, part.T, strict=True)], axis=1)
        for part in numbers
    ]
    train, test = ((part[:, :-1], part[:, -1]) for part in codes)
    return coded_table(train, test, n_levels=n_levels)
