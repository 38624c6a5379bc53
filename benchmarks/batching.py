"""Padding of long-tailed groups, and training throughput by the number of groups in the files.

    python benchmarks/batching.py

CPU seconds (user + sys) of one thread; simulated groups of items whose lengths are log-normal. A
trained group has gone through everything: its batch drawn, padded, and one step of AdamW. The last
table's columns are files that are mapped into memory.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_items
from exfam.estimator.schema import Schema
from exfam.groups import Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.training.batching import Weighted, epoch_batches
from exfam.training.optimizer import TrainingSettings
from exfam.training.torch_engine import TorchEngine

N_ITEMS, MEAN_LOG, SPREAD, LONGEST = 200, 2.2, 1.0, 300
N_GROUPS = 20_000
TIMES = (1, 10, 100)
SECONDS_PER_CELL = 8.0

console = Console(highlight=False, width=110)


def lengths(n_groups: int) -> np.ndarray:
    random = np.random.default_rng(0)
    result = np.ceil(random.lognormal(MEAN_LOG, SPREAD, n_groups)).astype(np.int64)
    return np.minimum(result, LONGEST)


def simulated(n_groups: int, folder: Path | None = None) -> Groups:
    """Groups of random items; in a mapped file if there is a folder for it."""
    stop = np.cumsum(lengths(n_groups))
    item = np.random.default_rng(1).integers(0, N_ITEMS, stop[-1], dtype=np.int32)
    if folder is not None:
        path = folder / f"item-{n_groups}.npy"
        np.save(path, item)
        item = np.load(path, mmap_mode="r")
    start = np.concatenate([[0], stop[:-1]])
    return Groups(start=start, stop=stop, item=item, vocabulary={"item": np.arange(N_ITEMS)})


def efa(groups: Groups) -> TwoPartModel:
    """The default network of the estimator: d=32, 2 heads, 2 layers."""
    settings = EFASettings(values=False)
    generator = torch.Generator().manual_seed(0)
    return build_efa(Schema.of(groups, families={}), settings, generator=generator)


def latent_factor(groups: Groups) -> TwoPartModel:
    part = build_latent_factor_items(
        groups.n_items, LatentFactorSettings(), generator=torch.Generator().manual_seed(0)
    )
    return TwoPartModel(direction="bidirectional", item_part=part)


def trained(model: TwoPartModel, groups: Groups, settings: TrainingSettings) -> tuple[float, float]:
    """CPU seconds of drawing an epoch's batches; groups trained a CPU second within it."""
    engine = TorchEngine(
        model,
        Likelihood(model.direction),
        train=Weighted(groups),
        validation=None,
        settings=settings,
    )
    start = time.process_time()
    n_steps = engine.begin_epoch(0)
    drawing = time.process_time() - start
    for index in range(min(3, n_steps)):
        engine.step(index)
    n_groups, start = 0, time.process_time()
    for index in range(n_steps):
        engine.step(index)
        n_groups += len(engine._batches[index])
        if time.process_time() - start > SECONDS_PER_CELL:
            break
    return drawing, n_groups / (time.process_time() - start)


def show_padding() -> None:
    groups = simulated(N_GROUPS)
    n_elements, mean = groups.n_elements, groups.n_elements / N_GROUPS
    table = Table(
        title=f"{N_GROUPS:,} groups, lengths of mean {mean:.1f} and at most {LONGEST}: an epoch"
    )
    headers = ("batches", "how many", "largest", "padding", "groups padded / CPU s", "trained")
    for header in headers:
        table.add_column(header, justify="left" if header == "batches" else "right")
    budget = round(32 * mean / 100) * 100
    cases = {
        "32 groups at random": {"batch_size": 32, "bucket": False},
        "batch_size=32": {"batch_size": 32},
        f"batch_tokens={budget}": {"max_tokens": budget},
        f"batch_tokens={4 * budget}": {"max_tokens": 4 * budget},
    }
    for name, options in cases.items():
        start = time.process_time()
        batches = list(epoch_batches(groups, generator=np.random.default_rng(0), **options))
        sizes = [groups.pad(index).present.numel() for index in batches]
        padding = N_GROUPS / (time.process_time() - start)
        step = "-"
        if options.get("bucket", True):
            size = {"batch_size": options.get("batch_size", 32)}
            settings = TrainingSettings(**size, batch_tokens=options.get("max_tokens"))
            step = f"{trained(efa(groups), groups, settings)[1]:,.0f}"
        share = 1 - n_elements / sum(sizes)
        cells = (f"{len(batches):,}", f"{max(sizes):,}", f"{share:.1%}", f"{padding:,.0f}", step)
        table.add_row(name, *cells)
    console.print(table)
    console.print("Largest: padded elements of one batch. Trained: EFA's groups a CPU second.\n")


def show_sizes() -> None:
    settings = TrainingSettings(batch_tokens=2000)
    table = Table(title=f"files of more and more groups, batch_tokens={settings.batch_tokens}")
    for header in (
        "groups",
        "MB mapped",
        "drawing an epoch, us a group",
        "latent factor, groups / CPU s",
        "times the first",
        "EFA, groups / CPU s",
        "times the first",
    ):
        table.add_column(header, justify="right")
    first: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for times in TIMES:
            groups = simulated(times * N_GROUPS, Path(folder))
            rates = []
            for make in (latent_factor, efa):
                drawing, rate = trained(make(groups), groups, settings)
                rates.append(rate)
            first = first or rates
            size = 4 * groups.n_elements / 1e6
            each = [f"{len(groups):,}", f"{size:.0f}", f"{1e6 * drawing / len(groups):.2f}"]
            for rate, rate_first in zip(rates, first, strict=True):
                each += [f"{rate:,.0f}", f"{rate / rate_first:.2f}"]
            table.add_row(*each)
    console.print(table)


def main() -> None:
    torch.set_num_threads(1)
    show_padding()
    show_sizes()


if __name__ == "__main__":
    main()
