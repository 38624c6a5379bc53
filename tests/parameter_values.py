"""Values that a parameter may be given by mistake, of every kind there is."""

import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "one": lambda: 1,
    "tiny": lambda: 1e-300,
    "huge": lambda: 10**30,
    "too long to print": lambda: 10**5000,
    "true": lambda: True,
    "numpy true": lambda: np.True_,
    "numpy integer": lambda: np.int64(2),
    "complex": lambda: 1j,
    "word": lambda: "x",
    "auto": lambda: "auto",
    "no letter": lambda: "",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"x",
    "empty list": lambda: [],
    "list": lambda: ["x"],
    "nested list": lambda: ["x", ["y"]],
    "mapping": lambda: {"x": 1},
    "set": lambda: {"x"},
    "array": lambda: np.array([1.0, 2.0]),
    "array of texts": lambda: np.array(["x", "y"]),
    "series": lambda: pd.Series([1, 2]),
    "missing": lambda: pd.NA,
    "time": lambda: datetime.datetime(2020, 1, 1),
    "object": object,
    "function": lambda: lambda: None,
    "generator": lambda: (letter for letter in "xy"),
}
