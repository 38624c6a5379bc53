"""Large simulated baskets: a benchmark's file, which has its own form."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exfam_studies.common.documentation.pages import markdown_table, run_sentence
from exfam_studies.common.provenance import Run

NAMES = {
    "marginal": "popularity",
    "item-knn": "item-kNN",
    "latent-factor": "latent factor",
    "efa": "attention (EFA)",
    "truth": "truth",
}
HEAD = ("model", "nats", "NDCG@10", "recall@10", "configurations", "CPU s", "peak GB")
METRICS = ("nats", "ndcg@10", "recall@10")


def baskets(folder: Path) -> str:
    """The table, with a sentence on what it is of and the differences below it."""
    path = folder / "benchmarks" / "baskets.json"
    if not path.exists():
        return "No figures are kept here yet: `python benchmarks/baskets.py --json` writes them."
    content = json.loads(path.read_text(encoding="utf-8"))
    data = (
        f"{content['groups']:,} baskets of {content['elements']:,} items in all over a catalog of "
        f"{content['items']:,}; {content['targets']:,} items of fresh baskets were predicted "
        f"({content['left_out']:,} more were in no training basket); figures with standard errors."
    )
    table = markdown_table(HEAD, map(_line, content["rows"]))
    run = ["", run_sentence(Run(**content["run"]))] if "run" in content else []
    return "\n".join([data, "", table, "", _differences(content["differences"]), *run])


def _line(row: Mapping[str, Any]) -> list[str]:
    figures = [f"{row[n]:.3f} ± {row[f'{n}-error']:.3f}" if n in row else "" for n in METRICS]
    cost = row.get("cost")
    spent = [f"{cost['cpu_seconds']:.0f}", f"{cost['peak_gigabytes']:.1f}"] if cost else ["", ""]
    seeds = ", one seed" if row.get("n_seeds") == 1 else ""
    return [NAMES[row["model"]] + seeds, *figures, str(row.get("n_configurations", "")), *spent]


def _differences(differences: Mapping[str, Any]) -> str:
    parts = []
    for name, (mean, low, high) in differences.items():
        metric, _, model = name.partition(" over ")
        metric = metric.replace("ndcg", "NDCG")
        parts.append(f"{metric} {mean:+.3f} [{low:+.3f}, {high:+.3f}] over {NAMES[model]}")
    return "Attention, with 95 % intervals over baskets: " + "; ".join(parts) + "."
