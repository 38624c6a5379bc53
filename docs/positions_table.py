"""Writes the tables of docs/guide/positions.md from docs/results/positions-*.json.

The files come from `exfam reproduce NAME --json docs/results/NAME.json`; then run
`python docs/positions_table.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from page_blocks import ROOT, PageBlock, markdown_table, runs_note, seeds_note

from exfam_studies.common.rows import Row, read_rows

__all__ = ["BLOCK", "RESULTS", "render"]

RESULTS = ROOT / "docs" / "results"
BLOCK = PageBlock(ROOT / "docs" / "guide" / "positions.md", "positions")
EMPTY = "No figures are kept here yet: `exfam reproduce {}` prints them."
SIZE = "small"
SENTENCES = ("mr", "subj", "mpqa", "trec", "mrpc")
DISTANCES = {"all": "all", "short": "at most 4 apart", "long": "further"}
SCORES = {"position-locality": "locality", "position-symmetry": "symmetry"}
CHOICES = {
    "model": "default",
    "chosen-by-validation": "least validation nats",
    "chosen-by-attention": "nearest attention",
}
_Lines = tuple[Sequence[str], list[list[str]]]


def render(folder: Path) -> str:
    """All tables as Markdown, each below a line that says what it has."""
    return "\n\n".join(_section(folder, name, *made) for name, made in TABLES.items())


def _section(
    folder: Path, name: str, heading: str, lines: Callable[[Sequence[Row]], _Lines]
) -> str:
    path = folder / f"{name}.json"
    told = EMPTY.format(name)
    if path.exists():
        rows = read_rows(path)[1]
        told = f"{markdown_table(*lines(rows))}\n\n{runs_note(rows)}".rstrip()
    return f"{heading} (`{name}`)\n\n{told}"


def _pretraining(rows: Sequence[Row]) -> _Lines:
    """A line an encoding: nats, scores before and after, and sentences told apart."""
    head = ("encoding", "nats", *SCORES.values(), *(name.upper() for name in SENTENCES))
    encodings = dict.fromkeys(row.model for row in rows if "training" in row.settings)
    lines = []
    for model in encodings:
        nats = _figure(_find(rows, task=SIZE, model=model, metric="nats"))
        scores = [
            " → ".join(
                _figure(_find(rows, model=model, metric=metric, training=when), spread=False)
                for when in ("before", "after")
            )
            for metric in SCORES
        ]
        named = model + seeds_note(_all(rows, model=model))
        lines.append([named, nats, *scores, *(_both(rows, name, model) for name in SENTENCES)])
    for model in ("words", "majority"):
        cells = [_percent(_find(rows, task=f"{SIZE}-{name}", model=model)) for name in SENTENCES]
        lines.append([model, "", "", "", *cells])
    counted = _find(rows, task=SIZE, model="counts", metric="nats")
    return head, [*lines, ["counts", _figure(counted), *[""] * (len(head) - 2)]]


def _both(rows: Sequence[Row], name: str, model: str) -> str:
    """Sentences told apart by an encoder that is trained along, and by one that is not."""
    told = (
        _find(rows, task=f"{SIZE}-{name}", model=model, encoder=kind)
        for kind in ("tuned", "frozen")
    )
    return " / ".join(map(_percent, told))


def _dependencies(rows: Sequence[Row]) -> _Lines:
    """A line a model: all dependencies, short and long ones, and the mean over relations."""
    lines = []
    for model in dict.fromkeys(row.model for row in rows):
        cells = [
            _percent(_find(rows, task=task, model=model, metric="accuracy")) for task in DISTANCES
        ]
        mean = _find(rows, task="all", model=model, metric="accuracy-mean")
        lines.append([model + seeds_note([mean]), *cells, _percent(mean)])
    return ("attention", *DISTANCES.values(), "mean over relations"), lines


def _linguistic(rows: Sequence[Row]) -> _Lines:
    """A line a task: the layer of each model that validation chooses."""
    tasks = dict.fromkeys(row.task for row in rows)
    models = dict.fromkeys(row.model for row in rows if row.metric == "accuracy")
    lines = []
    for task in tasks:
        cells = []
        for model in models:
            layers = _all(rows, task=task, model=model, metric="accuracy")
            cells.append(_percent(max(layers, key=lambda row: row.validation or 0.0, default=None)))
        size = _find(rows, task=task, model="examples", metric="count-test")
        lines.append([task, "" if size is None else f"{size.value:.0f}", *cells])
    heads = [model + seeds_note(_all(rows, model=model, metric="accuracy")) for model in models]
    return ("task", "test sentences", *heads), lines


def _swaps(rows: Sequence[Row]) -> _Lines:
    """A line a model: accuracy before and after each kind of swap."""
    counts = {row.task: row.value for row in rows if row.metric == "count-pairs"}
    lines = []
    for model in dict.fromkeys(row.model for row in rows if row.metric == "accuracy"):
        cells = [
            " → ".join(
                _percent(_find(rows, task=task, model=model, metric="accuracy", words=when))
                for when in ("before", "after")
            )
            for task in counts
        ]
        named = model + seeds_note(_all(rows, model=model, metric="accuracy"))
        lines.append([named, *cells])
    return ("model", *(f"{task} ({count:.0f} pairs)" for task, count in counts.items())), lines


def _fitted(rows: Sequence[Row]) -> _Lines:
    """A line a choice: which encoding it is, its nats, and what its attention is."""
    lines = []
    for task in dict.fromkeys(row.task for row in rows):
        chosen = {
            # The default is fitted first.
            **{
                choice: _find(rows, task=task, model=m, metric="nats")
                for m, choice in CHOICES.items()
            },
            "as a set": _find(rows, task=task, model="model", encoding="none", metric="nats"),
        }
        lines += [[task, choice, *_cells(row, rows)] for choice, row in chosen.items() if row]
    return ("task", "chosen by", "encoding", "nats", "difference", *SCORES.values()), lines


def _cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """An encoding, its nats, how far they are from the default's, and scores of its attention."""
    of: dict[str, Any] = {"task": row.task, "encoding": row.settings["encoding"]}
    gap = _find(rows, **of, model=row.model, metric="nats-difference-to-default")
    scores = [
        _figure(_find(rows, **of, of="attention", metric=metric), spread=False) for metric in SCORES
    ]
    return [of["encoding"], _figure(row), _signed(gap), *scores]


TABLES: Mapping[str, tuple[str, Callable[[Sequence[Row]], _Lines]]] = {
    "positions-pretraining": (
        "Masked language models of equal size and steps: nats a masked token, scores of the mean "
        "attention of words repeated before and after training, and per cent of sentences told "
        "rightly, tuned / frozen",
        _pretraining,
    ),
    "positions-dependencies": (
        "Per cent of dependencies found by the best head of each relation",
        _dependencies,
    ),
    "positions-linguistic": (
        "Per cent of sentences whose property is told from the layer that validation chooses",
        _linguistic,
    ),
    "positions-swaps": (
        "Per cent of entailments told rightly, before and after words are swapped",
        _swaps,
    ),
    "positions-fitted": (
        "Encodings chosen by the attention that was fitted: test nats an element, the difference "
        "to the default, and scores of its attention",
        _fitted,
    ),
}


def _all(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows with figures whose fields, or settings, are as wanted."""
    return [
        row
        for row in rows
        if row.value is not None
        and all(getattr(row, key, row.settings.get(key)) == told for key, told in wanted.items())
    ]


def _find(rows: Sequence[Row], **wanted: Any) -> Row | None:
    return next(iter(_all(rows, **wanted)), None)


def _figure(row: Row | None, *, spread: bool = True) -> str:
    if row is None or row.value is None:
        return ""
    return f"{row.value:.3f}" + (f" ± {row.sd:.3f}" if spread and row.sd is not None else "")


def _signed(row: Row | None) -> str:
    told = _figure(row)
    return f"+{told}" if row is not None and (row.value or 0.0) > 0 else told


def _percent(row: Row | None) -> str:
    if row is None or row.value is None:
        return ""
    return f"{100 * row.value:.1f}" + ("" if row.sd is None else f" ± {100 * row.sd:.1f}")


if __name__ == "__main__":
    BLOCK.write(render(RESULTS))
