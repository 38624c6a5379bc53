"""Attention by length: CPU time and peak memory of two blocks, forward and backward.

    python benchmarks/attention.py [--before PATH] [--out FILE]

Two causal blocks of 64 dimensions and 4 heads on some 1,000 elements, without an encoding and with
a bias by distance that is learned; one thread, each length in a process of its own. `--before`
names the sources of another version, which is measured in turn with this one. Beside them torch's
own `TransformerEncoder` of the same size, without an encoding. Times are medians of CPU seconds
(user + sys); memory is how much a first pass adds to the largest size of the process.
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

LENGTHS, ENCODINGS = (20, 100, 400, 1_000, 2_000), ("none", "bias by distance")
DIM, N_HEADS, HIDDEN, N_BLOCKS, N_ELEMENTS = 64, 4, 128, 2, 1_000
HERE = Path(__file__).resolve().parents[1] / "src"

console = Console(highlight=False, width=110)


def ours(x: torch.Tensor, encoding: str) -> Callable[[], torch.Tensor]:
    """The states of our blocks."""
    from exfam.attention import Attention, NullToken, Visibility, build_block
    from exfam.conditionals import choose_conditional
    from exfam.conditionals.base import Tokens
    from exfam.encodings import NoEncoding, RelativeBias

    g, head_dim = torch.Generator().manual_seed(0), DIM // N_HEADS
    shared = NoEncoding() if encoding == "none" else RelativeBias(N_HEADS, generator=g)

    def block() -> Any:
        null = NullToken(N_HEADS, head_dim, generator=g)
        sizes = {"n_heads": N_HEADS, "head_dim": head_dim}
        attention = Attention(DIM, **sizes, generator=g, encoding=shared, null=null)
        options = {"connection": "pre-norm", "feed_forward_dim": HIDDEN}
        return build_block(attention, DIM, **options, generator=g)

    blocks, visibility = [block() for _ in range(N_BLOCKS)], Visibility("causal")
    conditional = choose_conditional("auto", blocks=blocks, visibility=visibility)
    batch, length, _ = x.shape
    position = torch.arange(length)[None].expand(batch, -1)
    tokens = Tokens(x, x, position, torch.ones(batch, length, dtype=torch.bool))
    return lambda: conditional.states(blocks, tokens, visibility, tokens.present)


def torchs(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    """The states of torch's layers, to which an element shows itself as well."""
    options = {"dropout": 0.0, "batch_first": True, "norm_first": True, "activation": "gelu"}
    layer = torch.nn.TransformerEncoderLayer(DIM, N_HEADS, HIDDEN, **options)
    encoder = torch.nn.TransformerEncoder(layer, N_BLOCKS, enable_nested_tensor=False)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
    return lambda: encoder(x, mask=mask, is_causal=True)


def measure(kind: str, encoding: str, length: int) -> dict[str, float]:
    batch = max(1, N_ELEMENTS // length)
    x = torch.randn(batch, length, DIM, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    states = torchs(x) if kind == "torch" else ours(x, encoding)
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    states().sum().backward()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10):
        start = time.process_time()
        states().sum().backward()
        seconds.append(time.process_time() - start)
    return {"cpu_ms": 1e3 * float(np.median(seconds)), "megabytes": (after - before) / 1024}


def measured(source: Path, *what: str) -> dict[str, float]:
    """The same, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--row", *what]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(sources: dict[str, Path], n_times: int) -> list[dict[str, Any]]:
    rows = []
    for length in LENGTHS:
        runs = [(name, encoding) for encoding in ENCODINGS for name in sources]
        found: dict[Any, list] = {run: [] for run in [*runs, ("torch", "none")]}
        for _ in range(n_times):
            for (name, encoding), own in found.items():
                what = name, encoding, str(length)
                own.append(measured(sources.get(name, HERE), *what))
        for (name, encoding), own in found.items():
            keys = ("cpu_ms", "megabytes")
            figures = {key: float(np.median([one[key] for one in own])) for key in keys}
            rows.append({"length": length, "encoding": encoding, "version": name, **figures})
            console.print(rows[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--out")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--row", nargs=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.row:
        kind, encoding, length = arguments.row
        print(json.dumps(measure(kind, encoding, int(length))))
        return
    before = {} if arguments.before is None else {"before": arguments.before}
    rows = rows_of({**before, "this": HERE}, arguments.times)
    shown = Table("length", "encoding", "version", "CPU ms", "more memory, MB")
    for row in rows:
        size = f"{row['length']:,}", row["encoding"], row["version"]
        shown.add_row(*size, f"{row['cpu_ms']:.1f}", f"{row['megabytes']:.0f}")
    console.print(shown)
    if arguments.out:
        from kept import write_kept

        what = f"{N_BLOCKS} blocks of {DIM} dimensions on {N_ELEMENTS} elements, both passes"
        write_kept(arguments.out, rows, what=what)


if __name__ == "__main__":
    main()
