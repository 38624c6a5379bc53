"""Two ranks of one thread against one process of one thread and of two, in one run.

    python benchmarks/ranks.py

Groups a second of the clock, and CPU seconds (user + sys) of all processes together: on a busy
machine the clock says little, and the processor time what the sharing itself costs. Each way
trains the same number of epochs of the same batches, from a prepared folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood
from exfam.reading.prepared import open_prepared, prepare
from exfam.training.optimizer import TrainingSettings
from exfam.training.ranks import is_main_rank
from exfam.training.steps import fit

N_GROUPS, N_EPOCHS = 2_000, 2
# Items of the catalog, padded elements of a batch: little and much to send for the work of a step.
CASES = ((200, 2_000), (200, 16_000), (2_000, 2_000))
WAYS = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 ranks, 1 thread": (2, 1)}

console = Console(highlight=False, width=110)


def simulated(n_items: int) -> Groups:
    random = np.random.default_rng(0)
    lengths = np.minimum(np.ceil(random.lognormal(2.2, 1.0, N_GROUPS)).astype(np.int64), 100)
    stop = np.cumsum(lengths)
    item = random.integers(0, n_items, stop[-1])
    vocabulary = {"item": np.arange(n_items)}
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)


def train(folder: str, batch_tokens: int, n_threads: int) -> None:
    """What each rank does; the main one prints seconds of the clock and CPU seconds of all."""
    torch.set_num_threads(n_threads)
    groups = open_prepared(folder)
    settings = EFASettings(values=False)
    schema = Schema.of(groups, families={})
    model = build_efa(schema, settings, generator=torch.Generator().manual_seed(0))
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


def measured(folder: str, batch_tokens: int, n_ranks: int, n_threads: int) -> list[float]:
    launch = [sys.executable]
    if n_ranks > 1:
        launch += ["-m", "torch.distributed.run", "--nproc-per-node", str(n_ranks)]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*launch, __file__, folder, str(batch_tokens), str(n_threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout)


def main() -> None:
    table = Table(title=f"EFA (d=32) on {N_GROUPS:,} groups, {N_EPOCHS} epochs")
    headers = ("items", "batch_tokens", "steps", "way", "groups / s", "times", "CPU s", "nats")
    for header in headers:
        table.add_column(header, justify="left" if header == "way" else "right")
    for n_items, batch_tokens in CASES:
        with tempfile.TemporaryDirectory() as folder:
            place = str(Path(folder) / "groups")
            prepare(simulated(n_items), place)
            first = 0.0
            for name, (n_ranks, n_threads) in WAYS.items():
                result = measured(place, batch_tokens, n_ranks, n_threads)
                seconds, cpu_seconds, steps, nats = result
                first = first or seconds
                cells = (f"{n_items:,}", f"{batch_tokens:,}", f"{steps:,.0f}", name)
                rate = N_EPOCHS * N_GROUPS / seconds
                cells += (f"{rate:,.0f}", f"{first / seconds:.2f}", f"{cpu_seconds:.1f}")
                table.add_row(*cells, f"{nats:.5f}")
    console.print(table)
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} when it ended.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
