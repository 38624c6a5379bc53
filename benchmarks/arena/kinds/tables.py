"""Tables: a label or a number of a row from its other cells, of which tasks hide some."""

from functools import partial

import numpy as np
import pandas as pd
from benchmarks.arena.contenders.tabular import boosters, constant, ours
from benchmarks.arena.kind import Kind, Source
from benchmarks.arena.tabular.data import TableData
from benchmarks.arena.tabular.judge import judging
from benchmarks.arena.tabular.read import Table, split_table, suite_table


def suite(name: str) -> TableData:
    return split_table(suite_table(name))


def simulated(*, response: str = "labels", n_rows: int = 240) -> TableData:
    """A response of two numbers and a text, and a number that says nothing: for tests."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n_rows, 3))
    color = random.choice(["blue", "green", "red"], size=n_rows)
    z = x[:, 0] + x[:, 1] * (color == "red") + 0.3 * random.normal(size=n_rows)
    cells = {"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "color": color}
    frame = pd.DataFrame(cells).mask(random.random((n_rows, 4)) < 0.05)
    if response == "numbers":
        y: np.ndarray = np.exp(z)
    else:
        levels = np.digitize(z, [-0.5, 0.7])
        y = levels if response == "ordered" else np.array(["low", "middle", "high"])[levels]
    return split_table(Table(frame.assign(y=y), "y", response != "numbers"))


REFERENCE = ours.REFERENCE
CONTENDERS = {**ours.CONTENDERS, **constant.CONTENDERS, **boosters.CONTENDERS}

KIND = Kind(
    name="tables",
    judging=judging(CONTENDERS[REFERENCE].label),
    sources={
        "heart_c": Source(read=partial(suite, "heart_c")),
        "concrete": Source(read=partial(suite, "concrete")),
        "simulated_tables": Source(read=simulated, full=True, remark="for tests"),
    },
    contenders=CONTENDERS,
    reference=REFERENCE,
)
