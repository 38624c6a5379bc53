"""Incomes of the census of 1994 (UCI Adult), parted by occupation or by country of birth."""

import numpy as np
from jaxtyping import Bool, Shaped

from exfam.checks import check_choice
from exfam.reading.public_sets.files import read_file
from exfam_studies.experts.tables.public import SOURCE, TableShift, part_table

FILES = ("tabular/adult.data", "tabular/adult.test")
NAMES = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week",
    "native_country", "income",
)  # fmt: skip
# `fnlwgt` is a weight of the survey; `education` is another name of `education_num`.
KINDS = {
    "age": "numeric", "workclass": "categorical", "education_num": "ordinal",
    "marital_status": "categorical", "occupation": "categorical", "relationship": "categorical",
    "race": "categorical", "sex": "categorical", "capital_gain": "numeric",
    "capital_loss": "numeric", "hours_per_week": "numeric", "native_country": "categorical",
}  # fmt: skip
WHITE_COLLAR = ("Exec-managerial", "Prof-specialty", "Adm-clerical", "Sales", "Tech-support")
# What rows are parted by -> its column, the labels that train, and how the shift is called.
PARTS = {
    "occupation": ("occupation", WHITE_COLLAR, "white-collar to other occupations"),
    "country": ("native_country", ("United-States",), "born in the United States to elsewhere"),
}
INCOMES = ("<=50K", ">50K")


def adult(by: str = "occupation") -> TableShift:
    """Whether an income is above 50,000 dollars, by what a census asks; both files together.

    `by`: "occupation": the occupations of WHITE_COLLAR train, all other known ones are reported
        on; "country": those born in the United States train, those born elsewhere are reported on.
        That column is left out, and so are rows where it is missing (default "occupation")

    Missing labels ("?") are None.
    Raises ExfamError for another `by`; DataError if a file cannot be had or is another.
    """
    check_choice("by", by, PARTS)
    column, labels, shift = PARTS[by]
    rows = _rows()
    known = np.array([label is not None for label in rows[column]])
    inside = np.isin(rows[column].astype(str), labels)
    parts: list[Bool[np.ndarray, "rows"]] = [known & inside, known & ~inside]
    kinds = {name: kind for name, kind in KINDS.items() if name != column}
    train, test = part_table({name: rows[name] for name in kinds}, parts)
    return TableShift(
        name=f"adult-{by}",
        train=train,
        train_y=rows["income"][parts[0]],
        test=test,
        test_y=rows["income"][parts[1]],
        kinds=kinds,
        task="classification",
        shift=shift,
        levels={"y": INCOMES},
    )


def _rows() -> dict[str, Shaped[np.ndarray, "rows"]]:
    lines = [line for name in FILES for line in read_file(SOURCE, name).decode().splitlines()]
    cells = [line.rstrip(".").split(", ") for line in lines]
    # Each file has a line or two that is no row.
    whole = np.array([row for row in cells if len(row) == len(NAMES)], dtype=object)
    whole[whole == "?"] = None
    columns = {name: whole[:, place] for place, name in enumerate(NAMES)}
    for name, kind in KINDS.items():
        if kind != "categorical":
            columns[name] = columns[name].astype(np.float64 if kind == "numeric" else np.int64)
    return columns
