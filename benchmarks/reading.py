"""Seconds and peak memory of reading 20 million rows from Parquet into groups.

    python benchmarks/reading.py [--rows 20000000] [--threads 2]

140,000 groups, 27,000 items, rows in random order, ordered by a time: once with whole numbers as
labels, once with text as items. Each line is a process of its own: wall and CPU seconds without
imports, the peak of its resident memory, and what was on disk at most because it did not fit. The
peer is what DuckDB alone needs to sort the rows by user and time and to hand over the items as
Arrow batches, which are thrown away.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

N_ROWS, N_USERS, N_ITEMS = 20_000_000, 140_000, 27_000
LIMITS = ("1GB", "250MB")

console = Console(highlight=False, width=110)


def write(folder: Path, n_rows: int) -> dict[str, Path]:
    """The same rows with items as numbers and as text; hashes of row numbers are the randomness."""
    import duckdb

    numbers, text = folder / "numbers.parquet", folder / "text.parquet"
    with duckdb.connect() as con:
        con.execute("SET threads = 2")
        # The cube makes some items common and most of them rare.
        con.execute(
            f"""COPY (
                SELECT (hash(i * 7 + 1) % {N_USERS})::BIGINT AS "user",
                    (1600000000 + hash(i * 3 + 5) % 100000000)::BIGINT AS "time",
                    (pow((hash(i + 11) % 1000003) / 1000003.0, 3) * {N_ITEMS})::BIGINT AS item,
                    (1 + hash(i) % 5)::BIGINT AS stars
                FROM range({n_rows}) AS t(i)
            ) TO '{numbers}' (FORMAT parquet)"""
        )
        con.execute(
            f"""COPY (SELECT * REPLACE ('item ' || item AS item) FROM '{numbers}')
            TO '{text}' (FORMAT parquet)"""
        )
    return {"whole numbers": numbers, "items as text": text}


def read(path: str, threads: int, memory_limit: str | None) -> int:
    from exfam.columns.parts import FrameColumns
    from exfam.reading.database import ReadingOptions
    from exfam.reading.reader import read_with_facts

    columns = FrameColumns(group="user", order="time", item="item")
    options = ReadingOptions(threads=threads, memory_limit=memory_limit)
    groups, facts = read_with_facts(path, columns, options=options)
    assert groups.source_row is not None and len(groups) == facts.groups
    return facts.rows


def sort_alone(path: str, threads: int, memory_limit: str | None) -> int:
    """The peer."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as con:
        con.execute(f"SET threads = {threads}")
        con.execute(f"SET temp_directory = '{folder}'")
        con.execute(f"SET memory_limit = '{memory_limit or '4GB'}'")
        query = f"""SELECT "user", item FROM '{path}' ORDER BY "user", "time" """
        return sum(len(batch) for batch in con.sql(query).to_arrow_reader(1 << 18))


WORK: dict[str, Callable[[str, int, str | None], int]] = {"read": read, "duckdb": sort_alone}


def measure(work: str, path: str, threads: int, memory_limit: str | None) -> dict[str, float]:
    import duckdb  # noqa: F401  (imports are not part of the time)

    import exfam.reading  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        watched = Watched(Path(folder))
        watched.start()
        wall, cpu = time.perf_counter(), time.process_time()
        rows = WORK[work](path, threads, memory_limit)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        watched.done.set()
        watched.join()
    return {"rows": rows, "wall": wall, "cpu": cpu, "peak": _peak(), "spilled": watched.most / 1e9}


class Watched(threading.Thread):
    """Looks now and then how many bytes a folder holds."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.most, self.done = folder, 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            sizes = []
            for path in self.folder.rglob("*"):
                with contextlib.suppress(FileNotFoundError):
                    sizes.append(path.stat().st_size)
            self.most = max(self.most, sum(sizes))


def _peak() -> float:
    """Peak resident memory of this process in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def measured_apart(work: str, path: Path, threads: int, memory_limit: str | None) -> dict:
    command = [sys.executable, __file__, "--work", work, "--path", str(path)]
    command += ["--threads", str(threads), "--memory-limit", memory_limit or ""]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def show(n_rows: int, threads: int) -> None:
    lines = [
        ("DuckDB alone, ORDER BY (peer)", "duckdb", None),
        ("exfam.read", "read", None),
        *((f"exfam.read, memory_limit={limit!r}", "read", limit) for limit in LIMITS),
    ]
    shown = Table(title=f"{n_rows:,} rows from Parquet, {threads} threads")
    shown.add_column("rows of")
    shown.add_column("read by")
    for name in ("wall s", "CPU s", "peak GB", "on disk GB", "load"):
        shown.add_column(name, justify="right")
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        for kind, path in write(Path(folder), n_rows).items():
            for label, work, limit in lines:
                # How many processes wanted the processors, this one aside, when it started.
                load = os.getloadavg()[0]
                found = measured_apart(work, path, threads, limit)
                assert found["rows"] == n_rows
                figures = (f"{found[name]:.2f}" for name in ("wall", "cpu", "peak", "spilled"))
                shown.add_row(kind, label, *figures, f"{load:.1f}")
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--memory-limit", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        found = measure(asked.work, asked.path, asked.threads, asked.memory_limit or None)
        print(json.dumps(found))
    else:
        show(asked.rows, asked.threads)


if __name__ == "__main__":
    main()
