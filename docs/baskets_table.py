"""Writes the table of docs/guide/baskets.md from docs/results/benchmarks/baskets.json.

The file comes from `python benchmarks/baskets.py --json docs/results/benchmarks/baskets.json`; then
run `python docs/baskets_table.py`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page_blocks import ROOT, PageBlock, markdown_table, run_sentence

from exfam_studies.common.provenance import Run

__all__ = ["BLOCK", "RESULTS", "render"]

PAGE = ROOT / "docs" / "guide" / "baskets.md"
RESULTS = ROOT / "docs" / "results" / "benchmarks" / "baskets.json"
BLOCK = PageBlock(PAGE, "baskets")
NAMES = {
    "marginal": "popularity",
    "item-knn": "item-kNN",
    "latent-factor": "latent factor",
    "efa": "attention (EFA)",
    "truth": "truth",
}
COLUMNS = ("model", "nats", "NDCG@10", "recall@10", "configurations", "CPU s", "peak GB")
FIGURES = ("nats", "ndcg@10", "recall@10")
EMPTY = "No figures are kept here yet."


def render(path: Path) -> str:
    """The table as Markdown, with a sentence on what it is of and the differences below it."""
    if not path.exists():
        return EMPTY
    told = json.loads(path.read_text(encoding="utf-8"))
    head = (
        f"{told['groups']:,} baskets of {told['elements']:,} items in all over a catalog of "
        f"{told['items']:,}; {told['targets']:,} items of fresh baskets were predicted "
        f"({told['left_out']:,} more were in no training basket); figures with standard errors."
    )
    table = markdown_table(COLUMNS, [_line(row) for row in told["rows"]])
    run = ["", run_sentence(Run(**told["run"]))] if "run" in told else []
    return "\n".join([head, "", table, "", _gaps(told["differences"]), *run])


def _line(row: Mapping[str, Any]) -> list[str]:
    figures = [f"{row[n]:.3f} ± {row[f'{n}-error']:.3f}" if n in row else "" for n in FIGURES]
    cost = row.get("cost")
    spent = [f"{cost['cpu_seconds']:.0f}", f"{cost['peak_gigabytes']:.1f}"] if cost else ["", ""]
    seeds = ", one seed" if row.get("n_seeds") == 1 else ""
    return [NAMES[row["model"]] + seeds, *figures, str(row.get("n_configurations", "")), *spent]


def _gaps(differences: Mapping[str, Any]) -> str:
    told = []
    for name, (mean, low, high) in differences.items():
        metric, _, model = name.partition(" over ")
        metric = metric.replace("ndcg", "NDCG")
        told.append(f"{metric} {mean:+.3f} [{low:+.3f}, {high:+.3f}] over {NAMES[model]}")
    return "Attention, with 95 % intervals over baskets: " + "; ".join(told) + "."


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
