"""How CPU time and memory of a default fit grow with groups, items, sites, rows, columns and words.

    python benchmarks/growth.py [--only NAME ...] [--out FILE]

Each fit runs on one thread in a process of its own, with simulated data of one kind whose size is
doubled or quadrupled, everything else as it was. The exponent is the slope of the logarithm of time
against that of size by least squares: 1 where twice the data take twice the time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

console = Console(highlight=False, width=110)


def baskets(n_groups: int, n_items: int) -> Any:
    """Groups of 5 to 15 items, each of one of fifty kinds that share what they hold."""
    from exfam import EFA, Groups

    random = np.random.default_rng(0)
    lengths = random.integers(5, 16, n_groups)
    stop = np.cumsum(lengths)
    kind = np.repeat(random.integers(0, 50, n_groups), lengths)
    item = (n_items // 50 * random.random(stop[-1]) ** 3).astype(np.int64) * 50 + kind
    labels = {"item": np.arange(n_items)}
    groups = Groups(start=stop - lengths, stop=stop, item=item, vocabulary=labels)
    return lambda: EFA(progress=False).fit(groups)


def field(n_sites: int) -> Any:
    from exfam import FieldEFA
    from exfam.simulators import simulate_field

    drawn = simulate_field(n_sites, 200, season=0.0, seed=0)
    columns = {"time": "time", "site": "site", "value": "value"}
    model = FieldEFA(**columns, coordinates=["latitude", "longitude"], progress=False)
    frame = drawn.frame.to_pandas()
    return lambda: model.fit(frame)


def table(n_rows: int, n_columns: int) -> Any:
    from exfam import MaskedTable

    random = np.random.default_rng(0)
    hidden = random.normal(size=(n_rows, 4))
    cells = hidden @ random.normal(size=(4, n_columns)) + random.normal(size=(n_rows, n_columns))
    frame = pd.DataFrame(cells, columns=[f"column {k}" for k in range(n_columns)])
    return lambda: MaskedTable(progress=False).fit(frame)


def words(n_tokens: int, n_words: int) -> Any:
    from exfam import SkipGram

    random = np.random.default_rng(0)
    drawn = (n_words * random.random(n_tokens) ** 4).astype(np.int64)
    names = np.array([f"w{k}" for k in range(n_words)])
    texts = [" ".join(names[part]) for part in np.split(drawn, n_tokens // 1_000)]
    return lambda: SkipGram(epochs=1, progress=False).fit(texts)


def reading(n_rows: int) -> Any:
    import pyarrow as pa

    from exfam import read

    random = np.random.default_rng(0)
    columns = {"basket": random.integers(0, n_rows // 10, n_rows)}
    rows = pa.table({**columns, "item": random.integers(0, 10_000, n_rows)})
    return lambda: read(rows, group="basket", item="item", duplicates="drop")


# What grows -> sizes, and what is made of one: a fit to be measured.
GROWTHS: dict[str, tuple[tuple[int, ...], Callable[[int], Any]]] = {
    "EFA: groups": ((2_000, 4_000, 8_000, 16_000), lambda n: baskets(n, 1_000)),
    "EFA: items": ((500, 2_000, 8_000, 32_000), lambda n: baskets(4_000, n)),
    "FieldEFA: sites": ((25, 50, 100, 200), field),
    "MaskedTable: rows": ((500, 1_000, 2_000, 4_000), lambda n: table(n, 10)),
    "MaskedTable: columns": ((5, 10, 20, 40), lambda n: table(1_000, n)),
    "SkipGram: tokens": ((250_000, 500_000, 1_000_000), lambda n: words(n, 10_000)),
    "SkipGram: words": ((2_000, 8_000, 32_000), lambda n: words(500_000, n)),
    "read: rows": ((500_000, 1_000_000, 2_000_000, 4_000_000), reading),
}


def measure(name: str, size: int) -> None:
    """Print CPU seconds and megabytes of one fit, of which the second is timed if it compiles."""
    fit = GROWTHS[name][1](size)
    if name.startswith("SkipGram"):
        words(2_000, 50)()
    before, start = _megabytes(), time.process_time()
    fit()
    print(json.dumps([time.process_time() - start, _megabytes() - before]))


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows_of(name: str) -> list[dict[str, Any]]:
    rows = []
    for size in GROWTHS[name][0]:
        command = [sys.executable, __file__, "--measure", name, str(size)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds, megabytes = json.loads(answer.splitlines()[-1])
        rows.append({"grows": name, "size": size, "cpu_seconds": seconds, "megabytes": megabytes})
        console.print(f"{name} {size:,}: {seconds:.1f} CPU s, {megabytes:,.0f} MB more")
    return rows


def exponent(rows: list[dict[str, Any]], of: str) -> float:
    size, number = (np.log([max(row[key], 1e-3) for row in rows]) for key in ("size", of))
    return float(np.polyfit(size, number, 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=GROWTHS, default=list(GROWTHS))
    parser.add_argument("--out")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, size = options.measure
        return measure(name, int(size))
    shown = Table("what grows", "sizes", "CPU s", "more memory, MB", "exponent of time")
    kept = []
    for name in options.only:
        rows = rows_of(name)
        kept += rows
        columns = [
            [f"{row[key]:,.{digits}f}" for row in rows]
            for key, digits in (("size", 0), ("cpu_seconds", 1), ("megabytes", 0))
        ]
        slope = exponent(rows, "cpu_seconds")
        shown.add_row(name, *(" / ".join(column) for column in columns), f"{slope:.2f}")
    console.print(shown)
    if options.out:
        from kept import write_kept

        write_kept(options.out, kept)


if __name__ == "__main__":
    main()
