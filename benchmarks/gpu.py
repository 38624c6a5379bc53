"""Training on a GPU: items a second, beside what the device itself can do in the same run.

    python benchmarks/gpu.py [--out FILE] [--seconds 6]

Causal EFA of base="none" at lengths of 200 and 2,000, with exact sums over 10,000 items and 1,000
sampled of 1,000,000, in float32 and with precision="bfloat16". A step is everything between two
batches; the first ten are left out. "Syncs" are points of a step at which the host waits for the
device, as torch's debug mode counts them; "matmul" and "attention" are rates of a product of 8,192
rows and columns and of causal `scaled_dot_product_attention` in bfloat16. Without a GPU sizes are
small and the processor is measured.
"""

import argparse
import time
import warnings
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from exfam import EFA
from exfam.groups import Groups
from exfam.training.torch_engine import TorchEngine

LENGTHS, CATALOGS, PRECISIONS = (200, 2000), (10_000, 1_000_000), ("float32", "bfloat16")
TOKENS, LEFT_OUT, N_SAMPLED, DIM, LAYERS = 65_536, 10, 1000, 128, 2
ATTEND = torch.nn.functional.scaled_dot_product_attention
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"

console = Console(highlight=False, width=120)


class Enough(Exception):
    """The steps that were wanted are done."""


def histories(n_items: int, length: int, n_groups: int) -> Groups:
    random = np.random.default_rng(0)
    stop = np.arange(1, n_groups + 1) * length
    item = (n_items * random.random(stop[-1]) ** 3).astype(np.int64)
    labels = {"item": np.arange(n_items)}
    return Groups(start=stop - length, stop=stop, item=item, vocabulary=labels, ordered=True)


def finish() -> None:
    if GPU:
        torch.cuda.synchronize()


def measured(length: int, n_items: int, precision: str, *, seconds: float) -> dict[str, Any]:
    """Steps for some seconds; then some in which the host's waits are counted."""
    tokens = TOKENS if GPU else 2048
    batch = max(1, tokens // length)
    groups = histories(n_items, length, batch * 40)
    model = EFA(
        direction="causal", base="none", order="rows", support="none", embed_dim=DIM,
        n_layers=LAYERS, batch_size=batch, max_epochs=10_000, validation_fraction=0.0, ensemble=1,
        n_sampled_items=N_SAMPLED if n_items > CATALOGS[0] else 0, precision=precision,
        device=DEVICE, progress=False,
    )  # fmt: skip
    marks: list[float] = []
    waits: Counter[str] = Counter()
    real = TorchEngine.step

    def step(engine: Any, *given: Any) -> Any:
        n = len(marks)
        counting = bool(n > LEFT_OUT and marks[-1] - marks[LEFT_OUT] > seconds)
        if counting and not GPU:
            raise Enough
        if not counting:
            result = real(engine, *given)
            if n in (0, LEFT_OUT - 1, LEFT_OUT):
                finish()
            marks.append(time.perf_counter())
            return result
        finish()
        if not waits:
            marks[-1] = time.perf_counter()
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            real(engine, *given)
        torch.cuda.set_sync_debug_mode("default")
        where = [f"{own.filename.rpartition('exfam/')[2]}:{own.lineno}" for own in found]
        waits.update(where or ["none"])
        raise Enough

    TorchEngine.step = step  # type: ignore[method-assign]
    try:
        model.fit(groups)
    except Enough:
        pass
    finally:
        TorchEngine.step = real  # type: ignore[method-assign]
    finish()
    n_steps = len(marks) - 1 - LEFT_OUT
    took = (marks[-1] - marks[LEFT_OUT]) / n_steps
    waits.pop("none", None)
    return {
        "length": length,
        "items": n_items,
        "precision": precision,
        "steps": n_steps,
        "ms": 1e3 * took,
        "items_per_second": batch * length / took,
        "peak_gb": torch.cuda.max_memory_allocated() / 2**30 if GPU else None,
        "syncs": sum(waits.values()) if GPU else None,
        "where": dict(waits),
    }


def rates() -> dict[str, float]:
    """TFLOP/s of the device: a product of matrices, and causal attention at both lengths."""
    n = 8192 if GPU else 512
    a = torch.randn(n, n, device=DEVICE, dtype=torch.bfloat16)

    def rate(run: Any, flop: float) -> float:
        for _ in range(3):
            run()
        finish()
        start = time.perf_counter()
        for _ in range(10):
            run()
        finish()
        return 10 * flop / (time.perf_counter() - start) / 1e12

    found = {"matmul": rate(lambda: a @ a, 2 * n**3)}
    for length in LENGTHS:
        groups = max(1, (TOKENS if GPU else 2048) // length)
        q = torch.randn(groups, 4, length, DIM // 4, device=DEVICE, dtype=torch.bfloat16)
        flop = 2 * groups * 4 * length**2 * (DIM // 4) * 2 / 2
        found[f"attention {length}"] = rate(partial(ATTEND, q, q, q, is_causal=True), flop)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--seconds", type=float, default=6.0)
    chosen = parser.parse_args()
    rows = []
    for length in LENGTHS:
        for n_items in CATALOGS if GPU else (1000,):
            for precision in PRECISIONS:
                if GPU:
                    torch.cuda.reset_peak_memory_stats()
                rows.append(measured(length, n_items, precision, seconds=chosen.seconds))
                console.print(rows[-1])
    device = torch.cuda.get_device_name() if GPU else "cpu"
    own = rates()
    table = Table("length", "items", "precision", "ms a step", "items a second", "peak GB", "syncs")
    for row in rows:
        peak = "" if row["peak_gb"] is None else f"{row['peak_gb']:.1f}"
        numbers = f"{row['ms']:.1f}", f"{row['items_per_second']:,.0f}", peak, str(row["syncs"])
        table.add_row(f"{row['length']:,}", f"{row['items']:,}", row["precision"], *numbers)
    console.print(table, device, {name: f"{rate:.1f} TFLOP/s" for name, rate in own.items()})
    if chosen.out:
        from kept import write_kept

        write_kept(chosen.out, rows, device=device, tflops=own, torch=torch.__version__)


if __name__ == "__main__":
    main()
