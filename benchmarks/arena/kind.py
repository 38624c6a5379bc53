"""What a kind of data consists of: data sets, contenders, and what they are judged by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from exfam.groups import Groups


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """A data set, split. Items have codes of training alone.

    `exclude`: whether items of the context are impossible: no group repeats one
    `ranked`: "all" test elements enter the ranking metrics, or the "last" of each group
    `left_out`: elements of each part whose items training lacks
    """

    train: Groups
    validation: Groups
    test: Groups
    n_items: int
    direction: str
    exclude: bool
    ranked: str = "all"
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def causal(self) -> bool:
        return self.direction == "causal"

    def sizes(self) -> dict[str, Any]:
        """What a table says of the data."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        groups = {name: len(part) for name, part in parts.items()}
        elements = {name: part.n_elements for name, part in parts.items()}
        rules = {"exclude": self.exclude, "ranked": self.ranked, "left_out": dict(self.left_out)}
        return {"n_items": self.n_items, "groups": groups, "elements": elements, **rules}


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit leaves: a number for every item at every element of groups, in their order.

    `exact`: whether these are log-probabilities (up to a constant), not scores
    `settings`: chosen on validation, or else worth knowing
    `refit`: fits the same settings to the training groups of other data: once all is chosen,
        validation groups are data as well
    """

    predict: Callable[[Groups], Float[np.ndarray, "elements items"]]
    exact: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    refit: "Callable[[Data], Fitted] | None" = None


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to fit.

    `label`: of tables; `ours`: of exfam, not a rival; `is_random`: whether seeds matter
    `needs`: a package that it cannot do without; `most_items`: of catalogs it can take
    """

    label: str
    fit: Callable[[Data, int], Fitted]
    ours: bool = False
    is_random: bool = False
    needs: str | None = None
    most_items: int | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a data set comes from: `full` ones take hours and must be named by --full."""

    read: Callable[[], Data]
    remark: str = ""
    full: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data; its module in `kinds` is all that a further kind needs."""

    name: str
    sources: Mapping[str, Source]
    contenders: Mapping[str, Contender]
    reference: str = "efa"
