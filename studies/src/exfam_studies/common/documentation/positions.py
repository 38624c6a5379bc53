"""Locality and symmetry of encodings, and what encoders know of language."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exfam_studies.common.documentation.pages import (
    Table,
    all_of,
    find,
    number,
    percent,
    seeds_note,
)
from exfam_studies.common.rows import Row

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


def pretraining(rows: Sequence[Row]) -> Table:
    """One line per encoding: nats, scores before and after, and accuracies on sentences."""
    lines = []
    for model in dict.fromkeys(row.model for row in rows if "training" in row.settings):
        own = _valued(rows, model=model)
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
    for model in dict.fromkeys(row.model for row in rows):
        own = all_of(rows, model=model)
        cells = [percent(find(own, task=task, metric="accuracy")) for task in DISTANCES]
        mean = find(own, task="all", metric="accuracy-mean")
        lines.append([model + seeds_note([mean]), *cells, percent(mean)])
    return ("attention", *DISTANCES.values(), "mean over relations"), lines


def linguistic(rows: Sequence[Row]) -> Table:
    """One line per task: the layer of each model that validation chooses."""
    models = dict.fromkeys(row.model for row in rows if row.metric == "accuracy")
    lines = []
    for task in dict.fromkeys(row.task for row in rows):
        cells = []
        for model in models:
            layers = _valued(rows, task=task, model=model, metric="accuracy")
            cells.append(percent(max(layers, key=lambda row: row.validation or 0.0, default=None)))
        size = find(rows, task=task, model="examples", metric="count-test")
        lines.append([task, number(size, ".0f", spread=None), *cells])
    heads = [model + seeds_note(_valued(rows, model=model, metric="accuracy")) for model in models]
    return ("task", "test sentences", *heads), lines


def swaps(rows: Sequence[Row]) -> Table:
    """One line per model: accuracy before and after each kind of swap."""
    counts = {row.task: row.value for row in rows if row.metric == "count-pairs"}
    lines = []
    for model in dict.fromkeys(row.model for row in rows if row.metric == "accuracy"):
        own = _valued(rows, model=model, metric="accuracy")
        cells = [_pair(own, " → ", percent, task=task, words=_TRAINING) for task in counts]
        lines.append([model + seeds_note(own), *cells])
    return ("model", *(f"{task} ({count:.0f} pairs)" for task, count in counts.items())), lines


def fitted(rows: Sequence[Row]) -> Table:
    """One line per choice: which encoding it is, its nats, and what its attention is."""
    lines = []
    for task in dict.fromkeys(row.task for row in rows):
        own = all_of(rows, task=task)
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


def _valued(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [row for row in all_of(rows, **wanted) if row.value is not None]


def _pair(rows: Sequence[Row], sign: str, show: Callable[..., str], **wanted: Any) -> str:
    """Two figures, by the two values of the last of what is wanted."""
    name, values = wanted.popitem()
    return sign.join(show(find(rows, **wanted, **{name: value})) for value in values)


def _plain(row: Row | None) -> str:
    return number(row, spread=None)


# Kept file -> what makes its table.
TABLES: Mapping[str, Callable[[Sequence[Row]], Table]] = {
    "positions-pretraining": pretraining,
    "positions-dependencies": dependencies,
    "positions-linguistic": linguistic,
    "positions-swaps": swaps,
    "positions-fitted": fitted,
}
