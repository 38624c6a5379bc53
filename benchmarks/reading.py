"""Seconds and peak memory of reading 20 million rows from Parquet and CSV into groups.

    python benchmarks/reading.py [--rows 20000000] [--threads 2] [--before PATH] [--times N]
        [--out FILE]

140,000 groups, 27,000 items, rows in random order, ordered by a time: once with whole numbers as
labels, once with text as items, once as CSV. Each figure is the least of `--times` processes of
their own: wall and CPU seconds without imports, the peak of resident memory, and what was on disk
at most because it did not fit. The peer is what DuckDB alone needs to sort the rows by user and
time and to hand over the items as Arrow batches, which are thrown away: it looks for no missing
cells, codes no labels and finds no repeated rows. `--before` names the sources of another version,
measured in turn with this one.
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
LIMITS = (None, "1GB", "250MB")
HERE = Path(__file__).resolve().parents[1] / "src"
FIGURES = ("wall", "cpu", "peak", "spilled")

console = Console(highlight=False, width=110)


def write(folder: Path, n_rows: int) -> dict[str, Path]:
    """The same rows with items as numbers and as text; hashes of row numbers are the randomness."""
    import duckdb

    numbers, text, csv = (folder / name for name in ("numbers.parquet", "text.parquet", "rows.csv"))
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
        con.execute(f"COPY (FROM '{numbers}') TO '{csv}' (HEADER)")
    return {"whole numbers": numbers, "items as text": text, "whole numbers, CSV": csv}


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

    import exfam.reading.reader  # noqa: F401

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


def measured_apart(
    work: str, path: Path, source: Path, *, threads: int, memory_limit: str | None
) -> dict[str, float]:
    """Figures of a process of its own; `source`: the folder that exfam is imported from."""
    command = [sys.executable, __file__, "--work", work, "--path", str(path)]
    command += ["--threads", str(threads), "--memory-limit", memory_limit or ""]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def measured(paths: dict[str, Path], before: Path | None, arguments: argparse.Namespace) -> list:
    """A row for each kind of file, reader and limit: the least of some processes in turn."""
    readers = {"DuckDB alone, ORDER BY (peer)": ("duckdb", HERE)}
    readers |= {} if before is None else {"exfam.read, before": ("read", before)}
    readers |= {"exfam.read": ("read", HERE)}
    rows = []
    for kind, path in paths.items():
        for limit in LIMITS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in readers}
            for _ in range(arguments.times):
                for name, (work, source) in readers.items():
                    own = measured_apart(
                        work, path, source, threads=arguments.threads, memory_limit=limit
                    )
                    assert own["rows"] == arguments.rows
                    found[name].append(own)
            for name, runs in found.items():
                least = {figure: min(run[figure] for run in runs) for figure in FIGURES}
                rows.append({"rows of": kind, "read by": name, "memory_limit": limit, **least})
    return rows


def show(rows: list, arguments: argparse.Namespace) -> None:
    shown = Table(title=f"{arguments.rows:,} rows, {arguments.threads} threads")
    for name in ("rows of", "read by", "memory_limit"):
        shown.add_column(name)
    for name in ("wall s", "CPU s", "times peer", "peak GB", "on disk GB"):
        shown.add_column(name, justify="right")
    for row in rows:
        if "peer" in row["read by"]:
            peer = row["cpu"]
        wall, cpu, peak, spilled = (f"{row[name]:.2f}" for name in FIGURES)
        names = (row["rows of"], row["read by"], row["memory_limit"] or "half of all")
        shown.add_row(*names, wall, cpu, f"{row['cpu'] / peer:.2f}", peak, spilled)
    console.print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    parser.add_argument("--memory-limit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        found = measure(
            arguments.work, arguments.path, arguments.threads, arguments.memory_limit or None
        )
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory(prefix="reading-") as folder:
        paths = write(Path(folder), arguments.rows)
        rows = measured(paths, arguments.before, arguments)
    show(rows, arguments)
    if arguments.out:
        from kept import write_kept

        what = f"least of {arguments.times} fresh processes; seconds, and GB of memory and disk"
        sizes = {"n_rows": arguments.rows, "duckdb_threads": arguments.threads}
        write_kept(arguments.out, rows, what=what, **sizes)


if __name__ == "__main__":
    main()
