"""Results: one file of JSON for each data set, contender and seed."""

import json
import os
import resource
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.arena.kind import Contender, Kind
from benchmarks.arena.protocol import calibrated, judge, refitted

from exfam.files import write_atomically
from exfam_studies.common.provenance import this_run

Row = dict[str, Any]


def result_path(folder: Path, dataset: str, contender: str, seed: int) -> Path:
    """Where the row of that fit is kept."""
    return folder / dataset / f"{contender}-{seed}.json"


def read_rows(folder: Path) -> list[Row]:
    """All rows there are, by data set and contender."""
    paths = sorted(folder.glob("*/*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def fit_and_judge(kind: Kind, dataset: str, contender: str, seed: int, *, folder: Path) -> Row:
    """Fit one contender to one data set, in this process, and keep what became of it."""
    chosen = kind.contenders[contender]
    data = kind.sources[dataset].read()
    named = {"kind": kind.name, "dataset": dataset, "contender": contender, "seed": seed}
    row: Row = {**named, "data": data.sizes(), "missing": _missing(chosen, data.n_items)}
    if row["missing"] is None:
        start = time.process_time()
        fitted = refitted(calibrated(chosen.fit(data, seed), data), data)
        fit_seconds = time.process_time() - start
        elements = judge(fitted, data.test, data)
        row |= {
            "by_group": elements.by_group(ranked=data.ranked),
            "settings": dict(fitted.settings),
            "fit_cpu_seconds": round(fit_seconds, 2),
            "judge_cpu_seconds": round(time.process_time() - start - fit_seconds, 2),
            "peak_gigabytes": round(_peak_gigabytes(), 3),
        }
    row |= {"load": round(os.getloadavg()[0], 1), "run": asdict(this_run())}
    path = result_path(folder, dataset, contender, seed)
    write_atomically(path, json.dumps(row, default=str) + "\n")
    return row


def _missing(contender: Contender, n_items: int) -> str | None:
    """Why the contender does not take part, if it does not."""
    if contender.needs is not None and find_spec(contender.needs) is None:
        return "not installed"
    if contender.most_items is not None and n_items > contender.most_items:
        return f"more than {contender.most_items:,} items"
    return None


def _peak_gigabytes() -> float:
    # Kilobytes on Linux, bytes on macOS.
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
