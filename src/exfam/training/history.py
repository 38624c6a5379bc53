"""What happened in a fit, epoch by epoch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from exfam.columns.results import PlottedResult


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


@dataclass(frozen=True, repr=False)
class History(PlottedResult):
    """The completed epochs of a fit and why it ended: "max_epochs", "patience" or "interrupted"."""

    rows: tuple[Epoch, ...]
    stopped: str

    picture = "learning_curve"

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
        return {
            field.name: [getattr(row, field.name) for row in self.rows] for field in fields(Epoch)
        }

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"rows": [asdict(row) for row in self.rows], "stopped": self.stopped}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "History":
        """The history that `to_config` wrote."""
        return cls(tuple(Epoch(**row) for row in config["rows"]), config["stopped"])


def best_of(rows: Sequence[Epoch]) -> Epoch | None:
    """The last row that was the best so far."""
    return next((row for row in reversed(rows) if row.best), None)
