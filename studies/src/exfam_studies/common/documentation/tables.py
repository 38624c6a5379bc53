"""Tables of temperatures, word vectors, encodings of positions and simulated baskets."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from exfam_studies.common.documentation.pages import (
    KEPT,
    Table,
    all_of,
    best_of,
    find,
    first,
    least_validation,
    markdown_table,
    number,
    percent,
    run_sentence,
    seeds_note,
)
from exfam_studies.common.provenance import Run
from exfam_studies.common.rows import Row, grouped

# Lower is better in all but the last, which should be 90 %.
FIELD_METRICS = ("mse", "rmse", "nats", "crps", "coverage-90")
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
SIZE = "small"
SENTENCES = ("mr", "subj", "mpqa", "trec", "mrpc")
DISTANCES = {"all": "all", "short": "at most 4 apart", "long": "further"}
SCORES = {"position-locality": "locality", "position-symmetry": "symmetry"}
CHOICES = {
    "model": "fitted first",
    "chosen-by-validation": "least validation nats",
    "chosen-by-attention": "nearest attention",
}
_TRAINING = ("before", "after")
BASKET_MODELS = {
    "marginal": "popularity",
    "item-knn": "item-kNN",
    "latent-factor": "latent factor",
    "efa": "attention (EFA)",
    "truth": "truth",
}
BASKET_HEAD = ("model", "nats", "NDCG@10", "recall@10", "configurations", "CPU s", "peak GB")
_plain = partial(number, spread=None)


def temperatures(rows: Sequence[Row]) -> Table:
    """One line per task and model, the best of each figure in bold."""
    shown = [
        row
        for row in _of_chosen_neighbors(rows)
        if row.metric in FIELD_METRICS and "days" not in row.settings
    ]
    # The truth, which no model knows, is not compared.
    ranked = [row for row in shown if row.metric != FIELD_METRICS[-1] and row.model != "truth"]
    compared = grouped(ranked, lambda row: (_field_task(row), row.metric))
    best = {id(best_of(own)) for own in compared.values()}
    lines = []
    models = grouped(shown, lambda row: (_field_task(row), _field_model(row)))
    for (task, model), own in models.items():
        figures = {row.metric: number(row, bold=id(row) in best) for row in own}
        covered = find(own, metric=FIELD_METRICS[-1])
        cells = [figures.get(metric, "") for metric in FIELD_METRICS[:-1]]
        share = f"{100 * (covered.value or 0.0):.0f} %" if covered else ""
        cost = first(own, "paper", "g"), first(own, "cpu_seconds", ".1f")
        lines.append([task, model + seeds_note(own), *cells, share, *cost])
    head = ("task", "model", "MSE", "RMSE", "nats", "CRPS", "in 90 %", "paper: MSE", "CPU s")
    return head, lines


def _of_chosen_neighbors(rows: Sequence[Row]) -> list[Row]:
    """Of latent factor models of a task, that of least squared error on validation."""
    neighbors = [row for row in rows if row.model.startswith("latent-factor")]
    errors = grouped(all_of(neighbors, metric="mse"), _field_task)
    chosen = {task: min(own, key=least_validation).model for task, own in errors.items()}
    return [
        row
        for row in rows
        if not row.model.startswith("latent-factor") or row.model == chosen[_field_task(row)]
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
        figures, papers = map(number, cells), (first([row], "paper", ".3f") for row in cells)
        lines.append([name + seeds_note(own), *figures, first(own, "cpu_seconds", ".0f")])
        lines.append([f"{name}: paper, text8", *papers, ""])
    return ("context vectors", *WORD_METRICS.values(), "CPU s"), lines


def reflected_shares(rows: Sequence[Row]) -> Table:
    """One line per share of dimensions that are not reflected."""
    metrics = [metric for metric in WORD_METRICS if all_of(rows, metric=metric)]
    lines = []
    for share, own in grouped(rows, lambda row: row.settings["percent"]).items():
        cells = [find(own, metric=metric) for metric in metrics]
        lines.append([f"{share} %{seeds_note(cells)}", *map(number, cells)])
    return ("+1", *(WORD_METRICS[metric] for metric in metrics)), lines


def pretraining(rows: Sequence[Row]) -> Table:
    """One line per encoding: nats, scores before and after, and accuracies on sentences."""
    lines = []
    for model in dict.fromkeys(row.model for row in rows if "training" in row.settings):
        own = all_of(rows, model=model)
        scores = [_pair(own, " → ", _plain, metric=m, training=_TRAINING) for m in SCORES]
        accuracies = [
            _pair(own, " / ", percent, task=f"{SIZE}-{name}", encoder=("tuned", "frozen"))
            for name in SENTENCES
        ]
        nats = number(find(own, task=SIZE, metric="nats"))
        lines.append([model + seeds_note(own), nats, *scores, *accuracies])
    for model in ("words", "majority"):
        cells = [percent(find(rows, task=f"{SIZE}-{name}", model=model)) for name in SENTENCES]
        lines.append([model, "", "", "", *cells])
    head = ("encoding", "nats", *SCORES.values(), *(name.upper() for name in SENTENCES))
    counted = number(find(rows, task=SIZE, model="counts", metric="nats"))
    return head, [*lines, ["counts", counted, *[""] * (len(head) - 2)]]


def dependencies(rows: Sequence[Row]) -> Table:
    """One line per model: all dependencies, short and long ones, and the mean over relations."""
    lines = []
    for model, own in grouped(rows, attrgetter("model")).items():
        cells = [percent(find(own, task=task, metric="accuracy")) for task in DISTANCES]
        mean = find(own, task="all", metric="accuracy-mean")
        lines.append([model + seeds_note([mean]), *cells, percent(mean)])
    return ("attention", *DISTANCES.values(), "mean over relations"), lines


def linguistic(rows: Sequence[Row]) -> Table:
    """One line per task: the layer of each model that validation chooses."""
    models = dict.fromkeys(row.model for row in rows if row.metric == "accuracy")
    lines = []
    for task, own in grouped(rows, attrgetter("task")).items():
        cells = []
        for model in models:
            layers = all_of(own, model=model, metric="accuracy")
            cells.append(percent(max(layers, key=lambda row: row.validation or 0.0, default=None)))
        size = find(own, model="examples", metric="count-test")
        lines.append([task, number(size, ".0f", spread=None), *cells])
    heads = [model + seeds_note(all_of(rows, model=model, metric="accuracy")) for model in models]
    return ("task", "test sentences", *heads), lines


def swaps(rows: Sequence[Row]) -> Table:
    """One line per model: accuracy before and after each kind of swap."""
    counts = {row.task: row.value for row in rows if row.metric == "count-pairs"}
    lines = []
    for model in dict.fromkeys(row.model for row in rows if row.metric == "accuracy"):
        own = all_of(rows, model=model, metric="accuracy")
        cells = [_pair(own, " → ", percent, task=task, words=_TRAINING) for task in counts]
        lines.append([model + seeds_note(own), *cells])
    return ("model", *(f"{task} ({count:.0f} pairs)" for task, count in counts.items())), lines


def fitted(rows: Sequence[Row]) -> Table:
    """One line per choice: which encoding it is, its nats, and what its attention is."""
    lines = []
    for task, own in grouped(rows, attrgetter("task")).items():
        chosen = {name: find(own, model=m, metric="nats") for m, name in CHOICES.items()}
        chosen["as a set"] = find(own, model="model", encoding="none", metric="nats")
        lines += [[task, name, *_encoding_cells(row, own)] for name, row in chosen.items() if row]
    return ("task", "chosen by", "encoding", "nats", "difference", *SCORES.values()), lines


def _encoding_cells(row: Row, rows: Sequence[Row]) -> list[str]:
    encoding = row.settings["encoding"]
    own = all_of(rows, encoding=encoding)
    apart = find(own, model=row.model, metric="nats-difference-to-default")
    sign = "+" if apart is not None and (apart.value or 0.0) > 0 else ""
    scores = [_plain(find(own, of="attention", metric=metric)) for metric in SCORES]
    return [str(encoding), number(row), sign + number(apart), *scores]


def _pair(rows: Sequence[Row], sign: str, show: Callable[..., str], **wanted: Any) -> str:
    """Two figures, by the two values of the last of what is wanted."""
    name, values = wanted.popitem()
    return sign.join(show(find(rows, **wanted, **{name: value})) for value in values)


def baskets() -> str:
    """Large simulated baskets: a benchmark's file, with a sentence on what it is of."""
    content = json.loads((KEPT / "benchmarks" / "baskets.json").read_text(encoding="utf-8"))
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
    return "\n\n".join([data, table, apart, run_sentence(Run(**content["run"]))])


def _basket_line(row: Mapping[str, Any]) -> list[str]:
    figures = [
        f"{row[name]:.3f} ± {row[f'{name}-error']:.3f}" if name in row else ""
        for name in ("nats", "ndcg@10", "recall@10")
    ]
    cost = row.get("cost")
    spent = [f"{cost['cpu_seconds']:.0f}", f"{cost['peak_gigabytes']:.1f}"] if cost else ["", ""]
    model = BASKET_MODELS[row["model"]] + (", one seed" if row.get("n_seeds") == 1 else "")
    return [model, *figures, str(row.get("n_configurations", "")), *spent]
