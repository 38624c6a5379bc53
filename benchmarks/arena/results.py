"""Results: one file of JSON for each data set, contender and seed."""

import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.arena.kind import Contender, Folds, Kind

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
    row: Row = {**named, "data": data.sizes(), "missing": _missing(chosen, data)}
    if row["missing"] is None:
        judged = [_judged(kind, chosen, split, seed) for split in _splits(data)]
        row |= _together(judged, same_groups=getattr(data, "same_groups", False))
        row["peak_gigabytes"] = round(_peak_gigabytes(), 3)
    row |= {"load": round(os.getloadavg()[0], 1), "run": asdict(this_run())}
    path = result_path(folder, dataset, contender, seed)
    write_atomically(path, json.dumps(row, default=str) + "\n")
    return row


def _judged(kind: Kind, contender: Contender, data: Any, seed: int) -> Row:
    """What becomes of one split of the data."""
    start = time.process_time()
    fitted = kind.judging.finished(contender.fit(data, seed), data)
    fit_seconds = time.process_time() - start
    sums = kind.judging.sums(fitted, data)
    return {
        "by_group": sums,
        "settings": dict(fitted.settings),
        "fit_cpu_seconds": round(fit_seconds, 2),
        "judge_cpu_seconds": round(time.process_time() - start - fit_seconds, 2),
    }


def _together(splits: list[Row], *, same_groups: bool) -> Row:
    """One row of all splits, with the settings of the first; seconds add up.

    Groups follow each other, or sums of the same groups add up.
    """
    row = dict(splits[0])
    for name in row["by_group"]:
        of_splits = [split["by_group"][name] for split in splits]
        if same_groups:
            row["by_group"][name] = [round(sum(parts), 5) for parts in zip(*of_splits, strict=True)]
        else:
            row["by_group"][name] = sum(of_splits, [])
    for name in ("fit_cpu_seconds", "judge_cpu_seconds"):
        row[name] = round(sum(split[name] for split in splits), 2)
    return row


def _missing(contender: Contender, data: Any) -> str | None:
    """Why the contender does not take part, if it does not."""
    if contender.needs is not None and find_spec(contender.needs) is None:
        return "not installed"
    if contender.most_items is not None and data.n_items > contender.most_items:
        return f"more than {contender.most_items:,} items"
    return contender.unsuited(_splits(data)[0])


def _splits(data: Any) -> Sequence[Any]:
    return data.splits if isinstance(data, Folds) else [data]


def _peak_gigabytes() -> float:
    # Kilobytes on Linux, bytes on macOS.
    unit = 1e9 if sys.platform == "darwin" else 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
