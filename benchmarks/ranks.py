"""Two ranks of one thread against one process of one thread and of two, in one run.

    python benchmarks/ranks.py [--out FILE]

Groups a second of the clock, and CPU seconds (user + sys) of all processes together: on a busy
machine the clock says little, and the processor time what the sharing itself costs. "by work" is
how many times faster two ranks would be on a machine where nothing else runs: twice the CPU seconds
of one process by those of both ranks. Each way trains the same number of epochs of the same
batches, from a prepared folder.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept import write_kept
from rich.console import Console
from rich.table import Table

from exfam.catalog.sampled import ItemSampler
from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood
from exfam.reading.prepared import open_prepared, prepare
from exfam.training.optimizer import TrainingSettings
from exfam.training.ranks import is_main_rank
from exfam.training.steps import fit

N_GROUPS, N_EPOCHS = 2_000, 2
# Items of the catalog, of which so many are sampled (0: all), padded elements of a batch: little
# and much to send for the work of a step.
CASES = (
    (200, 0, 2_000),
    (200, 0, 16_000),
    (2_000, 0, 2_000),
    (50_000, 1_000, 2_000),
    (50_000, 1_000, 16_000),
)
WAYS = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 ranks, 1 thread": (2, 1)}

console = Console(highlight=False, width=110)


def simulated(n_items: int) -> Groups:
    random = np.random.default_rng(0)
    lengths = np.minimum(np.ceil(random.lognormal(2.2, 1.0, N_GROUPS)).astype(np.int64), 100)
    stop = np.cumsum(lengths)
    item = random.integers(0, n_items, stop[-1])
    vocabulary = {"item": np.arange(n_items)}
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)


def train(folder: str, n_sampled: int, batch_tokens: int, n_threads: int) -> None:
    """What each rank does; the main one prints seconds of the clock and CPU seconds of all."""
    torch.set_num_threads(n_threads)
    groups = open_prepared(folder)
    settings = EFASettings(values=False)
    schema = Schema.of(groups, families={})
    sampler = ItemSampler(torch.ones(schema.n_items or 0), n=n_sampled) if n_sampled else None
    generator = torch.Generator().manual_seed(0)
    model = build_efa(schema, settings, generator=generator, sampler=sampler)
    likelihood = Likelihood(model.direction)
    tokens = {"batch_tokens": batch_tokens}
    # The ranks meet, and torch loads what a first step needs.
    warm = TrainingSettings(max_epochs=1, **tokens)
    fit(model, objective=likelihood, train=groups[:200], settings=warm, progress=False)
    start = time.perf_counter()
    timed = TrainingSettings(max_epochs=N_EPOCHS, **tokens)
    history = fit(model, objective=likelihood, train=groups, settings=timed, progress=False)
    seconds = time.perf_counter() - start
    if is_main_rank():
        nats = history.rows[-1].train_nats
        print(json.dumps([seconds, history.cpu_seconds, history.steps, nats]))


def measured(folder: str, numbers: tuple[int, int], n_ranks: int, n_threads: int) -> list[float]:
    launch = [sys.executable]
    if n_ranks > 1:
        launch += ["-m", "torch.distributed.run", "--nproc-per-node", str(n_ranks)]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*launch, __file__, folder, *map(str, (*numbers, n_threads))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def rows_of(case: tuple[int, int, int]) -> list[dict[str, Any]]:
    """All ways of one case."""
    n_items, n_sampled, batch_tokens = case
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "groups")
        prepare(simulated(n_items), path)
        for name, (n_ranks, n_threads) in WAYS.items():
            numbers = (n_sampled, batch_tokens)
            seconds, cpu_seconds, steps, nats = measured(path, numbers, n_ranks, n_threads)
            row = {"items": n_items, "sampled": n_sampled, "batch_tokens": batch_tokens}
            row |= {"way": name, "steps": steps, "nats": nats}
            row |= {"seconds": seconds, "cpu_seconds": cpu_seconds}
            first = rows[0] if rows else row
            row["times"] = first["seconds"] / seconds
            row["times_by_work"] = n_ranks * first["cpu_seconds"] / cpu_seconds
            rows.append(row)
    return rows


def main(*, items: int | None, out: str | None) -> None:
    table = Table(title=f"EFA (d=32) on {N_GROUPS:,} groups, {N_EPOCHS} epochs")
    headers = ("items", "sampled", "tokens", "steps", "way", "groups / s", "times", "by work")
    for header in (*headers, "CPU s", "nats"):
        table.add_column(header, justify="left" if header == "way" else "right")
    cases = [case for case in CASES if items in (None, case[0])]
    rows = [row for case in cases for row in rows_of(case)]
    for row in rows:
        sizes = (row[name] for name in ("items", "sampled", "batch_tokens", "steps"))
        rate = N_EPOCHS * N_GROUPS / row["seconds"]
        figures = (f"{rate:,.0f}", f"{row['times']:.2f}", f"{row['times_by_work']:.2f}")
        cells = (*(f"{size:,.0f}" for size in sizes), row["way"], *figures)
        table.add_row(*cells, f"{row['cpu_seconds']:.1f}", f"{row['nats']:.5f}")
    load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} when it ended"
    console.print(table)
    console.print(f"{load}.")
    if out is not None:
        write_kept(out, rows, machine_load=load)


if __name__ == "__main__":
    if len(sys.argv) == 5 and not sys.argv[1].startswith("--"):
        train(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("--items", type=int, help="of this catalog alone")
        parser.add_argument("--out")
        main(**vars(parser.parse_args()))
