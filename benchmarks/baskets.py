"""Baskets of known truth: 200,000 groups and 50,000 items, from a Parquet file to scores.

    python benchmarks/baskets.py                            # half an hour of one core
    python benchmarks/baskets.py --groups 20000 --items 5000
    python benchmarks/baskets.py --develop                  # the choice of the configurations
    python benchmarks/baskets.py --json docs/results/benchmarks/baskets.json

Every model is fitted by `exfam fit` in a process of its own, with one thread; its CPU seconds and
peak memory are those of that process. Nats and ranks are of the items of fresh baskets that the
training file has too, given the earlier items of their basket, over the whole catalog without what
the basket holds. "truth" is the process that drew the baskets: nothing can be better but by luck.
Configurations were chosen on a draw of its own (`--develop` fits all that were tried), latent
factor model and attention by nats, item-kNN, which has none, by NDCG@10.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import exfam
from exfam.efa.recommenders import item_knn
from exfam.estimator.evaluate import item_ranks
from exfam.files import write_atomically
from exfam.groups import Groups
from exfam.scores.metrics import gain_at, mean_over_groups, paired_bootstrap, ranks
from exfam.simulators import BasketProcess, simulate_baskets, write_baskets
from exfam_studies.common.provenance import this_run

DEVELOPMENT_DRAW, REPORTED_DRAW = 1, 2
N_TEST = 2_000
K = 10
COLUMNS = {"group": "order", "order": "line", "item": "product"}
# One batch shape for all: 4,096 items a step, of which a catalog of 50,000 takes 1 % to validate.
TRAINING = {
    "direction": "causal",
    "support": "hard",
    "unknown": "unk",
    "batch_tokens": 4096,
    "validation_fraction": 0.01,
    "progress": False,
}
SAMPLED = {"n_sampled_items": 1024, "weight_decay": 0.1}
ATTENTION = {"embed_dim": 64, "n_heads": 2, "head_dim": 32, "n_layers": 1, "dropout": 0.0}
# Tried with --develop --groups 50000 --items 12500.
TRIED: dict[str, list[dict]] = {
    "marginal": [{}],
    "item-knn": [
        {"n_neighbors": n, "shrinkage": s}
        for n, s in ((400, 30.0), (400, 100.0), (200, 30.0), (100, 30.0), (100, 100.0))
    ],
    "latent-factor": [
        {"dim": dim, "learning_rate": rate, "max_epochs": epochs, "pooling": pooling, **SAMPLED}
        for dim, rate, epochs, pooling in (
            (64, 0.02, 3, "mean"),
            (64, 0.02, 3, "sum"),
            (64, 0.05, 5, "mean"),
            (128, 0.02, 5, "mean"),
        )
    ],
    "efa": [
        {**ATTENTION, "learning_rate": 0.01, "max_epochs": epochs, **SAMPLED, **more}
        for epochs, more in (
            (5, {"n_sampled_items": 2048}),
            (3, {}),
            (5, {"weight_decay": 0.3}),
        )
    ],
}
CHOSEN = {model: tried[0] for model, tried in TRIED.items()}
NAMES = {
    "marginal": "popularity",
    "item-knn": "item-kNN",
    "latent-factor": "latent factor",
    "efa": "attention (EFA)",
    "truth": "truth",
}

console = Console(highlight=False, width=110)


@dataclass(frozen=True)
class Answers:
    """Log-probability (NaN: a model without) and rank of every item of the test baskets."""

    nats: np.ndarray
    rank: np.ndarray


@dataclass(frozen=True)
class Cost:
    """What a process took."""

    cpu_seconds: float
    seconds: float
    peak_gigabytes: float


def run(words: list[str]) -> Cost:
    """Run a process with one thread. Its errors are ours."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=sys.stderr, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"failed: {' '.join(words)}")
    # Kilobytes on Linux, bytes on macOS.
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return Cost(usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / unit)


def fit_words(folder: Path, model: str, options: dict, to: Path) -> list[str]:
    """`exfam fit` of a model, as words."""
    given = {**COLUMNS, "model": model, **TRAINING, **options}
    if model == "marginal":
        for name in ("batch_tokens", "validation_fraction", "progress"):
            del given[name]
    words = ["-m", "exfam", "fit", str(folder / "train.parquet"), "-o", str(to), "--overwrite"]
    for name, value in given.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def measure(folder: Path, model: str, options: dict) -> tuple[Answers, Cost]:
    """Fit, then score in another process, whose cost does not count."""
    answers = folder / "answers.npz"
    if model == "item-knn":
        words = ["--neighbors", json.dumps(options)]
        cost = run([__file__, str(folder), *words, "--answers", str(answers)])
    else:
        cost = run(fit_words(folder, model, options, folder / "model"))
        run([__file__, str(folder), "--model", str(folder / "model"), "--answers", str(answers)])
    with np.load(answers) as found:
        return Answers(found["nats"], found["rank"]), cost


def answer(arguments: argparse.Namespace) -> None:
    """In a process of its own: nats and ranks of the test baskets."""
    test = arguments.folder / "test.parquet"
    if arguments.neighbors:
        train = exfam.read(arguments.folder / "train.parquet", **COLUMNS)
        groups = exfam.read(test, **COLUMNS, vocabulary=train.vocabulary, unknown="unk")
        knn = item_knn(train, **json.loads(arguments.neighbors))
        rank = knn.ranks(groups, direction="causal", exclude=True)
        nats = np.full(len(rank), np.nan)
    else:
        model = exfam.load(arguments.model)
        groups = exfam.read(test, **COLUMNS, vocabulary=model.vocabulary_, unknown="unk")
        nats, rank = model.log_prob(groups), item_ranks(model.members_, groups)
    np.savez(arguments.answers, nats=nats, rank=rank)


def truth(process: BasketProcess, test: Groups) -> Answers:
    """The same of the process itself, some baskets at a time."""
    rank = []
    for first in range(0, len(test), 50):
        some = test[first : first + 50]
        rank.append(ranks(process.probabilities(some), test.item[some.elements()]))
    return Answers(process.log_prob(test), np.concatenate(rank))


def draw(
    folder: Path, n_groups: int, n_items: int, seed: int
) -> tuple[Groups, Answers, np.ndarray]:
    """Write the files; the test baskets, the truth about them, and the items of the training."""
    baskets = simulate_baskets(n_groups + N_TEST, n_items, seed=seed)
    train, test = baskets.groups[:n_groups], baskets.groups[n_groups:]
    write_baskets(train, folder / "train.parquet")
    write_baskets(test, folder / "test.parquet")
    trained = np.bincount(train.item[train.elements()], minlength=n_items) > 0
    console.print(
        f"draw {seed}: {n_groups:,} baskets of {train.n_elements:,} items to train on, "
        f"{trained.sum():,} of {n_items:,} items among them; "
        f"{len(test):,} baskets of {test.n_elements:,} items to test on"
    )
    return test, truth(baskets.truth, test), trained[test.item[test.elements()]]


def row(model: str, answers: Answers, known: np.ndarray, group: np.ndarray) -> dict:
    """Figures of one model, with standard errors over baskets."""
    gain = gain_at(answers.rank, k=K)
    figures = {
        "nats": answers.nats,
        f"ndcg@{K}": gain,
        f"recall@{K}": (answers.rank <= K).astype(float),
    }
    out: dict = {"model": model}
    for name, numbers in figures.items():
        if not np.isnan(numbers[known]).any():
            estimate = mean_over_groups(numbers[known], group[known])
            out |= {name: round(estimate.mean, 5), f"{name}-error": round(estimate.error, 5)}
    return out


def differences(answers: dict[str, Answers], known: np.ndarray, group: np.ndarray) -> dict:
    """Attention less each other model, with 95 % intervals over baskets."""
    found = {}
    for model in ("marginal", "item-knn", "latent-factor"):
        for name, of in (("nats", lambda t: t.nats), (f"ndcg@{K}", lambda t: gain_at(t.rank, k=K))):
            gap = of(answers["efa"]) - of(answers[model])
            if not np.isnan(gap[known]).any():
                interval = paired_bootstrap(gap[known], group[known], seed=0)
                found[f"{name} over {model}"] = [round(x, 5) for x in interval]
    return found


def show(rows: list[dict], title: str) -> None:
    table = Table(title=title)
    headers = ("model", "nats", f"NDCG@{K}", f"recall@{K}", "CPU s", "wall s", "peak GB")
    for header in headers:
        table.add_column(header, justify="left" if header == "model" else "right")
    for each in rows:
        cost = each.get("cost")
        options = ", ".join(f"{k} {v}" for k, v in each.get("options", {}).items())
        table.add_row(
            f"{NAMES[each['model']]}{' ' * bool(options)}{options}",
            *(f"{each[k]:.4f}" if k in each else "" for k in ("nats", f"ndcg@{K}", f"recall@{K}")),
            *([f"{cost[k]:.0f}" for k in ("cpu_seconds", "seconds")] if cost else ["", ""]),
            f"{cost['peak_gigabytes']:.2f}" if cost else "",
        )
    console.print(table)


def develop(folder: Path, arguments: argparse.Namespace) -> None:
    """All configurations that were tried, on the development draw."""
    test, best, known = draw(folder, arguments.groups, arguments.items, DEVELOPMENT_DRAW)
    group = np.repeat(np.arange(len(test)), test.lengths)
    rows = [row("truth", best, known, group)]
    for model, tried in TRIED.items():
        for options in tried if arguments.only in (None, model) else []:
            result, cost = measure(folder, model, options)
            rows.append(
                {**row(model, result, known, group), "options": options, "cost": asdict(cost)}
            )
            show(rows[-1:], "")
    show(rows, "development draw")


def report(folder: Path, arguments: argparse.Namespace) -> None:
    """The chosen configurations on the reported draw."""
    test, best, known = draw(folder, arguments.groups, arguments.items, REPORTED_DRAW)
    group = np.repeat(np.arange(len(test)), test.lengths)
    result, rows = {}, []
    for model, options in CHOSEN.items():
        result[model], cost = measure(folder, model, options)
        rows.append({**row(model, result[model], known, group), "cost": asdict(cost)})
        fitted = {**TRAINING, **options} if model in ("latent-factor", "efa") else options
        rows[-1] |= {"options": fitted, "n_configurations": len(TRIED[model]), "n_seeds": 1}
    rows.append(row("truth", best, known, group))
    show(
        [{k: v for k, v in each.items() if k != "options"} for each in rows],
        f"{known.sum():,} items of fresh baskets, each given the earlier ones",
    )
    gaps = differences(result, known, group)
    for name, (mean, low, high) in gaps.items():
        console.print(f"attention: {name}: {mean:+.4f} [{low:+.4f}, {high:+.4f}]")
    if arguments.json:
        told_of = {
            "run": asdict(this_run()),
            "groups": arguments.groups,
            "items": arguments.items,
            "elements": int(test.item.size - test.n_elements),
            "draw": REPORTED_DRAW,
            "targets": int(known.sum()),
            "left_out": int((~known).sum()),
            "rows": rows,
            "differences": gaps,
        }
        write_atomically(arguments.json, json.dumps(told_of, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--develop", action="store_true", help="fit all configurations tried")
    parser.add_argument("--only", choices=list(TRIED), help="with --develop: of one model")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    # Arguments of the processes that score.
    parser.add_argument("folder", type=Path, nargs="?", help=argparse.SUPPRESS)
    for name in ("--model", "--neighbors", "--answers"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder:
        answer(arguments)
        return
    with tempfile.TemporaryDirectory() as folder:
        (develop if arguments.develop else report)(Path(folder), arguments)


if __name__ == "__main__":
    main()
