"""A Spark data frame prepared, killed on the way, and prepared again: the folder of one machine?

    python benchmarks/spark.py [--rows 5_000_000] [--out FILE]

Spark runs as `local[2]`, in a process that is killed once it has begun to write. The second run has
to leave the folder that `exfam.prepare` writes from the same Parquet file, byte for byte, and
nothing else. Needs pyspark and Java.
"""

import argparse
import filecmp
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kept import write_kept
from rich.console import Console

import exfam

COLUMNS = {"group": "user", "order": "when", "item": "movie", "value": "stars"}
console = Console(highlight=False)


def write_rows(path: Path, n_rows: int) -> None:
    random = np.random.default_rng(77)
    movie = random.zipf(1.3, n_rows).clip(max=30_000)
    columns = {
        "user": random.integers(0, n_rows // 25 + 1, n_rows),
        "when": random.integers(0, 10**9, n_rows),
        "movie": np.char.add("m", movie.astype(str)),
        "stars": random.integers(1, 6, n_rows),
    }
    pq.write_table(pa.table(columns), path, row_group_size=500_000)


def prepare_with_spark(source: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    from exfam import spark

    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.prepare(session.read.parquet(source), folder, **COLUMNS, partitions=8)
    session.stop()


def start(source: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Spark in a session of its own, so that its Java can be killed with it."""
    command = [sys.executable, "-W", "ignore", __file__, "--spark", str(source), str(folder)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )


def kill_while_writing(source: Path, folder: Path) -> list[str]:
    """What a run that is killed leaves beside the source."""
    process = start(source, folder)
    while not list(folder.parent.glob(f".{folder.name}.new-*/staged/*")):
        if process.poll() is not None:
            raise SystemExit("Spark ended before it wrote anything.")
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return sorted(path.name.split("-")[0] for path in folder.parent.glob(".*"))


def same_files(one: Path, two: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    if names != sorted(path.name for path in two.iterdir()):
        return False
    return filecmp.cmpfiles(one, two, names, shallow=False)[0] == names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--spark", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.spark:
        prepare_with_spark(*options.spark)
        return
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        write_rows(folder / "rows.parquet", options.rows)
        began = time.process_time()
        exfam.prepare(folder / "rows.parquet", folder / "one", **COLUMNS)
        alone = time.process_time() - began
        left = kill_while_writing(folder / "rows.parquet", folder / "two")
        began = time.perf_counter()
        if start(folder / "rows.parquet", folder / "two").wait():
            raise SystemExit("The second run of Spark failed.")
        row = {
            "rows": options.rows,
            "one_machine_cpu_s": round(alone, 1),
            "spark_s": round(time.perf_counter() - began, 1),
            "left_by_the_killed": left,
            "left_in_the_end": sorted(path.name for path in folder.glob(".*")),
            "same_files": same_files(folder / "one", folder / "two"),
        }
    console.print(row)
    if options.out:
        write_kept(options.out, [row])


if __name__ == "__main__":
    main()
