"""Named figures of single measurements, each kept in a file of its own."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exfam_studies.common.result_store import ResultStore
from exfam_studies.common.rows import Row, row_over_seeds

__all__ = ["FigureKey", "Kept", "Measured", "figure_store", "measured", "metric_row"]


@dataclass(frozen=True)
class FigureKey:
    """Which measurement.

    >>> FigureKey(("cbow", "dim-30"), 1).path.as_posix()
    'cbow/dim-30/01.json'
    """

    names: tuple[str, ...]
    seed: int = 0

    @property
    def path(self) -> Path:
        """Where a store keeps the figures, below its folder."""
        return Path(*self.names, f"{self.seed:02}.json")


@dataclass(frozen=True)
class Kept:
    """What was measured, by name, and the processor time that it took.

    `arrays`: what figures are drawn from
    """

    key: FigureKey
    figures: Mapping[str, float]
    cpu_seconds: float
    arrays: Mapping[str, list[float]]


FigureStore = ResultStore[FigureKey, Kept]
# Figures, and arrays to draw.
Measured = tuple[Mapping[str, float | int], Mapping[str, list[float]]]


def figure_store(folder: Path | None) -> FigureStore:
    """A store of figures; without a folder they are kept while it lives."""
    return ResultStore(folder, read=_read, dump=_dump)


def measured(store: FigureStore, key: FigureKey, measure: Callable[[], Measured]) -> Kept:
    """The kept figures of a measurement, which is made if there are none.

    >>> store, key = figure_store(None), FigureKey(("a",))
    >>> measured(store, key, lambda: ({"nats": 1.0}, {})).figures
    {'nats': 1.0}
    >>> measured(store, key, lambda: ({"nats": 2.0}, {})).figures
    {'nats': 1.0}
    """
    kept = store.get(key)
    if kept is None:
        start = time.process_time()
        figures, arrays = measure()
        numbers = {name: float(figure) for name, figure in figures.items()}
        kept = Kept(key, numbers, time.process_time() - start, arrays)
        store.put(kept)
    return kept


def metric_row(row: Row, kept: Sequence[Kept]) -> Row:
    """`row` with its metric over the seeds; without a value where a seed has none.

    >>> kept = [Kept(FigureKey(("a",)), {"nats": 1.0}, 0.5, {})]
    >>> metric_row(Row(task="t", model="a", metric="nats"), kept).value
    1.0
    """
    values = [each.figures[row.metric] for each in kept if row.metric in each.figures]
    seconds = [each.cpu_seconds for each in kept]
    if len(values) < len(kept):
        return replace(row, n_seeds=len(kept))
    return row_over_seeds(row, values=values, cpu_seconds=seconds)


def _read(content: bytes) -> Kept:
    read = json.loads(content)
    key = FigureKey(tuple(read["key"]["names"]), read["key"]["seed"])
    return Kept(key, read["figures"], read["cpu_seconds"], read["arrays"])


def _dump(kept: Kept) -> bytes:
    content = {
        "key": {"names": kept.key.names, "seed": kept.key.seed},
        "figures": dict(kept.figures),
        "cpu_seconds": kept.cpu_seconds,
        "arrays": dict(kept.arrays),
    }
    return (json.dumps(content, allow_nan=False) + "\n").encode()
