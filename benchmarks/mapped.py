"""Fitting data that stay in files: memory of preparing and fitting, and speed by size of the file.

    python benchmarks/mapped.py

60 million rows of 4 million baskets (2.2 GB of columns) come as Parquet in the order of time, so
that every basket is scattered over the file; prepared; and fitted for 500 steps from the prepared
folder. Memory is what a process holds that is in no file (RssAnon in /proc, Linux), at its peak.
Speed: steps of one model on prepared folders of 0.6, 6 and 60 million rows, in the same process,
turn by turn; medians. CPU seconds (user + sys) of one thread.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from rich.console import Console
from rich.table import Table

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.families import Gaussian, Poisson
from exfam.likelihoods.two_part import Likelihood
from exfam.reading.prepared import open_prepared
from exfam.training.batching import epoch_batches
from exfam.training.optimizer import TrainingSettings, make_optimizer

SIZES = (600_000, 6_000_000, 60_000_000)
MEAN_LENGTH, N_ITEMS, ROWS_A_PIECE = 15, 20_000, 600_000
READING_MEMORY = "512MB"
FIT_STEPS, BATCH_SIZE, TURNS, STEPS_A_TURN, WARM_UP = 500, 64, 4, 100, 20
MEGABYTE = 2**20

console = Console(highlight=False, width=110)


def write_log(file: Path, n_rows: int) -> None:
    """Purchases in the order of time, piece by piece."""
    draw, now = np.random.default_rng(0), 0.0
    schema = pa.schema(
        [
            ("basket", pa.int64()),
            ("time", pa.float64()),
            ("item", pa.int32()),
            ("price", pa.float64()),
            ("count", pa.float64()),
        ]
    )
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for _ in range(0, n_rows, ROWS_A_PIECE):
            time_of = now + np.cumsum(draw.exponential(size=ROWS_A_PIECE))
            now = float(time_of[-1])
            columns = [
                draw.integers(0, n_rows // MEAN_LENGTH, ROWS_A_PIECE),
                time_of,
                (N_ITEMS * draw.random(ROWS_A_PIECE) ** 3).astype(np.int32),
                draw.normal(size=ROWS_A_PIECE),
                draw.poisson(2.0, ROWS_A_PIECE).astype(np.float64),
            ]
            writer.write_table(pa.table(columns, schema=schema))


PREPARE = """
import sys, exfam
names = dict(group="basket", order="time", item="item", value=["price", "count"], position="time")
options = dict(duplicates="keep", memory_limit=sys.argv[3], threads=1)
exfam.prepare(*sys.argv[1:3], **names, **options)
"""

# Ctrl-C after so many steps, as somebody would press it.
FIT = """
import signal, sys, torch, exfam
from exfam.training.torch_engine import TorchEngine

signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells take from what runs behind
n_steps, step = 0, TorchEngine.step

def counted(self, index):
    global n_steps
    n_steps += 1
    if n_steps == int(sys.argv[2]):
        signal.raise_signal(signal.SIGINT)
    return step(self, index)

torch.set_num_threads(1)
TorchEngine.step = counted
families = {"price": "gaussian", "count": "poisson"}
options = dict(family=families, parts="values", base="none", max_epochs=1, progress=False)
exfam.LatentFactor(**options).fit(sys.argv[1])
assert n_steps >= int(sys.argv[2])
"""


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """Peak of memory in no file, in MB, and CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL)
    peak = 0
    while run.poll() is None:
        peak = max(peak, anonymous(run.pid))
        time.sleep(0.02)
    if run.returncode:
        raise SystemExit(f"a measured process ended with {run.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return peak / MEGABYTE, seconds


def anonymous(process: int) -> int:
    """Bytes of a process that are in no file."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def size_of(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / MEGABYTE


class Trainer:
    """One model in training on the baskets of one folder."""

    def __init__(self, folder: Path) -> None:
        self.groups = open_prepared(folder)
        families = {"price": Gaussian(), "count": Poisson()}
        # Sizes and scales of a part stand for all: the same model for every folder.
        schema = Schema.of(self.groups[:10_000], families=families)
        settings = EFASettings(encoding="none", items=False)
        self.model = build_efa(schema, settings, generator=torch.Generator().manual_seed(0))
        self.optimizer = make_optimizer(self.model, TrainingSettings())
        self.objective = Likelihood(self.model.direction)
        started = time.process_time()
        self.batches = epoch_batches(
            self.groups, batch_size=BATCH_SIZE, generator=np.random.default_rng(0)
        )
        self.ahead = next(self.batches)
        self.seconds_to_draw = time.process_time() - started
        self.padding: list[float] = []
        self.all: list[float] = []

    def run(self, n_steps: int) -> None:
        """Steps; the CPU seconds of padding and of everything in each."""
        for _ in range(n_steps):
            started = time.process_time()
            batch = self.groups.pad(self.ahead)
            padded = time.process_time()
            self.optimizer.zero_grad()
            self.objective(self.model, batch)[0].backward()
            self.optimizer.step()
            self.padding.append(padded - started)
            self.ahead = next(self.batches)
            self.all.append(time.process_time() - started)


def show_speed(folders: dict[int, Path]) -> None:
    trainers = {n_rows: Trainer(folder) for n_rows, folder in folders.items()}
    for trainer in trainers.values():
        trainer.run(WARM_UP)
        trainer.padding, trainer.all = [], []
    for _ in range(TURNS):
        for trainer in trainers.values():
            trainer.run(STEPS_A_TURN)
    table = Table(
        title=f"speed on prepared folders, EFA of two value columns, {BATCH_SIZE} baskets"
    )
    for header in (
        "rows",
        "MB",
        "to draw an epoch, s",
        "padding, ms",
        "step, ms",
        "baskets / s",
        "×",
    ):
        table.add_column(header, justify="right")
    first = np.median(next(iter(trainers.values())).all)
    for n_rows, trainer in trainers.items():
        padding, step = np.median(trainer.padding), np.median(trainer.all)
        table.add_row(
            f"{n_rows:,}",
            f"{size_of(folders[n_rows]):,.0f}",
            f"{trainer.seconds_to_draw:.2f}",
            f"{1e3 * padding:.2f}",
            f"{1e3 * step:.2f}",
            f"{BATCH_SIZE / step:,.0f}",
            f"{first / step:.2f}",
        )
    console.print(table)


def show_memory(title: str, code: str, arguments: dict[Path, list[str]]) -> None:
    table = Table(title=f"{title}: memory in no file, at its peak")
    for header in ("folder", "MB of columns", "MB in no file", "CPU s"):
        table.add_column(header, justify="right")
    for folder, chosen in arguments.items():
        result = measured(code, *chosen)
        numbers = size_of(folder), *result
        table.add_row(folder.name, *(f"{number:,.0f}" for number in numbers))
    console.print(table)


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        logs = {n_rows: Path(place, f"{n_rows}.parquet") for n_rows in SIZES}
        for n_rows, file in logs.items():
            write_log(file, n_rows)
        folders = {n_rows: Path(place, f"{n_rows} rows") for n_rows in SIZES}
        logs_of = {folders[n]: [str(logs[n]), str(folders[n]), READING_MEMORY] for n in SIZES}
        show_memory(f"prepared, {READING_MEMORY} for DuckDB", PREPARE, logs_of)
        steps = {folder: [str(folder), str(FIT_STEPS)] for folder in folders.values()}
        show_memory(f"fitted for {FIT_STEPS} steps", FIT, steps)
        show_speed(folders)


if __name__ == "__main__":
    main()
