"""How long a process takes to start: imports, commands, a saved model's first recommendation.

    python benchmarks/starting.py [--before PATH] [--times N] [--out FILE]

Medians of CPU seconds (user + sys) of fresh processes with warm files, on one thread. `--before`
names the sources of another version, measured in turn with this one. `import torch` alone, which
no version changes, stands beside both: what an import costs is what it adds to it.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parents[1] / "src"
STATEMENTS = (
    "import torch",
    "import exfam",
    "from exfam import EFA",
    "from exfam import Groups",
    "from exfam import read",
    "from exfam import Poisson",
    "from exfam import WordVectors",
    "from exfam import SkipGram",
    "from exfam import CBOW",
    "from exfam import FieldEFA",
    "from exfam import MaskedTableRegressor",
    "from exfam import MaskedLanguageModel",
)
COMMANDS = ("--help", "doctor")

console = Console(highlight=False, width=110)


def cpu_seconds(arguments: Sequence[str], source: Path) -> float:
    """User and system time of a fresh process of Python and of those that it starts."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def save_model(folder: Path) -> None:
    """A small model of baskets, for the process that loads it."""
    from exfam import EFA

    random = np.random.default_rng(0)
    baskets = [[f"item {k}" for k in random.integers(0, 50, 6)] for _ in range(200)]
    EFA(max_epochs=1, progress=False).fit(baskets).save(folder)


def tasks_of(model: Path) -> dict[str, list[str]]:
    """What is done -> the arguments of Python that do it."""
    first = f"import exfam; exfam.load({str(model)!r}).recommend(['item 1', 'item 2'])"
    commands = {f"exfam {command}": ["-m", "exfam", command] for command in COMMANDS}
    statements = {statement: ["-c", statement] for statement in STATEMENTS}
    return {**statements, **commands, "load a model, recommend once": ["-c", first]}


def measured(sources: dict[str, Path], *, n_times: int) -> list[dict[str, Any]]:
    """Versions in turn; the first process of each, which may write compiled files, is left out."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        models = {name: Path(folder) / name for name in sources}
        for name, source in sources.items():
            # Each version loads what it saved: an earlier one may not know all parameters.
            cpu_seconds([__file__, "--save", str(models[name])], source)
        tasks = {name: tasks_of(model) for name, model in models.items()}
        for task in tasks["this"]:
            seconds: dict[str, list[float]] = {name: [] for name in sources}
            for _ in range(n_times + 1):
                for name, source in sources.items():
                    seconds[name].append(cpu_seconds(tasks[name][task], source))
            medians = {name: float(np.median(times[1:])) for name, times in seconds.items()}
            rows.append({"task": task, "cpu_seconds": medians})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    names = list(rows[0]["cpu_seconds"])
    torch_alone = rows[0]["cpu_seconds"]
    table = Table(title="CPU seconds of a fresh process, and those over `import torch`")
    table.add_column("what it does")
    for name in names:
        table.add_column(name, justify="right")
        table.add_column("over torch", justify="right")
    for row in rows:
        cells = [
            cell
            for name in names
            for seconds in [row["cpu_seconds"][name]]
            for cell in (f"{seconds:.2f}", f"{seconds - torch_alone[name]:+.2f}")
        ]
        table.add_row(row["task"], *cells)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--out")
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    if arguments.save:
        save_model(arguments.save)
        return
    before = {} if arguments.before is None else {"before": arguments.before}
    rows = measured({**before, "this": HERE}, n_times=arguments.times)
    show(rows)
    if arguments.out:
        from kept import write_kept

        what = f"medians of CPU seconds of {arguments.times} fresh processes"
        write_kept(arguments.out, rows, what=what)


if __name__ == "__main__":
    main()
