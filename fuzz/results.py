"""What a campaign found: counts by category and outcome, and every failure once."""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import exfam
from fuzz.verdicts import FAILURES, OUTCOMES, Verdict


class Results:
    """Counts, failures and the next seeds, kept as JSON so that a campaign can go on."""

    def __init__(self, names: Iterable[str], *, seed: int) -> None:
        self.categories: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, dict[str, Any]] = {}
        self.seed = seed
        for name in names:
            self._open(name)

    @classmethod
    def resumed(cls, file: Path, names: Iterable[str]) -> "Results":
        """Results as they were written."""
        document = json.loads(file.read_text(encoding="utf-8"))
        results = cls([], seed=document["seed"])
        results.categories = document["categories"]
        results.failures = {_key(failure): failure for failure in document["failures"]}
        for name in names:
            results._open(name)
        return results

    def _open(self, name: str) -> None:
        empty = {"next_seed": self.seed, "inputs": 0, "cpu_seconds": 0.0}
        self.categories.setdefault(name, empty | dict.fromkeys(OUTCOMES, 0))

    def spent(self, name: str) -> float:
        """CPU seconds of a category, inputs in progress among them."""
        counts = self.categories[name]
        mean = counts["cpu_seconds"] / counts["inputs"] if counts["inputs"] else 1.0
        return float(mean * (counts["next_seed"] - self.seed))

    def reserve(self, name: str, n: int) -> int:
        """The first of `n` seeds that are taken now."""
        first = self.categories[name]["next_seed"]
        self.categories[name]["next_seed"] += n
        return int(first)

    def add(self, name: str, seed: int, verdict: Verdict, seconds: float) -> None:
        """Count one input."""
        counts = self.categories[name]
        counts["inputs"] += 1
        counts["cpu_seconds"] += seconds
        counts[verdict.outcome] += 1
        if verdict.outcome in FAILURES:
            failure = {"category": name, "seed": seed, "times": 0, **asdict(verdict)}
            failure["replay"] = f"python -m fuzz --replay {name} {seed}"
            self.failures.setdefault(_key(failure), failure)["times"] += 1

    @property
    def n_reserved(self) -> int:
        """Inputs done or in progress."""
        return sum(counts["next_seed"] - self.seed for counts in self.categories.values())

    @property
    def n_failed(self) -> int:
        """Inputs that failed."""
        return sum(counts[name] for counts in self.categories.values() for name in FAILURES)

    def write(self, file: Path) -> None:
        """Write all as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        document = {
            **provenance(),
            "seed": self.seed,
            "inputs": sum(counts["inputs"] for counts in self.categories.values()),
            "categories": self.categories,
            "failures": sorted(self.failures.values(), key=lambda failure: -failure["times"]),
        }
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def table(self) -> str:
        """Counts as text, a category a line, and the failures below."""
        heads = ("category", "inputs", *OUTCOMES, "CPU s")
        rows = [
            (name, counts["inputs"], *(counts[o] for o in OUTCOMES), round(counts["cpu_seconds"]))
            for name, counts in self.categories.items()
        ]
        total = ("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
        lines = [_line(row) for row in (heads, *rows, total)]
        for failure in sorted(self.failures.values(), key=lambda failure: -failure["times"]):
            lines.append(
                f"{failure['times']}x {failure['outcome']} at {failure['where']}: "
                f"{failure['error']}\n    {failure['replay']}"
            )
        return "\n".join(lines)


def provenance() -> dict[str, Any]:
    """The commit, date, versions and machine that results are of.

    >>> sorted(provenance())
    ['commit', 'date', 'machine', 'versions']
    """
    versions = {"exfam": exfam.__version__, "torch": torch.__version__, "numpy": np.__version__}
    return {
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d"),
        "versions": versions | {"python": sys.version.split()[0]},
        "machine": platform.machine(),
    }


def _key(failure: dict[str, Any]) -> str:
    """Failures of one raising line and one type of error are one."""
    kind = failure["error"].partition(":")[0]
    return f"{failure['category']} {failure['outcome']} {failure['where']} {kind}"


def _line(row: Iterable[object]) -> str:
    name, *counts = (str(cell) for cell in row)
    return f"{name:<12}" + "".join(f"{count:>11}" for count in counts)


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
