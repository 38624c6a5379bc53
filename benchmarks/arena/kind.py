"""What a kind of data consists of: data sets, contenders, and what they are judged by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
class Folds:
    """A data set split several times: contenders are fitted to each, test groups come together.

    `same_groups`: whether splits have parts of the same test groups, whose sums then add up
    """

    splits: Sequence[Any]
    same_groups: bool = False

    @property
    def n_items(self) -> int:
        return max(data.n_items for data in self.splits)

    def sizes(self) -> dict[str, Any]:
        """Those of the first split."""
        return {**self.splits[0].sizes(), "folds": len(self.splits)}


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit leaves: predictions of all elements of groups, in their order.

    `predict`: of items, a number for every item at every element; of values, distributions, or
        a number for every element where these are scores
    `exact`: whether these are log-probabilities (up to a constant) or distributions, not scores
    `settings`: chosen on validation, or else worth knowing
    `refit`: fits the same settings to the training groups of other data: once all is chosen,
        validation groups are data as well
    """

    predict: Callable[[Groups], Any]
    exact: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    refit: "Callable[[Any], Fitted] | None" = None


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to fit.

    `label`: of tables; `ours`: of exfam, not a rival; `is_random`: whether seeds matter
    `needs`: a package that it cannot do without; `most_items`: of catalogs it can take
    `unsuited`: why it cannot take data of this sort, or None where it can
    """

    label: str
    fit: Callable[[Any, int], Fitted]
    ours: bool = False
    is_random: bool = False
    needs: str | None = None
    most_items: int | None = None
    unsuited: Callable[[Any], str | None] = lambda data: None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a data set comes from: `full` ones take hours and must be named by --full.

    `behind`: why the reference is behind others on it, where that was looked into
    """

    read: Callable[[], Any]
    remark: str = ""
    full: bool = False
    behind: str = ""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A column of tables: the quotient of two sums by test group.

    `compared`: the header of a column beside it, of differences to the reference;
    `more_is_better`: then the difference is by how much a contender is behind
    """

    header: str
    name: str
    per: str = "elements"
    digits: int = 4
    compared: str | None = None
    more_is_better: bool = False


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How the contenders of a kind are judged.

    `finished`: a fit with its calibration, fitted again to training and validation groups
    `sums`: of each test group, by name; "elements" and the one of `ranked_by` are among them
    `ranked_by`: the sum, less being better, that tables are in the order of
    `measures`: the columns of tables made of these; `describe`: what else to say of the data
    """

    finished: Callable[[Fitted, Any], Fitted]
    sums: Callable[[Fitted, Any], dict[str, list[float]]]
    measures: Sequence[Measure]
    describe: Callable[[Mapping[str, Any]], str]
    ranked_by: str = "nats"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data; its module in `kinds` is all that a further kind needs."""

    name: str
    judging: Judging
    sources: Mapping[str, Source]
    contenders: Mapping[str, Contender]
    reference: str = "efa"
