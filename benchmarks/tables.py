"""Tables: CPU seconds, memory and rows a second of MaskedTableClassifier, with its peers beside it.

"masked table" is the default, "fast" leaves out its network, "attention network" is base="none".

    python benchmarks/tables.py                             # a million rows, mostly of CatBoost
    python benchmarks/tables.py --rows 20000 --test 20000   # for a quick look

A table of numbers (some missing), ordered labels, texts and a binary response that depends on them
singly and in pairs is drawn once. Every model has a process of its own with the same number of
threads, and its default settings: the peak memory is that of the whole process, with its imports
and the frame. Times start with the frame in memory and hold all that a user waits for: reading,
encoding, choices made by validation. Nats and accuracy are of fresh rows; "truth" is the law that
drew the responses: nothing can be better but by luck.
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
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

# What is asked of a million rows and thirty columns.
MOST_SECONDS, MOST_GIGABYTES, LEAST_ROWS_A_SECOND = 600, 6.0, 100_000
N_REPEATS = 3
LEVELS = 5
MISSING = 0.03

console = Console(highlight=False, width=110)


@dataclass(frozen=True)
class Cost:
    """What a model took, and its scores of fresh rows: means and standard errors."""

    fit_cpu_seconds: float
    fit_seconds: float
    fit_gigabytes: float
    rows_a_second: float
    rows_a_cpu_second: float
    gigabytes: float
    accuracy: float
    nats: float
    nats_error: float


def draw(n_rows: int, n_columns: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows with their response in the column "y", and the true probabilities of a 1."""
    truth, random = np.random.default_rng(seed), np.random.default_rng([seed, n_rows])
    n_labels = n_columns // 5
    n_numbers = n_columns - 2 * n_labels
    loadings = truth.normal(size=(4, n_columns))
    # What is seen of a row: four factors, and as much of each column's own.
    z = random.normal(size=(n_rows, 4)) @ loadings / 2 + random.normal(size=(n_rows, n_columns))
    z /= np.sqrt((loadings**2).sum(0) / 4 + 1)
    columns: dict[str, Any] = {}
    effects = np.empty((n_rows, n_columns))
    for place in range(n_columns):
        own = z[:, place]
        if place < n_numbers:
            # Every other number is skewed, every third may be missing.
            held = np.exp(own) if place % 2 else own
            absent = (random.random(n_rows) < MISSING) & (place % 3 == 0)
            columns[f"number{place}"] = np.where(absent, np.nan, held)
            effects[:, place] = np.sin(own * truth.uniform(0.5, 2.0))
        elif place < n_numbers + n_labels:
            level = np.clip(np.floor((own + 2.5) * LEVELS / 5), 0, LEVELS - 1).astype(np.int64)
            columns[f"level{place}"] = level
            effects[:, place] = level - (LEVELS - 1) / 2
        else:
            size = int(2 + 5 * (place - n_numbers - n_labels))
            label = (random.random(n_rows) ** 1.5 * size).astype(np.int64)
            names = np.array([f"label {code}" for code in range(size)])
            columns[f"text{place}"] = pd.Categorical.from_codes(label, names).astype(object)
            effects[:, place] = truth.normal(size=size)[label]
    logit = _logit(effects, truth)
    y = (random.random(n_rows) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return pd.DataFrame({**columns, "y": y}), 1 / (1 + np.exp(-logit))


def _logit(effects: np.ndarray, truth: np.random.Generator) -> np.ndarray:
    """Every column by itself, and as many pairs drawn at random."""
    n_columns = effects.shape[1]
    alone, together = truth.normal(size=(2, n_columns))
    pairs = truth.integers(n_columns, size=(n_columns, 2))
    logit = effects @ alone * 0.4 - 0.3
    for weight, (one, other) in zip(together, pairs, strict=True):
        logit += 0.4 * weight * effects[:, one] * effects[:, other]
    return logit


def masked_table(threads: int, seed: int, **options: Any) -> Any:
    import torch

    from exfam import MaskedTableClassifier

    torch.set_num_threads(threads)
    return MaskedTableClassifier(seed=seed, progress=False, **options)


def lightgbm(threads: int, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=threads, random_state=seed, verbose=-1)


def catboost(threads: int, seed: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        thread_count=threads, random_seed=seed, verbose=False, allow_writing_files=False
    )


OURS = {
    "masked table": masked_table,
    "masked table, fast": partial(masked_table, fast=True),
    "attention network": partial(masked_table, base="none"),
}
MODELS: dict[str, Callable[[int, int], Any]] = {
    **OURS,
    "LightGBM": lightgbm,
    "CatBoost": catboost,
}
PEERS = {"LightGBM": "lightgbm", "CatBoost": "catboost"}


def split(frame: pd.DataFrame, model: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Features as a model takes them, and the response."""
    X = frame.drop(columns="y")
    if model in PEERS:
        texts = {name: "category" for name in X if name.startswith("text")}
        X = X.astype(texts)
    return X, frame["y"].to_numpy()


def peak_gigabytes() -> float:
    # Kilobytes on Linux, bytes on macOS.
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds of all threads, seconds by the clock, and what the call returns."""
    cpu, clock = time.process_time(), time.perf_counter()
    result = call()
    return time.process_time() - cpu, time.perf_counter() - clock, result


def measure(folder: Path, model: str, threads: int, seed: int) -> Cost:
    """Fit and predict, in this process."""
    X, y = split(pd.read_parquet(folder / "train.parquet"), model)
    built = MODELS[model](threads, seed)
    if model == "CatBoost":
        built.set_params(cat_features=[name for name in X if name.startswith("text")])
    cpu, clock, _ = timed(lambda: built.fit(X, y))
    fit_peak = peak_gigabytes()
    del X, y
    X, y = split(pd.read_parquet(folder / "test.parquet"), model)
    # The best of several: other programs only ever add to it.
    spent = [timed(lambda: built.predict_proba(X)) for _ in range(N_REPEATS)]
    probability = spent[-1][2][:, 1]
    return Cost(
        cpu,
        clock,
        fit_peak,
        len(y) / min(each[1] for each in spent),
        len(y) / min(each[0] for each in spent),
        peak_gigabytes(),
        *scores(probability, y),
    )


def scores(probability: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, mean log-probability of the response in nats, and its standard error."""
    nats = np.log(np.clip(np.where(y == 1, probability, 1 - probability), 1e-15, 1.0))
    accuracy = ((probability > 0.5) == (y == 1)).mean()
    return float(accuracy), float(nats.mean()), float(nats.std() / len(nats) ** 0.5)


def measured(folder: Path, model: str, threads: int, seed: int) -> Cost:
    """The same in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--folder", str(folder)]
    command += ["--only", model, "--threads", str(threads), "--seed", str(seed)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def show(costs: dict[str, Cost | None], best: tuple[float, float, float]) -> None:
    table = Table(title="fit, then predict_proba of fresh rows")
    headers = ("model", "fit CPU s", "fit s", "fit GB", "rows/s", "rows/CPU s", "peak GB")
    for header in (*headers, "accuracy", "nats"):
        table.add_column(header, justify="left" if header == "model" else "right")
    for model, cost in costs.items():
        if cost is None:
            table.add_row(model, "not installed")
            continue
        table.add_row(
            model,
            *(f"{each:.1f}" for each in (cost.fit_cpu_seconds, cost.fit_seconds)),
            f"{cost.fit_gigabytes:.2f}",
            *(f"{each:,.0f}" for each in (cost.rows_a_second, cost.rows_a_cpu_second)),
            f"{cost.gigabytes:.2f}",
            f"{cost.accuracy:.4f}",
            f"{cost.nats:.4f} +- {cost.nats_error:.4f}",
        )
    accuracy, nats, error = best
    table.add_row("truth", *[""] * 6, f"{accuracy:.4f}", f"{nats:.4f} +- {error:.4f}")
    console.print(table)


def judge(model: str, cost: Cost) -> None:
    """Whether what is required of a million rows holds for those measured."""
    rules = {
        f"fit within {MOST_SECONDS} s": cost.fit_seconds <= MOST_SECONDS,
        f"within {MOST_GIGABYTES:g} GB": cost.gigabytes <= MOST_GIGABYTES,
        f"{LEAST_ROWS_A_SECOND:,} rows/s": cost.rows_a_second >= LEAST_ROWS_A_SECOND,
    }
    result = ", ".join(f"{name}: {'yes' if holds else 'NO'}" for name, holds in rules.items())
    console.print(f"{model}: {result}")


def report(folder: Path, arguments: argparse.Namespace) -> None:
    frame, probability = draw(
        arguments.rows + arguments.test, arguments.columns, arguments.draw_seed
    )
    train, test = frame[: arguments.rows], frame[arguments.rows :]
    best = scores(probability[arguments.rows :], test["y"].to_numpy())
    train.to_parquet(folder / "train.parquet")
    test.to_parquet(folder / "test.parquet")
    console.print(
        f"{arguments.rows:,} rows x {arguments.columns} columns and a binary response to fit, "
        f"{arguments.test:,} to predict; {arguments.threads} threads, load {os.getloadavg()[0]:.1f}"
    )
    del frame, train, test
    costs: dict[str, Cost | None] = {}
    for model in MODELS:
        absent = model in PEERS and find_spec(PEERS[model]) is None
        if arguments.only in (None, model):
            costs[model] = None
            if not absent:
                cost = measured(folder, model, arguments.threads, arguments.seed)
                costs[model] = cost
                # The next model may take an hour.
                console.print(
                    f"{model}: fit {cost.fit_seconds:.1f} s, {cost.rows_a_second:,.0f} rows/s"
                )
    show(costs, best)
    for model in OURS:
        if (own := costs.get(model)) is not None:
            judge(model, own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=30, help="beside the response")
    parser.add_argument("--test", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0, help="of the models")
    parser.add_argument("--draw-seed", type=int, default=0, help="of the table")
    parser.add_argument("--only", choices=list(MODELS))
    # Arguments of the processes that measure.
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        cost = measure(arguments.folder, arguments.only, arguments.threads, arguments.seed)
        print(json.dumps(asdict(cost)))
        return
    with tempfile.TemporaryDirectory() as folder:
        report(Path(folder), arguments)


if __name__ == "__main__":
    main()
