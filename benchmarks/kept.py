"""Results of benchmarks as files: what was measured, by which run, with how many threads."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from exfam.files import write_atomically
from exfam_studies.common.provenance import this_run

RESULTS = Path(__file__).parent / "results"


def write_kept(path: str | Path, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
    """Write rows and what holds for all of them, beside the commit, versions and the machine."""
    threads = {"torch": torch.get_num_threads(), "OMP_NUM_THREADS": os.getenv("OMP_NUM_THREADS")}
    result = {"run": asdict(this_run()), "threads": threads, **facts, "rows": list(rows)}
    write_atomically(path, json.dumps(result, indent=1) + "\n")
