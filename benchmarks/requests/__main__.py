"""Requests of one group, by size of the catalog: CPU time of score, predict, recommend, explain.

    python -m benchmarks.requests
    python -m benchmarks.requests --before ../older --out benchmarks/results/requests.json

Catalogs are simulated, and models are fitted for one epoch: what they say is of no matter here.
Every request is of one group of 8 items, given as a list of labels unless the row says otherwise.
"network" is the time of the same tensors from a padded batch, measured in turn with the requests;
"overhead" is what the request takes beyond it. All are milliseconds of CPU of one thread (p50 and
p99 of the requests), but for groups a second, which are by the clock: 512 groups a call, by torch
threads. SASRec is 60 lines of plain torch with the sizes of the first model, `implicit` its own.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from benchmarks.kept import write_kept
from benchmarks.requests.networks import networks
from benchmarks.requests.peers import DIM, HEADS, implicit_models, sasrec
from rich.console import Console
from rich.table import Table

from exfam.efa.efa import EFA
from exfam.efa.rankers import EASE, ItemKNN, Popularity
from exfam.groups import Groups

SIZES = (1_000, 100_000, 1_000_000)
LENGTH, N_GROUPS, N_BATCH = 8, 400, 512
COLUMNS = {"group": "user", "item": "item", "order": "rows", "direction": "causal"}
FIT: dict[str, Any] = {"support": "none", "unknown": "unk", **COLUMNS}
TRAIN: dict[str, Any] = {"max_epochs": 1, "n_sampled_items": 500, "ensemble": 1, "progress": False}
NETWORK = {"embed_dim": DIM, "n_heads": HEADS, "head_dim": DIM // HEADS, "n_layers": 1}
MODELS: dict[str, Callable[[], Any]] = {
    "EFA, attention alone": lambda: EFA(
        **FIT, **TRAIN, **NETWORK, feed_forward_dim=DIM, base="none", dropout=0.0
    ),
    "EFA, one member": lambda: EFA(**FIT, **TRAIN),
    "EFA, base alone": lambda: EFA(**FIT, attention="none", progress=False),
    "Popularity": lambda: Popularity(**FIT),
    "ItemKNN": lambda: ItemKNN(**FIT, n_neighbors=20, shrinkage=0.0),
    "EASE": lambda: EASE(**FIT, ridge=100.0),
}
MOST_OF_EASE = 1_000

console = Console(highlight=False, width=120)


def groups_of(n_items: int, n_groups: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes and groups: few items are frequent, and none is twice in a group."""
    random = np.random.default_rng(seed)
    item = (n_items * random.random((n_groups, 4 * LENGTH)) ** 3).astype(np.int64)
    rows = [list(dict.fromkeys(row.tolist()))[:LENGTH] for row in item]
    return np.array(rows).ravel(), np.repeat(np.arange(n_groups), LENGTH)


def as_groups(item: np.ndarray, group: np.ndarray, labels: np.ndarray) -> Groups:
    stop = np.cumsum(np.bincount(group))
    return Groups(
        start=stop - LENGTH, stop=stop, item=item, vocabulary={"item": labels}, ordered=True
    )


def milliseconds(call: Callable[[], Any]) -> float:
    start = time.thread_time()
    call()
    return 1e3 * (time.thread_time() - start)


def measured(
    request: Callable[[], Any],
    network: Callable[[], Any] | None,
    budget: float,
    *,
    least: int = 15,
) -> dict:
    """p50 and p99 of a request, the network's p50, and of the two in turn the difference."""
    first = milliseconds(request)
    if network is not None:
        network()
    pairs: list[tuple[float, float]] = []
    stop = time.monotonic() + budget
    while len(pairs) < least or (len(pairs) < 400 and time.monotonic() < stop):
        alone = 0.0 if network is None else milliseconds(network)
        pairs.append((milliseconds(request), alone))
    whole, alone = np.array(pairs).T
    row = {"first": first, "p50": float(np.median(whole)), "p99": float(np.quantile(whole, 0.99))}
    if network is not None:
        row |= {"network": float(np.median(alone)), "overhead": float(np.median(whole - alone))}
    return {**row, "n": len(pairs)}


def requests_of_model(model: Any, item: np.ndarray, labels: np.ndarray) -> dict[str, Callable]:
    some = labels[item[:LENGTH]].tolist()
    frame = {"user": [1] * LENGTH, "item": some}
    pandas, groups = pd.DataFrame(frame), as_groups(item[:LENGTH], np.zeros(LENGTH, int), labels)
    found: dict[str, Callable] = {
        "recommend": lambda: model.recommend(some),
        "recommend, dict": lambda: model.recommend(frame),
        "recommend, pandas": lambda: model.recommend(pandas),
        "recommend, Groups": lambda: model.recommend(groups),
        "score": lambda: model.score(some),
        "predict": lambda: model.predict(some),
    }
    if type(model) is not Popularity:
        found["explain"] = lambda: model.explain(some)
    return found


def relations_of_model(model: Any, labels: np.ndarray) -> dict[str, Callable]:
    return {
        "complements": lambda: model.complements(labels[0]),
        "similar_items": lambda: model.similar_items(labels[0]),
    }


def rows_of(name: str, n_items: int, arguments: argparse.Namespace) -> list[dict]:
    labels = np.array([f"item{number:07d}" for number in range(n_items)], dtype=object)
    model = MODELS[name]().fit(as_groups(*groups_of(n_items, N_GROUPS, 0), labels))
    item, group = groups_of(n_items, N_BATCH, 1)
    alone, rows = networks(model, labels[item[:LENGTH]].tolist()), []
    for request, call in requests_of_model(model, item, labels).items():
        figures = measured(call, alone.get(request.partition(",")[0]), arguments.budget)
        rows.append({"model": name, "items": n_items, "request": request, **figures})
    if n_items <= arguments.most_related and name != "Popularity":
        for request, call in relations_of_model(model, labels).items():
            rows.append(
                {
                    "model": name,
                    "items": n_items,
                    "request": request,
                    **measured(call, None, arguments.budget / 4, least=2),
                }
            )
    many = as_groups(item, group, labels)
    for threads in (1, 2) if n_items <= 100_000 else ():
        torch.set_num_threads(threads)
        seconds = [clock(lambda: model.recommend(many)) for _ in range(4)]
        rate = N_BATCH / min(seconds)
        rows.append(
            {
                "model": name,
                "items": n_items,
                "request": f"recommend, {threads} threads",
                "groups a second": rate,
            }
        )
    torch.set_num_threads(1)
    return rows


def clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def rows_of_peers(n_items: int, budget: float) -> list[dict]:
    labels = np.array([f"item{number:07d}" for number in range(n_items)], dtype=object)
    item, group = groups_of(n_items, N_GROUPS, 0)
    some = labels[item[:LENGTH]].tolist()
    requests = {("SASRec by hand", name): call for name, call in sasrec(labels).items()}
    others = implicit_models(item, group, labels)
    requests |= {(name, "recommend"): call for name, call in others.items()}
    rows = [
        {"model": name, "items": n_items, "request": request}
        | measured(lambda call=call: call(some), None, budget)
        for (name, request), call in requests.items()
    ]
    if not others:
        rows.append({"model": "implicit", "items": n_items, "request": "not installed"})
    return rows


def show(rows: list[dict]) -> None:
    title = f"{rows[0]['version']}: milliseconds of CPU, one thread"
    table = Table(title=title)
    figures = ("first", "p50", "p99", "network", "overhead", "groups a second")
    for header in ("model", "items", "request", *figures):
        table.add_column(header, justify="left" if header in ("model", "request") else "right")
    for row in rows:
        cells = [f"{row[name]:,.3g}" if name in row else "" for name in figures]
        table.add_row(row["model"], f"{row['items']:,}", row["request"], *cells)
    console.print(table)


def _rounded(row: dict) -> dict:
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def rows_of_size(n_items: int, arguments: argparse.Namespace) -> list[dict]:
    rows = []
    for name in arguments.models:
        if name != "EASE" or n_items <= MOST_OF_EASE:
            rows += rows_of(name, n_items, arguments)
    return rows + rows_of_peers(n_items, arguments.budget)


def in_process(n_items: int, version: str, arguments: argparse.Namespace) -> list[dict]:
    """The rows of a size by a process of its own, with the code of a version."""
    root, here = Path(__file__).parents[2], arguments.before if version == "before" else None
    source = [f"{here or root}/src", f"{here or root}/studies/src", str(root)]
    words = ["--models", *arguments.models, "--budget", str(arguments.budget)]
    words += ["--most-related", str(arguments.most_related), "--sizes", str(n_items)]
    with tempfile.TemporaryDirectory() as folder:
        words += ["--rows", f"{folder}/rows.json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(source)}
        command = [sys.executable, "-m", "benchmarks.requests", *words]
        subprocess.run(command, env=environment, cwd=root, check=True)
        rows = json.loads(Path(f"{folder}/rows.json").read_text())
    return [{"version": version, **row} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of each row")
    parser.add_argument("--most-related", type=int, default=10_000, help="items of complements")
    parser.add_argument("--before", type=Path, help="a checkout of older code, measured in turn")
    parser.add_argument("--out", type=Path, help="where to keep the figures")
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.rows:
        rows = [_rounded(row) for row in rows_of_size(arguments.sizes[0], arguments)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        arguments.rows.write_text(json.dumps([{**row, "peak GB": round(peak, 2)} for row in rows]))
        return
    rows = []
    for n_items in arguments.sizes:
        for version in ("before", "after") if arguments.before else ("after",):
            rows += in_process(n_items, version, arguments)
            show([x for x in rows if (x["items"], x["version"]) == (n_items, version)])
        if arguments.out:
            write_kept(arguments.out, rows, what="requests of one group of 8 items")


if __name__ == "__main__":
    main()
