"""Large catalogs: time and peak memory of losses, fits and recommendations, up to 1,000,000 items.

    python benchmarks/catalog.py

Every row is a process of its own, so that its peak memory is its own: the largest resident set that
the system counted, the imports' (in the title) among it. Times are CPU seconds (user + sys) of
one thread, after a first step that is not counted. Peers are measured in the same run; "over" means
that a row was not run because it would need more than the limit.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional

from exfam.catalog.linear import LinearEta
from exfam.catalog.listed import ContextItems
from exfam.catalog.normalizer import ItemChoice, log_prob_of
from exfam.catalog.sampled import ItemSampler, sampled_log_prob
from exfam.efa.efa import EFA
from exfam.efa.group_estimator import GroupEstimator
from exfam.efa.latent_factor import LatentFactor
from exfam.groups import Groups

ROWS, DIM, BATCH, N_SAMPLED, N_ASKED = 512, 32, 512, 1000, 1000
LIMIT_GB = 4.0
SIZES = (10_000, 50_000, 100_000, 1_000_000)

console = Console(highlight=False, width=110)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def baskets(n_items: int, n_groups: int, *, seed: int = 0) -> Groups:
    """Groups of 5 to 15 items of a catalog in which few are frequent; none twice in a group."""
    random = np.random.default_rng(seed)
    lengths = random.integers(5, 16, n_groups)
    stop = np.cumsum(lengths)
    group = np.repeat(np.arange(n_groups), lengths)
    item = np.zeros(stop[-1], dtype=np.int64)
    again = np.ones(len(item), dtype=bool)
    while again.any():
        item[again] = n_items * random.random(again.sum()) ** 3
        order = np.lexsort((item, group))
        same = (np.diff(item[order]) == 0) & (np.diff(group[order]) == 0)
        again = np.zeros(len(item), dtype=bool)
        again[order[1:][same]] = True
    vocabulary = {"item": np.arange(n_items)}
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)


def loss(way: str, n_items: int) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Sum of nats of some rows, as (state, vectors, bias, item) -> nats."""
    if way == "plain softmax":
        return lambda h, w, b, t: functional.cross_entropy(h @ w.T + b, t, reduction="sum")
    if way == "torch linear_cross_entropy":
        options = torch.nn.LinearCrossEntropyOptions()
        return lambda h, w, b, t: functional.linear_cross_entropy(
            h, w, t, linear_bias=b, reduction="sum", options=options
        )
    if way == "exact":
        return lambda h, w, b, t: -log_prob_of(ItemChoice(LinearEta(h, w, b, n_items)), t).sum()
    if way == "exact, context excluded":
        code = torch.from_numpy(baskets(n_items, ROWS).pad(np.arange(ROWS)).item.numpy())
        where = (torch.arange(ROWS), torch.zeros(ROWS).long())
        seen = ContextItems.of(code, where, n_items=n_items, causal=False)

        def excluding(h: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
            choice = ItemChoice(LinearEta(h, w, b, n_items), excluded=(seen,))
            return -log_prob_of(choice, code[:, 0]).sum()

        return excluding
    sampler = ItemSampler(torch.ones(n_items), n=N_SAMPLED)
    return lambda h, w, b, t: (
        -sampled_log_prob(ItemChoice(LinearEta(h, w, b, n_items)), t, sampler()).sum()
    )


def measure_loss(way: str, n_items: int) -> dict[str, float]:
    """Forward and backward pass of 512 rows."""
    source = torch.Generator().manual_seed(0)
    state = torch.randn(ROWS, DIM, generator=source, requires_grad=True)
    vectors = (0.1 * torch.randn(n_items, DIM, generator=source)).requires_grad_()
    bias = torch.zeros(n_items, requires_grad=True)
    item = torch.randint(0, n_items, (ROWS,), generator=source)
    nats, spent = loss(way, n_items), []
    while len(spent) < 2 or (sum(spent) < 2.0 and len(spent) < 20):
        state.grad = bias.grad = None
        if vectors.grad is not None:  # as a fit does, see `exfam.training.steps`
            vectors.grad.zero_()
        start = time.process_time()
        nats(state, vectors, bias, item).backward()
        spent.append(time.process_time() - start)
    return {"seconds": float(np.median(spent[1:])), "peak": peak_gb()}


def estimator(way: str, **parameters: object) -> GroupEstimator:
    kind = EFA if way.startswith("EFA") else LatentFactor
    n_sampled = N_SAMPLED if way.endswith("sampled") else 0
    chosen = {"batch_size": BATCH, "validation_fraction": 0.0, "max_epochs": 2, "progress": False}
    return kind(**chosen, n_sampled_items=n_sampled, **parameters)


def measure_fit(way: str, n_items: int) -> dict[str, float]:
    """A fit of two epochs; the second one's CPU seconds a step, batches included."""
    if way.endswith("dense"):
        from exfam.likelihoods import two_part

        two_part.LARGE_CATALOG = 10**9
    n_steps = 10 if way.endswith("sampled") else 1
    groups = baskets(n_items, n_steps * BATCH)
    fitted = estimator(way).fit(groups)
    first, second = fitted.history_.rows
    seconds = (second.cpu_seconds - first.cpu_seconds) / (second.steps - first.steps)
    return {"seconds": seconds, "peak": peak_gb(), "targets": groups.n_targets / n_steps}


def measure_recommend(way: str, n_items: int) -> dict[str, float]:
    """The 10 most probable items of 1,000 groups, by a fitted model."""
    fitted = estimator(way + ", sampled").fit(baskets(n_items, BATCH))
    asked = baskets(n_items, N_ASKED, seed=1)
    start = time.process_time()
    result = fitted.recommend(asked, k=10)
    assert (
        result.items.shape == (N_ASKED, 10) and (np.diff(result.probabilities, axis=1) <= 0).all()
    )
    return {"seconds": time.process_time() - start, "peak": peak_gb()}


MEASURES = {"loss": measure_loss, "fit": measure_fit, "recommend": measure_recommend}


def expected_gb(what: str, way: str, n_items: int) -> float:
    """Memory of a row's largest arrays: outputs, their softmax and gradients."""
    if way == "plain softmax":
        return 3 * 4e-9 * ROWS * n_items
    if way.endswith("dense"):  # padded elements, and what support keeps of each
        return 5 * 4e-9 * BATCH * 15 * n_items
    return 0.0


def measured(what: str, way: str, n_items: int) -> dict[str, float] | None:
    """One row, from a process of its own; None where it would need more than the limit."""
    if expected_gb(what, way, n_items) > LIMIT_GB:
        return None
    command = [sys.executable, str(Path(__file__).resolve()), "--row", what, way, str(n_items)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(title: str, what: str, rows: list[tuple[str, int]], *, unit: float, header: str) -> None:
    table = Table(title=title)
    for name in ("items", "way", header, "peak GB"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for way, n_items in rows:
        result = measured(what, way, n_items)
        cells = ("over", f"> {LIMIT_GB:g}")
        if result is not None:
            cells = (f"{result['seconds'] / unit:,.4g}", f"{result['peak']:.2f}")
        table.add_row(f"{n_items:,}", way, *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", nargs=3)
    row = parser.parse_args().row
    if row:
        torch.set_num_threads(1)
        print(json.dumps(MEASURES[row[0]](row[1], int(row[2]))))
        return
    losses = ("plain softmax", "torch linear_cross_entropy", "exact", "exact, context excluded")
    show(
        f"loss of {ROWS} rows of {DIM} numbers, forward and backward "
        f"(imports alone: {peak_gb():.2f} GB)",
        "loss",
        [(way, n) for n in SIZES for way in (*losses, f"{N_SAMPLED} sampled")],
        unit=1e-3,
        header="CPU ms",
    )
    models = ("EFA", "LatentFactor")
    fits = [(f"{name}, dense", 10_000) for name in models]
    sizes = (10_000, 100_000, 1_000_000)
    fits += [
        (f"{name}, {way}", n) for n in sizes for name in models for way in ("exact", "sampled")
    ]
    show(
        f"a training step of {BATCH} groups of 5 to 15 items, hard support ({N_SAMPLED} sampled)",
        "fit",
        fits,
        unit=1.0,
        header="CPU s a step",
    )
    show(
        f"the 10 most probable items of each of {N_ASKED:,} groups",
        "recommend",
        [(name, n) for n in (100_000, 1_000_000) for name in models],
        unit=1.0,
        header="CPU s",
    )


if __name__ == "__main__":
    main()
