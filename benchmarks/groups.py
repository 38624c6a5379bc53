"""Elements per CPU second of reading a frame into groups and of padding groups into batches.

    python benchmarks/groups.py

CPU seconds (user + sys) of one thread; simulated data: groups of mean length 15, one value column,
one attribute. Peers: pandas' `groupby` with lists, and torch's `pad_sequence`.
"""

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch
from rich.console import Console
from rich.table import Table
from torch.nn.utils.rnn import pad_sequence

from exfam.groups import Groups

N_ELEMENTS, MEAN_LENGTH, N_ITEMS = 1_000_000, 15, 1_000
BATCH_SIZES = (16, 64, 256, 1024)
SECONDS_PER_CELL = 3.0

console = Console(highlight=False, width=110)


def frame() -> pd.DataFrame:
    """Rows in random order, as a log of events is seldom sorted by user."""
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "user": random.integers(0, N_ELEMENTS // MEAN_LENGTH, N_ELEMENTS),
            "time": random.random(N_ELEMENTS),
            "item": random.integers(0, N_ITEMS, N_ELEMENTS),
            "rating": random.integers(1, 6, N_ELEMENTS).astype(np.float32),
            "genre": random.integers(0, 20, N_ELEMENTS),
        }
    )


def rate(work: Callable[[], int], *, seconds: float = SECONDS_PER_CELL) -> float:
    """Elements a CPU second; `work` returns how many elements it went through."""
    n_elements, start = 0, time.process_time()
    while n_elements == 0 or time.process_time() - start < seconds:
        n_elements += work()
    return n_elements / (time.process_time() - start)


def read(table: object) -> Groups:
    return Groups.from_frame(
        table, group="user", order="time", item="item", value="rating", attributes=["genre"]
    )


def lists(table: pd.DataFrame) -> int:
    """The peer: one list a user and column."""
    ordered = table.sort_values(["user", "time"], kind="stable")
    grouped = ordered.groupby("user", sort=False)[["item", "rating", "genre"]].agg(list)
    return len(table) if len(grouped) else 0


def show_reading(table: pd.DataFrame) -> None:
    as_text = table.assign(item="item " + table["item"].astype(str))
    sources: dict[str, object] = {
        "pandas": table,
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(table),
        "dict of arrays": {name: table[name].to_numpy() for name in table},
        "pandas, items as text": as_text,
    }
    shown = Table(title=f"Groups.from_frame: {len(table):,} rows in random order, 5 columns")
    shown.add_column("source")
    shown.add_column("elements / CPU s", justify="right")
    shown.add_column("times the peer", justify="right")
    peer = rate(lambda: lists(table))
    shown.add_row("pandas groupby to lists (peer)", f"{peer:,.0f}", "1.0")
    for name, source in sources.items():
        value = rate(lambda source=source: read(source).n_elements)
        shown.add_row(name, f"{value:,.0f}", f"{value / peer:.1f}")
    console.print(shown)


def padded_by_torch(sequences: list[list[torch.Tensor]], index: np.ndarray) -> int:
    """The peer: each column's sequences padded, and where they are present."""
    for column in sequences:
        pad_sequence([column[i] for i in index], batch_first=True)
    lengths = torch.tensor([len(sequences[0][i]) for i in index])
    present = torch.arange(int(lengths.max())) < lengths[:, None]
    return int(present.sum())


def show_padding(groups: Groups) -> None:
    columns = [groups.item, groups.values["rating"], groups.attributes["genre"]]
    cuts = np.append(groups.start, groups.stop[-1])
    sequences = [list(torch.as_tensor(column).split(np.diff(cuts).tolist())) for column in columns]
    shown = Table(title=f"Groups.pad: {len(groups):,} groups, mean length {MEAN_LENGTH}, 3 columns")
    for header in ("groups a batch", "pad", "pad_sequence (peer)", "times the peer"):
        shown.add_column(header, justify="right")
    random = np.random.default_rng(1)
    for size in BATCH_SIZES:
        order = random.permutation(len(groups))[: 32 * size]
        batches = np.array_split(order, max(1, len(order) // size))
        ours = rate(lambda b=batches: sum(groups.pad(i).n_targets for i in b))
        peer = rate(lambda b=batches: sum(padded_by_torch(sequences, i) for i in b))
        shown.add_row(str(size), f"{ours:,.0f}", f"{peer:,.0f}", f"{ours / peer:.1f}")
    console.print(shown)
    console.print("Elements per CPU second; padding is not counted.")


def main() -> None:
    torch.set_num_threads(1)
    table = frame()
    show_reading(table)
    show_padding(read(table))


if __name__ == "__main__":
    main()
