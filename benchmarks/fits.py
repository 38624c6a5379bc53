"""CPU seconds, peak memory and scores of whole default fits, of one version beside another.

    python benchmarks/fits.py [--before PATH] [--times N] [--only NAME ...] [--out FILE]
    python benchmarks/fits.py --devices cpu cuda [--out FILE]

Movies of MovieLens 100K and baskets of Instacart (a slice), October temperatures, cars and incomes
(30,000 rows): estimators as they are by default, of seed 0. Each fit is a process of its own on one
thread, versions in turn; CPU seconds (user and system) are of `fit` alone, data and what any
version imports before a fit aside, and the least of `--times`. What torch imports when it is asked
for an optimizer counts: a fit has to wait for it. Scores are what `score` returns for rows that
were not fitted: the data sets' validation part, where there is one, and test part. `--before` names
the sources of another version (a folder with `src` and `studies/src`); the last line is the
geometric mean of the ratios.

With `--devices`, models are fitted on each of them, with as many threads as there are processors,
and seconds are those of a clock; histories and ratings of MovieLens 100K are fitted too.
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
import torch
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


def histories() -> Task:
    from benchmarks.arena.kinds.sequences import KIND

    from exfam import EFA

    data = KIND.sources["movielens_100k"].read()
    parts = {"validation": (data.validation,), "test": (data.test,)}
    model = EFA(direction="causal", support="hard", progress=False)
    return model, (data.train,), parts


def ratings() -> Task:
    from benchmarks.arena.kinds.ratings import KIND

    from exfam import EFA

    data = KIND.sources["movielens_ratings"].read()
    parts = {"validation": (data.validation,), "test": (data.test,)}
    return EFA(parts="values", progress=False), (data.train,), parts


TASKS: dict[str, Callable[[], Task]] = {
    "MovieLens 100K, items": movielens,
    f"Instacart, {N_BASKETS:,} baskets": instacart,
    "October temperatures": temperatures,
    "auto-mpg": cars,
    f"Adult, {N_INCOMES:,} rows": incomes,
}
BY_DEVICE = TASKS | {"MovieLens 100K, histories": histories, "MovieLens 100K, ratings": ratings}


def measure(name: str, *, device: str) -> dict[str, float]:
    """The figures of one fit, in this process."""
    model, fitted, parts = BY_DEVICE[name]()
    model.set_params(device=device)
    for library in LIBRARIES:
        importlib.import_module(library)
    if device != "cpu":
        # The first use of a device takes seconds, which no second fit waits for.
        torch.ones(1, device=device).item()
    cpu, start = time.process_time(), time.perf_counter()
    model.fit(*fitted)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    scores = {part: float(model.score(*rows)) for part, rows in parts.items()}
    return {"cpu": cpu, "seconds": seconds, "peak_gb": peak, **scores}


def measured_apart(name: str, version: Path, *, device: str = "") -> dict[str, float]:
    """The figures of one fit in a process of its own: on one thread, or on a device."""
    folders = [version / "src", version / "studies" / "src", ROOT, os.getenv("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, folders)).rstrip(os.pathsep),
    }
    if not device:
        environment |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--fit", name, "--devices", device or "cpu"]
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


def show(
    title: str, rows: list[dict[str, Any]], by: str, figures: dict[str, tuple[str, str]]
) -> None:
    """A table of fits; `figures`: by header, keys of rows and how their numbers are written."""
    shown = Table(title=f"whole default fits, {title}")
    for name in ("fit", by, *figures, "validation", "test"):
        shown.add_column(name, justify="left" if name in ("fit", by) else "right")
    for row in rows:
        scores = (f"{row[part]:.5f}" if part in row else "" for part in ("validation", "test"))
        written = (f"{row[key]:{form}}" for key, form in figures.values())
        shown.add_row(row["fit"], row[by], *written, *scores)
    console.print(shown)


def by_device(names: list[str], devices: list[str], out: str | None) -> None:
    rows = []
    for name in names:
        for device in devices:
            figures = measured_apart(name, ROOT, device=device)
            rows.append({"fit": name, "device": device, **figures})
            if out:
                from kept import write_kept

                gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
                write_kept(out, rows, what="seconds of a fit, one fresh process each", gpu=gpu)
    figures = {"seconds": ("seconds", ".1f"), "CPU s": ("cpu", ".1f")}
    show("seconds of a clock", rows, "device", figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=BY_DEVICE)
    parser.add_argument("--devices", nargs="+", default=[])
    parser.add_argument("--out")
    parser.add_argument("--fit", choices=BY_DEVICE, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(measure(arguments.fit, device=arguments.devices[0])))
        return
    if arguments.devices:
        by_device(arguments.only or list(BY_DEVICE), arguments.devices, arguments.out)
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
    figures = {"CPU s": ("cpu", ".2f"), "peak GB": ("peak_gb", ".2f")}
    show("CPU seconds of one thread", rows, "version", figures)
    if (ratio := mean_ratio(rows)) is not None:
        console.print(f"geometric mean of before / this: {ratio:.2f}")


if __name__ == "__main__":
    main()
