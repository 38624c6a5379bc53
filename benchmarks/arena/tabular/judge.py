"""How contenders of tables are judged: exact nats and errors of test rows, task by task."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from benchmarks.arena.kind import Fitted, Judging, Measure
from benchmarks.arena.tabular.data import COMPLETE, TASKS, TableData, shown
from jaxtyping import Float

# Of the draw of hidden cells at test.
TEST_SEED = 0


def sums(fitted: Fitted, data: TableData) -> dict[str, list[float]]:
    """Of each test row: nats and errors of every task; those of complete rows come first."""
    numbers = {}
    for task in TASKS:
        predicted = fitted.predict(shown(data.test.cells, task, seed=TEST_SEED))
        nats = -predicted.log_prob(data.test.response)
        numbers |= {f"nats_{task}": nats, f"error_{task}": errors(predicted, data)}
    main = {name: numbers[f"{name}_{COMPLETE}"] for name in ("nats", "error")}
    numbers = main | {"elements": np.ones(len(data.test))} | numbers
    return {name: number.round(5).tolist() for name, number in numbers.items()}


def errors(predicted: Any, data: TableData) -> Float[np.ndarray, "rows"]:
    """1 where the most probable label is wrong; squares, in units of those of training's mean."""
    truth = data.test.response
    if data.labels is not None:
        return (predicted.center() != truth).astype(float)
    unit = np.square(truth - data.train.response.mean()).mean()
    return np.square(truth - predicted.center()) / unit


def _describe(data: Mapping[str, Any]) -> str:
    n_labels = data["n_labels"]
    response = f"one of {n_labels} labels" if n_labels else "a number"
    in_order = " in order" if data["ordered"] else ""
    gone = ", ".join(data["missing_columns"])
    n_new = data["new_labels"]
    left_out = f" Left out are {n_new} test rows with labels that training lacks." if n_new else ""
    return (
        f"Items are columns, groups rows, elements cells that are there; the response is "
        f"{response}{in_order}. Columns missing in the last task: {gone}.{left_out}"
    )


def judging(reference: str) -> Judging:
    """Of tables, with the label of the reference in headers."""
    incomplete = [
        Measure(header=task, name=f"nats_{task}", per="elements", compared="more")
        for task in TASKS
        if task != COMPLETE
    ]
    return Judging(
        finished=lambda fitted, data: fitted,
        sums=sums,
        measures=(
            Measure(header="nats", name="nats", compared=f"more than {reference}"),
            *incomplete,
            Measure(header="error", name="error", digits=3),
        ),
        describe=_describe,
    )
