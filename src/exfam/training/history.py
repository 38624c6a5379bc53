"""What happened in a fit, epoch by epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Epoch", "History", "best_of"]


@dataclass(frozen=True)
class Epoch:
    """One completed epoch.

    `steps` and `cpu_seconds` count from the start of the fit. `train_nats` is the mean loss over
    the epoch's batches while they were trained on, `validation_nats` that of the epoch's end (None
    without validation groups), both in nats a unit of weight. `best`: lowest validation so far.
    """

    epoch: int
    steps: int
    train_nats: float
    validation_nats: float | None
    learning_rate: float
    cpu_seconds: float
    best: bool


@dataclass(frozen=True)
class History:
    """The completed epochs of a fit and why it ended: "max_epochs", "patience" or "interrupted".

    >>> row = Epoch(1, 8, 3.9, 3.8, 3e-3, 0.2, True)
    >>> history = History((row,), "max_epochs")
    >>> history.best.validation_nats
    3.8
    >>> history.to_dict()["train_nats"]
    [3.9]
    """

    rows: tuple[Epoch, ...]
    stopped: str

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return self.stopped == "interrupted"

    @property
    def best(self) -> Epoch | None:
        """The epoch whose weights were kept; None without validation, where the last are."""
        return best_of(self.rows)

    @property
    def steps(self) -> int:
        """Optimizer steps of the completed epochs."""
        return self.rows[-1].steps if self.rows else 0

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the completed epochs, all threads together."""
        return self.rows[-1].cpu_seconds if self.rows else 0.0

    def to_dict(self) -> dict[str, list[Any]]:
        """One list a column."""
        return {field.name: [getattr(row, field.name) for row in self.rows] for field in _COLUMNS}

    def to_arrow(self) -> "pa.Table":
        """One row an epoch.

        >>> History((), "interrupted").to_arrow().num_rows
        0
        """
        import pyarrow as pa

        types = [(name, pa.type_for_alias(alias)) for name, alias in _ARROW_TYPES.items()]
        return pa.table(self.to_dict(), schema=pa.schema(types))

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"rows": [asdict(row) for row in self.rows], "stopped": self.stopped}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "History":
        """The history that `to_config` wrote.

        >>> History.from_config(History((), "patience").to_config())
        History(rows=(), stopped='patience')
        """
        return cls(tuple(Epoch(**row) for row in config["rows"]), config["stopped"])


_COLUMNS = fields(Epoch)
_ARROW_TYPES = {
    "epoch": "int64",
    "steps": "int64",
    "train_nats": "float64",
    "validation_nats": "float64",
    "learning_rate": "float64",
    "cpu_seconds": "float64",
    "best": "bool",
}


def best_of(rows: Sequence[Epoch]) -> Epoch | None:
    """The last row that was the best so far.

    >>> best_of([]) is None
    True
    """
    return next((row for row in reversed(rows) if row.best), None)
