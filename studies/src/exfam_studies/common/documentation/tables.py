"""Tables of temperatures, word vectors and simulated baskets."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exfam_studies.common.documentation.pages import (
    Table,
    all_of,
    best_of,
    find,
    least_validation,
    markdown_table,
    number,
    papers,
    run_sentence,
    seconds,
    seeds_note,
)
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import Row

# Lower is better in all but the last, which should be 90 %.
FIELD_METRICS = ("mse", "rmse", "nats", "crps", "coverage-90")
FIELD_HEAD = ("task", "model", "MSE", "RMSE", "nats", "CRPS", "in 90 %", "paper: MSE", "CPU s")
WORD_METRICS = {
    "spearman-wordsim-kept": "WordSim",
    "spearman-men-kept": "MEN",
    "spearman-simlex-kept": "SimLex",
    "spearman-mturk-kept": "M. Turk",
    "spearman-rare-kept": "Rare",
    "accuracy-google-kept": "Google",
    "accuracy-msr-kept": "MSR",
}
WORD_MODELS = {"sgns": "free", "sgns-wt": "reflected, half", "sgns-wtr": "reflected, drawn"}
BASKET_MODELS = {
    "marginal": "popularity",
    "item-knn": "item-kNN",
    "latent-factor": "latent factor",
    "efa": "attention (EFA)",
    "truth": "truth",
}
BASKET_HEAD = ("model", "nats", "NDCG@10", "recall@10", "configurations", "CPU s", "peak GB")


def temperatures(rows: Sequence[Row]) -> Table:
    """One line per task and model, the best of each figure in bold."""
    shown: dict[tuple[str, str], list[Row]] = {}
    ranked: dict[tuple[str, str], list[Row]] = {}
    for row in _of_chosen_neighbors(rows):
        if row.metric in FIELD_METRICS and row.value is not None and "days" not in row.settings:
            shown.setdefault((_field_task(row), _field_model(row)), []).append(row)
            # The truth, which no model knows, is not compared.
            if row.metric != FIELD_METRICS[-1] and row.model != "truth":
                ranked.setdefault((_field_task(row), row.metric), []).append(row)
    best = {id(best_of(own)) for own in ranked.values()}
    lines = []
    for (task, model), own in shown.items():
        figures = {row.metric: number(row, bold=id(row) in best) for row in own}
        covered = find(own, metric=FIELD_METRICS[-1])
        cells = [figures.get(metric, "") for metric in FIELD_METRICS[:-1]]
        share = f"{100 * (covered.value or 0.0):.0f} %" if covered else ""
        printed = [*papers(own), ""][0]
        lines.append([task, model + seeds_note(own), *cells, share, printed, seconds(own)])
    return FIELD_HEAD, lines


def _of_chosen_neighbors(rows: Sequence[Row]) -> list[Row]:
    """Of latent factor models of a task, that of least squared error on validation."""
    chosen: dict[str, Row] = {}
    for row in rows:
        if row.model.startswith("latent-factor") and row.metric == "mse":
            task = _field_task(row)
            chosen[task] = min(chosen.get(task, row), row, key=least_validation)
    return [
        row
        for row in rows
        if not row.model.startswith("latent-factor") or row.model == chosen[_field_task(row)].model
    ]


def _field_task(row: Row) -> str:
    parts = [row.task.removeprefix("temperature-")]
    if "draw" in row.settings:
        parts += [str(row.settings["draw"]), f"lags {row.settings.get('lags', 0)}"]
    return ", ".join(parts)


def _field_model(row: Row) -> str:
    more = [str(row.settings[name]) for name in ("of", "standardize") if name in row.settings]
    return f"{row.model} ({', '.join(more)})" if more else row.model


def vectors(rows: Sequence[Row]) -> Table:
    """One line per model of words, and below it what the paper has."""
    lines = []
    for model, name in WORD_MODELS.items():
        own = all_of(rows, model=model)
        cells = [find(own, metric=metric) for metric in WORD_METRICS]
        if own:
            spent = seconds(own, ".0f")
            lines.append([name + seeds_note(own), *map(number, cells), spent])
        paper = ["" if row is None or row.paper is None else f"{row.paper:.3f}" for row in cells]
        if any(paper):
            lines.append([f"{name}: paper, text8", *paper, ""])
    return ("context vectors", *WORD_METRICS.values(), "CPU s"), lines


def reflected_shares(rows: Sequence[Row]) -> Table:
    """One line per share of dimensions that are not reflected."""
    metrics = [metric for metric in WORD_METRICS if all_of(rows, metric=metric)]
    lines = []
    for share in dict.fromkeys(row.settings["percent"] for row in rows):
        cells = [find(rows, percent=share, metric=metric) for metric in metrics]
        lines.append([f"{share} %{seeds_note(cells)}", *map(number, cells)])
    return ("+1", *(WORD_METRICS[metric] for metric in metrics)), lines


def baskets(folder: Path) -> str:
    """Large simulated baskets: a benchmark's file, with a sentence on what it is of."""
    path = folder / "benchmarks" / "baskets.json"
    if not path.exists():
        return "No figures are kept here yet: `python benchmarks/baskets.py --json` writes them."
    content = json.loads(path.read_text(encoding="utf-8"))
    data = (
        f"{content['groups']:,} baskets of {content['elements']:,} items in all over a catalog of "
        f"{content['items']:,}; {content['targets']:,} items of fresh baskets were predicted "
        f"({content['left_out']:,} more were in no training basket); figures with standard errors."
    )
    differences = []
    for name, (mean, low, high) in content["differences"].items():
        metric, _, model = name.replace("ndcg", "NDCG").partition(" over ")
        interval = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        differences.append(f"{metric} {interval} over {BASKET_MODELS[model]}")
    apart = f"Attention, with 95 % intervals over baskets: {'; '.join(differences)}."
    table = markdown_table(BASKET_HEAD, map(_basket_line, content["rows"]))
    run = ["", run_sentence(Run(**content["run"]))] if "run" in content else []
    return "\n".join([data, "", table, "", apart, *run])


def _basket_line(row: Mapping[str, Any]) -> list[str]:
    figures = [
        f"{row[name]:.3f} ± {row[f'{name}-error']:.3f}" if name in row else ""
        for name in ("nats", "ndcg@10", "recall@10")
    ]
    cost = row.get("cost")
    spent = [f"{cost['cpu_seconds']:.0f}", f"{cost['peak_gigabytes']:.1f}"] if cost else ["", ""]
    model = BASKET_MODELS[row["model"]] + (", one seed" if row.get("n_seeds") == 1 else "")
    return [model, *figures, str(row.get("n_configurations", "")), *spent]
