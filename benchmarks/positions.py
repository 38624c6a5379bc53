"""Locality and symmetry of attention: vectorized, and as loops over the equations, in one run.

    python benchmarks/positions.py                    # 72 heads of 128 positions
    python benchmarks/positions.py --length 64 --heads 12 --long 1024

Both score the same matrices and must agree to 1e-6. Then one matrix of many positions is scored in
a process of its own, which shows how much memory that takes beside the matrix. CPU seconds of one
thread.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from exfam.positions import locality, symmetry

TARGET = 20
console = Console(highlight=False, width=100)


def drawn(heads: int, length: int) -> torch.Tensor:
    """Attention that falls with the distance, each head at its own rate, and noise."""
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(length)
    rate = torch.rand(heads, 1, 1, generator=generator) / 10
    noise = torch.randn(heads, length, length, generator=generator)
    return (noise - rate * (place - place[:, None]).abs()).softmax(-1)


def loop_locality(weights: list[list[float]]) -> float:
    n = len(weights)
    return sum(weights[i][j] * 2.0 ** -abs(i - j) for i in range(n) for j in range(n)) / n


def loop_symmetry(weights: list[list[float]]) -> float:
    n, total, pairs = len(weights), 0.0, 0
    for i in range(n):
        apart = [
            abs(weights[i][i - k] - weights[i][i + k]) for k in range(1, min(i, n - 1 - i) + 1)
        ]
        if not apart:
            continue
        least, span = min(apart), max(apart) - min(apart)
        total += sum((each - least) / span for each in apart) if span else 0.0
        pairs += len(apart)
    return 1.0 - total / pairs


def seconds(work: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def memory(length: int) -> tuple[float, float]:
    """GB of peak memory beside the matrix, and CPU seconds, of scoring one long matrix."""
    command = [sys.executable, __file__, "--measure", str(length)]
    result = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(result[0]), float(result[1])


def measure(length: int) -> None:
    weights = torch.full((length, length), 1.0 / length)
    weights += torch.rand(length, length) / length
    weights /= weights.sum(-1, keepdim=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = seconds(lambda: (locality(weights), symmetry(weights)), 1)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) / 2**20, spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=int, default=72)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--long", type=int, default=4096)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.measure:
        measure(options.measure)
        return
    weights = drawn(options.heads, options.length)
    listed = weights.tolist()
    table = Table(title=f"{options.heads} heads of {options.length} positions, CPU ms")
    for header in ("score", "exfam", "loops", "ratio", "largest difference"):
        table.add_column(header, justify="left" if header == "score" else "right")
    spent = {"exfam": 0.0, "loops": 0.0}
    for name, own, loops in (
        ("locality", locality, loop_locality),
        ("symmetry", symmetry, loop_symmetry),
    ):
        own(weights)
        ours = seconds(lambda own=own: own(weights), 20)
        theirs = seconds(lambda loops=loops: [loops(matrix) for matrix in listed], 1)
        expected = torch.tensor([loops(matrix) for matrix in listed], dtype=torch.float64)
        apart = (own(weights) - expected).abs().max().item()
        assert apart < 1e-6, f"{name} differs from the loops by {apart}"
        spent = {"exfam": spent["exfam"] + ours, "loops": spent["loops"] + theirs}
        table.add_row(
            name, f"{1e3 * ours:.1f}", f"{1e3 * theirs:.1f}", f"{theirs / ours:.0f}", f"{apart:.0e}"
        )
    ratio = spent["loops"] / spent["exfam"]
    table.add_row("both", *(f"{1e3 * result:.1f}" for result in spent.values()), f"{ratio:.0f}", "")
    console.print(table)
    console.print(f"{ratio:.0f} times faster; the aim is {TARGET}")
    gigabytes, cpu = memory(options.long)
    own = 4 * options.long**2 / 2**30
    console.print(
        f"{options.long:,} positions: {cpu:.1f} CPU s, {gigabytes:.2f} GB beside the matrix's "
        f"{own:.2f} GB"
    )


if __name__ == "__main__":
    main()
