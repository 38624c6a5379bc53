"""Tables of the tabular folder: cars, bikes, wines and incomes."""

from io import BytesIO, StringIO
from typing import Any

import pandas as pd
from benchmarks.arena.tabular.data import TableData
from benchmarks.arena.tabular.read import (
    MOST_TEST,
    MOST_TRAIN,
    Table,
    as_table_data,
    drawn_rows,
    split_table,
)

from exfam.reading.public_sets.published import read_file
from exfam_studies.experts.tables.data import ADULT_KINDS, SOURCE
from exfam_studies.experts.tables.data import auto_mpg as auto_mpg_bins


def _frame(name: str, **options: Any) -> pd.DataFrame:
    return pd.read_csv(BytesIO(read_file(SOURCE, f"tabular/{name}")), **options)


def auto_mpg() -> TableData:
    """Miles per gallon of all cars."""
    frame = _frame("auto-mpg.csv", na_values="?").drop(columns="car name")
    return split_table(Table(frame, "mpg", labels=False))


def auto_mpg_by_origin() -> TableData:
    """The paper's task: three bins of American cars, then of European and Japanese ones."""
    shift = auto_mpg_bins()
    parts = [
        pd.DataFrame({**cells, "mpg": y})
        for cells, y in ((shift.train, shift.train_y), (shift.test, shift.test_y))
    ]
    return as_table_data(*parts, Table(parts[0], "mpg", labels=True))


def bikes(
    every: str, *, by_year: bool = False, most: tuple[int, int] | None = (MOST_TRAIN, MOST_TEST)
) -> TableData:
    """Bikes hired in a "day" or an "hour", without the date and the two parts of their sum."""
    frame = _frame(f"bike_{every}.csv")
    frame = frame.drop(columns=["instant", "dteday", "casual", "registered"])
    table = Table(frame, "cnt", labels=False)
    if not by_year:
        return split_table(table, most=most)
    return split_table(table, test=lambda rows: rows.yr == 1, drop=["yr"], most=most, in_order=True)


def wine(
    *, by_color: bool = False, distinct: bool = False, n_train: int | None = None
) -> TableData:
    """Grades of wines by eleven measurements and, unless split by it, their color.

    `distinct`: of wines with equal rows the first alone
    """
    frame = _frame("wine_quality.csv")
    table = Table(frame.drop_duplicates() if distinct else frame, "quality", labels=True)
    if not by_color:
        return split_table(table, n_train=n_train)
    return split_table(table, test=lambda rows: rows.colour == "white", drop=["colour"])


def adult(*, most: tuple[int, int] | None = (MOST_TRAIN, MOST_TEST)) -> TableData:
    """Incomes above 50,000 dollars, without the survey's weight and the name of the education."""
    parts = []
    for name in ("adult.data", "adult.test"):
        text = read_file(SOURCE, f"tabular/{name}").decode()
        lines = [line.rstrip(".") for line in text.splitlines() if line.count(",") > 5]
        frame = pd.read_csv(
            StringIO("\n".join(lines)),
            names=list(ADULT_KINDS),
            skipinitialspace=True,
            na_values="?",
        )
        parts.append(frame.drop(columns=["fnlwgt", "education"]))
    if most is not None:
        parts = [drawn_rows(part, limit) for part, limit in zip(parts, most, strict=True)]
    return as_table_data(*parts, Table(parts[0], "income", labels=True))
