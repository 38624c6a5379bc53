"""Conditionals per CPU second of each way to compute them, and growth with the group's length.

    python benchmarks/conditionals.py

Counted: conditionals of real elements, never padding or masked copies. Timed: tokens, two layers of
attention, softmax over the catalog and its gradient, in CPU seconds (user + sys) of one thread.
Left out: the optimizer, padding groups into batches, validation.
"""

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.estimator.schema import Schema
from exfam.groups import Batch, Groups
from exfam.training.batching import epoch_batches
from exfam_studies.efa.movielens_splits import movielens_items

EMBED_DIM, N_HEADS, N_LAYERS, BATCH_SIZE = 32, 2, 2, 64
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
ELEMENTS_PER_BATCH = 2048
SECONDS_PER_CELL = 4.0
AFFORDABLE_SECONDS = 30.0
TARGET = 60_000
Step = Callable[[Batch], Tensor]

console = Console(highlight=False, width=110)


def movielens_lengths() -> tuple[np.ndarray, str]:
    if not os.environ.get("EXFAM_DATA"):
        return simulated_lengths(641, mean=15.2, longest=44)
    splits = movielens_items()
    lengths = np.concatenate([splits.train.lengths, splits.validation.lengths])
    return lengths, "real lengths (train and validation users)"


def instacart_lengths(n_baskets: int = 2000) -> tuple[np.ndarray, str]:
    folder = Path(os.environ.get("EXFAM_DATA", "")) / "instacart"
    path = next(iter(sorted(folder.glob("*train*.csv.gz"))), None)
    if path is None:
        return simulated_lengths(n_baskets, mean=11.1, longest=24)
    with gzip.open(path, "rt") as file:
        order = np.array([line.split(",", 1)[0] for line in file][1:])
    lengths = np.unique(order, return_counts=True)[1]
    chosen = np.random.default_rng(0).choice(len(lengths), n_baskets, replace=False)
    return lengths[chosen], f"real lengths ({n_baskets} training baskets, at random)"


def simulated_lengths(n_groups: int, *, mean: float, longest: int) -> tuple[np.ndarray, str]:
    draw = np.random.default_rng(0).gamma(2.0, mean / 2.0, size=n_groups)
    lengths = np.clip(np.round(draw * 1.04), 1, longest).astype(np.int64)
    return lengths, "simulated lengths (gamma of shape 2, cut; EXFAM_DATA is not set)"


def groups_of(lengths: np.ndarray, *, n_items: int) -> Groups:
    """Groups with random items."""
    stop = np.cumsum(lengths)
    item = np.random.default_rng(1).integers(0, n_items, stop[-1])
    vocabulary = {"item": np.arange(n_items)}
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)


def efa_step(groups: Groups, conditional: str, direction: str = "bidirectional") -> Step:
    """Loss of a batch under our network: residual attention layers, relative encoding."""
    settings = EFASettings(
        direction=direction,
        embed_dim=EMBED_DIM,
        n_heads=N_HEADS,
        head_dim=EMBED_DIM // N_HEADS,
        n_layers=N_LAYERS,
        connection="residual",
        encoding="relative",
        conditional=conditional,
        values=False,
    )
    schema = Schema.of(groups, families={})
    model = build_efa(schema, settings, generator=torch.Generator().manual_seed(0))
    return lambda batch: -model.log_prob(batch).total().sum()


class PaddedCopies(nn.Module):
    """The peer: torch's own attention on padded masked copies, as the paper's notebooks do it."""

    def __init__(self, n_items: int, n_positions: int) -> None:
        super().__init__()
        self.items = nn.Embedding(n_items + 1, EMBED_DIM)
        self.positions = nn.Embedding(n_positions, EMBED_DIM)
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(EMBED_DIM, N_HEADS, batch_first=True) for _ in range(N_LAYERS)
        )
        self.out = nn.Linear(EMBED_DIM, n_items)

    def forward(self, batch: Batch) -> Tensor:
        group, center = batch.present.nonzero(as_tuple=True)
        row = torch.arange(len(group))
        item = batch.item[group]
        target, item[row, center] = item[row, center].clone(), self.items.num_embeddings - 1
        x = self.items(item) + self.positions.weight[: item.shape[1]]
        absent = ~batch.present[group]
        for layer in self.layers:
            x = x + layer(x, x, x, key_padding_mask=absent, need_weights=False)[0]
        return nn.functional.cross_entropy(self.out(x[row, center]), target, reduction="sum")


def rate(step: Step, batches: list[Batch], *, seconds: float = SECONDS_PER_CELL) -> float:
    """Conditionals per CPU second, forward and backward, over whole rounds of the batches."""
    step(batches[0]).backward()
    n_conditionals = sum(batch.n_targets for batch in batches)
    rounds, start = 0, time.process_time()
    while rounds == 0 or time.process_time() - start < seconds:
        for batch in batches:
            step(batch).backward()
        rounds += 1
    return rounds * n_conditionals / (time.process_time() - start)


def bucketed(groups: Groups) -> list[Batch]:
    generator = np.random.default_rng(2)
    cuts = epoch_batches(groups, batch_size=BATCH_SIZE, generator=generator)
    return [groups.pad(index) for index in cuts]


def unsorted(groups: Groups) -> list[Batch]:
    """Batches padded to the longest of all groups, as the notebooks' arrays are."""
    longest = int(np.argmax(groups.lengths))
    cuts = range(0, len(groups), BATCH_SIZE)
    batches = [
        groups.pad([longest, *range(cut, min(cut + BATCH_SIZE, len(groups)))]) for cut in cuts
    ]
    return batches


def measured_rates(groups: Groups, n_items: int) -> Iterator[tuple[str, str, float]]:
    batches, longest = bucketed(groups), int(groups.lengths.max())
    peer = PaddedCopies(n_items, longest)
    yield "torch.nn, padded copies (peer)", "bidirectional", rate(peer, unsorted(groups))
    for conditional in ("copies", "exact", "static"):
        yield conditional, "bidirectional", rate(efa_step(groups, conditional), batches)
    for conditional in ("copies", "two_stream"):
        yield conditional, "causal", rate(efa_step(groups, conditional, "causal"), batches)


def show_shape(name: str, lengths: np.ndarray, *, origin: str, n_items: int) -> float:
    groups = groups_of(lengths, n_items=n_items)
    table = Table(
        title=f"{name}: {len(groups)} groups, mean length {lengths.mean():.1f}, "
        f"max {lengths.max()}, {n_items} items; {origin}"
    )
    table.add_column("conditional")
    table.add_column("direction")
    table.add_column("conditionals / CPU s", justify="right")
    table.add_column("times the peer", justify="right")
    rates = list(measured_rates(groups, n_items))
    for label, direction, value in rates:
        table.add_row(label, direction, f"{value:,.0f}", f"{value / rates[0][2]:.1f}")
    console.print(table)
    return next(value for label, _, value in rates if label == "static")


def growth(conditional: str) -> dict[int, float]:
    """CPU seconds per conditional at each group length that is affordable."""
    seconds: dict[int, float] = {}
    for length in LENGTHS:
        n_groups = max(1, ELEMENTS_PER_BATCH // length)
        groups = groups_of(np.full(n_groups, length), n_items=50)
        # Copies take length^2 a conditional once attention dominates: guess before starting.
        guess = 4 * seconds[length // 2] * n_groups * length if seconds else 0.0
        if 2 * guess > AFFORDABLE_SECONDS:
            break
        batch = groups.pad(np.arange(n_groups))
        seconds[length] = 1 / rate(efa_step(groups, conditional), [batch], seconds=1.5)
    return seconds


def exponent(seconds: dict[int, float], *, least: int = 32) -> float:
    """Slope of log CPU seconds a group on log length."""
    length = np.array([n for n in seconds if n >= least], dtype=float)
    spent = np.array([seconds[int(n)] * n for n in length])
    return float(np.polyfit(np.log(length), np.log(spent), 1)[0])


def show_growth() -> None:
    table = Table(title="growth: microseconds of CPU a conditional, by length of the group")
    table.add_column("conditional")
    for length in LENGTHS:
        table.add_column(str(length), justify="right")
    table.add_column("CPU s a group ~ length^", justify="right")
    for conditional in ("copies", "exact", "static"):
        seconds = growth(conditional)
        cells = [f"{seconds[n] * 1e6:,.1f}" if n in seconds else "–" for n in LENGTHS]
        table.add_row(conditional, *cells, f"{exponent(seconds):.2f} (from 32 on)")
    console.print(table)


def main() -> None:
    torch.set_num_threads(1)
    console.print(
        f"d={EMBED_DIM}, {N_HEADS} heads, {N_LAYERS} residual layers, relative encoding, "
        f"batches of {BATCH_SIZE} groups.\nForward + backward, one thread, without the optimizer; "
        "conditionals counted, not padded copies.\n"
    )
    lengths, origin = movielens_lengths()
    static = show_shape("MovieLens shapes", lengths, origin=origin, n_items=50)
    verdict = "above" if static > TARGET else "NOT above"
    console.print(f"static on MovieLens shapes: {static:,.0f}, {verdict} {TARGET:,}\n")
    lengths, origin = instacart_lengths()
    show_shape("Instacart shapes", lengths, origin=origin, n_items=63)
    show_growth()


if __name__ == "__main__":
    main()
