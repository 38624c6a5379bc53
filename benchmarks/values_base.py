"""The base of values on ratings, real numbers and counts: exact nats, squared error, CPU seconds.

    python benchmarks/values_base.py [name ...]

Groups are split 60/15/25 % by `default_rng(0).permutation` (ratings 3 to 5: as in the paper), the
base is fitted to the first part and judged on the last. Squared errors are those of the mean; of
counts, of log(1 + y). CPU seconds (user + sys, one thread) are those of the fit, with the choice of
the rank, after compiled functions were loaded by a small fit. "design" are the figures of a first
prototype, of other draws where a set is cut.
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from exfam.efa.values.cells import ValueCells, value_cells
from exfam.efa.values.head_counts import CountPrediction
from exfam.efa.values.heads import HeadOptions
from exfam.efa.values.values_base import ValueOptions, fit_values, predict_values
from exfam.reading.public_sets.movielens import movielens_100k
from exfam_studies.efa.movielens_splits import movielens_ratings

FOLDER = Path(os.environ.get("EXFAM_DATA", "data"))
SHARES = 0.6, 0.75

console = Console(highlight=False, width=120)
Parts = tuple[ValueCells, ValueCells, int]


@dataclass(frozen=True)
class Task:
    """A data set with the head that it has, and what the prototype had there."""

    read: Callable[[], Parts]
    head: HeadOptions
    nats: float
    squared: float | None = None
    causal: bool = False
    ordered: bool = False


def split_rows(frame: pd.DataFrame, *, most: int | None = None) -> Parts:
    """Training and test cells of a frame with columns group, item and value, in its order."""
    frame = frame.dropna(subset="value")
    number = pd.factorize(frame.group, sort=True)[0]
    frame = frame.assign(number=number).sort_values("number", kind="stable")
    length = np.bincount(frame.number)
    offset = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    item = pd.factorize(frame.item, sort=True)[0].astype(np.int64)
    cells = ValueCells(offset, item, frame.value.to_numpy(dtype=np.float64))
    order = np.random.default_rng(0).permutation(cells.n_groups)[:most]
    first, second = (int(share * len(order)) for share in SHARES)
    return cells.take(order[:first]), cells.take(order[second:]), int(item.max()) + 1


def suite(path: str) -> pd.DataFrame:
    return pd.read_csv(FOLDER / "suite" / f"{path}.csv.gz", low_memory=False)


def ratings_3_to_5() -> Parts:
    splits = movielens_ratings()
    return value_cells(splits.train, "value"), value_cells(splits.test, "value"), 50


def movielens() -> Parts:
    data = movielens_100k()
    order = np.lexsort((data.time, data.user))
    columns = {"group": data.user, "item": data.movie, "value": data.rating}
    return split_rows(pd.DataFrame(columns).iloc[order])


def bfi() -> Parts:
    wide = suite("ratings/bfi")
    long = wide.melt(id_vars="person", value_vars=list(wide.columns[1:26]), var_name="item")
    return split_rows(long.rename(columns={"person": "group"}))


def insteval() -> Parts:
    columns = {"student": "group", "lecturer": "item", "rating": "value"}
    return split_rows(suite("ratings/insteval").rename(columns=columns))


def jester() -> Parts:
    columns = {"user": "group", "joke": "item", "rating": "value"}
    return split_rows(suite("ratings/jester5k").rename(columns=columns), most=1_400)


def temperature() -> Parts:
    path = FOLDER / "temperature" / "us_city_temperature_october.csv.gz"
    frame = pd.read_csv(path)
    day = frame.year * 100 + frame.day
    city = frame.city + ", " + frame.state
    return split_rows(frame.assign(group=day, item=city, value=frame.temperature_f))


def portal() -> Parts:
    frame = suite("counts/portal_plant_quadrats").dropna(subset="abundance")
    name = frame[["year", "season", "plot", "quadrat"]].astype(str).agg("-".join, axis=1)
    frame = frame.assign(group=name, item=frame.species, value=frame.abundance)
    return split_rows(frame[frame.value >= 1])


def bci() -> Parts:
    columns = {"plot": "group", "species": "item", "trees": "value"}
    return split_rows(suite("counts/bci_trees").rename(columns=columns))


def retail() -> Parts:
    frame = suite("baskets/online_retail")
    goods = frame.stock_code.astype(str).str.match(r"\d")
    kept = ~frame.invoice.astype(str).str.startswith("C") & (frame.quantity > 0) & goods
    total = frame[kept].groupby(["invoice", "stock_code"], as_index=False).quantity.sum()
    columns = {"invoice": "group", "stock_code": "item", "quantity": "value"}
    return split_rows(total.rename(columns=columns), most=5_000)


COUNTS = HeadOptions(kind="counts")


def classes(start: int, n: int) -> HeadOptions:
    return HeadOptions(kind="classes", classes=(float(start), n))


TASKS = {
    "ratings 3-5": Task(ratings_3_to_5, classes(1, 3), 0.938, ordered=True),
    "ratings 3-5, causal": Task(ratings_3_to_5, classes(1, 3), 0.9635, ordered=True, causal=True),
    "MovieLens 100K": Task(movielens, classes(1, 5), 1.184, 0.753, ordered=True),
    "MovieLens 100K, causal": Task(
        movielens, classes(1, 5), 1.214, 0.794, ordered=True, causal=True
    ),
    "bfi": Task(bfi, classes(1, 6), 1.346),
    "InstEval": Task(insteval, classes(1, 5), 1.489),
    "Jester": Task(jester, HeadOptions(kind="real"), 2.699),
    "temperature": Task(temperature, HeadOptions(kind="real"), 2.480),
    "Portal plants": Task(portal, COUNTS, 2.575),
    "BCI trees": Task(bci, COUNTS, 1.957),
    "Online Retail": Task(retail, COUNTS, 1.678),
}


def measured(task: Task) -> tuple[str, ...]:
    """The cells of a row of the table."""
    train, test, n_items = task.read()
    options = ValueOptions(head=task.head, causal=task.causal, ordered=task.ordered)
    start = time.process_time()
    base = fit_values(train, n_items, options)
    seconds = time.process_time() - start
    prediction = predict_values(base, test)
    log_prob = prediction.log_prob(test.value)
    if isinstance(prediction, CountPrediction):
        error = prediction.mean_log1p() - np.log1p(test.value)
    else:
        error = prediction.mean() - test.value
    group = np.bincount(test.group, log_prob - log_prob.mean(), test.n_groups)
    spread = np.sqrt(np.sum(group**2)) / test.n_cells
    low, high = (prediction.quantile(np.full(test.n_cells, p)) for p in (0.1, 0.9))
    inside = np.mean((test.value >= low) & (test.value <= high))
    return (
        f"{train.n_cells:,}",
        f"{base.rank}",
        f"{-log_prob.mean():.4f}",
        f"{spread:.4f}",
        f"{task.nats:.4f}",
        f"{np.mean(error**2):.4f}",
        "" if task.squared is None else f"{task.squared:.3f}",
        f"{100 * inside:.1f}",
        f"{seconds:.1f}",
    )


def warm_up() -> None:
    """Load what is compiled."""
    draw = np.random.default_rng(0)
    cells = ValueCells(
        np.arange(0, 401, 10), np.tile(np.arange(10), 40), draw.poisson(3.0, 400) * 1.0
    )
    for head in (COUNTS, classes(0, 20), HeadOptions(kind="real")):
        for causal in (False, True):
            options = ValueOptions(head=head, causal=causal, ordered=True)
            predict_values(fit_values(cells, 10, options), cells)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[], help=f"some of {list(TASKS)}")
    names = parser.parse_args().names or list(TASKS)
    warm_up()
    table = Table(title="the base of values, on groups that were not trained on")
    header = ("values", "rank", "nats", "+-", "design", "squared", "design", "in 80 %", "CPU s")
    table.add_column("set")
    for name in header:
        table.add_column(name, justify="right")
    for name in names:
        cells = measured(TASKS[name])
        console.print(name, *cells)
        table.add_row(name, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
