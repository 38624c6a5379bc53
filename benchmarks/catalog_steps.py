"""A training step by the size of the catalog: CPU time, peak memory, bytes between two ranks.

    python benchmarks/catalog_steps.py [--before PATH] [--out FILE]

Steps of 64 groups of 5 to 15 items on one thread, each fit in a process of its own: exact sums over
1,000 items, 1,000 sampled of 100,000 and 1,000,000. `--before` names the sources of another
version, which is measured in turn with this one. Times are medians of the CPU seconds of a step
(user + sys), the first five left out. Bytes are those that one of two ranks sends in a step.
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
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

SIZES = (1_000, 100_000, 1_000_000)
MODELS = ("EFA", "LatentFactor")
BATCH, N_STEPS, N_LEFT_OUT, N_SAMPLED = 64, 30, 5, 1000
HERE = Path(__file__).resolve().parents[1] / "src"

console = Console(highlight=False, width=110)


def sampled_groups(n_items: int, n_groups: int) -> Any:
    """Groups of 5 to 15 items of a catalog in which few are frequent."""
    from exfam.groups import Groups

    random = np.random.default_rng(0)
    lengths = random.integers(5, 16, n_groups)
    stop = np.cumsum(lengths)
    item = (n_items * random.random(stop[-1]) ** 3).astype(np.int64)
    vocabulary = {"item": np.arange(n_items)}
    return Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)


def noting(owner: Any, name: str, note: Callable[..., None]) -> None:
    """Have a function report its arguments and CPU seconds."""
    real = getattr(owner, name)

    def noted(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        result = real(*arguments, **options)
        note(time.process_time() - start, *arguments)
        return result

    setattr(owner, name, noted)


def measure(model: str, n_items: int) -> dict[str, float]:
    """One fit, which may be that of one of two ranks."""
    import exfam
    from exfam.training.ranks import is_main_rank
    from exfam.training.torch_engine import TorchEngine

    seconds: list[float] = []
    sent: list[list[int]] = [[]]
    noting(TorchEngine, "step", lambda spent, *_: (seconds.append(spent), sent.append([])))
    for name in ("all_reduce", "all_gather"):
        noting(torch.distributed, name, lambda _, *given: sent[-1].append(given[-1].nbytes))
    sampled = N_SAMPLED if n_items > N_SAMPLED else 0
    options = {"base": "none", "support": "none", "dropout": 0.0} if model == "EFA" else {}
    fitted = getattr(exfam, model)(
        n_sampled_items=sampled, batch_size=BATCH, max_epochs=1, validation_fraction=0.0,
        progress=False, **{"support": "none", **options},
    )  # fmt: skip
    fitted.fit(sampled_groups(n_items, N_STEPS * BATCH))
    if not is_main_rank():
        raise SystemExit
    steps = sent[N_LEFT_OUT:-1]
    return {
        "cpu_ms": 1e3 * float(np.median(seconds[N_LEFT_OUT:])),
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "bytes": float(np.median([sum(messages) for messages in steps])),
    }


def measured(source: Path, model: str, n_items: int, *, n_ranks: int = 1) -> dict[str, float]:
    """The same, in a process of its own or in two that torchrun starts."""
    launch = [sys.executable]
    if n_ranks > 1:
        launch += ["-m", "torch.distributed.run", "--nproc-per-node", str(n_ranks)]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command = [*launch, str(Path(__file__).resolve()), "--row", model, str(n_items)]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows_of_sizes(sources: dict[str, Path], *, n_times: int) -> list[dict[str, Any]]:
    """Versions in turn, the medians of their figures."""
    rows = []
    for n_items in SIZES:
        for model in MODELS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in sources}
            for _ in range(n_times):
                for name, source in sources.items():
                    found[name].append(measured(source, model, n_items))
            for name, source in sources.items():
                ranks = measured(source, model, n_items, n_ranks=2)
                figures = {
                    key: float(np.median([one[key] for one in found[name]]))
                    for key in ("cpu_ms", "peak_gb")
                }
                figures |= {"bytes": ranks["bytes"], "cpu_ms_of_a_rank": ranks["cpu_ms"]}
                rows.append({"items": n_items, "model": model, "version": name, **figures})
                console.print(rows[-1])
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"a training step of {BATCH} groups of 5 to 15 items")
    headers = (
        "items",
        "model",
        "version",
        "CPU ms",
        "peak GB",
        "CPU ms of 1 of 2 ranks",
        "MB sent",
    )
    for header in headers:
        table.add_column(header, justify="left" if header in ("model", "version") else "right")
    for row in rows:
        numbers = f"{row['cpu_ms']:.1f}", f"{row['peak_gb']:.2f}", f"{row['cpu_ms_of_a_rank']:.1f}"
        mb = f"{row['bytes'] / 1e6:.3f}"
        table.add_row(f"{row['items']:,}", row["model"], row["version"], *numbers, mb)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--row", nargs=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.row:
        print(json.dumps(measure(arguments.row[0], int(arguments.row[1]))))
        return
    before = {} if arguments.before is None else {"before": arguments.before}
    rows = rows_of_sizes({**before, "this": HERE}, n_times=arguments.times)
    show(rows)
    if arguments.out:
        from kept import write_kept

        what = f"steps of {BATCH} groups, {N_SAMPLED} items sampled where there are more"
        write_kept(arguments.out, rows, what=what)


if __name__ == "__main__":
    main()
