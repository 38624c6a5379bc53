"""CPU seconds, peak memory and scores of whole default fits, of one version beside another.

    python benchmarks/fits.py [--before PATH] [--times N] [--only NAME ...] [--out FILE]

Movies of MovieLens 100K and baskets of Instacart (a slice), October temperatures, cars and incomes
(30,000 rows): estimators as they are by default, of seed 0. Each fit is a process of its own on one
thread, versions in turn; CPU seconds (user and system) are of `fit` alone, data and what any
version imports before a fit aside, and the least of `--times`. What torch imports when it is asked
for an optimizer counts: a fit has to wait for it. Scores are what `score` returns for rows that
were not fitted: the data sets' validation part, where there is one, and test part. `--before` names
the sources of another version (a folder with `src` and `studies/src`); the last line is the
geometric mean of the ratios.
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
N_BASKETS, N_INCOMES = 6000, 30_000
VERSIONS = ("before", "this")
# Which some versions import with exfam, and others when they are first used.
LIBRARIES = ("narwhals", "numba", "pandas", "scipy.optimize", "scipy.stats", "sklearn.ensemble")

console = Console(highlight=False, width=110)
# An estimator, what it is fitted to, and parts to score by name.
Task = tuple[Any, tuple[Any, ...], dict[str, tuple[Any, ...]]]


def movielens() -> Task:
    from exfam import EFA
    from exfam_studies.efa.movielens_splits import movielens_items

    split = movielens_items("correct")
    parts = {"validation": (split.validation,), "test": (split.test,)}
    return EFA(progress=False), (split.train,), parts


def instacart() -> Task:
    from exfam import EFA
    from exfam_studies.efa.instacart import instacart_baskets

    split = instacart_baskets("correct")
    parts = {"validation": (split.validation[:N_BASKETS],), "test": (split.test,)}
    return EFA(progress=False), (split.train[:N_BASKETS].compact(),), parts


def temperatures() -> Task:
    from exfam import FieldEFA
    from exfam_studies.efa.temperature_data import field_splits, read_temperatures

    split = field_splits(read_temperatures())
    parts = {"validation": (split.validation,), "test": (split.test,)}
    return FieldEFA(progress=False), (split.train,), parts


def cars() -> Task:
    from benchmarks.arena.tabular.named import auto_mpg

    from exfam import MaskedTableRegressor

    data = auto_mpg()
    fitted = (data.train.cells, data.train.response)
    parts = {"test": (data.test.cells, data.test.response)}
    return MaskedTableRegressor(progress=False), fitted, parts


def incomes() -> Task:
    from benchmarks.arena.tabular.named import adult

    from exfam import MaskedTableClassifier

    data = adult(most=(N_INCOMES, N_INCOMES // 3))
    fitted = (data.train.cells, data.train.response)
    parts = {"test": (data.test.cells, data.test.response)}
    return MaskedTableClassifier(progress=False), fitted, parts


TASKS: dict[str, Callable[[], Task]] = {
    "MovieLens 100K, items": movielens,
    f"Instacart, {N_BASKETS:,} baskets": instacart,
    "October temperatures": temperatures,
    "auto-mpg": cars,
    f"Adult, {N_INCOMES:,} rows": incomes,
}


def measure(name: str) -> dict[str, float]:
    """The figures of one fit, in this process."""
    model, fitted, parts = TASKS[name]()
    for library in LIBRARIES:
        importlib.import_module(library)
    start = time.process_time()
    model.fit(*fitted)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    scores = {part: float(model.score(*rows)) for part, rows in parts.items()}
    return {"cpu": seconds, "peak_gb": peak, **scores}


def measured_apart(name: str, version: Path) -> dict[str, float]:
    folders = [version / "src", version / "studies" / "src", ROOT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--fit", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def measured(name: str, versions: dict[str, Path], *, n_times: int) -> list[dict[str, Any]]:
    """Versions in turn; of each the least CPU seconds, and scores, which are always the same."""
    found: dict[str, list[dict[str, float]]] = {version: [] for version in versions}
    for _ in range(n_times):
        for version, folder in versions.items():
            found[version].append(measured_apart(name, folder))
    return [
        {"fit": name, "version": version, **runs[0], "cpu": min(run["cpu"] for run in runs)}
        for version, runs in found.items()
    ]


def mean_ratio(rows: list[dict[str, Any]]) -> float | None:
    """The geometric mean of how many times less CPU this version takes."""
    cpu = {
        version: [row["cpu"] for row in rows if row["version"] == version] for version in VERSIONS
    }
    if not cpu["before"]:
        return None
    return float(np.exp(np.mean(np.log(cpu["before"]) - np.log(cpu["this"]))))


def show(rows: list[dict[str, Any]]) -> None:
    shown = Table(title="whole default fits, CPU seconds of one thread")
    for name in ("fit", "version", "CPU s", "peak GB", "validation", "test"):
        shown.add_column(name, justify="left" if name in ("fit", "version") else "right")
    for row in rows:
        scores = (f"{row[part]:.5f}" if part in row else "" for part in ("validation", "test"))
        figures = (f"{row['cpu']:.2f}", f"{row['peak_gb']:.2f}")
        shown.add_row(row["fit"], row["version"], *figures, *scores)
    console.print(shown)
    if (ratio := mean_ratio(rows)) is not None:
        console.print(f"geometric mean of before / this: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=TASKS)
    parser.add_argument("--out")
    parser.add_argument("--fit", choices=TASKS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(measure(arguments.fit)))
        return
    versions = {} if arguments.before is None else {"before": arguments.before}
    versions |= {"this": ROOT}
    rows = []
    what = f"CPU seconds of a fit, the least of {arguments.times} fresh processes"
    for name in arguments.only or TASKS:
        rows += measured(name, versions, n_times=arguments.times)
        if arguments.out:
            from kept import write_kept

            write_kept(arguments.out, rows, what=what, mean_ratio=mean_ratio(rows))
    show(rows)


if __name__ == "__main__":
    main()
